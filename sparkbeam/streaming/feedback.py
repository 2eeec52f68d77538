"""Feedback from a micro-batch to the planning of the next one.

The sink writes it as a small file under the checkpoint, and the source reads it when it plans. A
repeated micro-batch writes its file again. Tick n plans Spark's micro-batch n - 1.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from sparkbeam.common.untrusted_json import loaded, parsed, text
from sparkbeam.errors import CheckpointFailed
from sparkbeam.plan.spark_io import PARTITION_SEPARATOR
from sparkbeam.streaming.checkpoint_files import Files, damaged

_FOLDER = "feedback"
_KEPT = 20
_FINISHED = "finished"
_DRAIN = "drain"
_OVER = "over"
_CAUGHT_UP = "caught-up"
_OFFSETS_VERSION = "v1"
_HIDDEN = "pending"
"""The name of ``hidden`` in a file."""


@dataclass(frozen=True)
class Feedback:
    """End of a micro-batch.

    Attributes:
        number: of the tick of the micro-batch.
        finished: nothing is left to do, at any later time.
        due: the time of the next timer in processing time, in microseconds since the epoch.
        reports: all that has been committed so far; see :class:`.committed_reports.Committed`.
        seen: the latest timestamps of the rows of Spark's sources, by tag and partition, in
            microseconds; only of those that had rows.
        summary: the content of a :class:`.micro_batch.MicroBatch`.
        finalizers: the tokens of callbacks to call once the micro-batch is committed, and of
            earlier pending ones.
        waits: what stages have read waits for the next micro-batch.
        hidden: the partitions, by the tag of the source, with rows that the source did not show
            to the micro-batch.
        empty: no stage has state, which could wait for a watermark.
    """

    number: int
    finished: bool
    due: int | None
    reports: str = ""
    seen: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    finalizers: Sequence[str] = ()
    waits: bool = False
    hidden: Mapping[str, Sequence[str]] = field(default_factory=dict)
    empty: bool = False

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "Feedback":
        """Parse the content of a file.

        Raises:
            ValueError: it is not feedback.
        """
        found = parsed(cls, {**content, "hidden": content.get(_HIDDEN, {})})
        if found.reports:
            [*map(text, loaded(found.reports, list))]
        return found

    def content(self) -> dict[str, Any]:
        """Return the content of a file."""
        found = asdict(self)
        found[_HIDDEN] = found.pop("hidden")
        return found


class FeedbackFiles:
    """Files with the feedback of recent micro-batches, and other messages to the source."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def write(self, feedback: Feedback) -> None:
        """Write the feedback of a micro-batch, and remove an old one."""
        self._files.write(_name(feedback.number), json.dumps(feedback.content()).encode())
        self._files.remove(_name(feedback.number - _KEPT))
        if feedback.finished:
            self._write_finished(feedback.number)

    def read(self, number: int) -> Feedback | None:
        """Return the feedback of a tick's micro-batch, or None.

        Raises:
            CheckpointFailed: it is damaged.
        """
        content = self._files.read(_name(number))
        try:
            return None if content is None else Feedback.from_content(loaded(content))
        except ValueError:
            raise self.damage(number) from None

    def damage(self, number: int) -> CheckpointFailed:
        """Return the error for damaged feedback of a micro-batch."""
        return damaged(
            self._files.path(_name(number)),
            "It holds the counts of metrics. Restore it from a backup, or remove it: "
            "metrics then count from here on. Nothing else is lost.",
        )

    def readable(self, number: int) -> Feedback | None:
        """Return the feedback like :meth:`read`, but None if it is damaged.

        That suffices for the timing of the next micro-batch: one without feedback is followed by
        another one, which finds out what is left to do.
        """
        try:
            return self.read(number)
        except CheckpointFailed:
            return None

    def offsets(self, number: int) -> list[str]:
        """Return Spark's offsets of all sources at the end of a tick's micro-batch, as JSON.

        They are in the order in which the query reads the sources. Empty if Spark's format is
        unknown.
        """
        content = self._files.read_log(f"offsets/{number - 1}")
        text = (content or b"").decode(errors="replace")
        version, _, *offsets = [*text.splitlines(), "", ""]
        offsets = [line for line in offsets if line]
        return offsets if version == _OFFSETS_VERSION else []

    def partition_offsets(self, number: int) -> dict[int, dict[str, Any]]:
        """Return the offsets of partitions at the end of a tick's micro-batch.

        Returns:
            By the number of the source among Spark's, from 0; empty if they are unknown.
        """
        ticks, *offsets = self.offsets(number) or [""]
        with suppress(ValueError):
            if offsets and loaded(ticks).get("number") == number:
                return {source: _partitions(text) for source, text in enumerate(offsets)}
        return {}

    def tick_of(self, batch: int) -> int:
        """Return the number of the last tick up to one of Spark's micro-batches.

        Each has a tick, except those in which Spark's sources still have data for a draining
        pipeline.
        """
        try:
            ticks, *_ = self.offsets(batch + 1) or [""]
            return int(loaded(ticks)["number"])
        except (ValueError, TypeError, KeyError):
            return batch + 1

    def last_written(self) -> int:
        """Return the tick of the last micro-batch with feedback; 0 before the first."""
        numbers = (
            re.fullmatch(r"([0-9]{1,18})\.json", name) for name in self._files.names(_FOLDER)
        )
        return max((int(number[1]) for number in numbers if number), default=0)

    def last_number(self) -> int | None:
        """Return the tick whose micro-batch left nothing to do, or None."""
        number = self._files.read(_FINISHED)
        is_one = number is not None and re.fullmatch(rb"[0-9]{1,18}", number)
        return int(number) if number is not None and is_one else None

    def restore(self, feedback: Feedback) -> None:
        """Repeat the note that a micro-batch left nothing to do, if it was lost."""
        if feedback.finished and self.last_number() != feedback.number:
            self._write_finished(feedback.number)

    def _write_finished(self, number: int) -> None:
        self._files.write(_FINISHED, str(number).encode())

    def end_run(self, token: str) -> None:
        """Note that a driver's available-now run has done everything."""
        self._files.write(_OVER, token.encode())

    def is_over(self, token: str) -> bool:
        """Return whether the run of a driver has done everything."""
        return self._files.read(_OVER) == token.encode()

    def catch_up(self, token: str, number: int) -> None:
        """Note that a tick's micro-batch has read all rows that there were, in a driver's run."""
        self._files.write(_CAUGHT_UP, f"{token} {number}".encode())

    def caught_up(self, token: str) -> int | None:
        """Return the tick of the last such note in the run of a driver, or None."""
        content = (self._files.read(_CAUGHT_UP) or b"").decode(errors="replace")
        found = re.fullmatch(f"{re.escape(token)} ([0-9]{{1,18}})", content)
        return None if found is None else int(found[1])

    def ask_to_drain(self) -> None:
        """Tell the source to end, for the life of the checkpoint."""
        self._files.write(_DRAIN, b"")

    def is_drained(self) -> bool:
        """Return whether the source was told to end and nothing is left to do."""
        return self.last_number() is not None and self.is_to_drain()

    def is_to_drain(self) -> bool:
        """Return whether the source was told to end."""
        return self._files.read(_DRAIN) is not None


def _partitions(text: str) -> dict[str, Any]:
    """Return the offsets of a source by partition; empty if they have another form."""
    try:
        topics = loaded(text)
    except ValueError:
        return {}
    return {
        f"{topic}{PARTITION_SEPARATOR}{partition}": at
        for topic, partitions in topics.items()
        if isinstance(partitions, dict)
        for partition, at in partitions.items()
    }


def _name(number: int) -> str:
    return f"{_FOLDER}/{number}.json"
