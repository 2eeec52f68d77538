"""Combining before a shuffle, the first phase of a combine."""

from typing import Self

from apache_beam.runners.worker import operations
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows, Sessions

from sparkbeam.columns import ALL, Paths, Refused, Shape
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.combine_columns import (
    ALONE,
    NO_FORM,
    OTHER_SLICES,
    by_elements,
    in_another_order,
    is_key,
    other_stamps,
    pair_of,
)
from sparkbeam.plan.grouping import SessionAggregator, stamp_of, tells_stamps
from sparkbeam.plan.operator import Operator, Result
from sparkbeam.plan.planned_step import PlannedStep
from sparkbeam.plan.urns import PRECOMBINE
from sparkbeam.windows.choices import Choice, choice_of
from sparkbeam.windows.vectorized_accumulator import VectorizedAccumulator
from sparkbeam.windows.vectorized_accumulators import form_of
from sparkbeam.windows.window_lengths import whole_gap_of, whole_slots_of
from sparkbeam.worker.steps.combines import make_precombine
from sparkbeam.worker.steps.step import Step

_KEYS: Paths = frozenset([(0,)])
"""Path of the keys of pairs."""


class Precombine(Operator):
    """A combine before the shuffle."""

    urn = PRECOMBINE
    before_shuffle = True

    def output_type(self, step: PlannedStep, shape: Shape) -> Result:
        reason = _why_elements(step, shape)
        return None if reason is None else Refused(reason)

    def run(self, step: Step) -> operations.Operation:
        return make_precombine(step)

    def describe(self, step: PlannedStep) -> str | None:
        combine_fn = step.combine_fn
        is_known = form_of(combine_fn) is not None or choice_of(combine_fn) is not None
        return None if is_known else NO_FORM

    def reads(self, step: PlannedStep) -> Paths:
        form = form_of(step.combine_fn)
        return ALL if form is None or form.takes_values else _KEYS


class StampedPrecombine(Precombine):
    """A combine before state that distinguishes elements by their timestamps."""

    over_blocks = False

    @classmethod
    def matches(cls, step: PlannedStep) -> Self | None:
        found = super().matches(step)
        return found if found is not None and _tells_stamps(step) else None


def _tells_stamps(step: PlannedStep) -> bool:
    are_stored = any(port.format.stored for port in step.ports)
    return are_stored and tells_stamps(step.windowing)


def _why_elements(step: PlannedStep, shape: Shape) -> str | None:
    """Return the reason why elements of a shape are combined one by one; None for columns."""
    combine_fn, windowing = step.combine_fn, step.windowing
    form, stamp = form_of(combine_fn), stamp_of(windowing)
    are_sessions = type(windowing.windowfn) is Sessions
    choice = None if are_sessions else choice_of(combine_fn)
    if _tells_stamps(step):
        return other_stamps(stamp)
    if stamp is not None and not are_sessions and not _adds_up(form, windowing, shape):
        return other_stamps(stamp)
    aggregators = [port.aggregator for port in step.ports if port.aggregator is not None]
    if aggregators and aggregators[0] is not SessionAggregator.COLUMNAR:
        return by_elements(aggregators[0], form)
    if form is None and choice is None:
        return NO_FORM
    if are_sessions and not aggregators:
        if len(step.ports) < len(step.readers()) or not all(
            port.takes_numbers for port in step.ports
        ):
            return ALONE
        if whole_gap_of(windowing.windowfn) is None:
            return OTHER_SLICES
    return _why_other_values(form, choice, shape, are_sessions=are_sessions)


def _why_other_values(
    form: VectorizedAccumulator | None, choice: Choice | None, shape: Shape, *, are_sessions: bool
) -> str | None:
    """Return the reason why a combine takes elements of a shape one by one, or None."""
    pair = pair_of(shape)
    if pair is None:
        return f"its input is no pair, but {shape}"
    key, values = pair
    if not is_key(key):
        return f"its keys are {key}, which are not told apart over columns"
    if choice is not None and choice.is_for(values):
        return None
    kind = None if form is None else form.kind_of(empty_column(values), values)
    if form is None or kind is None:
        known = form or choice
        assert known is not None
        return f"its values are not for {known.name} over columns"
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
