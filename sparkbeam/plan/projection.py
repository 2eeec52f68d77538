"""Projection: unread columns of Spark's sources, Parquet files and record batches are left out.

The fields that a step reads are known if its function is compiled (:mod:`sparkbeam.columns`).
Such a function does not see the other fields, whether it is evaluated over columns or called.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import ceil

from sparkbeam.columns import ALL, Compiled, Paths, RecordShape, Refused, Shape, Union
from sparkbeam.plan.arrow_batches import NeededColumns
from sparkbeam.plan.column_flow import ColumnFlow, Type
from sparkbeam.plan.model import Plan, Port, Source, Stage
from sparkbeam.plan.operator import Accumulators
from sparkbeam.plan.pardo_functions import dofn_of
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.row_formats import ElementRows
from sparkbeam.plan.source_columns import schema_of
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.upstream.beam import is_of_create, values_of_create
from sparkbeam.upstream.beam_files import DividedRead

_COLUMNAR = frozenset(["parquet", "orc", "delta", "kafka"])
"""Formats whose columns can be left out. In others a column may be what makes a row malformed."""


def projected(flow: ColumnFlow) -> Plan:
    """Return a plan with sources that know which of their columns are needed.

    Args:
        flow: the columns of the plan.
    """
    plan, needs = flow.plan, _RequiredFields(flow)
    stages = plan.stages if plan.streaming else _over_fewer_columns(plan, needs)
    sources = tuple(_projected(plan, needs, source) for source in plan.sources)
    return replace(plan, sources=sources, stages=stages)


class _RequiredFields:
    """Fields that the steps of a plan read, followed through all stages that get columns.

    In streaming, all fields are needed of the elements that a stage hands on to another.
    """

    def __init__(self, flow: ColumnFlow) -> None:
        self._plan = flow.plan
        self._flow = flow.stages
        self._known: dict[tuple[str, str, Type], Paths] = {}

    def of_rows(self, stage: Stage, spec: ReadSpec) -> frozenset[int] | None:
        """Return the positions of the fields that are needed of a stage's rows from Spark.

        The stage may do without the fields that nobody reads, and that may be zero or None. None
        if all fields may be read.
        """
        fields = enumerate(schema_of(spec).fields)
        found = {at for at, one in fields if not one.type.nullable and not one.type.atomic_type}
        flow = self._flow[stage.id]
        for shape in flow.shapes(flow.parsed.main_input):
            needed = self._of(stage, flow.parsed.main_input, shape)
            if needed >= ALL:
                return None
            found |= {path[0] for path in needed}
        return frozenset(found)

    def is_compiled(self, stage: Stage) -> bool:
        """Return whether a stage does all its work on its input over columns.

        False if it reads no columns.
        """
        flow, known = self._flow[stage.id], (Compiled, RecordShape, Accumulators)
        are_read = bool(flow.tables) or self._plan.source_of(stage) is not None
        return are_read and all(isinstance(result, known) for result in flow.results.values())

    def of_tables(self, stage: Stage) -> dict[str, frozenset[str] | None]:
        """Return the names of the columns that are needed of tables; None for all.

        Returns:
            For each transform that reads tables whose rows the stage gets. Where these are of
            several classes the names are those of
            :class:`~sparkbeam.plan.arrow_batches.ReadBatches`.
        """
        found: dict[str, frozenset[str] | None] = {}
        for reading, output, shape in self._flow[stage.id].tables:
            needed = self._of(stage, output, shape)
            found[reading] = None if needed >= ALL else frozenset(_names(shape, needed))
        return found

    def _of(self, stage: Stage, pcollection: str, shape: Type) -> Paths:
        """Return the parts of the elements of a PCollection that are read."""
        key = stage.id, pcollection, shape
        if key not in self._known:
            ports = (port for port in stage.ports if port.pcollection == pcollection)
            steps = self._flow[stage.id].readers(pcollection)
            parts = [self._of_port(stage, port, shape) for port in ports]
            parts += [self._of_step(stage, step, shape) for step in steps]
            needed: Paths = frozenset().union(*parts)
            self._known[key] = ALL if () in needed else needed
        return self._known[key]

    def _of_step(self, stage: Stage, step: PlannedStep, shape: Type) -> Paths:
        """Return the parts of its elements that a step reads, or that are read of its outputs."""
        if step.operator.hands_on:
            return self._of_outputs(stage, step, shape)
        result = self._flow[stage.id].results[step.label, shape]
        if isinstance(result, Compiled):
            is_empty = result.is_empty
            wanted = frozenset() if is_empty else self._of_outputs(stage, step, result.outcome)
            return result.needed(wanted)
        return ALL if isinstance(result, Refused) else step.operator.reads(step)

    def _of_outputs(self, stage: Stage, step: PlannedStep, shape: Type) -> Paths:
        outputs = step.transform.outputs.values()
        return frozenset().union(*(self._of(stage, output, shape) for output in outputs))

    def _of_port(self, stage: Stage, port: Port, shape: Type) -> Paths:
        """Return the parts that other stages read of the elements that they are handed."""
        plan, tag = self._plan, port.tag
        handed_on = self._flow[stage.id].behind(port, shape)
        sides = [side for one in plan.stages for side in one.side_inputs]
        if (
            plan.streaming
            or any(tag in side.sources for side in sides)
            or any(tag in sink.inputs for sink in plan.sinks)
            or not isinstance(port.format, ElementRows)
            or isinstance(handed_on, Refused)
        ):
            return ALL
        readers = (reader for reader in plan.stages if tag in reader.inputs)
        mains = ((reader, self._flow[reader.id].parsed.main_input) for reader in readers)
        return frozenset().union(*(self._of(reader, name, handed_on) for reader, name in mains))


def _names(shape: Shape, needed: Paths) -> Iterator[str]:
    """Yield the names of fields.

    Of records of several classes they are behind that of the class.
    """
    for first, *further in needed:
        match shape:
            case RecordShape():
                yield shape.names[first]
            case Union():
                member = shape.members[first]
                names = [member.names[further[0]]] if further else member.names
                yield from (f"{member.type.__name__}.{name}" for name in names)


def _over_fewer_columns(plan: Plan, needs: _RequiredFields) -> tuple[Stage, ...]:
    """Return the stages with steps that read only the needed columns of tables."""
    found: dict[str, frozenset[str] | None] = {}
    for stage in plan.stages:
        for reading, needed in needs.of_tables(stage).items():
            others = found.get(reading, frozenset())
            found[reading] = None if needed is None or others is None else needed | others
    fewer = {f"{name}/Read/": needed for name, needed in found.items() if needed is not None}
    return tuple(_reading(stage, fewer, needs) for stage in plan.stages)


def _reading(stage: Stage, fewer: Mapping[str, frozenset[str]], needs: _RequiredFields) -> Stage:
    """Return a stage in which the steps whose names have some prefixes read fewer columns."""
    transforms = parsed(stage).transforms
    needed = {
        operator.label: NeededColumns.of(transforms[operator.label], names)
        for operator in stage.operators
        for prefix, names in fewer.items()
        if f"{operator.label}/".startswith(prefix)
    }
    operators = (
        replace(one, needed=needed[one.label]) if one.label in needed else one
        for one in stage.operators
    )
    reading = replace(stage, operators=tuple(operators))
    return replace(reading, most_tasks=_most_tasks(reading, needs)) if stage.creates else reading


def _most_tasks(stage: Stage, needs: _RequiredFields) -> int | None:
    """Return the number of tasks in which a stage has a value of a Create each, or a batch of rows.

    The latter is for a stage that begins with files of columns and does all its work over columns.
    """
    creates = [operator for operator in stage.operators if operator.creates]
    fn = dofn_of(parsed(stage).transforms[creates[0].label]) if len(creates) == 1 else None
    if is_of_create(fn):
        return values_of_create(fn)
    if not isinstance(fn, DividedRead) or fn.footers is None or not needs.is_compiled(stage):
        return None
    needed = creates[0].needed
    return max(1, ceil(fn.footers.batches(fn.footers.sizes if needed is None else needed.names)))


def _projected(plan: Plan, needs: _RequiredFields, source: Source) -> Source:
    spec = source.read
    if spec is None:
        return source
    if not plan.streaming:
        stages = [stage for stage in plan.stages if plan.source_of(stage) is source]
        spec = replace(spec, is_compiled=bool(stages) and all(map(needs.is_compiled, stages)))
    needed = _needed(plan, needs, source, spec)
    if needed is None:
        return replace(source, read=spec)
    # To compute a column may fail, also one that nobody reads.
    computed = {name for name, _ in spec.derived}
    names = tuple(name for at, name in enumerate(spec.columns) if at in needed or name in computed)
    if len(names) < len(spec.columns):
        is_columnar = spec.format in _COLUMNAR
        spec = replace(spec, needed=names) if is_columnar else replace(spec, looked_at=names)
    return replace(source, read=spec)


def _needed(
    plan: Plan, needs: _RequiredFields, source: Source, spec: ReadSpec
) -> frozenset[int] | None:
    """Return the positions of the columns that some stage looks at; None for all."""
    tags = {tag for _, tag in source.outputs}
    if any(tags.intersection(sink.inputs) for sink in plan.sinks):
        return None
    if any(tags.intersection(table) for other in plan.sources for table in other.inputs):
        return None
    found: frozenset[int] = frozenset()
    for stage in plan.stages:
        if any(tags.intersection(side_input.sources) for side_input in stage.side_inputs):
            return None
        if tags.isdisjoint(stage.inputs):
            continue
        fields = needs.of_rows(stage, spec) if plan.source_of(stage) is source else None
        if fields is None:
            return None
        found |= fields
    return found
