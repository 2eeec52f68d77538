"""Classification of the functions of ParDos."""

import inspect
from collections.abc import Callable, Mapping
from enum import Enum
from itertools import count
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import apache_beam as beam
from apache_beam.internal import pickler, util
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.transforms import core

from sparkbeam.columns import (
    Argument,
    Compiled,
    DataDependent,
    Keyed,
    Refused,
    ResultKind,
    TimeArgument,
    WindowArgument,
    compile_function,
)
from sparkbeam.columns.python_types import INT, Shape, tells_all
from sparkbeam.plan.memo import memoized
from sparkbeam.plan.model import CREATE_URN
from sparkbeam.plan.urns import PAR_DO, own_payload
from sparkbeam.upstream.beam import (
    KeyWithNone,
    aggregation_of,
    decodes_for_create,
    fields_of_select,
    function_of_filter,
    function_of_map,
    handles_batches,
    is_filled_in,
    is_of_create,
    tuples_of_cogroup,
)
from sparkbeam.upstream.beam_batches import Batching, batching_of

_Function: TypeAlias = Callable[..., Any] | Mapping[str, Callable[..., Any]] | Keyed


class Windowing(Enum):
    """An argument that depends on the windowing of the element."""

    WINDOW = "the window"
    TIME = "the timestamp"


class Arguments(NamedTuple):
    """Arguments of a function besides the element.

    Placeholders stand for side inputs, and a :class:`Windowing` for what depends on that.
    """

    by_position: list[Any]
    by_name: dict[str, Any]

    def filled(
        self, sides: list[Any], windowing: Mapping[Windowing, Any] | None = None
    ) -> "Arguments":
        """Return the same with these in the place of the side inputs, and of the windowing."""
        args, kwargs = util.insert_values_in_args(*self, sides)
        if windowing:
            kwargs = {
                name: windowing[one] if isinstance(one, Windowing) else one
                for name, one in kwargs.items()
            }
        return Arguments(args, kwargs)

    def asks_for(self, windowing: Windowing) -> bool:
        """Return whether an argument is the window, or the timestamp."""
        return windowing in self.by_name.values()

    @property
    def sides(self) -> int:
        """Number of side inputs."""
        given = (*self.by_position, *self.by_name.values())
        return sum(isinstance(one, util.ArgumentPlaceholder) for one in given)


ALONE = Arguments([], {})
"""Arguments of a function of the element alone."""


def has_process_alone(fn: beam.DoFn) -> bool:
    """Return whether a DoFn consists of a ``process`` that asks plainly for what it takes."""
    return not any(is_overridden(fn, name) for name in LIFE) and asks_plainly(fn)


def asks_plainly(fn: beam.DoFn) -> bool:
    """Return whether ``process`` takes the element and nothing beyond its signature."""
    if hasattr(fn, "_inspect_process") or handles_batches(fn):
        return False
    try:
        parameters = list(inspect.signature(fn.process).parameters.values())
    except ValueError:
        return False
    if not parameters or any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        return False
    first = parameters[0]
    return first.default is first.empty or core.DoFn.ElementParam == first.default


def is_overridden(fn: beam.DoFn, name: str) -> bool:
    """Return whether a DoFn overrides a method."""
    return getattr(type(fn), name) is not getattr(beam.DoFn, name)


LIFE = ("setup", "start_bundle", "finish_bundle", "teardown")
"""The methods that are called around elements and bundles."""


def one_to_one(process: Callable[[Any], Any]) -> Callable[[Any], Any] | None:
    """Return the function that gives the result, of a ``process`` that always has exactly one."""
    if isinstance(getattr(process, "__self__", None), KeyWithNone):
        return _with_none
    return function_of_map(process)


def _with_none(element: Any) -> tuple[None, Any]:
    """Return the one result of Beam's ``_KeyWithNone``."""
    return None, element


def over_columns(
    process: Callable[..., Any],
    shape: Shape,
    *sides: Shape,
    arguments: Arguments = ALONE,
    may_stamp: bool,
) -> Compiled | Refused | DataDependent:
    """Return a function of the element over columns, or the reason why it has to be called.

    One that parses JSON is to be :func:`suited` once it is compiled for its type.

    Args:
        process: the ``process`` of the DoFn.
        sides: the shapes of the side inputs. Behind their columns are those of the microseconds of
            the window's start and end, and of the timestamp, as far as it asks for them.
    """
    numbers = count(1 + len(sides))
    windowing: dict[Windowing, Any] = {}
    if arguments.asks_for(Windowing.WINDOW):
        bounds = TimeArgument(next(numbers)), TimeArgument(next(numbers))
        windowing[Windowing.WINDOW] = WindowArgument(*bounds)
    if arguments.asks_for(Windowing.TIME):
        windowing[Windowing.TIME] = TimeArgument(next(numbers))
    args, kwargs = arguments.filled([Argument(1 + at) for at in range(len(sides))], windowing)
    function, form = _as_written(process)
    times = [INT] * (next(numbers) - 1 - len(sides))
    compiled = compile_function(
        function, shape, *sides, *times, form=form, args=args, kwargs=kwargs
    )
    return (
        compiled if isinstance(compiled, DataDependent) else suited(compiled, may_stamp=may_stamp)
    )


def suited(compiled: Compiled | Refused, *, may_stamp: bool) -> Compiled | Refused:
    """Return a function over columns, or the reason why its results have to be elements."""
    if isinstance(compiled, Refused):
        return compiled
    if compiled.is_timestamped and not may_stamp:
        return Refused("it sets the timestamps of windowed elements")
    if not compiled.is_filter and not tells_all(compiled.result):
        return Refused("its results hold structs in lists or maps")
    return compiled


def _as_written(process: Callable[..., Any]) -> tuple[_Function, ResultKind]:
    """Return the function of which Beam has made a DoFn's ``process``, and its kind of result."""
    of_filter = function_of_filter(process)
    if of_filter is not None:
        return of_filter, ResultKind.FILTER
    of_one = _of_tuples(process) or one_to_one(process)
    return (process, ResultKind.FLAT) if of_one is None else (_in_parts(of_one), ResultKind.MAP)


def _in_parts(function: Callable[..., Any]) -> _Function:
    """Return the functions of which Beam has made one that makes Rows or keys and values.

    Else itself.
    """
    aggregation = aggregation_of(function)
    if aggregation is not None:
        return Keyed(*aggregation)
    return fields_of_select(function) or function


def _of_tuples(process: Callable[..., Any]) -> Callable[[Any], Any] | None:
    """Return an equivalent of the function that makes tuples of a ``CoGroupByKey``'s groups.

    Else None.
    """
    tags = tuples_of_cogroup(process)
    if tags is None or len(tags) < 2:
        return None
    values = itemgetter(*tags)
    return lambda pair: (pair[0], values(pair[1]))


def own_par_do(encoded: bytes) -> beam_runner_api_pb2.ParDoPayload:
    """Parse the payload of a ParDo for a caller who owns the result."""
    payload: beam_runner_api_pb2.ParDoPayload = own_payload(PAR_DO, encoded)
    return payload


par_do_payload = memoized(own_par_do)
"""Return the payload of a ParDo, which must not be changed."""


@memoized
def loaded(pickled: bytes) -> tuple[Any, ...]:
    """Return a DoFn, its arguments by position and by name, and further parts.

    They must not be changed.

    Args:
        pickled: as in the payload of a ParDo.
    """
    found: tuple[Any, ...] = pickler.loads(pickled)
    return found


def dofn_of(transform: beam_runner_api_pb2.PTransform) -> beam.DoFn | None:
    """Return the DoFn of a ParDo that gives it only the element; None for any other transform.

    It must not be changed. The step that holds the values of a Create, or the parts of files, is
    such a ParDo.
    """
    if transform.spec.urn not in (PAR_DO, CREATE_URN):
        return None
    return dofn_in(transform.spec.payload)


def dofn_in(encoded: bytes) -> beam.DoFn | None:
    """Return the DoFn of a ParDo that gives it only the element, by the ParDo's payload."""
    payload = par_do_payload(encoded)
    if payload.do_fn.urn != python_urns.PICKLED_DOFN_INFO:
        return None
    fn, args, kwargs = loaded(payload.do_fn.payload)[:3]
    return None if args or kwargs else fn


def set_dofn(transform: beam_runner_api_pb2.PTransform, fn: beam.DoFn) -> None:
    """Set the DoFn of a ParDo that has one for :func:`dofn_of`."""
    payload = own_par_do(transform.spec.payload)
    _, *others = loaded(payload.do_fn.payload)
    payload.do_fn.payload = pickler.dumps((fn, *others))
    transform.spec.payload = payload.SerializeToString()


def is_create(transform: beam_runner_api_pb2.PTransform) -> bool:
    """Return whether a transform is the step of ``beam.Create`` that holds the values."""
    return is_of_create(function_of(transform))


def is_decoding_for_create(transform: beam_runner_api_pb2.PTransform) -> bool:
    """Return whether a transform is the step of ``beam.Create`` that decodes the values."""
    return decodes_for_create(getattr(dofn_of(transform), "process", None))


def function_of(transform: beam_runner_api_pb2.PTransform) -> beam.DoFn | None:
    """Return the DoFn of a ParDo that is a function of the element alone.

    None for any other transform.
    """
    return function_in(transform.spec.payload) if is_plain(transform) else None


@memoized
def function_in(encoded: bytes) -> beam.DoFn | None:
    """Return the DoFn that is a function of the element alone, by the payload of its ParDo.

    The ParDo has one output and neither state nor restrictions.
    """
    payload = par_do_payload(encoded)
    if payload.side_inputs:
        return None
    if payload.do_fn.urn == python_urns.KEY_WITH_NONE_DOFN:
        return KeyWithNone()
    fn = dofn_in(encoded)
    if fn is None:
        return None
    if isinstance(fn, core.CallableWrapperDoFn):
        defaults = core.get_function_arguments(fn, "process")[1]
        return None if any(map(is_filled_in, defaults)) else fn
    is_alone = has_process_alone(fn) and len(inspect.signature(fn.process).parameters) == 1
    return fn if is_alone else None


def is_plain(transform: beam_runner_api_pb2.PTransform) -> bool:
    """Return whether a transform is a ParDo with one output that needs no more than side inputs."""
    if transform.spec.urn != PAR_DO or len(transform.outputs) != 1:
        return False
    payload = par_do_payload(transform.spec.payload)
    if payload.state_specs or payload.timer_family_specs:
        return False
    return not (payload.restriction_coder_id or payload.requests_finalization)


def plain_batching(fn: beam.DoFn) -> Batching | None:
    """Return the batching of a DoFn; None for an element-wise DoFn or one that needs more."""
    batching = None if hasattr(fn, "_inspect_process") else batching_of(fn)
    if batching is None:
        return None
    called: list[Callable[..., Any]] = [fn.process] if batching.takes_elements else []
    called += [] if batching.taken is None else [fn.process_batch]
    return batching if all(map(_asks_for_one, called)) else None


@memoized
def batching_in(payload: bytes) -> Batching | None:
    """Return the batching of the DoFn of a ParDo that gives it only the element, by its payload."""
    fn = dofn_in(payload)
    return None if fn is None else plain_batching(fn)


def _asks_for_one(process: Callable[..., Any]) -> bool:
    """Return whether a method takes the element or batch alone."""
    first, *others = inspect.signature(process).parameters.values()
    return first.kind is first.POSITIONAL_OR_KEYWORD and all(
        other.kind in (other.VAR_POSITIONAL, other.VAR_KEYWORD) for other in others
    )
