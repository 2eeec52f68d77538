"""Flow of columns through the stages of a plan, found without running them.

Each stage is followed once, after the stages that it reads: from the columns that it begins with
through its operators, which report the types of their outputs, to its ports.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from sparkbeam.columns import Compiled, RecordShape, Refused, Shape
from sparkbeam.columns.python_types import tells_all
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.group_columns import as_pair, groups_of
from sparkbeam.plan.join_columns import as_side, triples
from sparkbeam.plan.model import SINK_URN, Plan, Port, Stage
from sparkbeam.plan.operator import Accumulators, Result
from sparkbeam.plan.packed_grouping import PACKED, may_be_packed, with_packed_groups
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.round_trips import round_tripped
from sparkbeam.plan.row_formats import AggregateRows, ElementRows, GroupRows, JoinRows
from sparkbeam.plan.source_columns import schema_of, shape_of_rows

Type: TypeAlias = Shape | Accumulators


class Columns(NamedTuple):
    """Columns that a PCollection may hold.

    Attributes:
        tag: the tag of a CoGroupByKey that all of the pairs have; None if they may differ.
        assumed: they are columns only if the accumulators that they are made of are numbers.
    """

    shape: Type
    tag: str | None = None
    assumed: bool = False


Begun: TypeAlias = list[tuple[str, Columns]]
"""PCollections that are columns to begin with."""


class StageFlow:
    """Columns in a stage.

    Args:
        tagged: of a CoGroupByKey that it reads, the tags, and the shapes of their values.

    Attributes:
        steps: the steps of the stage by label, in an order in which they can run.
        held: the columns of each PCollection that has any.
        results: what each step makes of columns, by its label and their shape, unless it hands
            them on.
        tables: the columns of the rows of tables, by the label of the transform that reads these.
    """

    def __init__(self, stage: Stage, tagged: Mapping[str, Shape]) -> None:
        self.parsed = parsed(stage)
        transforms, labels = self.parsed.transforms, [one.label for one in stage.operators]
        self.steps = {label: PlannedStep(stage, transforms[label], tagged) for label in labels}
        self.held: dict[str, list[Columns]] = defaultdict(list)
        self.results: dict[tuple[str, Type], Result] = {}
        self.tables: list[tuple[str, str, Shape]] = []

    def follow(self, begun: Begun) -> None:
        """Follow columns from the PCollections that the stage begins with."""
        waiting = deque(begun)
        while waiting:
            pcollection, columns = waiting.popleft()
            held = self.held[pcollection]
            if columns in held or columns._replace(assumed=False) in held:
                continue  # Several branches have led to it.
            held.append(columns)
            for step in self.readers(pcollection):
                made: Columns | None = columns
                if not step.operator.hands_on:
                    made = _columns_of(columns, self._result(step, columns.shape))
                if made is not None:
                    waiting += [(output, made) for output in step.transform.outputs.values()]

    def _result(self, step: PlannedStep, shape: Type) -> Result:
        key = step.label, shape
        if key not in self.results:
            self.results[key] = (
                step.operator.merged_type(shape)
                if isinstance(shape, Accumulators)
                else step.operator.output_type(step, shape)
            )
        return self.results[key]

    def readers(self, pcollection: str) -> Iterator[PlannedStep]:
        """Yield the steps that read a PCollection."""
        for transform in self.parsed.readers(pcollection):
            if transform.spec.urn != SINK_URN:
                yield self.steps[transform.unique_name]

    def behind(self, port: Port, shape: Type) -> Type | Refused:
        """Return the shape of columns behind a port, or the reason why it gets elements of them."""
        coder, format = self.parsed.coder(port.pcollection), port.format
        if isinstance(shape, Accumulators):
            merges_columns = isinstance(format, AggregateRows) and format.packed
            return shape if merges_columns else Refused(str(format.why_elements))
        if format.why_elements is not None:
            return Refused(format.why_elements)
        if isinstance(format, JoinRows):
            return as_side(coder, shape, keys_only=format.keys_only)
        if isinstance(format, GroupRows):
            reason = "keys or values are not columns after a GroupByKey"
            return as_pair(coder, shape) or Refused(reason)
        assert isinstance(format, ElementRows)
        back = round_tripped(coder, empty_column(shape), shape) if tells_all(shape) else None
        return back or Refused(f"the coder {coder} may decode to other values")

    def shapes(self, pcollection: str) -> list[Shape]:
        """Return the shapes of a PCollection's elements that are columns."""
        held = self.held.get(pcollection, ())
        return [one.shape for one in held if not isinstance(one.shape, Accumulators)]

    def groups_pairs(self, port: Port) -> bool:
        """Return whether a GroupByKey behind a port may take pairs of it as columns."""
        coder = self.parsed.coder(port.pcollection)
        shapes = [one.shape for one in self.held.get(port.pcollection, ()) if not one.assumed]
        return any(isinstance(s, RecordShape) and as_pair(coder, s) is not None for s in shapes)


def _columns_of(columns: Columns, result: Result) -> Columns | None:
    """Return the columns that a step makes of columns; None if it makes none that are known."""
    if isinstance(result, Compiled):
        tag = result.constant(1, 0)
        known = tag if type(tag) is str else None
        return None if result.is_empty else Columns(result.outcome, known, columns.assumed)
    if isinstance(result, Accumulators) and result.output is not None:
        return Columns(result, assumed=columns.assumed)
    if isinstance(result, RecordShape):
        return Columns(result, assumed=columns.assumed or isinstance(columns.shape, Accumulators))
    return None


class ColumnFlow:
    """Columns in all stages of a plan.

    Attributes:
        plan: with packed GroupByKeys, where pairs come as columns.
        stages: the columns in each stage, by its id.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.stages: dict[str, StageFlow] = {}
        for at in range(len(plan.stages)):
            stage = self.plan.stages[at]
            if may_be_packed(self.plan, stage) and any(
                flow.groups_pairs(port) for flow, port in self._into(stage.inputs)
            ):
                self.plan = with_packed_groups(self.plan, stage)
            self._follow(self.plan.stages[at])

    def _follow(self, stage: Stage) -> None:
        arriving = [list(self._behind(tags)) for tags in stage.main_inputs]
        packed = stage.format == PACKED
        flow = StageFlow(stage, _by_tag(*arriving) if packed else {})
        self.stages[stage.id] = flow
        begun: Begun = []
        source = self.plan.source_of(stage)
        if source is not None and source.read is not None:
            rows = Columns(shape_of_rows(schema_of(source.read)))
            begun.append((flow.parsed.main_input, rows))
        for step in flow.steps.values():
            shape = step.operator.created_type(self.plan, step)
            if shape is not None:
                begun += [(output, Columns(shape)) for output in step.transform.outputs.values()]
                if step.operator.reads_tables:
                    flow.tables.append((step.label.rpartition("/")[0], step.output, shape))
        begun += [(flow.parsed.main_input, one) for one in _grouped(stage, arriving)]
        flow.follow(begun)

    def _into(self, tags: Iterable[int]) -> Iterator[tuple[StageFlow, Port]]:
        """Yield the ports of stages with some tags."""
        for tag in dict.fromkeys(tags):
            if self.plan.source(tag) is None:
                writer = self.plan.producer(tag)
                yield from ((self.stages[writer.id], p) for p in writer.ports if p.tag == tag)

    def _behind(self, tags: Iterable[int]) -> Iterator[Columns]:
        """Yield the columns that ports hand on."""
        for flow, port in self._into(tags):
            for columns in flow.held.get(port.pcollection, ()):
                shape = flow.behind(port, columns.shape)
                if not isinstance(shape, Refused):
                    yield columns._replace(shape=shape)


def _grouped(stage: Stage, arriving: list[list[Columns]]) -> Iterable[Columns]:
    """Return the columns of a stage's main input.

    Args:
        arriving: the columns of its inputs, of each side of a join.
    """
    shapes = [[s.shape for s in side if isinstance(s.shape, RecordShape)] for side in arriving]
    assumed = any(one.assumed for side in arriving for one in side)
    if stage.join is not None:
        return [Columns(one, assumed=assumed) for one in triples(stage.join.spec, *shapes)]
    if stage.format == PACKED:
        return [Columns(one, assumed=assumed) for one in groups_of(*shapes)]
    return [one._replace(tag=None) for one in arriving[0]]


def _by_tag(pairs: list[Columns]) -> dict[str, Shape]:
    """Return the shape of the values of each tag, except for values of several types."""
    found: dict[str, set[Shape]] = defaultdict(set)
    for pair in pairs:
        assert isinstance(pair.shape, RecordShape)
        value = pair.shape.fields[1]
        if pair.tag is not None and isinstance(value, RecordShape):
            found[pair.tag].add(value.fields[1])
    return {tag: shapes.pop() for tag, shapes in found.items() if len(shapes) == 1}
