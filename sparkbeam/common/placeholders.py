"""Placeholder columns for fields that no step reads."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

_MOST_KEPT = 1 << 20

_kept: dict[pa.DataType, pa.Array] = {}
"""Cached by type; only types with a zero value, as there may be any number of others."""


def filling(kind: pa.DataType, count: int) -> pa.Array:
    """Return a column of placeholders.

    They are zeros or empty, as coders of records may not accept None; types other than numbers,
    booleans, strings and bytes get nulls.
    """
    if count > _MOST_KEPT or not is_filled(kind):
        return _filling(kind, count)
    # All blocks can share one column.
    kept = _kept.get(kind)
    if kept is None or len(kept) < count:
        kept = _kept[kind] = _filling(kind, 1 << count.bit_length())
    return kept.slice(0, count)


def _filling(kind: pa.DataType, count: int) -> pa.Array:
    found = _value(kind)
    return pa.nulls(count, kind) if found is None else pa.repeat(pa.scalar(found, kind), count)


def is_filled(kind: pa.DataType) -> bool:
    """Return whether the values of :func:`filling` are not null."""
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
