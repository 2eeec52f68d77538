"""Combining before a shuffle, the first phase of a combine."""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

from apache_beam.runners.worker import operations
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows, Sessions

from sparkbeam.accumulators.choices import choice_of
from sparkbeam.accumulators.counted_accumulators import uncounted
from sparkbeam.accumulators.vectorized_accumulator import VectorizedAccumulator
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.accumulators.window_lengths import whole_gap_of, whole_slots_of
from sparkbeam.columns import ALL, Paths, RecordShape, Refused, Shape
from sparkbeam.columns.python_types import Scalar
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.combine_columns import (
    ALONE,
    NO_FORM,
    OTHER_SLICES,
    CombinePlan,
    by_elements,
    in_another_order,
    is_key,
    other_stamps,
    pair_of,
)
from sparkbeam.plan.grouping import SessionAggregator, stamp_of, tells_stamps
from sparkbeam.plan.model import SINK_URN
from sparkbeam.plan.operator import Accumulators, Operator, Result
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.row_formats import AggregateRows
from sparkbeam.plan.urns import PRECOMBINE
from sparkbeam.worker.steps.combines import make_precombine
from sparkbeam.worker.steps.step import Step

_KEYS: Paths = frozenset([(0,)])
"""Path of the keys of pairs."""


@dataclass(frozen=True)
class Precombine(Operator):
    """A combine before the shuffle."""

    urn = PRECOMBINE

    plan: CombinePlan = field(default_factory=CombinePlan)

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        if step.urn != PRECOMBINE:
            return None
        plan = _plan(step)
        return cls(step.label, plan.refusal, plan)

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        reason = self.reason or _why_other_values(step, shape, self.plan)
        return Accumulators(_output(step, shape)) if reason is None else Refused(reason)

    def run(self, step: Step) -> operations.Operation:
        return make_precombine(step, self.plan)

    def reads(self, step: PlannedStep) -> Paths:
        form = form_of(step.combine_fn)
        return ALL if form is None or form.takes_values else _KEYS


class StampedPrecombine(Precombine):
    """A combine before state that distinguishes elements by their timestamps."""

    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        is_told = step.urn == PRECOMBINE and _stamp_told(step) is not None
        return super().matches(step) if is_told else None


def _aggregator(step: PlannedStep) -> SessionAggregator | None:
    """Return the aggregator that all readers share."""
    aggregators = {port.aggregator for port in step.ports}
    return aggregators.pop() if len(aggregators) == 1 and _fills_ports_alone(step) else None


def _fills_ports_alone(step: PlannedStep) -> bool:
    return all(reader.spec.urn == SINK_URN for reader in step.readers())


def _stamp_told(step: PlannedStep) -> str | None:
    are_stored = any(port.format.stored for port in step.ports)
    return stamp_of(step.windowing) if are_stored and tells_stamps(step.windowing) else None


def _plan(step: PlannedStep) -> CombinePlan:
    aggregator, stamp = _aggregator(step), _stamp_told(step)
    ports = step.ports if _fills_ports_alone(step) else []
    take_numbers = bool(ports) and all(port.takes_numbers for port in ports)
    if isinstance(step.windowing.windowfn, Sessions):
        take_slices = take_numbers and aggregator is None
        take_windows = False
    else:
        take_slices = bool(ports) and all(port.format == AggregateRows() for port in ports)
        take_windows = take_numbers and stamp_of(step.windowing) is None
    plan = CombinePlan(None, aggregator, stamp, take_slices, take_windows)
    return replace(plan, refusal=_why_elements(step, plan))


def _why_elements(step: PlannedStep, plan: CombinePlan) -> str | None:
    """Return the reason why all pairs are combined one by one; None if columns may be taken."""
    form, aggregator = form_of(step.combine_fn), plan.aggregator
    if aggregator is not None and aggregator is not SessionAggregator.COLUMNAR:
        return by_elements(aggregator, form)
    if plan.stamp is not None:
        return other_stamps(plan.stamp)
    are_sessions = isinstance(step.windowing.windowfn, Sessions)
    if form is None:
        return NO_FORM if are_sessions or choice_of(step.combine_fn) is None else None
    return ALONE if are_sessions and aggregator is None and not plan.take_slices else None


def _output(step: PlannedStep, pair: Shape) -> RecordShape | None:
    """Return the type of the outputs of pairs' accumulators; None if they are no columns."""
    form, of_pair = form_of(uncounted(step.combine_fn)), pair_of(pair)
    if form is None or of_pair is None or not _is_plain(of_pair[0]):
        return None
    key, value = of_pair
    with suppress(Exception):  # One of the user's may need its ``setup``, or a value.
        numbers = form.numbers_of(empty_column(value), value)
        if numbers is not None:
            return RecordShape(tuple, ("0", "1"), (key, form.outputs(numbers)[1]))
    return None


def _is_plain(key: Shape) -> bool:
    """Return whether keys become columns again when they are read from their encodings."""
    if isinstance(key, RecordShape):
        return key.type is tuple and all(map(_is_plain, key.fields))
    return isinstance(key, Scalar)


def _why_other_values(step: PlannedStep, shape: Shape, plan: CombinePlan) -> str | None:
    """Return the reason why pairs of a shape are combined one by one, or None."""
    form, windowing = form_of(step.combine_fn), step.windowing
    stamp, are_sessions = stamp_of(windowing), isinstance(windowing.windowfn, Sessions)
    if stamp is not None and not are_sessions and not _adds_up(form, windowing, shape):
        return other_stamps(stamp)
    if are_sessions and plan.aggregator is None and whole_gap_of(windowing.windowfn) is None:
        return OTHER_SLICES
    choice = None if are_sessions else choice_of(step.combine_fn)
    pair = pair_of(shape)
    if pair is None:
        return f"its input is not a pair, but {shape}"
    key, values = pair
    if not is_key(key):
        return f"its keys are {key}, which cannot be compared over columns"
    if choice is not None and choice.is_for(values):
        return None
    kind = None if form is None else form.kind_of(empty_column(values), values)
    if form is None or kind is None:
        known = form or choice
        assert known is not None
        return f"its values are not supported by {known.name} over columns"
    return in_another_order(form, kind) if are_sessions else None


def _adds_up(form: VectorizedAccumulator | None, windowing: Windowing, shape: Shape) -> bool:
    """Return whether elements are pairs that add up by slices of time with their timestamps."""
    window_fn = windowing.windowfn
    has_slices = type(window_fn) is GlobalWindows or whole_slots_of(window_fn) is not None
    pair = pair_of(shape)
    if form is None or pair is None or not has_slices:
        return False
    key, values = pair
    return is_key(key) and form.kind_of(empty_column(values), values) is not None
