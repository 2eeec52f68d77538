"""Flow of columns through the steps of a stage, found without running them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import apache_beam as beam
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
    Opaque,
    Record,
    Refused,
    Scalar,
    Shape,
)
from sparkbeam.columns.python_types import arrow_type_of, tells_all
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.batch_dofns import (
    elements_declared,
)
from sparkbeam.plan.combine_columns import (
    NO_FORM,
    outcome_of,
)
from sparkbeam.plan.group_columns import as_pair
from sparkbeam.plan.join_columns import as_side
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.model import SIDES, SINK_URN, Layout, Plan, Port, Stage
from sparkbeam.plan.operator_types import OutputTypes, Result
from sparkbeam.plan.operators import Kind
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.round_trips import given_back
from sparkbeam.plan.spark_io import READ_URN, ReadSpec
from sparkbeam.plan.table_rows import rows_read
from sparkbeam.windows.choices import choice_of
from sparkbeam.windows.vectorized_forms import form_of

HAND_ON = frozenset([Kind.WINDOWS, Kind.IDENTITY])
"""Kinds of operators that hand their elements on unchanged."""

PRECOMBINES = frozenset([Kind.PRECOMBINE, Kind.SESSION_COMBINE])
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
        label: its label.
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
        return "columns" if self.is_certain else "columns, if it gets any when it runs"


Begun: TypeAlias = list[tuple[str, Shape]]
"""PCollections that are columns to begin with, with the shapes of their elements."""


def rows_in_columns(plan: Plan, stage: Stage) -> ReadSpec | None:
    """Return the source of Spark's that a stage reads, if it gets columns of it."""
    source = plan.source_of(stage)
    if source is None or source.urn != READ_URN:
        return None
    spec = ReadSpec.unpack(source.payload)
    return spec if spec.in_columns else None


def schema_of(spec: ReadSpec) -> schema_pb2.Schema:
    """Return the schema of the rows of a source."""
    coder: RowCoder = pickler.loads(spec.coder)
    return coder.schema


def _shape(schema: schema_pb2.Schema) -> Record:
    names = tuple(part.name for part in schema.fields)
    return Record(
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


class Walk:
    """Flow of columns through a stage.

    Args:
        stage: the stage.
        tagged: of a CoGroupByKey that it reads, the tags, and the shapes of their values.

    Attributes:
        parsed: the stage's description.
        types: the operators of the stage, with the columns behind each.
    """

    def __init__(self, stage: Stage, tagged: tuple[tuple[str, Shape], ...] = ()) -> None:
        self._stage = stage
        self.parsed = parsed(stage)
        self._known: dict[tuple[tuple[str, Shape], ...], list[_Taken]] = {}
        self.types = OutputTypes(stage, tagged)

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
        for transform in self.types.steps(Kind.TABLE_ROWS):
            shape = rows_read(plan, transform)
            if shape is not None:
                reading = transform.unique_name.rpartition("/")[0]
                yield from ((reading, output, shape) for output in transform.outputs.values())

    def batches(self) -> Iterator[tuple[str, Shape]]:
        """Yield the PCollections of elements of batches, with the shapes of the elements."""
        for transform in self.types.steps(Kind.BATCHES):
            made = self.types.batching(transform).made
            shape = None if made is None else elements_declared(made)
            if shape is not None:
                yield from ((output, shape) for output in transform.outputs.values())

    def steps(self, begins: Begun) -> Iterator[ColumnStep]:
        """Yield the steps that get columns.

        Args:
            begins: the PCollections that are columns to begin with, and their elements' shapes.
        """
        for transform, _, result, _ in self._followed(begins):
            if transform.spec.urn != SINK_URN:
                reason = result.reason if isinstance(result, Refused) else None
                yield ColumnStep(transform.unique_name, reason)

    def is_compiled(self, begins: Begun) -> bool:
        """Return whether all steps that get columns take them, without a call of user code.

        Args:
            begins: as for :meth:`steps`.
        """
        return all(
            isinstance(result, Compiled | Record) or (result is None and self._fills(transform))
            for transform, _, result, _ in self._followed(begins)
        )

    def _fills(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        """Return whether columns leave the stage by a step: a sink, or a combine before one."""
        return transform.spec.urn == SINK_URN or self.types.operator(transform).kind in PRECOMBINES

    def columns(self, begins: Begun) -> Iterator[str]:
        """Yield the PCollections that hold columns."""
        for pcollection, _ in begins:
            yield from self._handed_on(pcollection)
        for transform, _, result, _ in self._followed(begins):
            is_made = isinstance(result, Record)
            if is_made or (isinstance(result, Compiled) and not result.is_empty):
                for output in transform.outputs.values():
                    yield from self._handed_on(output)

    def _handed_on(self, pcollection: str) -> Iterator[str]:
        """Yield a PCollection, and the outputs of steps that hand on its elements unchanged."""
        yield pcollection
        for transform in self.parsed.readers(pcollection):
            if self.passes_on(transform):
                for output in transform.outputs.values():
                    yield from self._handed_on(output)

    def passes_on(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        """Return whether a step hands its elements on unchanged and reads none of them."""
        if transform.spec.urn == SINK_URN:
            return False
        operator = self.types.operator(transform)
        return operator.kind in HAND_ON and operator.reason is None

    def combined(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """Yield the shapes of the pairs that the first half of a combine takes before a port.

        The pairs are columns.
        """
        for transform, shape, result, _ in self._followed(begins):
            is_combine = transform.spec.urn != SINK_URN and self._fills(transform)
            if is_combine and result is None and port.pcollection in transform.outputs.values():
                yield shape

    def outcomes(self, pair: Shape) -> Iterator[tuple[str, Shape]]:
        """Yield the PCollection that a combine makes of accumulators, and its shape as columns.

        Args:
            pair: the shape of the pairs that went into it.
        """
        for output, combine_fn in self.extracted():
            form = form_of(combine_fn)
            outcome = None if form is None else outcome_of(form, pair)
            if outcome is not None:
                yield output, outcome

    def extracted(self) -> Iterator[tuple[str, beam.CombineFn]]:
        """Yield the PCollections that combines make of accumulators, with these combines."""
        for transform in self.types.steps(Kind.EXTRACT):
            (output,) = transform.outputs.values()
            yield output, self.parsed.combine_fn(transform)

    def makes_columns(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        """Return whether a step may make columns of elements that are tables, or of batches."""
        kind = self.types.operator(transform).kind
        is_of_batches = kind is Kind.BATCHES and self.types.batching(transform).made is not None
        return is_of_batches or kind is Kind.TABLE_ROWS

    def why_never(self, transform: beam_runner_api_pb2.PTransform) -> str | None:
        """Return the reason why a step takes elements, whatever its columns; None if it may not."""
        operator = self.types.operator(transform)
        return self.why_no_form(transform) if operator.kind in PRECOMBINES else operator.reason

    def why_no_form(self, transform: beam_runner_api_pb2.PTransform) -> str | None:
        """Return the reason why a combine takes elements; None if it has a form over columns."""
        combine_fn = self.parsed.combine_fn(transform)
        is_known = form_of(combine_fn) is not None
        if self.types.operator(transform).kind in PRECOMBINES:
            is_known = is_known or choice_of(combine_fn) is not None
        return None if is_known else NO_FORM

    def why_encoded(self, port: Port, begins: Begun) -> str | None:
        """Return the reason why a port that gets columns writes elements; None if it does not."""
        shapes = list(self._into(port, begins))
        if port.layout is Layout.CHUNKS and not any(self.hands_on(port, one) for one in shapes):
            coder = self.parsed.coder(port.pcollection)
            return f"the coder {coder} may give back others" if shapes else None
        if port.layout is Layout.PACKED_GROUPS and shapes and not self.pairs(port, begins):
            return "keys or values are no columns behind a GroupByKey"
        return None

    def written(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """Yield the Python shapes of the columns that a port gets and hands on.

        Args:
            port: a port of the stage.
            begins: as for :meth:`steps`.
        """
        if port.layout in SIDES:
            sides = self.joined(port, begins)
            yield from (side for side in sides if isinstance(side, Record))
            return
        if port.layout is Layout.PACKED_GROUPS:
            yield from self.pairs(port, begins)
            return
        yield from (shape for shape in self._into(port, begins) if self.hands_on(port, shape))

    def joined(self, port: Port, begins: Begun) -> Iterator[Record | Refused]:
        """Yield the shapes of a join side's pairs behind the join, or the reasons for elements."""
        coder = self.parsed.coder(port.pcollection)
        return (as_side(coder, shape, port.layout) for shape in self._into(port, begins))

    def _into(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """Yield the Python shapes of the columns that a port gets."""
        sink = self.parsed.transforms[port.transform_id]
        followed = self._followed(begins)
        yield from (shape for transform, shape, *_ in followed if transform is sink)

    def pairs(self, port: Port, begins: Begun) -> list[Record]:
        """Return the shapes of the pairs that a port gets, and a GroupByKey takes, as columns.

        Args:
            port: a port of the stage.
            begins: as for :meth:`steps`.
        """
        coder = self.parsed.coder(port.pcollection)
        found = (as_pair(coder, shape) for shape in self._into(port, begins))
        return [pair for pair in found if pair is not None]

    def tags(self, port: Port, begins: Begun) -> Iterator[tuple[str, Shape]]:
        """Yield the constant tags of pairs that a port gets in columns, with the values' shapes."""
        sink, coder = self.parsed.transforms[port.transform_id], self.parsed.coder(port.pcollection)
        for transform, shape, _, maker in self._followed(begins):
            if transform is not sink or maker is None:
                continue
            tag, pair = maker.constant(1, 0), as_pair(coder, shape)
            if type(tag) is str and pair is not None and isinstance(pair.fields[1], Record):
                yield tag, pair.fields[1].fields[1]

    def hands_on(self, port: Port, shape: Shape) -> bool:
        """Return whether columns leave the stage unchanged by a port.

        Args:
            port: a port of the stage.
            shape: the shape of the columns.
        """
        if port.layout is not Layout.CHUNKS or not tells_all(shape):
            return False
        return given_back(self.parsed.coder(port.pcollection), empty_column(shape), shape) == shape

    def port_of(self, sink: beam_runner_api_pb2.PTransform) -> Port:
        """Return the port that a sink of the stage is for."""
        transforms = self.parsed.transforms
        (port,) = [port for port in self._stage.ports if transforms[port.transform_id] is sink]
        return port

    def _followed(self, begins: Begun) -> list[_Taken]:
        """Return the transforms that get columns, with the columns and the result of each.

        And the function of which they are results; None if they are not.
        """
        known = self._known.get(tuple(begins))
        if known is None:
            known = self._known[tuple(begins)] = list(self._follow(begins))
        return known

    def _follow(self, begins: Begun) -> Iterator[_Taken]:
        waiting: list[tuple[str, Shape, Compiled | None]] = [(*some, None) for some in begins]
        while waiting:
            pcollection, shape, maker = waiting.pop(0)
            for transform in self.parsed.readers(pcollection):
                outputs = transform.outputs.values()
                if self.passes_on(transform):
                    waiting += [(output, shape, maker) for output in outputs]
                    continue
                is_sink = transform.spec.urn == SINK_URN
                result = None if is_sink else self.types.of(transform, shape)
                yield transform, shape, result, maker
                if isinstance(result, Compiled) and not result.is_empty:
                    waiting += [(output, result.outcome, result) for output in outputs]
                elif isinstance(result, Record):
                    waiting += [(output, result, None) for output in outputs]


walk_of = memoized(Walk)
"""Return the walk that follows columns through a stage, shared by all callers in a translation."""
