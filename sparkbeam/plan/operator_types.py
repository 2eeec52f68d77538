"""The output types of operators: columns behind each operator that gets columns."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeAlias

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms.window import GlobalWindows

from sparkbeam.columns import Compiled, NotExact, Record, Refused, Shape, UnknownShape
from sparkbeam.columns.arrays import arrays_of_dicts
from sparkbeam.columns.python_types import FLOAT, INT, NONE, STR, Table
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.batch_dofns import Converter, batch_of, passes, plain_batching
from sparkbeam.plan.combine_columns import why_elements
from sparkbeam.plan.group_columns import by_tag
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.model import Stage
from sparkbeam.plan.operators import BEAMS_OWN, Kind, Operator
from sparkbeam.plan.pardo_functions import (
    dofn_of,
    function_and_arguments_in,
    function_in,
    function_of,
    over_columns,
)
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.timestamping import with_times
from sparkbeam.upstream.beam import StampedPart, part_stamped_by, tags_of_cogroup
from sparkbeam.upstream.beam_batches import Batching
from sparkbeam.upstream.parquet import row_groups_of

Result: TypeAlias = Compiled | Refused | Record | None
"""Columns behind a step, or the reason why it takes elements; None if only the data can tell."""

_SIDE_INPUTS: tuple[Shape, ...] = (
    *(INT, FLOAT, STR),
    *(Table(dict, key, value) for key in (INT, STR) for value in (INT, STR)),
    *(Table(list, key, NONE) for key in (INT, STR)),
)
"""Types that side inputs may have."""


def _stamped(shape: Shape, part: StampedPart) -> Refused | Record:
    """Return the type of elements with their timestamps."""
    try:
        return with_times(empty_column(shape), shape, part)[1]
    except (NotExact, UnknownShape) as error:
        return Refused(str(error))


def _refused(make: Callable[..., Any], shape: Shape, *more: Any) -> Refused | None:
    """Return the reason why a conversion does not take columns of a shape; None if it does."""
    try:
        make(empty_column(shape), shape, *more)
    except (NotExact, UnknownShape) as error:
        return Refused(str(error))
    return None


@memoized
def _compiled(payload: bytes, shape: Shape, may_stamp: bool) -> Compiled | Refused:
    """Compile the function of a ParDo, given by its payload."""
    fn = function_in(payload)
    assert fn is not None
    return over_columns(fn.process, shape, may_stamp=may_stamp)


@memoized
def _compiled_with_sides(payload: bytes, shape: Shape, may_stamp: bool) -> list[Compiled | Refused]:
    """Compile a function of further arguments for each type that its side inputs may have."""
    asked = function_and_arguments_in(payload)
    assert asked is not None
    fn, arguments = asked
    return [
        over_columns(fn.process, shape, *sides, arguments=arguments, may_stamp=may_stamp)
        for sides in dict.fromkeys((kind,) * arguments.sides for kind in _SIDE_INPUTS)
    ]


class OutputTypes:
    """The output types of the operators of a stage.

    Args:
        stage: the stage.
        tagged: the tags of a CoGroupByKey that it reads, with the type of the values of each.
    """

    def __init__(self, stage: Stage, tagged: tuple[tuple[str, Shape], ...]) -> None:
        self._stage = stage
        self._parsed = parsed(stage)
        self._tagged = dict(tagged)
        self._operators = {operator.label: operator for operator in stage.operators}

    def operator(self, transform: beam_runner_api_pb2.PTransform) -> Operator:
        """Return the operator that runs a step."""
        return self._operators[transform.unique_name]

    def steps(self, kind: Kind) -> Iterator[beam_runner_api_pb2.PTransform]:
        """Yield the steps that operators of a kind run."""
        for operator in self._stage.operators:
            if operator.kind is kind:
                yield self._parsed.transforms[operator.label]

    def batching(self, transform: beam_runner_api_pb2.PTransform) -> Batching:
        """Return how the DoFn of a step of batches handles them."""
        fn = dofn_of(transform)
        batching = None if fn is None else plain_batching(fn)
        assert batching is not None
        return batching

    def of(self, transform: beam_runner_api_pb2.PTransform, shape: Shape) -> Result:
        """Return the output type of a step that gets columns of a shape."""
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

    def _of_function(self, transform: beam_runner_api_pb2.PTransform, shape: Shape) -> Result:
        """Return the output type of a function of the element alone."""
        fn = function_of(transform)
        tags = None if fn is None else tags_of_cogroup(fn.process)
        if tags is not None:
            return by_tag(shape, tags, self._tagged)
        (output,) = transform.outputs.values()
        return _compiled(transform.spec.payload, shape, self._is_global(output))

    def _with_arguments(
        self, transform: beam_runner_api_pb2.PTransform, shape: Shape
    ) -> Compiled | Refused | None:
        """Return the output type of a function of arguments, if it is one for all side inputs."""
        (output,) = transform.outputs.values()
        found = _compiled_with_sides(transform.spec.payload, shape, self._is_global(output))
        compiled = [one for one in found if isinstance(one, Compiled)]
        if compiled and len({one.result for one in compiled}) > 1:
            return None
        return compiled[0] if compiled else found[0]

    def _batched(self, transform: beam_runner_api_pb2.PTransform, shape: Shape) -> Refused | None:
        """Return the reason why a DoFn of batches takes no columns; None if it does."""
        batching = self.batching(transform)
        assert batching.taken is not None
        if any(passes(made, batching.taken) for made in self._batches_into(transform)):
            return None
        if batching.takes_elements:
            return Refused("it takes single elements, too")
        return _refused(partial(batch_of, batching.taken), shape)

    def _batches_into(self, transform: beam_runner_api_pb2.PTransform) -> Iterator[Converter]:
        """Yield the converters of batches that a step gets unchanged."""
        for maker in self.steps(Kind.BATCHES):
            made = self.batching(maker).made
            if made is not None and not set(maker.outputs.values()).isdisjoint(
                transform.inputs.values()
            ):
                yield made

    def _combined(self, transform: beam_runner_api_pb2.PTransform, shape: Shape) -> Refused | None:
        """Return the reason why a combine before the shuffle takes no columns; None if it does."""
        (output,) = transform.outputs.values()
        readers = list(self._parsed.readers(output))
        ports = [port for port in self._stage.ports if port.pcollection == output]
        reason = why_elements(
            self._parsed.combine_fn(transform),
            self._parsed.windowing(output),
            ports,
            shape,
            are_all=len(ports) == len(readers),
        )
        return None if reason is None else Refused(reason)

    def _is_global(self, pcollection: str) -> bool:
        return type(self._parsed.windowing(pcollection).windowfn) is GlobalWindows
