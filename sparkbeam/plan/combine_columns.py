"""What becomes of columns on the way through a combine."""

from contextlib import suppress

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
from sparkbeam.windows.vectorized_form import Form

NO_FORM = "its CombineFn has no vectorised form"
OTHER_SLICES = "its windows are not those that add up over columns"
"""Why a combine takes elements."""


def other_stamps(stamp: str | None) -> str:
    """Why a combine takes elements whose timestamps count.

    Args:
        stamp: which of them its results have.
    """
    return f"its results have the {stamp} timestamp of their elements"


_KEYS = frozenset([INT, FLOAT, BOOL, STR, BYTES, NONE])


def is_key(shape: Shape) -> bool:
    """Whether combines tell keys of a shape apart over columns: plain ones, and tuples of such."""
    if isinstance(shape, Record):
        return is_tuple(shape) and all(map(is_key, shape.fields))
    return shape in _KEYS


def pair_of(shape: Shape) -> tuple[Shape, Shape] | None:
    """What keys and values of pairs are; None of other elements."""
    if not isinstance(shape, Record) or shape.type is not tuple or len(shape.fields) != 2:
        return None
    key, value = shape.fields
    return key, value


def outcome_of(form: Form, pair: Shape) -> Shape | None:
    """What a combine comes to behind the shuffle; None where that is no column, or nobody can tell.

    Args:
        form: the vectorised form of its CombineFn.
        pair: what the pairs are that it takes as columns.
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
    """Whether keys are columns again when they are read from their encodings."""
    if isinstance(shape, Record):
        return shape.type is tuple and all(map(_is_plain_key, shape.fields))
    return isinstance(shape, Scalar)
