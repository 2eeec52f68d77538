"""What the live page shows, as plain data that its script puts in place."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from sparkbeam.common.display_text import printable, printable_in
from sparkbeam.metrics.run_summary import StageSummary, cells, spark_words
from sparkbeam.progress import batch_phases, words
from sparkbeam.progress.partitions import PartitionProgress
from sparkbeam.progress.recent_batches import Moment
from sparkbeam.progress.snapshot import StageProgress, StreamingProgress, StreamingStageProgress

Fact = tuple[str, str]
"""A label and a figure, in words."""

Note = tuple[str, str, int, float]
"""What a step has logged or warned of: its label, the text, how often, when last."""

BOX_LINES = 3
"""So many lines of figures a box of the graph has."""

_MOST_PARTITIONS = 200

LONGEST_ERROR = 10_000
LONGEST_TITLE = 100
"""So many characters of an error and of the name of a pipeline are shown."""


@dataclass(frozen=True)
class StageView:
    """Steps that run fused.

    Attributes:
        id: that of the stage in the graph.
        name: the labels of the steps.
        state: of the stage, in batch; of one that holds the watermark most, ``holding``.
        facts: the figures.
        box: those that stand in the graph.
        done, tasks: how many tasks have succeeded, and have started.
        steps: the steps with what they have taken in and put out, their time, and bytes and
            columns where that is known.
        since, seconds: in batch when it has begun, from the start of the pipeline, and how long it
            has run; None before.
    """

    id: str
    name: str
    state: str
    facts: tuple[Fact, ...]
    box: tuple[str, ...]
    done: int = 0
    tasks: int = 0
    steps: tuple[tuple[str, ...], ...] = ()
    since: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class PageContent:
    """The page at one moment.

    Attributes:
        state: how the pipeline does, in a word.
        over: it has come to its end.
        facts: the figures of the whole pipeline.
        stages: in an order in which they can run.
        notes: what steps have logged and warned of.
        error: what the pipeline has failed with.
        gone: why nothing of this may be true any more; empty where it is.
        partitions: of event hubs, a line each with its step first.
    """

    state: str
    over: bool
    facts: tuple[Fact, ...]
    stages: tuple[StageView, ...]
    notes: tuple[Note, ...] = ()
    error: str = ""
    gone: str = ""
    partitions: tuple[tuple[str, ...], ...] = ()

    def content(self, redaction: Callable[[str], str]) -> dict[str, Any]:
        """All of it as what JSON can say, without secrets."""
        found: dict[str, Any] = printable_in(asdict(self), lambda text: printable(redaction(text)))
        return found


class View(Protocol):
    """A pipeline that a page shows; all calls come from the thread of the server.

    Attributes:
        title: what the pipeline is called.
        graph: its stages as SVG; empty where that is not known.
    """

    title: str
    graph: str

    def content(self) -> dict[str, Any]:
        """A :class:`PageContent` as what JSON can say."""

    def history(self, since: int) -> list[Moment]:
        """The micro-batches that have ended since a second of the epoch."""

    @property
    def over(self) -> bool:
        """Whether nothing will change any more."""


def batch_stage(id: str, progress: StageProgress, summary: StageSummary) -> StageView:
    """A stage of a batch."""
    running = max(0, progress.tasks_started - progress.tasks_done)
    facts = (
        ("state", str(progress.state)),
        ("tasks", words.tasks(progress)),
        ("running", f"{running:,}" if running else ""),
        ("elements", words.elements(progress)),
        ("rate", words.rate(progress)),
        ("time", words.duration(progress.seconds) if progress.tasks_started else ""),
        ("time in steps", _in_steps(summary)),
        ("largest task", _skew(summary)),
        ("over columns", _columns(summary)),
        *(("", "; ".join(spark_words(spark))) for spark in summary.spark),
    )
    tasks, elements = words.tasks(progress), words.elements(progress)
    figures = [f"{elements} elements" if elements else "", words.rate(progress)]
    return StageView(
        id=id,
        name=progress.name,
        state=str(progress.state),
        facts=tuple(_told(facts)),
        box=(
            str(progress.state),
            f"{tasks} tasks" if tasks else "",
            ", ".join(filter(None, figures)),
        ),
        since=progress.since,
        seconds=None if progress.since is None else progress.seconds,
        done=progress.tasks_done,
        tasks=progress.tasks_started,
        steps=tuple(cells(step) for step in summary.steps),
    )


def streaming_stages(
    ids: Iterable[str],
    stages: Iterable[StreamingStageProgress],
    summaries: Iterable[StageSummary | None],
) -> Iterator[StageView]:
    """The stages of a stream: progress and, where they are known, steps."""
    listed = list(stages)
    today = datetime.now(UTC).date()
    longest = max((stage.held_seconds or 0.0 for stage in listed), default=0.0)
    for id, stage, summary in zip(ids, listed, summaries, strict=True):
        holding = longest > 0 and stage.held_seconds == longest
        mark = words.moment(stage.output_watermark, today)
        facts = (
            ("elements", f"{stage.busiest:,}"),
            ("rate", words.rate(stage)),
            ("watermark", mark),
            ("of its input", words.moment(stage.input_watermark, today)),
            ("holds it", words.delay(stage).removeprefix("held ")),
            ("the oldest", words.holder(stage, today)),
            ("busy tasks", words.busy(stage)),
            ("state", words.state(stage)),
            ("dropped", words.late(stage)),
            *(() if summary is None else of_steps(summary)),
        )
        yield StageView(
            id=id,
            name=stage.name,
            state="holding" if holding else "",
            facts=tuple(_told(facts)),
            box=(
                ", ".join(filter(None, [f"{stage.busiest:,} elements", words.rate(stage)])),
                ", ".join(filter(None, [f"watermark {mark}", words.delay(stage)])),
                ", ".join(filter(None, [words.state(stage), words.late(stage)])),
            ),
            steps=() if summary is None else tuple(cells(step) for step in summary.steps),
        )


def of_query(progress: StreamingProgress) -> Iterator[Fact]:
    """The figures of a whole stream."""
    if progress.micro_batch:
        yield "micro-batch", f"{progress.micro_batch:,}"
        yield "took", words.duration(progress.batch_seconds)
        yield "elements/s", f"{progress.per_second:,.0f}"
    if progress.phases:
        yield "phases", batch_phases.in_words(progress.phases)
    if progress.lag_seconds is not None:
        yield "behind", words.duration(progress.lag_seconds)
    yield from of_hubs(progress.partitions)
    if progress.dropped_late:
        yield "late elements dropped", f"{progress.dropped_late:,}"


def of_hubs(partitions: Sequence[PartitionProgress]) -> Iterator[Fact]:
    """The figures of all event hubs that a stream reads."""
    backlog, slow = words.left(partitions), words.slowest(partitions)
    return _told((("left to read", backlog), ("slow", slow)))


def partition_rows(partitions: Iterable[PartitionProgress]) -> tuple[tuple[str, ...], ...]:
    """The lines of partitions; where they are many, of those that are furthest behind."""
    listed = list(partitions)
    most = set(sorted(listed, key=lambda partition: -partition.lag)[:_MOST_PARTITIONS])
    return tuple(words.partition(partition) for partition in listed if partition in most)


def of_steps(summary: StageSummary) -> Iterator[Fact]:
    """The figures of a stage of a stream that its steps give."""
    spent = _in_steps(summary)
    if spent:
        yield "time in steps", spent


def _told(facts: Iterable[Fact]) -> Iterator[Fact]:
    return ((label, text) for label, text in facts if text)


def _in_steps(summary: StageSummary) -> str:
    known = [step.seconds for step in summary.steps if step.seconds is not None]
    return words.duration(sum(known)) if known else ""


def _skew(summary: StageSummary) -> str:
    if summary.tasks < 2 or summary.skew is None:
        return ""
    return f"{summary.largest_task:,} elements, {summary.skew:.1f} times the median"


def _columns(summary: StageSummary) -> str:
    """How many of the steps take columns, and have refused none."""
    could = [step for step in summary.steps if step.columns]
    taken = sum(step.columns.startswith("columns") and not step.refused for step in could)
    return f"{taken} of {len(could)} steps" if could else ""
