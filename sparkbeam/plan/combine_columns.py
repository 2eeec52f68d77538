"""Columns on the way through a combine."""

from dataclasses import dataclass

import pyarrow as pa

from sparkbeam.accumulators.vectorized_accumulator import Kind, VectorizedAccumulator
from sparkbeam.columns.python_types import PLAIN, Opaque, RecordShape, Shape, is_tuple
from sparkbeam.plan.grouping import SessionAggregator


@dataclass(frozen=True)
class CombinePlan:
    """Decisions on a combine before the shuffle.

    Attributes:
        refusal: the reason why all pairs are combined one by one; None if columns may be taken.
        aggregator: what merges sessions before the shuffle; None if they stay apart.
        stamp: the timestamp by which its readers tell elements of a key apart; None if they do not.
        take_slices: all readers take the numbers of time slices.
        take_windows: all readers take numbers by window.
    """

    refusal: str | None = None
    aggregator: SessionAggregator | None = None
    stamp: str | None = None
    take_slices: bool = False
    take_windows: bool = False


NO_FORM = "its CombineFn has no vectorized form"
OTHER_SLICES = "its windows cannot be combined over columns"
ALONE = "its sessions are merged one by one"
"""Reasons why a combine takes elements; the last is for sessions with a non-default trigger."""


def other_stamps(stamp: str | None) -> str:
    """Return the reason why a combine takes elements if their timestamps count.

    Args:
        stamp: the timestamp of the elements that its results have.
    """
    return f"its results have the {stamp} timestamp of their elements"


def by_elements(aggregator: SessionAggregator, form: VectorizedAccumulator | None) -> str:
    """Return the reason why an aggregator takes elements.

    Args:
        form: the vectorized form of the CombineFn; None if it has none.
    """
    reason = "--session_aggregator says so"
    if form is None and aggregator is SessionAggregator.ORDERED:
        reason = NO_FORM
    return f"the {aggregator.value} aggregator of sessions takes them, as {reason}"


def in_another_order(form: VectorizedAccumulator, kind: Kind) -> str | None:
    """Return the reason for elements if numbers add up in an order unlike sessions'; else None."""
    if form.is_ordered or not form.needs_order(kind):
        return None
    return f"{form.name} adds up floats as they arrive, and sessions reorder them"


_OPAQUE_KEYS = (pa.types.is_decimal128, pa.types.is_timestamp, pa.types.is_date32)


def is_key(shape: Shape) -> bool:
    """Return whether combines can tell keys of a shape apart over columns.

    These are plain keys, decimals, times, and tuples of them. Decimals of a column share their
    scale, so that only equal ones have the same digits.
    """
    if isinstance(shape, RecordShape):
        return is_tuple(shape) and all(map(is_key, shape.fields))
    if isinstance(shape, Opaque):
        return any(is_of(shape.arrow_type) for is_of in _OPAQUE_KEYS)
    return shape in PLAIN


def pair_of(shape: Shape) -> tuple[Shape, Shape] | None:
    """Return the shapes of the key and the value of a pair; None for other elements."""
    if not isinstance(shape, RecordShape) or shape.type is not tuple or len(shape.fields) != 2:
        return None
    key, value = shape.fields
    return key, value
