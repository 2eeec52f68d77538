"""The rules by which the operators of a stage are chosen, once, when the plan is made.

The rules are tried in order, and the first that matches is taken. Beam's own operation suits all.
"""

import inspect
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import apache_beam as beam
from apache_beam.portability import common_urns, python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.worker.bundle_processor import IDENTITY_DOFN_URN
from apache_beam.transforms import core
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, SlidingWindows

from sparkbeam.plan.batch_dofns import plain_batching
from sparkbeam.plan.fused_stages import FIRE, PROCESS_RESTRICTIONS
from sparkbeam.plan.grouping import tells_stamps
from sparkbeam.plan.model import CREATE_URN, SINK_URN, Layout, Port, Stage
from sparkbeam.plan.operators import BEAMS_OWN, Kind, Operator
from sparkbeam.plan.pardo_functions import (
    LIFE,
    asks_for_known_parameters,
    dofn_in,
    function_and_arguments_in,
    function_of,
    is_overridden,
    is_plain,
    loaded,
    par_do_payload,
)
from sparkbeam.plan.parsed_stage import parsed
from sparkbeam.plan.spark_io import RowPacker
from sparkbeam.plan.table_rows import makes_rows_of_tables
from sparkbeam.upstream.beam import KeyWithNone, handles_batches, part_stamped_by
from sparkbeam.upstream.parquet import row_groups_of

_OTHER_WINDOWS = "its WindowFn asks for more than the timestamp"
_BY_TIMESTAMP = (GlobalWindows, FixedWindows, SlidingWindows, Sessions)
"""The WindowFns that ask for the timestamp alone."""

_PAR_DO = common_urns.primitives.PAR_DO.urn
_PRECOMBINE = common_urns.combine_components.COMBINE_PER_KEY_PRECOMBINE.urn
_MERGE = common_urns.combine_components.COMBINE_PER_KEY_MERGE_ACCUMULATORS.urn
_EXTRACT = common_urns.combine_components.COMBINE_PER_KEY_EXTRACT_OUTPUTS.urn

_ASKED = (
    (core.DoFn.TimestampParam, "the timestamp"),
    (core.DoFn.WindowParam, "the window"),
    (core.DoFn.PaneInfoParam, "the pane"),
    (core.DoFn.KeyParam, "the key"),
    (core.DoFn.WindowedValueParam, "the windowed value"),
)


class Candidate:
    """A step for which an operator is to be chosen.

    Args:
        stage: the stage of the step.
        transform: the transform of the step.
    """

    def __init__(self, stage: Stage, transform: beam_runner_api_pb2.PTransform) -> None:
        self.stage = stage
        self.transform = transform
        self.urn = str(transform.spec.urn)

    @cached_property
    def par_do(self) -> beam_runner_api_pb2.ParDoPayload:
        """The payload of a ParDo, which must not be changed."""
        return par_do_payload(self.transform.spec.payload)

    @property
    def is_stateful(self) -> bool:
        """Return whether it is a ParDo with state or timers."""
        return self.urn == _PAR_DO and bool(
            self.par_do.state_specs or self.par_do.timer_family_specs
        )

    @cached_property
    def is_simple(self) -> bool:
        """Return whether it is a ParDo with one output that needs no more than state."""
        return (
            self.urn == _PAR_DO
            and len(self.transform.outputs) == 1
            and not self.par_do.restriction_coder_id
            and not self.par_do.requests_finalization
            and not self.par_do.side_inputs
        )

    @cached_property
    def dofn(self) -> beam.DoFn | None:
        """The DoFn of a simple ParDo without further arguments; None for any other step."""
        return dofn_in(self.transform.spec.payload) if self.is_simple else None

    @property
    def tabular(self) -> beam.DoFn | None:
        """The same, of a stage whose steps may make columns."""
        return self.dofn if self.stage.in_columns else None

    @property
    def ports(self) -> list[Port]:
        """The ports that its outputs fill."""
        outputs = self.transform.outputs.values()
        return [port for port in self.stage.ports if port.pcollection in outputs]

    @property
    def windowing(self) -> core.Windowing:
        """The windowing of its one output."""
        (output,) = self.transform.outputs.values()
        return parsed(self.stage).windowing(output)


@dataclass(frozen=True)
class Rule:
    """A rule of the choice.

    Attributes:
        kind: the kind of operator that it chooses.
        matches: returns whether that operator suits a step.
    """

    kind: Kind
    matches: Callable[[Candidate], bool]


def _has_urn(urn: str, step: Candidate) -> bool:
    return step.urn == urn


def _tells_stamps(step: Candidate) -> bool:
    """Return whether a combine distinguishes elements by their timestamps."""
    return (
        step.urn == _PRECOMBINE
        and any(port.layout is Layout.STORED for port in step.ports)
        and tells_stamps(step.windowing)
    )


def _packs_rows(step: Candidate) -> bool:
    fn: object = step.tabular
    return isinstance(fn, RowPacker) and fn.takes_columns


def _batches(step: Candidate) -> bool:
    fn = None if step.is_stateful else step.tabular
    return fn is not None and plain_batching(fn) is not None


def _is_function(step: Candidate) -> bool:
    return isinstance(function_of(step.transform), core.CallableWrapperDoFn | KeyWithNone)


def _has_arguments(step: Candidate) -> bool:
    payload = step.transform.spec.payload
    return is_plain(step.transform) and function_and_arguments_in(payload) is not None


def _asks(step: Candidate, *, stateful: bool) -> bool:
    """Return whether all parameters of a DoFn can be looked up once for many elements."""
    return (
        step.is_stateful == stateful
        and step.dofn is not None
        and asks_for_known_parameters(step.dofn, stateful=stateful)
    )


def _combines_sessions(step: Candidate) -> bool:
    """Return whether only sinks read a combine, all with the same aggregator of sessions."""
    if step.urn != _PRECOMBINE:
        return False
    (output,) = step.transform.outputs.values()
    readers = parsed(step.stage).readers(output)
    aggregators = {port.aggregator for port in step.ports}
    return (
        all(reader.spec.urn == SINK_URN for reader in readers)
        and len(aggregators) == 1
        and None not in aggregators
    )


OF_OUR_OWN: tuple[Rule, ...] = (
    Rule(Kind.CREATE, partial(_has_urn, CREATE_URN)),
    Rule(Kind.FIRE, partial(_has_urn, FIRE)),
    Rule(Kind.PRECOMBINE, _tells_stamps),
)
"""Operators for transforms that only sparkbeam has."""

IN_BLOCKS: tuple[Rule, ...] = (
    Rule(Kind.TABLE_ROWS, lambda step: makes_rows_of_tables(step.tabular)),
    Rule(Kind.SINK_ROWS, _packs_rows),
    Rule(Kind.BATCHES, _batches),
    Rule(Kind.PARQUET_TABLES, lambda step: row_groups_of(step.tabular) is not None),
    Rule(Kind.FUNCTION, _is_function),
    Rule(Kind.ARGUMENTS, _has_arguments),
    Rule(Kind.TIMESTAMPS, lambda step: part_stamped_by(step.tabular) is not None),
    Rule(Kind.PROCESS, lambda step: function_of(step.transform) is not None),
    Rule(Kind.DOFN, partial(_asks, stateful=False)),
    Rule(Kind.STATEFUL_DOFN, partial(_asks, stateful=True)),
    Rule(Kind.IDENTITY, partial(_has_urn, IDENTITY_DOFN_URN)),
    Rule(Kind.WINDOWS, partial(_has_urn, common_urns.primitives.ASSIGN_WINDOWS.urn)),
    Rule(Kind.SESSION_COMBINE, _combines_sessions),
    Rule(Kind.PRECOMBINE, partial(_has_urn, _PRECOMBINE)),
    Rule(Kind.MERGE, partial(_has_urn, _MERGE)),
    Rule(Kind.EXTRACT, partial(_has_urn, _EXTRACT)),
)
"""Operators over blocks. Without these rules all steps run as Beam's own operations."""

BEAMS: tuple[Rule, ...] = (
    Rule(Kind.STATEFUL, lambda step: step.is_stateful),
    Rule(Kind.RESTRICTIONS, partial(_has_urn, PROCESS_RESTRICTIONS)),
    Rule(Kind.BEAM, lambda step: True),
)
"""Beam's own operations; the first two need something of sparkbeam."""


def operators_of(stage: Stage) -> tuple[Operator, ...]:
    """Choose the operators of a stage, in an order in which its steps can run."""
    steps = (Candidate(stage, transform) for transform in parsed(stage).in_order())
    return tuple(map(_chosen, steps))


def _chosen(step: Candidate) -> Operator:
    rules = (*OF_OUR_OWN, *IN_BLOCKS, *BEAMS)
    kind = next(rule.kind for rule in rules if rule.matches(step))
    return Operator(str(step.transform.unique_name), kind, _reason(kind, step))


def _reason(kind: Kind, step: Candidate) -> str | None:
    """Return the reason why an operator takes single elements; None if it may take columns."""
    match kind:
        case Kind.WINDOWS:
            is_known = type(step.windowing.windowfn) in _BY_TIMESTAMP
            return None if is_known else _OTHER_WINDOWS
        case Kind.BATCHES:
            batching = None if step.dofn is None else plain_batching(step.dofn)
            is_taking = batching is not None and batching.taken is not None
            return None if is_taking else "it handles batches"
        case Kind.DOFN | Kind.STATEFUL_DOFN | Kind.STATEFUL | Kind.RESTRICTIONS | Kind.BEAM:
            return _why_called(step)
        case _:
            return None


def _why_called(step: Candidate) -> str:
    """Return why a step that is no function of the element alone is called for each element."""
    if step.urn != _PAR_DO:
        return BEAMS_OWN
    if step.par_do.restriction_coder_id:
        return "it is a splittable DoFn"
    if step.is_stateful:
        return "it has state or timers"
    if step.par_do.requests_finalization:
        return "it asks for a bundle finalizer"
    if len(step.transform.outputs) > 1:
        return "it has several outputs"
    if step.par_do.do_fn.urn != python_urns.PICKLED_DOFN_INFO:
        return BEAMS_OWN
    fn, args, kwargs = loaded(step.par_do.do_fn.payload)[:3]
    if kwargs:
        return "it gets arguments by name"
    if args and not isinstance(fn, core.CallableWrapperDoFn):
        return "it is a DoFn with further arguments"
    return _why_of(fn)


def _why_of(fn: beam.DoFn) -> str:
    """Return why a DoFn is called for each element, by its methods and parameters."""
    if handles_batches(fn):
        return "it handles batches"
    own = [name for name in LIFE if is_overridden(fn, name)]
    if own and not isinstance(fn, core.CallableWrapperDoFn):
        return f"it has a {own[0]}"
    asked: list[Any] = []
    if isinstance(fn, core.CallableWrapperDoFn):
        asked = core.get_function_arguments(fn, "process")[1]
    else:
        with suppress(ValueError):
            asked = [each.default for each in inspect.signature(fn.process).parameters.values()]
    words = [words for kind, words in _ASKED if any(kind == one for one in asked)]
    return f"it asks for {words[0]}" if words else "it is more than a function of the element"
