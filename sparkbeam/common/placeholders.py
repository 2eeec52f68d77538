"""Columns in the place of those that nobody looks at."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

_MOST_KEPT = 1 << 20

_kept: dict[pa.DataType, pa.Array] = {}
"""For the few types with zeros; there may be any number of others, such as a user's own."""


def filling(kind: pa.DataType, count: int) -> pa.Array:
    """A column of values that nobody looks at.

    They are zeros or empty, as coders of records may not take None; of other types than numbers,
    truth values, text and bytes they are None.

    Args:
        kind: the type of the column.
        count: the number of its values.
    """
    if count > _MOST_KEPT or not is_filled(kind):
        return _filling(kind, count)
    # All blocks may have the same one.
    kept = _kept.get(kind)
    if kept is None or len(kept) < count:
        kept = _kept[kind] = _filling(kind, 1 << count.bit_length())
    return kept.slice(0, count)


def _filling(kind: pa.DataType, count: int) -> pa.Array:
    found = _value(kind)
    return pa.nulls(count, kind) if found is None else pa.repeat(pa.scalar(found, kind), count)


def is_filled(kind: pa.DataType) -> bool:
    """Whether the values of :func:`filling` are not None."""
    return _value(kind) is not None


def _value(kind: pa.DataType) -> Any:
    return next((value for test, value in _VALUES if test(kind)), None)


_VALUES: tuple[tuple[Callable[[pa.DataType], bool], Any], ...] = (
    (pa.types.is_integer, 0),
    (pa.types.is_floating, 0.0),
    (pa.types.is_boolean, False),
    (pa.types.is_string, ""),
    (pa.types.is_large_string, ""),
    (pa.types.is_binary, b""),
    (pa.types.is_large_binary, b""),
)
