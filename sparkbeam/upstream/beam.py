"""Assumptions about Beam's internals.

All of Beam's private names that the runner needs are used here only, each behind a name of this
module. A Beam release may change any of them; then the test of that name fails. There are no
fallbacks: a Beam that lacks one of them cannot be imported with this version.
"""

import contextlib
import functools
import inspect
import operator
import random
import threading
from collections.abc import Callable, Iterator
from types import CodeType, SimpleNamespace
from typing import Any, Literal, NamedTuple

from apache_beam import pvalue
from apache_beam.coders import coder_impl, coders
from apache_beam.internal import pickler
from apache_beam.metrics.execution import MetricUpdater
from apache_beam.metrics.metricbase import MetricName
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.pvalue import PCollection
from apache_beam.runners.worker import bundle_processor, opcounters, operations, statesampler
from apache_beam.transforms import combiners, core, sideinputs, trigger, userstate, util
from apache_beam.transforms.ptransform import PTransform
from apache_beam.transforms.window import BoundedWindow, WindowFn
from apache_beam.typehints import row_type
from apache_beam.typehints.schemas import MicrosInstant
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.upstream import exact_decimals, option_views
from sparkbeam.upstream.dofn_handover import HandingPickler, InProcessPickle
from sparkbeam.upstream.signatures import remembering, remembering_stateless

exact_decimals.install()

# User code: functions wrapped by Beam.


def function_of_map(process: Any) -> Callable[..., Any] | None:
    """Return the function wrapped by ``beam.Map``; None for other DoFns.

    Map passes further arguments on unchanged.
    """
    return _wrapped(process, *_CODES_OF_MAP)


def _wrapped(process: Any, *codes: CodeType) -> Callable[..., Any] | None:
    """Return the function that a function with one of these codes calls; None for others."""
    # In a worker it comes out of a pickle, with code of its own that is equal.
    if getattr(process, "__code__", None) not in codes:
        return None
    function: Callable[..., Any] = _captured(process, "fn")
    return function


def _code_within(function: Any, **attributes: Any) -> CodeType:
    """Return the code of the function that another one defines, by its attributes."""
    (found,) = (
        code
        for code in function.__code__.co_consts
        if all(getattr(code, name, None) == value for name, value in attributes.items())
    )
    return found


_FUNCTIONS: tuple[Callable[..., Any], ...] = (lambda one: one, lambda one, more: one)
_CODES_OF_MAP = [core.Map(function).dofn.process.__code__ for function in _FUNCTIONS]


def is_filled_in(default: Any) -> bool:
    """Return whether Beam provides the value of a ``process`` parameter with this default."""
    kind = default if isinstance(default, type) else type(default)
    return issubclass(kind, core._DoFnParam)


def collecting_of_cogroup(process: Any) -> Callable[[Any], Any] | None:
    """Return the function that builds a group of ``CoGroupByKey`` from a key and tagged values.

    It creates a new dict and new lists for each group. None for other functions.
    """
    function = _collecting(process)
    return None if function is None else lambda pair: function(*pair)


def tags_of_cogroup(process: Any) -> tuple[str, ...] | None:
    """Return the tags of the function that builds a group of ``CoGroupByKey``; None for others."""
    function: Any = _collecting(process)
    return None if function is None else tuple(_captured(function, "tags"))


def tuples_of_cogroup(process: Any) -> tuple[str, ...] | None:
    """Return the keys of the tuple that ends a ``CoGroupByKey`` of a tuple.

    The function replaces the dict in a pair of key and dict by the tuple of its values. None for
    others.
    """
    function = _wrapped(process, _CODE_OF_MAP_TUPLE)
    if getattr(function, "__code__", None) != _CODE_OF_RESTORING:
        return None
    restore = _captured(function, "restore_tags")
    return tuple(_captured(restore, "tags")) if restore.__code__ == _CODE_OF_TUPLES else None


def _collecting(process: Any) -> Callable[..., Any] | None:
    function = _wrapped(process, _CODE_OF_MAP_TUPLE)
    return function if getattr(function, "__code__", None) == _CODE_OF_COLLECTING else None


def _captured(function: Any, name: str) -> Any:
    """Return a closure variable of a function."""
    return function.__closure__[function.__code__.co_freevars.index(name)].cell_contents


_CODE_OF_MAP_TUPLE = core.MapTuple(lambda key, value: key).dofn.process.__code__
_CODE_OF_COLLECTING = _code_within(util._CoGBKImpl.expand, co_name="collect_values")
_CODE_OF_RESTORING = _code_within(
    util.CoGroupByKey.expand, co_name="<lambda>", co_freevars=("restore_tags",)
)
(_CODE_OF_TUPLES,) = (
    code
    for code in util.CoGroupByKey.expand.__code__.co_consts
    if any(getattr(part, "co_name", "") == "<genexpr>" for part in getattr(code, "co_consts", ()))
)


def function_of_filter(process: Any) -> Callable[..., Any] | None:
    """Return the function wrapped by ``beam.Filter``; None for other DoFns."""
    return _wrapped(process, _CODE_OF_FILTER)


_CODE_OF_FILTER = core.Filter(lambda element: True).dofn.process.__code__


class Updated(NamedTuple):
    """The metric updated by ``inc`` of a counter or ``update`` of a distribution.

    Attributes:
        default: the amount of an update without an argument.
    """

    cell: Any
    name: MetricName
    default: Any


def updated_metric(updater: MetricUpdater) -> Updated:
    """Return the metric of an updater."""
    return Updated(*updater.__reduce__()[1])


def decodes_for_create(process: Any) -> bool:
    """Return whether ``process`` belongs to the step of ``beam.Create`` behind its Reshuffle."""
    function = function_of_map(process)
    return isinstance(getattr(function, "__self__", None), coders.Coder) and (
        getattr(function, "__name__", None) == coders.Coder.decode.__name__
    )


def is_of_create(fn: Any) -> bool:
    """Return whether a DoFn emits the values of ``beam.Create``."""
    function = getattr(fn, "_fn", None)
    home = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    return home == _HOME_OF_CREATE


def values_of_create(fn: Any) -> int:
    """Return the number of values that a DoFn of ``beam.Create`` emits."""
    return len(_captured(fn._fn, "serialized_values"))


_HOME_OF_CREATE = (core.Create.__module__, f"{core.Create.expand.__qualname__}.<locals>.<lambda>")


def function_of_combine(combine_fn: Any) -> Callable[..., Any] | None:
    """Return the function given to a combine in place of a CombineFn; None for a CombineFn."""
    if type(combine_fn) not in _COMBINES_OF_FUNCTIONS:
        return None
    function: Callable[..., Any] = combine_fn._fn
    return function


_COMBINES_OF_FUNCTIONS = frozenset(
    type(core.CombineFn.maybe_from_callable(sum, has_side_inputs))
    for has_side_inputs in (True, False)
)


class CombineTuple(NamedTuple):
    """The parts of a CombineFn over tuples.

    Attributes:
        combine_fns: one per part of a result.
        is_of_one: whether each receives the value itself, and not a part of it.
    """

    combine_fns: list[core.CombineFn]
    is_of_one: bool


def parts_of_tuple(combine_fn: Any) -> CombineTuple | None:
    """Return the parts of one of Beam's CombineFns over tuples; None for others."""
    if type(combine_fn) not in (combiners.TupleCombineFn, combiners.SingleInputTupleCombineFn):
        return None
    is_of_one = type(combine_fn) is combiners.SingleInputTupleCombineFn
    return CombineTuple(combine_fn._combiners, is_of_one)


def top_of_one(combine_fn: Any) -> Literal["largest", "smallest"] | None:
    """Return the extreme picked by a CombineFn for the top one of plain values; None for others."""
    if type(combine_fn) not in _TOPS or combine_fn._n != 1 or combine_fn._key is not None:
        return None
    return "largest" if combine_fn._compare is operator.lt else "smallest"


_TOPS = frozenset([combiners.TopCombineFn, combiners.Largest, combiners.Smallest])


@contextlib.contextmanager
def applied_for_now(
    pcollection: PCollection[Any], transform: PTransform[Any, Any]
) -> Iterator[None]:
    """Apply a transform within the context, as the last of its pipeline, then remove it."""
    pipeline = pcollection.pipeline
    applied, labels = pipeline.transforms_stack[-1].parts, set(pipeline.applied_labels)
    known, label = len(applied), transform.label
    while label in labels:
        label += "_"
    try:
        pipeline.apply(transform, pcollection, label)
        yield
    finally:
        del applied[known:]
        pipeline.applied_labels = labels


KeyWithNone: type[core.DoFn] = core._KeyWithNone
"""First DoFn of global combines, which makes pairs with None as key."""


class Aggregation(NamedTuple):
    """The functions of a ``GroupBy(...).aggregate_field(...)``.

    Attributes:
        values: return the values to combine, collected in a list.
    """

    key_type: type
    keys: tuple[Callable[[Any], Any], ...]
    values: tuple[Callable[[Any], Any], ...]


def aggregation_of(function: Any) -> Aggregation | None:
    """Return the parts of the first function of an aggregating GroupBy; None for others."""
    if getattr(function, "__code__", None) != _CODE_OF_AGGREGATION:
        return None
    both = inspect.getclosurevars(function).nonlocals
    key = inspect.getclosurevars(both["key_func"]).nonlocals
    names = inspect.getclosurevars(key["key_type"]).nonlocals["field_names"]
    values = inspect.getclosurevars(both["value_func"]).nonlocals["value_exprs"]
    key_type = named_tuple_class("Key", names)
    return Aggregation(key_type, tuple(key["key_exprs"]), tuple(values))


_CODE_OF_AGGREGATION = _code_within(
    core._GroupAndAggregate.expand, co_freevars=("key_func", "value_func")
)


named_tuple_class: Callable[[str, tuple[str, ...]], type] = core._dynamic_named_tuple
"""The function that makes the classes of ``GroupBy``'s keys and results; equal ones only once."""


def fields_of_select(function: Any) -> dict[str, Callable[[Any], Any]] | None:
    """Return the functions for the fields of ``beam.Select``'s Rows, by name.

    None for any other function.
    """
    if getattr(function, "__code__", None) != _CODE_OF_SELECT:
        return None
    return dict(_captured(function, "self")._fields)


_CODE_OF_SELECT = _code_within(core.Select.expand, co_freevars=("self",))


def handles_batches(fn: core.DoFn) -> bool:
    """Return whether a DoFn consumes or produces batches of elements."""
    return bool(fn._process_batch_defined or fn._process_yields_batches)


def is_generated(kind: type) -> bool:
    """Return whether a class of rows was generated by Beam from a schema."""
    return bool(row_type._user_type_is_generated(kind))


# Pipelines.

TRANSFORMS = frozenset(bundle_processor.BeamTransformFactory._known_urns)
"""URNs of the transforms that Beam's workers run."""

WINDOW_FNS = WindowFn._known_urns
"""URNs of the WindowFns that Beam does not pickle."""

global_window_mapping = sideinputs._global_window_mapping_fn
"""Window mapping to a side input in the global window."""


def injects_default(process: Any) -> bool:
    """Return whether ``process`` emits the result of a ``CombineGlobally``, or else its default."""
    code = getattr(function_of_map(process), "__code__", None)
    return code is not None and code == _CODE_OF_INJECTING


_CODE_OF_INJECTING = next(
    (
        code
        for code in core.CombineGlobally.expand.__code__.co_consts
        if getattr(code, "co_name", "") == "inject_default"
    ),
    None,
)


def shows_one_element(view_fn: bytes) -> bool:
    """Return whether a pickled ``view_fn`` is that of ``AsSingleton``."""
    captured = getattr(pickler.loads(view_fn), "__closure__", None) or ()
    return any(cell.cell_contents is _ONE_ELEMENT for cell in captured)


_ONE_ELEMENT = pvalue.AsSingleton._from_runtime_iterable


def runner_below(runner: Any) -> Any:
    """Return the runner underlying an interactive runner; other runners unchanged."""
    return getattr(runner, "_underlying_runner", runner)


def before_par_dos(check: Callable[[core.ParDo, Any], None]) -> None:
    """Call a check whenever a ParDo is applied in this process from now on.

    Args:
        check: receives the ParDo and the PCollection; may raise.
    """
    expand = core.ParDo.expand

    @functools.wraps(expand)
    def checked(self: core.ParDo, pcoll: Any) -> Any:
        check(self, pcoll)
        return expand(self, pcoll)

    core.ParDo.expand = checked  # type: ignore[method-assign]


PipelineOptions.view_as = option_views.remembering(PipelineOptions.view_as)  # type: ignore[method-assign,assignment]
"""See :mod:`sparkbeam.upstream.option_views`; acts on options of pipelines of ours alone."""

# Bundles.

_making = threading.RLock()

_made = [0]
"""Number of bundle processors that are being made."""


def _is_inspecting() -> bool:
    """Return whether a pipeline of ours is being built, or a bundle of one is made."""
    return _made[0] > 0 or option_views.is_building()


core.get_function_args_defaults = remembering(core.get_function_args_defaults, _is_inspecting)  # type: ignore[assignment]
userstate.get_dofn_specs = remembering_stateless(userstate.get_dofn_specs, _is_inspecting)  # type: ignore[assignment]
"""See :mod:`sparkbeam.upstream.signatures`."""


class _AtOnce(contextlib.nullcontext[Any]):
    """Replacement of a thread pool whose creator waits for its only task."""

    def __init__(self, **_: Any) -> None:
        super().__init__(self)

    def submit(self, work: Callable[..., Any], *arguments: Any) -> "_AtOnce":
        self._work = functools.partial(work, *arguments)
        return self

    def result(self, timeout: float) -> Any:
        return self._work()


_WITHOUT_THREADS = SimpleNamespace(
    futures=SimpleNamespace(ThreadPoolExecutor=_AtOnce, TimeoutError=())
)
"""Beam's thread for creating operations, which ends the process after an hour."""


@contextlib.contextmanager
def parts_of_bundles(
    factory: type[bundle_processor.BeamTransformFactory],
    side_input_map: type[bundle_processor.StateBackedSideInputMap],
    sampler: Callable[..., statesampler.StateSampler],
) -> Iterator[None]:
    """Replace parts of Beam's for bundle processors created in the context.

    One thread at a time may do so; a DoFn's ``setup`` may create another bundle processor.
    """
    counters: Any = opcounters
    counters.random = _samples
    handing = HandingPickler()
    parts: tuple[tuple[Any, str, Any], ...] = (
        (bundle_processor, "BeamTransformFactory", factory),
        (bundle_processor, "StateBackedSideInputMap", side_input_map),
        (statesampler, "StateSampler", sampler),
        (bundle_processor, "pickler", handing),
        (operations, "pickler", handing),
        (bundle_processor, "concurrent", _WITHOUT_THREADS),
    )
    with _making:
        theirs = [getattr(module, name) for module, name, _ in parts]
        _made[0] += 1
        try:
            for module, name, part in parts:
                setattr(module, name, part)
            yield
        finally:
            _made[0] -= 1
            for (module, name, _), part in zip(parts, theirs, strict=True):
                setattr(module, name, part)


def par_do_operation(
    kind: Callable[..., operations.DoOperation],
    factory: bundle_processor.BeamTransformFactory,
    transform_id: str,
    consumers: dict[str, list[operations.Operation]],
    data: InProcessPickle,
    payload: beam_runner_api_pb2.ParDoPayload | None,
) -> operations.DoOperation:
    """Have Beam create the operation of a ParDo.

    Args:
        kind: the constructor of the operation.
        consumers: the operations that consume the outputs, by output name.
        payload: the payload of the transform; None if it is not a ParDo.
    """
    transform = factory.descriptor.transforms[transform_id]
    return bundle_processor._create_pardo_operation(
        factory, transform_id, transform, consumers, data, payload, kind
    )


def input_channel(factory: bundle_processor.BeamTransformFactory) -> dict[str, Any]:
    """Return the constructor argument that tells a bundle's input its data channel, by name.

    Before Beam 2.77 it is the channel itself, since then a factory of it.
    """
    made = factory.data_channel_factory.create_data_channel
    if "data_channel" in _OF_INPUT:
        return {"data_channel": made(_NO_PORT)}
    return {"data_channel_factory": lambda _: made(_NO_PORT)}


_OF_INPUT = inspect.signature(bundle_processor.DataInputOperation).parameters
_NO_PORT = beam_fn_api_pb2.RemoteGrpcPort()


def is_of_timestamps(coder: coders.Coder) -> bool:
    """Return whether a coder is that of the Timestamps in rows, in microseconds."""
    return isinstance(getattr(coder, "logical_type", None), MicrosInstant)


def part_of_nullable(coder: coders.Coder) -> coders.Coder | None:
    """Return the coder of the non-None values of a nullable coder; None for other coders."""
    return coder._value_coder if type(coder) is coders.NullableCoder else None


def counter_of(receiver: Any) -> opcounters.OperationCounters:
    """Return the counters of the elements that pass a receiver of an operation."""
    return receiver.opcounter


MODULE_OF_COUNTERS = "opcounters.py"
"""File of the code that measures elements by encoding samples of them."""

_samples = random.Random()
"""Draws of Beam in workers, apart from the user's: their number depends on earlier work."""


def clear(stream: coder_impl.create_OutputStream) -> None:
    """Empty a stream that was written to."""
    stream._clear()


_taking = threading.Lock()


def finalizer_callbacks(finalize: Callable[[], Any]) -> list[Callable[[], Any]]:
    """Return the callbacks of bundle finalizers that ``finalize`` would call."""
    callbacks: list[Callable[[], Any]] = []
    thread = threading.get_ident()
    # What holds them is out of reach, as Beam's operations are compiled.
    kind: Any = core._BundleFinalizerParam

    def take(self: Any) -> None:
        if threading.get_ident() == thread:
            callbacks.extend(self._callbacks)
        else:
            theirs(self)

    with _taking:
        theirs = kind.finalize_bundle
        kind.finalize_bundle = take
        try:
            finalize()
        finally:
            kind.finalize_bundle = theirs
    return callbacks


# Of triggers.

ListTag = trigger._ListStateTag
CombiningTag = trigger._CombiningValueStateTag
HoldTag = trigger._WatermarkHoldStateTag
"""State tags of a trigger driver: elements, a combining value, a watermark hold."""


def last_pane(
    driver: trigger.GeneralTriggerDriver,
    state: trigger.UnmergedState,
    window: BoundedWindow,
    watermark: Timestamp,
) -> WindowedValue:
    """Emit the remaining contents of a window as its last pane, which drivers do not emit.

    Args:
        state: the state of all windows.
    """
    merged = trigger.MergeableStateAdapter(state)
    pane: WindowedValue = driver._output(window, True, merged, watermark, True)
    return pane
