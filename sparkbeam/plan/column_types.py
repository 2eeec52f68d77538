"""Follows columns through the steps of a stage, without running them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.coders import RowCoder
from apache_beam.internal import pickler
from apache_beam.portability.api import (
    beam_runner_api_pb2,
    schema_pb2,
)
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows, Sessions
from apache_beam.typehints.schemas import (
    DecimalLogicalType,
    MicrosInstant,
    named_tuple_from_schema,
)

from sparkbeam.columns import (
    Compiled,
    NotExact,
    Opaque,
    Record,
    Refused,
    Scalar,
    Shape,
    UnknownShape,
)
from sparkbeam.columns.arrays import arrays_of_dicts
from sparkbeam.columns.python_types import FLOAT, INT, NONE, STR, Table, arrow_type_of, tells_all
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.batch_dofns import (
    Converter,
    batch_of,
    elements_declared,
    passes,
    plain_batching,
)
from sparkbeam.plan.combine_columns import (
    NO_FORM,
    OTHER_SLICES,
    is_key,
    other_stamps,
    outcome_of,
    pair_of,
)
from sparkbeam.plan.group_columns import as_pair, by_tag
from sparkbeam.plan.grouping import stamp_of, tells_stamps
from sparkbeam.plan.join_columns import as_side
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.model import SIDES, SINK_URN, Layout, Plan, Port, SessionAggregator, Stage
from sparkbeam.plan.operator_choice import BEAMS_OWN
from sparkbeam.plan.operators import Kind, Operator
from sparkbeam.plan.pardo_functions import (
    dofn_of,
    function_and_arguments_in,
    function_in,
    function_of,
    over_columns,
)
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.round_trips import given_back
from sparkbeam.plan.session_reasons import ALONE, by_elements, in_another_order
from sparkbeam.plan.spark_io import READ_URN, ReadSpec
from sparkbeam.plan.table_rows import rows_read
from sparkbeam.plan.timestamping import with_times
from sparkbeam.upstream.beam import StampedPart, part_stamped_by, tags_of_cogroup
from sparkbeam.upstream.beam_batches import Batching
from sparkbeam.upstream.parquet import row_groups_of
from sparkbeam.windows.choices import choice_of
from sparkbeam.windows.vectorized_form import Form
from sparkbeam.windows.vectorized_forms import form_of
from sparkbeam.windows.window_lengths import whole_gap_of, whole_slots_of

HAND_ON = frozenset([Kind.WINDOWS, Kind.IDENTITY])
"""What hands its elements on as they are."""

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
_SIDE_INPUTS: tuple[Shape, ...] = (
    *(INT, FLOAT, STR),
    *(Table(dict, key, value) for key in (INT, STR) for value in (INT, STR)),
    *(Table(list, key, NONE) for key in (INT, STR)),
)
"""What side inputs may be."""

_OTHER = Opaque(pa.date32())
"""A field of a type that schemas do not have: a date, in most cases."""
_LOGICAL: dict[str, Shape] = {
    MicrosInstant.urn(): Opaque(pa.timestamp("us", "UTC")),
    DecimalLogicalType.urn(): Opaque(pa.decimal128(38, 18)),
}
"""What the values of Beam's logical types are, as Spark hands them over."""


@dataclass(frozen=True)
class ColumnStep:
    """A step that gets columns.

    Attributes:
        label: its label.
        reason: why it takes them as elements; None where it takes them as they are.
        is_certain: or else whether it gets any shows when it runs.
    """

    label: str
    reason: str | None
    is_certain: bool = True

    @property
    def words(self) -> str:
        """How it takes them."""
        if self.reason is not None:
            return f"elements, because {self.reason}"
        return "columns" if self.is_certain else "columns, if it gets any when it runs"


Begun: TypeAlias = list[tuple[str, Shape]]
"""PCollections that are columns to begin with, and what their elements are."""


def rows_in_columns(plan: Plan, stage: Stage) -> ReadSpec | None:
    """The source of Spark's that a stage reads, if it gets columns of it."""
    source = plan.source_of(stage)
    if source is None or source.urn != READ_URN:
        return None
    spec = ReadSpec.unpack(source.payload)
    return spec if spec.in_columns else None


def schema_of(spec: ReadSpec) -> schema_pb2.Schema:
    """What the rows of a source are."""
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


_Result: TypeAlias = Compiled | Refused | Record | None
_Taken: TypeAlias = tuple[beam_runner_api_pb2.PTransform, Shape, _Result, Compiled | None]


def _stamped(shape: Shape, part: StampedPart) -> Refused | Record:
    """What elements are with their timestamps."""
    try:
        return with_times(empty_column(shape), shape, part)[1]
    except (NotExact, UnknownShape) as error:
        return Refused(str(error))


def _refused(make: Callable[..., Any], shape: Shape, *more: Any) -> Refused | None:
    """Why columns of a shape are not made something else; None where they are."""
    try:
        make(empty_column(shape), shape, *more)
    except (NotExact, UnknownShape) as error:
        return Refused(str(error))
    return None


@memoized
def _compiled(payload: bytes, shape: Shape, may_stamp: bool) -> Compiled | Refused:
    """What becomes of columns in the function of a ParDo, by its payload."""
    fn = function_in(payload)
    assert fn is not None
    return over_columns(fn.process, shape, may_stamp=may_stamp)


@memoized
def _compiled_with_sides(payload: bytes, shape: Shape, may_stamp: bool) -> list[Compiled | Refused]:
    """Likewise in one of further arguments, with all that the side inputs may be."""
    asked = function_and_arguments_in(payload)
    assert asked is not None
    fn, arguments = asked
    return [
        over_columns(fn.process, shape, *sides, arguments=arguments, may_stamp=may_stamp)
        for sides in dict.fromkeys((kind,) * arguments.sides for kind in _SIDE_INPUTS)
    ]


def _adds_up(form: Form | None, windowing: Windowing, shape: Shape) -> bool:
    """Whether elements are pairs that add up by slices of time, and keep their timestamps."""
    window_fn = windowing.windowfn
    has_slices = type(window_fn) is GlobalWindows or whole_slots_of(window_fn) is not None
    pair = pair_of(shape)
    if form is None or pair is None or not has_slices:
        return False
    key, values = pair
    return is_key(key) and form.kind_of(empty_column(values), values) is not None


class Walk:
    """Follows columns through a stage.

    Args:
        stage: the stage.
        tagged: of a CoGroupByKey that it reads, the tags, and what the values with each are.

    Attributes:
        parsed: the stage's description.
    """

    def __init__(self, stage: Stage, tagged: tuple[tuple[str, Shape], ...] = ()) -> None:
        self._stage = stage
        self.parsed = parsed(stage)
        self._known: dict[tuple[tuple[str, Shape], ...], list[_Taken]] = {}
        self._tagged = dict(tagged)
        self._operators = {operator.label: operator for operator in stage.operators}

    def operator(self, transform: beam_runner_api_pb2.PTransform) -> Operator:
        """The operator that runs a step."""
        return self._operators[transform.unique_name]

    def _steps(self, kind: Kind) -> Iterator[beam_runner_api_pb2.PTransform]:
        """The steps that operators of a kind run."""
        for operator in self._stage.operators:
            if operator.kind is kind:
                yield self.parsed.transforms[operator.label]

    def read(self, spec: ReadSpec | None) -> Iterator[tuple[str, Shape]]:
        """The PCollection that is read from a source of Spark's, and what its elements are."""
        if spec is not None:
            source = self.parsed.source
            for output in source.outputs.values():
                yield output, _shape(schema_of(spec))

    def tables(self, plan: Plan) -> Iterator[tuple[str, str, Shape]]:
        """The PCollections that are the rows of Arrow tables.

        Yields:
            The label of the transform that reads them, the PCollection and what its elements are.
        """
        for transform in self._steps(Kind.TABLE_ROWS):
            shape = rows_read(plan, transform)
            if shape is not None:
                reading = transform.unique_name.rpartition("/")[0]
                yield from ((reading, output, shape) for output in transform.outputs.values())

    def batches(self) -> Iterator[tuple[str, Shape]]:
        """The PCollections of elements of batches, and what these are."""
        for transform in self._steps(Kind.BATCHES):
            made = self._batching(transform).made
            shape = None if made is None else elements_declared(made)
            if shape is not None:
                yield from ((output, shape) for output in transform.outputs.values())

    def _batching(self, transform: beam_runner_api_pb2.PTransform) -> Batching:
        """How the DoFn of a step of batches handles them."""
        fn = dofn_of(transform)
        batching = None if fn is None else plain_batching(fn)
        assert batching is not None
        return batching

    def steps(self, begins: Begun) -> Iterator[ColumnStep]:
        """The steps that get columns.

        Args:
            begins: the PCollections that are columns to begin with, and what their elements are.
        """
        for transform, _, result, _ in self._followed(begins):
            if transform.spec.urn != SINK_URN:
                reason = result.reason if isinstance(result, Refused) else None
                yield ColumnStep(transform.unique_name, reason)

    def is_compiled(self, begins: Begun) -> bool:
        """Whether all that gets columns takes them, and calls no code of the user's for that.

        Args:
            begins: as for :meth:`steps`.
        """
        return all(
            isinstance(result, Compiled | Record) or (result is None and self._fills(transform))
            for transform, _, result, _ in self._followed(begins)
        )

    def _fills(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        """Whether columns leave the stage by a step: it is a sink, or combines before one."""
        return transform.spec.urn == SINK_URN or self.operator(transform).kind in PRECOMBINES

    def columns(self, begins: Begun) -> Iterator[str]:
        """The PCollections that hold columns."""
        for pcollection, _ in begins:
            yield from self._handed_on(pcollection)
        for transform, _, result, _ in self._followed(begins):
            is_made = isinstance(result, Record)
            if is_made or (isinstance(result, Compiled) and not result.is_empty):
                for output in transform.outputs.values():
                    yield from self._handed_on(output)

    def _handed_on(self, pcollection: str) -> Iterator[str]:
        """A PCollection, and what steps make of it that hand on its elements as they are."""
        yield pcollection
        for transform in self.parsed.readers(pcollection):
            if self.passes_on(transform):
                for output in transform.outputs.values():
                    yield from self._handed_on(output)

    def passes_on(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        """Whether a step hands its elements on as they are, and looks at none."""
        if transform.spec.urn == SINK_URN:
            return False
        operator = self.operator(transform)
        return operator.kind in HAND_ON and operator.reason is None

    def combined(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """What the pairs are that the first half of a combine takes as columns, before a port."""
        for transform, shape, result, _ in self._followed(begins):
            is_combine = transform.spec.urn != SINK_URN and self._fills(transform)
            if is_combine and result is None and port.pcollection in transform.outputs.values():
                yield shape

    def outcomes(self, pair: Shape) -> Iterator[tuple[str, Shape]]:
        """The PCollection that a combine makes of accumulators, and what it comes to as columns.

        Args:
            pair: what the pairs are that went into it.
        """
        for output, combine_fn in self.extracted():
            form = form_of(combine_fn)
            outcome = None if form is None else outcome_of(form, pair)
            if outcome is not None:
                yield output, outcome

    def extracted(self) -> Iterator[tuple[str, beam.CombineFn]]:
        """The PCollections that combines make of accumulators, with these combines."""
        for transform in self._steps(Kind.EXTRACT):
            (output,) = transform.outputs.values()
            yield output, self.parsed.combine_fn(transform)

    def makes_columns(self, transform: beam_runner_api_pb2.PTransform) -> bool:
        """Whether a step may make columns of elements that are tables, or of batches."""
        kind = self.operator(transform).kind
        is_of_batches = kind is Kind.BATCHES and self._batching(transform).made is not None
        return is_of_batches or kind is Kind.TABLE_ROWS

    def why_never(self, transform: beam_runner_api_pb2.PTransform) -> str | None:
        """Why a step takes elements whatever the columns are that it gets; None if it may not."""
        operator = self.operator(transform)
        return self.why_no_form(transform) if operator.kind in PRECOMBINES else operator.reason

    def why_no_form(self, transform: beam_runner_api_pb2.PTransform) -> str | None:
        """Why a combine takes elements; None if it has a form over columns."""
        combine_fn = self.parsed.combine_fn(transform)
        is_known = form_of(combine_fn) is not None
        if self.operator(transform).kind in PRECOMBINES:
            is_known = is_known or choice_of(combine_fn) is not None
        return None if is_known else NO_FORM

    def why_encoded(self, port: Port, begins: Begun) -> str | None:
        """Why a port that gets columns writes elements; None if it does not."""
        shapes = list(self._into(port, begins))
        if port.layout is Layout.CHUNKS and not any(self.hands_on(port, one) for one in shapes):
            coder = self.parsed.coder(port.pcollection)
            return f"the coder {coder} may give back others" if shapes else None
        if port.layout is Layout.PACKED_GROUPS and shapes and not self.pairs(port, begins):
            return "keys or values are no columns behind a GroupByKey"
        return None

    def written(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """What the columns are to Python that a port gets and hands on.

        Args:
            port: of the stage.
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
        """What the pairs that a side of a join gets are behind it, or why they are elements."""
        coder = self.parsed.coder(port.pcollection)
        return (as_side(coder, shape, port.layout) for shape in self._into(port, begins))

    def _into(self, port: Port, begins: Begun) -> Iterator[Shape]:
        """What the columns are to Python that a port gets."""
        sink = self.parsed.transforms[port.transform_id]
        followed = self._followed(begins)
        yield from (shape for transform, shape, *_ in followed if transform is sink)

    def pairs(self, port: Port, begins: Begun) -> list[Record]:
        """What the pairs are that a port gets in columns, and that a GroupByKey takes as such.

        Args:
            port: of the stage.
            begins: as for :meth:`steps`.
        """
        coder = self.parsed.coder(port.pcollection)
        found = (as_pair(coder, shape) for shape in self._into(port, begins))
        return [pair for pair in found if pair is not None]

    def tags(self, port: Port, begins: Begun) -> Iterator[tuple[str, Shape]]:
        """Constant tags of the values of pairs that a port gets in columns, and what these are."""
        sink, coder = self.parsed.transforms[port.transform_id], self.parsed.coder(port.pcollection)
        for transform, shape, _, maker in self._followed(begins):
            if transform is not sink or maker is None:
                continue
            tag, pair = maker.constant(1, 0), as_pair(coder, shape)
            if type(tag) is str and pair is not None and isinstance(pair.fields[1], Record):
                yield tag, pair.fields[1].fields[1]

    def hands_on(self, port: Port, shape: Shape) -> bool:
        """Whether columns leave the stage by a port as they are.

        Args:
            port: of the stage.
            shape: what the columns are.
        """
        if port.layout is not Layout.CHUNKS or not tells_all(shape):
            return False
        return given_back(self.parsed.coder(port.pcollection), empty_column(shape), shape) == shape

    def port_of(self, sink: beam_runner_api_pb2.PTransform) -> Port:
        """The port that a sink of the stage is for."""
        transforms = self.parsed.transforms
        (port,) = [port for port in self._stage.ports if transforms[port.transform_id] is sink]
        return port

    def _followed(self, begins: Begun) -> list[_Taken]:
        """The transforms that get columns, what these are, what becomes of them there.

        And the function of which they are results; None where they are not.
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
                result = None if is_sink else self.taken(transform, shape)
                yield transform, shape, result, maker
                if isinstance(result, Compiled) and not result.is_empty:
                    waiting += [(output, result.outcome, result) for output in outputs]
                elif isinstance(result, Record):
                    waiting += [(output, result, None) for output in outputs]

    def taken(
        self, transform: beam_runner_api_pb2.PTransform, shape: Shape
    ) -> Compiled | Refused | Record | None:
        """What becomes of columns in a step; None where none come out of it, or nobody can tell."""
        operator, fn = self.operator(transform), dofn_of(transform)
        match operator.kind:
            case Kind.PRECOMBINE | Kind.SESSION_COMBINE:
                return self._combined(transform, shape)
            case Kind.SINK_ROWS:
                return None
            case Kind.PARQUET_TABLES:
                groups = row_groups_of(fn)
                return None if groups is None else _refused(arrays_of_dicts, shape, groups.schema)
            case Kind.BATCHES if operator.reason is None:
                return self._batched(transform, shape)
            case Kind.TIMESTAMPS:
                part = part_stamped_by(fn)
                return None if part is None else _stamped(shape, part)
            case Kind.FUNCTION | Kind.PROCESS:
                return self._of_function(transform, shape)
            case Kind.ARGUMENTS:
                return self._with_arguments(transform, shape)
            case _:
                return Refused(operator.reason or BEAMS_OWN)

    def _of_function(
        self, transform: beam_runner_api_pb2.PTransform, shape: Shape
    ) -> Compiled | Refused | Record | None:
        """What becomes of columns in a function of the element alone."""
        fn = function_of(transform)
        tags = None if fn is None else tags_of_cogroup(fn.process)
        if tags is not None:
            return by_tag(shape, tags, self._tagged)
        (output,) = transform.outputs.values()
        return _compiled(transform.spec.payload, shape, self._is_global(output))

    def _with_arguments(
        self, transform: beam_runner_api_pb2.PTransform, shape: Shape
    ) -> Compiled | Refused | None:
        """What becomes of columns in a function of arguments; nobody knows the side inputs yet."""
        (output,) = transform.outputs.values()
        found = _compiled_with_sides(transform.spec.payload, shape, self._is_global(output))
        compiled = [one for one in found if isinstance(one, Compiled)]
        if compiled and len({one.result for one in compiled}) > 1:
            return None
        return compiled[0] if compiled else found[0]

    def _batched(self, transform: beam_runner_api_pb2.PTransform, shape: Shape) -> Refused | None:
        """What becomes of columns in a DoFn that takes batches."""
        batching = self._batching(transform)
        assert batching.taken is not None
        if any(passes(made, batching.taken) for made in self._batches_into(transform)):
            return None
        if batching.takes_elements:
            return Refused("it takes single elements, too")
        return _refused(partial(batch_of, batching.taken), shape)

    def _batches_into(self, transform: beam_runner_api_pb2.PTransform) -> Iterator[Converter]:
        """What knows the batches that a step gets as they have been made."""
        for maker in self._steps(Kind.BATCHES):
            made = self._batching(maker).made
            if made is not None and not set(maker.outputs.values()).isdisjoint(
                transform.inputs.values()
            ):
                yield made

    def _combined(self, transform: beam_runner_api_pb2.PTransform, shape: Shape) -> Refused | None:
        (output,) = transform.outputs.values()
        windowing = self.parsed.windowing(output)
        combine_fn = self.parsed.combine_fn(transform)
        form = form_of(combine_fn)
        aggregator = self._aggregator(output)
        are_sessions = type(windowing.windowfn) is Sessions
        stamp = stamp_of(windowing)
        if self._is_stored(output) and tells_stamps(windowing):
            return Refused(other_stamps(stamp))
        if stamp is not None and not are_sessions and not _adds_up(form, windowing, shape):
            return Refused(other_stamps(stamp))
        if aggregator not in (None, SessionAggregator.COLUMNAR):
            assert aggregator is not None
            return Refused(by_elements(aggregator, form))
        choice = None if are_sessions else choice_of(combine_fn)
        if form is None and choice is None:
            return Refused(NO_FORM)
        if are_sessions and aggregator is None:
            if not self._merges_numbers(output):
                return Refused(ALONE)
            if whole_gap_of(windowing.windowfn) is None:
                return Refused(OTHER_SLICES)
        pair = pair_of(shape)
        if pair is None:
            return Refused(f"its input is no pair, but {shape}")
        key, values = pair
        if not is_key(key):
            return Refused(f"its keys are {key}, which are not told apart over columns")
        if choice is not None and choice.is_for(values):
            return None
        kind = None if form is None else form.kind_of(empty_column(values), values)
        if form is None or kind is None:
            known = form or choice
            assert known is not None
            return Refused(f"its values are not for {known.name} over columns")
        reason = in_another_order(form, kind) if are_sessions else None
        return None if reason is None else Refused(reason)

    def _aggregator(self, pcollection: str) -> SessionAggregator | None:
        """What combines sessions that become the accumulators of a PCollection."""
        told = (port.aggregator for port in self._ports(pcollection))
        return next((kind for kind in told if kind is not None), None)

    def _merges_numbers(self, pcollection: str) -> bool:
        """Whether all readers of a PCollection merge numbers of a vectorised form."""
        readers = list(self.parsed.readers(pcollection))
        ports = self._ports(pcollection)
        return len(ports) == len(readers) and all(port.takes_numbers for port in ports)

    def _is_stored(self, pcollection: str) -> bool:
        """Whether a PCollection is on the way to a grouping in streaming."""
        return any(port.layout is Layout.STORED for port in self._ports(pcollection))

    def _ports(self, pcollection: str) -> list[Port]:
        return [port for port in self._stage.ports if port.pcollection == pcollection]

    def _is_global(self, pcollection: str) -> bool:
        return type(self.parsed.windowing(pcollection).windowfn) is GlobalWindows


walk_of = memoized(Walk)
"""What follows columns through a stage; one for all that ask within a translation."""
