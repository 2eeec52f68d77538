"""Flow of columns through the steps of a stage, found without running them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from apache_beam.coders import RowCoder
from apache_beam.internal import pickler
from apache_beam.portability.api import (
    beam_runner_api_pb2,
    schema_pb2,
)
from apache_beam.typehints.schemas import (
    DecimalLogicalType,
    MicrosInstant,
    named_tuple_from_schema,
)

from sparkbeam.columns import (
    Compiled,
    DataDependent,
    Opaque,
    RecordShape,
    Refused,
    Scalar,
    Shape,
)
from sparkbeam.columns.python_types import arrow_type_of, tells_all
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.group_columns import as_pair
from sparkbeam.plan.join_columns import as_side
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.model import SINK_URN, Plan, Port, Stage
from sparkbeam.plan.operator import Result
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.round_trips import round_tripped
from sparkbeam.plan.row_formats import ElementRows, GroupRows, JoinRows
from sparkbeam.plan.spark_io import ReadSpec

_SCALARS = {
    schema_pb2.BYTE: int,
    schema_pb2.INT16: int,
    schema_pb2.INT32: int,
    schema_pb2.INT64: int,
    schema_pb2.FLOAT: float,
    schema_pb2.DOUBLE: float,
    schema_pb2.STRING: str,
    schema_pb2.BOOLEAN: bool,
    schema_pb2.BYTES: bytes,
}
_OTHER = Opaque(pa.date32())
"""A field of a type that schemas do not have: a date, in most cases."""
_LOGICAL: dict[str, Shape] = {
    MicrosInstant.urn(): Opaque(pa.timestamp("us", "UTC")),
    DecimalLogicalType.urn(): Opaque(pa.decimal128(38, 18)),
}
"""Shapes of the values of Beam's logical types, as Spark delivers them."""


@dataclass(frozen=True)
class ColumnStep:
    """A step that gets columns.

    Attributes:
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


Begun: TypeAlias = list[tuple[str, Shape]]
"""PCollections that are columns to begin with, with the shapes of their elements."""


def rows_in_columns(plan: Plan, stage: Stage) -> ReadSpec | None:
    """Return the source of Spark's that a stage reads, if it gets columns of it."""
    source = plan.source_of(stage)
    spec = None if source is None else source.read
    return spec if spec is not None and spec.in_columns else None


def schema_of(spec: ReadSpec) -> schema_pb2.Schema:
    """Return the schema of the rows of a source."""
    coder: RowCoder = pickler.loads(spec.coder)
    return coder.schema


def _shape(schema: schema_pb2.Schema) -> RecordShape:
    names = tuple(part.name for part in schema.fields)
    return RecordShape(
        named_tuple_from_schema(schema), names, tuple(_field(part.type) for part in schema.fields)
    )


def _field(kind: schema_pb2.FieldType) -> Shape:
    match kind.WhichOneof("type_info"):
        case "atomic_type":
            return Scalar(_SCALARS[kind.atomic_type])
        case "row_type":
            return _shape(kind.row_type.schema)
        case "array_type":
            return Opaque(pa.list_(arrow_type_of(_field(kind.array_type.element_type))))
        case "map_type":
            of_key, of_item = kind.map_type.key_type, kind.map_type.value_type
            return Opaque(pa.map_(*(arrow_type_of(_field(part)) for part in (of_key, of_item))))
    return _LOGICAL.get(kind.logical_type.urn, _OTHER)


_Taken: TypeAlias = tuple[beam_runner_api_pb2.PTransform, Shape, Result, Compiled | None]


class _Flow(NamedTuple):
    """Flow of columns from some PCollections.

    Attributes:
        taken: the transforms that get columns, with the columns and the result of each, and the
            function of which these are results; None if they are not.
    """

    taken: list[_Taken]
    columns: frozenset[str]


class ColumnFlow:
    """Flow of columns through a stage.

    Args:
        tagged: of a CoGroupByKey that it reads, the tags, and the shapes of their values.
    """

    def __init__(self, stage: Stage, tagged: tuple[tuple[str, Shape], ...] = ()) -> None:
        self._stage = stage
        self.parsed = parsed(stage)
        self._known: dict[tuple[tuple[str, Shape], ...], _Flow] = {}
        self._tagged = tagged

    @cached_property
    def steps(self) -> dict[str, PlannedStep]:
        """The steps of the stage by label, in an order in which they can run."""
        transforms, labels = self.parsed.transforms, [one.label for one in self._stage.operators]
        return {
            label: PlannedStep(self._stage, transforms[label], self._tagged) for label in labels
        }

    def read(self, spec: ReadSpec | None) -> Iterator[tuple[str, Shape]]:
        """Yield the PCollection read from a Spark source, and the shape of its elements."""
        if spec is not None:
            source = self.parsed.source
            for output in source.outputs.values():
                yield output, _shape(schema_of(spec))

    def tables(self, plan: Plan) -> Iterator[tuple[str, str, Shape]]:
        """Yield the PCollections that are the rows of Arrow tables.

        Yields:
            The label of the transform that reads them, the PCollection, the shape of its elements.
        """
        for operator in self._stage.operators:
            if operator.reads_tables:
                reading = operator.label.rpartition("/")[0]
                made = _created_columns(plan, self.steps[operator.label])
                yield from ((reading, *one) for one in made)

    def created(self, plan: Plan) -> Iterator[tuple[str, Shape]]:
        """Yield the PCollections that are made as columns, with the shapes of their elements."""
        for step in self.steps.values():
            yield from _created_columns(plan, step)

    def taking(self, begins: Begun) -> Iterator[ColumnStep]:
        """Yield the steps that get columns.

        Args:
            begins: the PCollections that are columns to begin with, and their elements' shapes.
        """
        for transform, _, result, _ in self._followed(begins):
            if transform.spec.urn != SINK_URN:
                reason = result.reason if isinstance(result, Refused) else None
                is_certain = not isinstance(result, DataDependent)
                yield ColumnStep(transform.unique_name, reason, is_certain)

    def is_compiled(self, begins: Begun) -> bool:
        """Return whether all steps that get columns take them, without a call of user code.

        Args:
            begins: as for :meth:`taking`.
        """
        return all(
            isinstance(result, Compiled | RecordShape) or (result is None and self._ends(transform))
            for transform, _, result, _ in self._followed(begins)
        )

    def _ends(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        """Return whether columns leave the stage by a step: a sink, or a combine before one."""
        return transform.spec.urn == SINK_URN or self._combines(transform)

    def _combines(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        step = self._step(transform)
        return step is not None and step.operator.before_shuffle

    def _step(self, transform: beam_runner_api_pb2.PTransform) -> PlannedStep | None:
        """Return the step of a transform; None for a sink, which may be called like a step."""
        return None if transform.spec.urn == SINK_URN else self.steps[transform.unique_name]

    def columns(self, begins: Begun) -> frozenset[str]:
        """Return the PCollections that hold columns."""
        return self._flow(begins).columns

    def passes_on(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        """Return whether a step hands its elements on unchanged and reads none of them."""
        step = self._step(transform)
        return step is not None and step.operator.hands_on

    def combined(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """Yield the shapes of the pairs that the first half of a combine takes before a port.

        The pairs are columns.
        """
        for transform, shape, result, _ in self._followed(begins):
            is_taken = result is None and self._combines(transform)
            if is_taken and port.pcollection in transform.outputs.values():
                yield shape

    def outcomes(self, pair: Shape) -> Iterator[tuple[str, Shape]]:
        """Yield the PCollection that a combine makes of accumulators, and its shape as columns.

        Args:
            pair: the shape of the pairs that went into it.
        """
        for step in self.steps.values():
            outcome = step.operator.result_type(step, pair)
            if outcome is not None:
                yield step.output, outcome

    def why_encoded(self, port: Port, begins: Begun) -> str | None:
        """Return the reason why a port that gets columns writes elements; None if it does not."""
        shapes = list(self._into(port, begins))
        if isinstance(port.format, ElementRows) and not any(
            map(partial(self.output_shape, port), shapes)
        ):
            coder = self.parsed.coder(port.pcollection)
            return f"the coder {coder} may decode to other values" if shapes else None
        if isinstance(port.format, GroupRows) and shapes and not self.pairs(port, begins):
            return "keys or values are not columns after a GroupByKey"
        return None

    def written(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """Yield the Python shapes of the columns that a port gets and hands on.

        Args:
            begins: as for :meth:`taking`.
        """
        if isinstance(port.format, JoinRows):
            sides = self.joined(port, begins)
            yield from (side for side in sides if isinstance(side, RecordShape))
            return
        if isinstance(port.format, GroupRows):
            yield from self.pairs(port, begins)
            return
        yield from filter(None, map(partial(self.output_shape, port), self._into(port, begins)))

    def joined(self, port: Port, begins: Begun) -> Iterator[RecordShape | Refused]:
        """Yield the shapes of a join side's pairs behind the join, or the reasons for elements."""
        coder, shapes = self.parsed.coder(port.pcollection), self._into(port, begins)
        keys_only = port.format.keys_only
        return (as_side(coder, shape, keys_only=keys_only) for shape in shapes)

    def _into(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """Yield the Python shapes of the columns that a port gets."""
        sink = self.parsed.transforms[port.transform_id]
        followed = self._followed(begins)
        yield from (shape for transform, shape, *_ in followed if transform is sink)

    def pairs(self, port: Port, begins: Begun) -> list[RecordShape]:
        """Return the shapes of the pairs that a port gets, and a GroupByKey takes, as columns.

        Args:
            begins: as for :meth:`taking`.
        """
        coder = self.parsed.coder(port.pcollection)
        found = (as_pair(coder, shape) for shape in self._into(port, begins))
        return [pair for pair in found if pair is not None]

    def tags(self, port: Port, begins: Begun) -> Iterator[tuple[str, Shape]]:
        """Yield the constant tags of pairs that a port gets in columns, with the values' shapes."""
        sink, coder = self.parsed.transforms[port.transform_id], self.parsed.coder(port.pcollection)
        for transform, shape, _, maker in self._followed(begins):
            if transform is not sink:
                continue
            tag, pair = _tag_of(maker), as_pair(coder, shape)
            if tag is not None and pair is not None and isinstance(pair.fields[1], RecordShape):
                yield tag, pair.fields[1].fields[1]

    def output_shape(self, port: Port, shape: Shape) -> Shape | None:
        """Return the shape with which columns leave the stage by a port; None if they do not.

        Args:
            shape: the shape of the columns in the stage.
        """
        if not isinstance(port.format, ElementRows) or not tells_all(shape):
            return None
        return round_tripped(self.parsed.coder(port.pcollection), empty_column(shape), shape)

    def port_of(self, sink: beam_runner_api_pb2.PTransform) -> Port:
        """Return the port that a sink of the stage is for."""
        transforms = self.parsed.transforms
        (port,) = [port for port in self._stage.ports if transforms[port.transform_id] is sink]
        return port

    def _followed(self, begins: Begun) -> list[_Taken]:
        return self._flow(begins).taken

    def _flow(self, begins: Begun) -> _Flow:
        known = self._known.get(tuple(begins))
        if known is None:
            known = self._known[tuple(begins)] = self._new_flow(begins)
        return known

    def _new_flow(self, begins: Begun) -> _Flow:
        waiting: list[tuple[str, Shape, Compiled | None]] = [(*some, None) for some in begins]
        known: set[tuple[str, Shape, str | None]] = set()
        taken: list[_Taken] = []
        while waiting:
            pcollection, shape, maker = waiting.pop(0)
            content = pcollection, shape, _tag_of(maker)
            if content in known:
                continue  # Several branches have led to it.
            known.add(content)
            for transform in self.parsed.readers(pcollection):
                outputs = transform.outputs.values()
                if self.passes_on(transform):
                    waiting += [(output, shape, maker) for output in outputs]
                    continue
                step = self._step(transform)
                result = None if step is None else step.operator.output_type(step, shape)
                taken.append((transform, shape, result, maker))
                if isinstance(result, Compiled) and not result.is_empty:
                    waiting += [(output, result.outcome, result) for output in outputs]
                elif isinstance(result, RecordShape):
                    waiting += [(output, result, None) for output in outputs]
        return _Flow(taken, frozenset(pcollection for pcollection, *_ in known))


def _tag_of(maker: Compiled | None) -> str | None:
    """Return the tag of a CoGroupByKey that all pairs have which a function makes."""
    tag = None if maker is None else maker.constant(1, 0)
    return tag if type(tag) is str else None


def _created_columns(plan: Plan, step: PlannedStep) -> Iterator[tuple[str, Shape]]:
    """Yield the outputs of a step that makes columns, with the shapes of their elements."""
    shape = step.operator.created_type(plan, step)
    if shape is not None:
        yield from ((output, shape) for output in step.transform.outputs.values())


walk_of = memoized(ColumnFlow)
"""Return the walk that follows columns through a stage, shared by all callers in a translation."""
