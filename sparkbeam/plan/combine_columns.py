"""Columns on the way through a combine."""

from collections.abc import Sequence
from contextlib import suppress

import apache_beam as beam
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows, Sessions

from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    STR,
    Record,
    Scalar,
    Shape,
    is_tuple,
)
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.grouping import stamp_of, tells_stamps
from sparkbeam.plan.model import Layout, Port, SessionAggregator
from sparkbeam.windows.choices import Choice, choice_of
from sparkbeam.windows.vectorized_form import Form, Kind
from sparkbeam.windows.vectorized_forms import form_of
from sparkbeam.windows.window_lengths import whole_gap_of, whole_slots_of

NO_FORM = "its CombineFn has no vectorised form"
OTHER_SLICES = "its windows are not those that add up over columns"
ALONE = "its sessions are merged one by one"
"""Reasons why a combine takes elements; the last is for sessions with a non-default trigger."""


def other_stamps(stamp: str | None) -> str:
    """Return the reason why a combine takes elements if their timestamps count.

    Args:
        stamp: the timestamp of the elements that its results have.
    """
    return f"its results have the {stamp} timestamp of their elements"


def by_elements(aggregator: SessionAggregator, form: Form | None) -> str:
    """Return the reason why an aggregator takes elements.

    Args:
        aggregator: the aggregator.
        form: the vectorized form of the CombineFn; None if it has none.
    """
    reason = "--session_aggregator says so"
    if form is None and aggregator is SessionAggregator.ORDERED:
        reason = NO_FORM
    return f"the {aggregator.value} aggregator of sessions takes them, as {reason}"


def in_another_order(form: Form, kind: Kind) -> str | None:
    """Return the reason for elements if numbers add up in an order unlike sessions'; else None."""
    if form.is_ordered or not form.needs_order(kind):
        return None
    return f"{form.name} adds floats up as they come, and sessions have them in another order"


_KEYS = frozenset([INT, FLOAT, BOOL, STR, BYTES, NONE])


def is_key(shape: Shape) -> bool:
    """Return whether combines can tell keys of a shape apart over columns.

    These are plain keys and tuples of plain keys.
    """
    if isinstance(shape, Record):
        return is_tuple(shape) and all(map(is_key, shape.fields))
    return shape in _KEYS


def pair_of(shape: Shape) -> tuple[Shape, Shape] | None:
    """Return the shapes of the key and the value of a pair; None for other elements."""
    if not isinstance(shape, Record) or shape.type is not tuple or len(shape.fields) != 2:
        return None
    key, value = shape.fields
    return key, value


def outcome_of(form: Form, pair: Shape) -> Shape | None:
    """Return the shape of a combine's results behind the shuffle; None if no column, or unknown.

    Args:
        form: the vectorized form of its CombineFn.
        pair: the shape of the pairs that it takes as columns.
    """
    if not isinstance(pair, Record):
        return None
    key, value = pair.fields
    if not _is_plain_key(key):
        return None
    with suppress(Exception):  # One of the user's may need its ``setup``, or a value.
        numbers = form.numbers_of(empty_column(value), value)
        if numbers is not None:
            return Record(tuple, ("0", "1"), (key, form.outputs(numbers)[1]))
    return None


def _is_plain_key(shape: Shape) -> bool:
    """Return whether keys become columns again when they are read from their encodings."""
    if isinstance(shape, Record):
        return shape.type is tuple and all(map(_is_plain_key, shape.fields))
    return isinstance(shape, Scalar)


def why_elements(
    combine_fn: beam.CombineFn,
    windowing: Windowing,
    ports: Sequence[Port],
    shape: Shape,
    *,
    are_all: bool,
) -> str | None:
    """Return the reason why a combine before the shuffle takes elements; None for columns.

    Args:
        combine_fn: the CombineFn.
        windowing: the windowing of the accumulators.
        ports: the ports that the accumulators fill.
        shape: the type of the elements.
        are_all: nothing but the ports reads the accumulators.
    """
    form, stamp = form_of(combine_fn), stamp_of(windowing)
    are_sessions = type(windowing.windowfn) is Sessions
    choice = None if are_sessions else choice_of(combine_fn)
    if any(port.layout is Layout.STORED for port in ports) and tells_stamps(windowing):
        return other_stamps(stamp)
    if stamp is not None and not are_sessions and not _adds_up(form, windowing, shape):
        return other_stamps(stamp)
    aggregators = [port.aggregator for port in ports if port.aggregator is not None]
    if aggregators and aggregators[0] is not SessionAggregator.COLUMNAR:
        return by_elements(aggregators[0], form)
    if form is None and choice is None:
        return NO_FORM
    if are_sessions and not aggregators:
        if not (are_all and all(port.takes_numbers for port in ports)):
            return ALONE
        if whole_gap_of(windowing.windowfn) is None:
            return OTHER_SLICES
    return _why_other_values(form, choice, shape, are_sessions=are_sessions)


def _why_other_values(
    form: Form | None, choice: Choice | None, shape: Shape, *, are_sessions: bool
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


def _adds_up(form: Form | None, windowing: Windowing, shape: Shape) -> bool:
    """Return whether elements are pairs that add up by slices of time with their timestamps."""
    window_fn = windowing.windowfn
    has_slices = type(window_fn) is GlobalWindows or whole_slots_of(window_fn) is not None
    pair = pair_of(shape)
    if form is None or pair is None or not has_slices:
        return False
    key, values = pair
    return is_key(key) and form.kind_of(empty_column(values), values) is not None
