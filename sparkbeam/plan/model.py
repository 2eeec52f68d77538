"""The plan: what runs on Spark, free of Spark; Beam's protos are in it only as bytes.

A :class:`Plan` is a graph of stages. A :class:`Stage` is one Arrow function
over rows; the rows reach it through an :class:`Exchange` from the
:class:`Port` of one or more earlier stages. A Flatten that is left is nothing but
a stage that reads several ports.

Every port has a ``tag`` that is unique in the plan: it travels in each row, so
that rows of different ports may share a DataFrame.
"""

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from sparkbeam.plan.join_payload import AUTO, NEVER, JoinSpec
from sparkbeam.plan.row_formats import RowFormat
from sparkbeam.plan.spark_io import ReadSpec, WriteSpec

if TYPE_CHECKING:  # Processes that need the model alone do without Beam.
    from sparkbeam.plan.arrow_batches import NeededColumns
    from sparkbeam.plan.grouping import Grouping, SessionAggregator
    from sparkbeam.plan.operator import Operator

SOURCE_URN = "sparkbeam:source:v1"
"""The operation that feeds a stage; the :class:`Stage` tells what it reads."""

SINK_URN = "sparkbeam:sink:v1"
"""The operation that fills a port; the :class:`Port` tells what it writes."""

CREATE_URN = "sparkbeam:create:v1"
"""The values of a Create: each task of the stage puts out its share of them."""


class Exchange(Enum):
    """Exchange of rows between ports and the stage that reads them."""

    IMPULSE = "impulse"
    """One row from nowhere."""

    FORWARD = "forward"
    """No shuffle: the reading stage runs in the same Spark task."""

    REBALANCE = "rebalance"
    """Spread evenly over all partitions (Reshuffle)."""

    BY_KEY = "by_key"
    """All rows of a key in one partition, sorted by key and order."""

    SORT = "sort"
    """The same where one task writes all rows: it also reads them, sorted, without a shuffle."""

    JOIN = "join"
    """The rows of two sides with the same key, pair by pair, as Spark joins them."""


_SHUFFLES = frozenset([Exchange.REBALANCE, Exchange.BY_KEY])


@dataclass(frozen=True)
class Port:
    """An output of a stage: one PCollection in one format.

    Attributes:
        tag: unique in the plan.
        transform_id: the sink operation in the stage's descriptor.
        firings: rows tell which firing of a grouping they belong to, for a view that has the
            newest ones.
        aggregator: the way sessions are combined before it; None if they are not.
        spreads: some reader has its rows spread over all partitions.
        takes_numbers: its readers keep accumulators, and merge numbers of a vectorized form too.
    """

    tag: int
    pcollection: str
    format: RowFormat
    transform_id: str
    firings: bool = False
    aggregator: "SessionAggregator | None" = None
    spreads: bool = False
    takes_numbers: bool = False


class Firings(Enum):
    """Possible changes of a side input's content for a window, in streaming."""

    NONE = "none"
    """No grouping fires its elements: they are added as they arrive."""

    ONE = "one"
    """A grouping fires once for each key."""

    MANY = "many"
    """A grouping may fire again for a key; the newest firing replaces the one before."""


@dataclass(frozen=True)
class SideInput:
    """A side input of a stage: the ports that feed it, and its reader and name.

    Attributes:
        transform_id: the id of the transform that reads it.
        format: the format of the rows of its ports.
        windows: in streaming, the pickled pair of Beam's function from windows of the main input to
            those of the side input, and the coder of the latter.
        early: the data of a window may be read before the window has ended: it may fire
            before, or it never ends.
        firings: the possible changes of its content for a window.
        discards: its panes are in discarding mode: those of a window that ends are its parts.
        singleton: it shows one element, that of the newest firing of any key.
        lateness: the allowed lateness of its windows, in microseconds.
    """

    transform_id: str
    local_name: str
    label: str
    format: RowFormat
    sources: tuple[int, ...]
    windows: bytes = b""
    early: bool = False
    firings: Firings = Firings.NONE
    discards: bool = False
    singleton: bool = False
    lateness: int = 0


@dataclass(frozen=True)
class SparkJoin:
    """A join by Spark, whose output a stage reads.

    Attributes:
        left: the tags of the ports that feed the left side.
    """

    spec: JoinSpec
    left: tuple[int, ...]
    right: tuple[int, ...]


@dataclass(frozen=True)
class ColumnStep:
    """A step as one that gets columns.

    Attributes:
        label: the label of the step, or the name of a port that takes columns as elements.
        reason: the reason why it takes them as elements; None if it takes them as they are.
        is_certain: or else whether it gets any shows when it runs.
    """

    label: str
    reason: str | None
    is_certain: bool = True

    @property
    def words(self) -> str:
        """Description of the input of the step: elements or columns."""
        if self.reason is not None:
            return f"elements, because {self.reason}"
        return "columns" if self.is_certain else "columns, if it receives any at run time"


@dataclass(frozen=True)
class Stage:
    """Fused transforms that run as one Arrow function.

    Attributes:
        id: unique in the plan.
        labels: the user's transform labels, in execution order.
        descriptor: a serialized ``ProcessBundleDescriptor`` whose data
            operations are sparkbeam's own.
        inputs: the tags of the ports that feed the main input; a tag that
            stands there twice is read twice.
        grouped: the PCollection that went into the GroupByKey or Reshuffle that
            the stage reads, or None; its coder need not be that of what comes out.
        grouping: the decision on the GroupByKey that the stage reads; None if it reads none.
        join: the join by Spark that it reads; None if it reads none.
        joined: the PCollections of the two sides of the join.
        side_inputs: the data required before the stage starts.
        most_tasks: in more of them it would take longer to begin than to run; None if nobody
            knows.
        reads_unbounded: the stage processes the restrictions of a splittable DoFn whose
            output is unbounded.
        row_types: the user's classes behind schemas; see :mod:`sparkbeam.plan.row_types`.
        operators: the operators of its transforms, in an order in which they can run.
        in_columns: steps may make columns of what they read.
        is_streaming: it runs in a streaming query.
        column_steps: whether its steps take columns, as known before it runs; empty if there can be
            none, as with ``--columns=off``. Workers do not get it.
        begins_with: the full label of the GroupByKey or Reshuffle that it reads, or else of its
            first step.
        address: the name under which its state is stored; see :mod:`sparkbeam.plan.addresses`.
        state_name: the same of the states and timers of its DoFn.
    """

    id: str
    labels: tuple[str, ...]
    descriptor: bytes
    source_id: str
    exchange: Exchange
    format: RowFormat
    inputs: tuple[int, ...]
    grouped: str | None
    ports: tuple[Port, ...]
    side_inputs: tuple[SideInput, ...]
    grouping: "Grouping | None" = None
    join: SparkJoin | None = None
    joined: tuple[str, ...] = ()
    most_tasks: int | None = None
    reads_unbounded: bool = False
    row_types: bytes = b""
    operators: "tuple[Operator, ...]" = field(default=(), hash=False)
    in_columns: bool = True
    is_streaming: bool = False
    begins_with: str = ""
    address: str = ""
    state_name: str = ""
    column_steps: tuple[ColumnStep, ...] = field(default=(), repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "column_steps": ()}

    def applied(self, label: str) -> str:
        """Return the user's label of the step that a transform is a part of."""
        outer = [name for name in self.labels if label == name or label.startswith(f"{name}/")]
        return max(outer, key=len, default=label)

    @property
    def steps(self) -> int:
        """Number of transforms, which call each other."""
        return len(self.operators)

    @property
    def creates(self) -> bool:
        """True if it starts with a Create, of whose values each task takes its share."""
        return any(operator.creates for operator in self.operators)

    @property
    def needed_columns(self) -> "list[NeededColumns]":
        """The columns that its steps read of tables, of those that do not read all."""
        return [one.needed for one in self.operators if one.needed is not None]

    @property
    def is_behind_shuffle(self) -> bool:
        """True if no input is read before all of its writers have ended."""
        if self.join is not None:
            return self.join.spec.broadcast in (AUTO, NEVER)
        return self.exchange in _SHUFFLES

    @property
    def main_inputs(self) -> tuple[tuple[int, ...], ...]:
        """The tags of the ports that are read together: those of each side of a join."""
        return (self.inputs,) if self.join is None else (self.join.left, self.join.right)

    @property
    def name(self) -> str:
        """The labels in one line, for people."""
        return " + ".join(self.labels)


@dataclass(frozen=True)
class Source:
    """A PCollection that Spark provides: a root other than an Impulse, or a query of others.

    Attributes:
        outputs: the tag of the port that each of its outputs feeds, by the name of
            the output.
        read: how Spark reads it; None for a TestStream.
        events: of a TestStream, encoded.
        inputs: the tags of the ports, or of another source, that hold each table of a query.
    """

    label: str
    outputs: tuple[tuple[str, int], ...]
    read: ReadSpec | None = field(default=None, repr=False)
    events: bytes = field(default=b"", repr=False)
    inputs: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class SparkSink:
    """An end of a pipeline that Spark writes: what takes its rows is not a stage.

    Attributes:
        label: the user's transform label, which sinks of one composite share.
        name: the name of the sink's own transform, which is unique.
        inputs: the tags of the ports that feed it, each of cells of bytes.
    """

    label: str
    name: str
    write: WriteSpec = field(repr=False)
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The stages of a pipeline in an order in which they can run.

    Attributes:
        sinks: the readers of their rows besides other stages.
        streaming: the pipeline runs as a streaming query.
        kept: the tags of ports whose rows are in files of the workers' when they are read; see
            :mod:`sparkbeam.plan.spilled`.
    """

    stages: tuple[Stage, ...]
    sources: tuple[Source, ...] = ()
    streaming: bool = False
    sinks: tuple[SparkSink, ...] = ()
    kept: frozenset[int] = frozenset()

    def reads(self, stage: Stage) -> int:
        """Return the number of times that later stages read the rows of ``stage``.

        Ports that a stage reads as one input are read together. Reads of ports that are kept in
        files do not count.
        """
        tags = {port.tag for port in stage.ports} - self.kept
        inputs = [
            [tag for tag in read if tag in tags]
            for reader in self.stages
            for read in reader.main_inputs
        ]
        main = sum(max(Counter(read).values(), default=0) for read in inputs)
        side = {
            tag
            for reader in self.stages
            for side_input in reader.side_inputs
            for tag in side_input.sources
            if tag in tags
        }
        # A sink reads apart from what takes the metrics, so it counts twice; so does a query.
        sinks = 2 * sum(tag in tags for sink in self.sinks for tag in sink.inputs)
        queries = 2 * sum(not tags.isdisjoint(table) for table in self._queried())
        # So does a join that puts out nothing of a side.
        dropped = sum(
            tag in tags
            for reader in self.stages
            if reader.join is not None and not reader.join.spec.keeps_right
            for tag in reader.join.right
        )
        return main + len(side) + sinks + queries + dropped

    @property
    def spark_reads(self) -> dict[str, ReadSpec]:
        """The reads of Spark's sources, by their labels."""
        return {source.label: source.read for source in self.sources if source.read is not None}

    def _queried(self) -> list[tuple[int, ...]]:
        """Return the tags of each table of a query."""
        return [table for source in self.sources for table in source.inputs]

    def queries_of(self, stage: Stage) -> int:
        """Return the number of tables of queries that hold rows of ``stage``."""
        tags = {port.tag for port in stage.ports}
        return sum(not tags.isdisjoint(table) for table in self._queried())

    def persisted_reads(self, stage: Stage) -> int:
        """Return the number of reads of persisted rows of ``stage``; 0 if Spark persists none."""
        times = self.reads(stage)
        return times if times > 1 and not self.streaming else 0

    def source(self, tag: int) -> Source | None:
        """Return the source that feeds the port ``tag``; None if it is a stage that writes it."""
        return next((s for s in self.sources if any(tag == own for _, own in s.outputs)), None)

    def source_of(self, stage: Stage) -> Source | None:
        """Return the source whose rows are all that a stage reads, in the tasks that read them."""
        if len(stage.inputs) != 1 or stage.exchange is not Exchange.FORWARD:
            return None
        return self.source(*stage.inputs)

    def producer(self, tag: int) -> Stage:
        """Return the stage that writes the port ``tag``."""
        return next(s for s in self.stages for p in s.ports if p.tag == tag)


def in_order(stages: list[Stage], sources: tuple[Source, ...] = ()) -> list[Stage]:
    """Sort the stages so that each comes after those that it reads.

    Args:
        sources: other writers of what they read, some of which read stages in turn.
    """
    producer = {port.tag: stage for stage in stages for port in stage.ports}
    queries = {tag: source.inputs for source in sources for _, tag in source.outputs}
    ordered: dict[str, Stage] = {}
    seen: set[str] = set()

    def visit(stage: Stage) -> None:
        if stage.id in seen:
            return
        seen.add(stage.id)
        for side_input in stage.side_inputs:
            for tag in side_input.sources:
                reach(tag)
        for tag in stage.inputs:
            reach(tag)
        ordered[stage.id] = stage

    def reach(tag: int) -> None:
        if tag in producer:
            visit(producer[tag])
        for table in queries.get(tag, ()):
            for part in table:
                reach(part)

    for stage in stages:
        visit(stage)
    return list(ordered.values())
