"""Contents of a checkpoint: offsets, commits, watermarks, and the micro-batch to repeat."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apache_beam.utils.timestamp import Timestamp

from sparkbeam.common.display_text import line, printable, printable_in, shortened
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.observe.figures.formats import duration, iso_time, joined
from sparkbeam.observe.figures.progress import StageProgress, streaming_texts
from sparkbeam.streaming.checkpoint_files import absolute
from sparkbeam.streaming.execution import known_pipeline
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.status import (
    Health,
    PipelineStatus,
    last_entry,
    status,
    step_content,
)
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS

OFFSETS, COMMITS = "offsets", "commits"
"""Spark's logs: a micro-batch is written to the first before it runs, to the second afterwards."""

_MOST = 400
_TICKS = "ticks"


@dataclass(frozen=True)
class LogEntry:
    """Last entry of one of Spark's logs.

    Attributes:
        micro_batch: the number of the micro-batch, as shown everywhere else.
        ago: its age in seconds.
        offsets: the end of the micro-batch in each source, as text, by the source's label.
        ticks: the same of sparkbeam's own source; empty if unreadable.
    """

    log: int
    micro_batch: int
    ago: float
    offsets: Mapping[str, str]
    ticks: Mapping[str, Any]


@dataclass(frozen=True)
class SourceMark:
    """Watermark of a source.

    Attributes:
        watermark: in microseconds; None if unknown.
        slowest: the partition with the oldest rows, of those that hold the watermark back.
    """

    label: str
    watermark: int | None
    slowest: str = ""


@dataclass(frozen=True)
class CheckpointContent:
    """Progress of a query, read from its checkpoint.

    Attributes:
        stored: the description of the pipeline; see :func:`.fingerprint`.
        status: as shown by ``sparkbeam status``.
        planned: the last planned micro-batch; None before the first.
        committed: the last committed micro-batch.
        delivered: the sinks have received all of the planned one; only Spark's commit is missing.
        sources: in the order of the pipeline.
    """

    location: str
    stored: Mapping[str, Any]
    status: PipelineStatus
    planned: LogEntry | None
    committed: LogEntry | None
    delivered: bool
    sources: tuple[SourceMark, ...]

    @property
    def again(self) -> LogEntry | None:
        """Micro-batch that a restart repeats: planned, but not committed."""
        planned, committed = self.planned, self.committed
        if planned is None or self.status.health is Health.DRAINED:
            return None
        return planned if committed is None or planned.log > committed.log else None

    @property
    def behind(self) -> StageProgress | SourceMark | None:
        """Step or source with the least watermark; None at the end of time, or if unknown.

        A step if its state holds its output watermark behind its input watermark, else a source.
        """
        least = min(map(_output, self.status.progress.stages), default=MAX_MICROS)
        holding = (
            step for step in self.status.progress.stages if step.hold and _output(step) == least
        )
        found = next(holding, None)
        if found is not None:
            return found
        marks = [source for source in self.sources if source.watermark is not None]
        slowest = min(marks, key=lambda source: source.watermark or 0, default=None)
        return None if slowest is None or slowest.watermark == MAX_MICROS else slowest

    def content(self) -> dict[str, Any]:
        """Return the contents as JSON values."""
        behind = self.behind
        found: dict[str, Any] = printable_in(
            {
                "location": self.location,
                "format": self.stored.get("format"),
                "versions": self.stored.get("versions"),
                "shards": self.stored.get("shards"),
                "generation": self.status.generation,
                "health": str(self.status.health),
                "planned": _entry(self.planned),
                "committed": _entry(self.committed),
                "runs_again": self.again
                and {"micro_batch": self.again.micro_batch, "log": self.again.log},
                "delivered": self.delivered,
                "sources": [_source(source) for source in self.sources],
                "steps": [step_content(step) for step in self.status.progress.stages],
                "behind": _source(behind)
                if isinstance(behind, SourceMark)
                else behind and step_content(behind),
            },
            lambda text: printable(hidden(text)),
        )
        return found

    def lines(self) -> Iterator[str]:
        """Yield the contents as lines of text."""
        return (line(hidden(text)) for text in self._lines())

    def _lines(self) -> Iterator[str]:
        versions = self.stored.get("versions")
        names = versions if isinstance(versions, dict) else {}
        parts = [
            f"generation {self.status.generation}",
            f"state format {self.stored.get('format')}",
            f"{self.stored.get('shards')} shards",
            *(f"{name} {version}" for name, version in names.items()),
        ]
        yield f"{self.location}: {self.status.health}"
        yield f"  {', '.join(parts)}"
        yield from _in_log("planned", OFFSETS, self.planned)
        yield from _in_log("committed", COMMITS, self.committed)
        yield f"at a restart, {self._restart()}"
        for entry in filter(None, [self.committed, self.again]):
            yield f"offsets at the end of micro-batch {entry.micro_batch:,}"
            for label, text in entry.offsets.items():
                yield f"  {label}: {shortened(text, _MOST)}"
        yield "watermarks"
        for source in self.sources:
            yield f"  source {source.label}: {_shown(source.watermark)}{_slowest(source)}"
        for step in self.status.progress.stages:
            texts = streaming_texts(step)
            yield f"  {step.name}: in {texts['input']}, out {texts['watermark']}"
        yield f"furthest behind: {self._who()}"

    def _restart(self) -> str:
        again = self.again
        if self.status.health is Health.DRAINED:
            return "nothing can run: the checkpoint is drained"
        if again is None and self.status.is_over:
            return "nothing runs: everything is done and committed"
        if again is None:
            following = 1 if self.committed is None else self.committed.micro_batch + 1
            return f"nothing runs again: micro-batch {following:,} is the next"
        taken = "; the sinks already have all of it, and get it again" if self.delivered else ""
        return (
            f"micro-batch {again.micro_batch:,} runs again with the same offsets: "
            f"it is in {OFFSETS}/{again.log}, but {COMMITS}/{again.log} is missing{taken}"
        )

    def _who(self) -> str:
        behind = self.behind
        if behind is None:
            return "none"
        if isinstance(behind, SourceMark):
            return f"source {behind.label}: {_shown(behind.watermark)}{_slowest(behind)}"
        texts = streaming_texts(behind)
        return joined(f"{behind.name}: out {texts['watermark']}", texts["held"], texts["holder"])


def checkpoint_content(location: str, now: float | None = None) -> CheckpointContent:
    """Read a checkpoint without changing it.

    Args:
        location: the checkpoint location, visible to this process.
        now: the time in seconds since the epoch; None for the clock's.

    Raises:
        ConfigurationError: there is no checkpoint of a pipeline.
        CheckpointFailed: one of its files is damaged.
    """
    now = time.time() if now is None else now
    found = status(location, now=now)
    checkpoint = absolute(location)
    known, content = known_pipeline(checkpoint)
    feedback = FeedbackFiles(known)
    stored = loaded(content)
    sources = _sources_of(stored)
    planned, committed = (
        _last(feedback, checkpoint, log, sources, now) for log in (OFFSETS, COMMITS)
    )
    last = 0 if committed is None else committed.micro_batch
    is_new = planned is not None and planned.micro_batch > last
    told = feedback.readable(planned.micro_batch) if planned is not None and is_new else None
    return CheckpointContent(
        checkpoint,
        stored,
        found,
        planned,
        committed,
        told is not None,
        tuple(_marks(sources, committed or planned)),
    )


def _sources_of(stored: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """Return the sources of a pipeline from its checkpoint."""
    found = stored.get("sources")
    listed = found if isinstance(found, list) else []
    return [source for source in listed if isinstance(source, dict) and "label" in source]


def _last(
    feedback: FeedbackFiles,
    checkpoint: str,
    log: str,
    sources: list[Mapping[str, str]],
    now: float,
) -> LogEntry | None:
    last = last_entry(checkpoint, log)
    if last is None:
        return None
    number, written = last
    ticks, *others = feedback.offsets(number + 1) or [""]
    of_spark = [str(source["label"]) for source in sources if "format" in source]
    offsets = dict(zip([_TICKS, *of_spark], [ticks, *others], strict=False))
    return LogEntry(
        number,
        feedback.tick_of(number),
        max(0.0, now - written),
        {label: text for label, text in offsets.items() if text},
        _position(ticks),
    )


def _position(ticks: str) -> Mapping[str, Any]:
    try:
        found: dict[str, Any] = loaded(ticks)
    except ValueError:
        return {}
    return found


def _marks(sources: list[Mapping[str, str]], entry: LogEntry | None) -> Iterator[SourceMark]:
    """Yield the watermark of each source at the end of a micro-batch."""
    ticks = {} if entry is None else entry.ticks
    watermarks, partitions = (ticks.get(name) for name in ("watermarks", "sources"))
    for source in sources:
        tags = str(source.get("port", "")).split(", ")
        known = [_mark(watermarks, tag) for tag in tags]
        marks = [mark for mark in known if mark is not None]
        newest = [item for tag in tags for item in _newest(partitions, tag)]
        slowest = min(newest, key=lambda item: item[1], default=("", 0))
        yield SourceMark(str(source["label"]), min(marks, default=None), slowest[0])


def _mark(watermarks: Any, tag: str) -> int | None:
    found = watermarks.get(tag) if isinstance(watermarks, dict) else None
    return found if type(found) is int else None


def _newest(partitions: Any, tag: str) -> Iterator[tuple[str, int]]:
    marks = partitions.get(tag) if isinstance(partitions, dict) else None
    newest = marks.get("newest") if isinstance(marks, dict) else None
    for name, mark in newest.items() if isinstance(newest, dict) else ():
        if name and type(mark) is int:
            yield name, mark


def _output(step: StageProgress) -> int:
    return MIN_MICROS if step.output_watermark is None else int(step.output_watermark.micros)


def _in_log(what: str, log: str, entry: LogEntry | None) -> Iterator[str]:
    if entry is None:
        yield f"no micro-batch is {what}"
    else:
        ago = duration(entry.ago)
        yield f"micro-batch {entry.micro_batch:,} is the last {what} ({log}/{entry.log}), {ago} ago"


def _shown(micros: int | None) -> str:
    if micros is None:
        return "not known"
    return _moment(micros) or "not started"


def _moment(micros: int | None) -> str | None:
    known = micros is not None and micros > MIN_MICROS
    return iso_time(Timestamp(micros=micros)) if known else None


def _slowest(source: SourceMark) -> str:
    return f", held by partition {shortened(source.slowest, _MOST)}" if source.slowest else ""


def _source(source: SourceMark) -> dict[str, Any]:
    return {
        "source": source.label,
        "watermark": _moment(source.watermark),
        "slowest_partition": source.slowest or None,
    }


def _entry(entry: LogEntry | None) -> dict[str, Any] | None:
    if entry is None:
        return None
    return {
        "micro_batch": entry.micro_batch,
        "log": entry.log,
        "ago_seconds": round(entry.ago, 3),
        "offsets": dict(entry.offsets),
    }
