"""Content of the live page, as plain data for its script."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from sparkbeam.common.display_text import printable, printable_in
from sparkbeam.explain.stage_graph import Sketch, html
from sparkbeam.observe.collection.notes import Note
from sparkbeam.observe.collection.recent_batches import SecondSummary
from sparkbeam.observe.figures import phases
from sparkbeam.observe.figures.formats import duration, joined
from sparkbeam.observe.figures.partitions import PartitionProgress
from sparkbeam.observe.figures.progress import (
    Progress,
    StageProgress,
    StreamingProgress,
    backlog,
    batch_texts,
    partition_texts,
    slowest,
    streaming_texts,
)
from sparkbeam.observe.figures.summary import StageSummary, spark_texts, step_cells, time_in_steps

Fact = tuple[str, str]
"""A label and a formatted figure."""

_BOX_LINES = 3
"""Number of lines of figures in a box of the graph."""

_MOST_PARTITIONS = 200

LONGEST_ERROR = 10_000
LONGEST_TITLE = 100
"""Maximum length of an error and of a pipeline's name on the page."""


@dataclass(frozen=True)
class StageView:
    """Fused steps on the page.

    Attributes:
        state: the state of the stage in batch; ``holding`` for the stage that holds the watermark
            most.
        done, tasks: the numbers of succeeded and of started tasks.
        steps: per step its input and output elements, time, and bytes and columns if known.
        since, seconds: in batch its start, relative to that of the pipeline, and its duration; None
            before.
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
    when: str = ""


@dataclass(frozen=True)
class PageContent:
    """The page at one moment.

    Attributes:
        stages: in topological order.
        gone: the reason why this content may be outdated; empty if it is current.
        partitions: rows of event hub partitions, with the step first.
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
        """Return the content as JSON-compatible data, without secrets."""
        found: dict[str, Any] = printable_in(asdict(self), lambda text: printable(redaction(text)))
        return found


class PageView(Protocol):
    """A pipeline shown on a page; all calls come from the server's thread.

    Attributes:
        graph: its stages as SVG; empty if unknown.
    """

    title: str
    graph: str

    def content(self) -> dict[str, Any]:
        """Return a :class:`PageContent` as JSON-compatible data."""

    def history(self, since: int) -> list[SecondSummary]:
        """Return the micro-batches that have ended since a second of the epoch."""

    @property
    def over(self) -> bool:
        """Return whether the content is final."""


def graph_html(graph: Sketch) -> str:
    """Return the graph of the stages, with room for their figures."""
    return html(graph, {box.id: ("",) * _BOX_LINES for box in graph.boxes})


def stage_views(
    ids: Iterable[str], progress: Progress, summaries: Iterable[StageSummary | None]
) -> Iterator[StageView]:
    """Yield the stages with their figures and, if known, steps."""
    longest = max((stage.held_seconds or 0.0 for stage in progress.stages), default=0.0)
    for id, stage, known in zip(ids, progress.stages, summaries, strict=True):
        summary = known or StageSummary(stage.name, ())
        if isinstance(progress, StreamingProgress):
            is_holding = longest > 0 and stage.held_seconds == longest
            state, facts, box = "holding" * is_holding, *_streaming(stage, summary)
        else:
            state, facts, box = str(stage.state), *_batch(stage, summary)
        since, took = stage.since, duration(stage.seconds)
        yield StageView(
            id=id,
            name=stage.name,
            state=state,
            facts=tuple(_nonempty(facts)),
            box=box,
            done=stage.tasks_done,
            tasks=stage.tasks_started,
            steps=tuple(map(step_cells, summary.steps)),
            since=since,
            seconds=None if since is None else stage.seconds,
            when="" if since is None else f"from {duration(since)} for {took}",
        )


def _batch(stage: StageProgress, summary: StageSummary) -> tuple[list[Fact], tuple[str, ...]]:
    """Return the figures of a stage of a batch, and those in the graph."""
    running = max(0, stage.tasks_started - stage.tasks_done)
    texts = batch_texts(stage)
    could = [step for step in summary.steps if step.columns]
    taken = sum(step.columns.startswith("columns") and not step.refused for step in could)
    skew = summary.skew if summary.tasks > 1 else None
    times = "" if skew is None else f"{skew:.1f} times the median"
    largest = times and f"{summary.largest_task:,} elements, {times}"
    facts = [
        *((column, texts[column]) for column in ("state", "tasks")),
        ("running", f"{running:,}" if running else ""),
        *((column, texts[column]) for column in ("elements", "rate", "time")),
        ("time in steps", time_in_steps(summary)),
        ("largest task", largest),
        ("over columns", f"{taken} of {len(could)} steps" if could else ""),
        *(("", "; ".join(spark_texts(spark))) for spark in summary.spark),
    ]
    tasks, elements = (
        f"{texts[what]} {what}" if texts[what] else "" for what in ("tasks", "elements")
    )
    return facts, (texts["state"], tasks, joined(elements, texts["rate"]))


def _streaming(stage: StageProgress, summary: StageSummary) -> tuple[list[Fact], tuple[str, ...]]:
    """Return the figures of a stage of a stream, and those in the graph."""
    texts = streaming_texts(stage)
    facts = [
        *((column, texts[column]) for column in ("elements", "rate", "watermark")),
        ("input watermark", texts["input"]),
        ("held for", texts["held"].removeprefix("held ")),
        ("oldest holder", texts["holder"]),
        ("busy tasks", texts["busy"]),
        ("state", texts["state"]),
        ("dropped", texts["late"]),
        ("time in steps", time_in_steps(summary)),
    ]
    return facts, (
        joined(f"{texts['elements']} elements", texts["rate"]),
        joined(f"watermark {texts['watermark']}", texts["held"]),
        joined(texts["state"], texts["late"]),
    )


def of_query(progress: StreamingProgress) -> Iterator[Fact]:
    """Yield the figures of a whole stream."""
    if progress.micro_batch:
        yield "micro-batch", f"{progress.micro_batch:,}"
        yield "took", duration(progress.batch_seconds)
        yield "elements/s", f"{progress.per_second:,.0f}"
    if progress.phases:
        yield "phases", phases.in_words(progress.phases)
    if progress.lag_seconds is not None:
        yield "behind", duration(progress.lag_seconds)
    hubs = ("left to read", backlog(progress.partitions)), ("slow", slowest(progress.partitions))
    yield from _nonempty(hubs)
    if progress.dropped_late:
        yield "late elements dropped", f"{progress.dropped_late:,}"


def partition_rows(partitions: Iterable[PartitionProgress]) -> tuple[tuple[str, ...], ...]:
    """Return the rows of partitions; if there are many, of those with the largest lag."""
    listed = list(partitions)
    most = set(sorted(listed, key=lambda partition: -partition.lag)[:_MOST_PARTITIONS])
    return tuple(partition_texts(partition) for partition in listed if partition in most)


def _nonempty(facts: Iterable[Fact]) -> Iterator[Fact]:
    return ((label, text) for label, text in facts if text)
