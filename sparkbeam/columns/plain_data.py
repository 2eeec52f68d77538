"""Captured values that may become constants: plain, immutable data.

A value is accepted only if its type is exactly one of Python's immutable types, or if it is a
tuple, NamedTuple or frozenset of accepted values.
"""

import enum
from typing import Any

from sparkbeam.columns.python_types import (
    Constants,
    RecordShape,
    Scalar,
    Shape,
    is_plain_namedtuple,
)
from sparkbeam.columns.reasons import NotCompiled

_SCALARS = (int, float, bool, str, bytes, type(None))
_MOST_FIELDS = 1000


def is_plain(value: Any) -> bool:
    """Return whether a value is plain, immutable data."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is frozenset or kind is tuple or is_plain_namedtuple(kind):
        return all(map(is_plain, value))
    return False


def as_compared(value: Any) -> Any:
    """Return a value for comparisons: the int or str that an enum member compares as.

    Other values are returned unchanged.
    """
    if isinstance(value, enum.Enum):
        if isinstance(value, int) and _compares_as(value, int):
            return int.__add__(value, 0)
        if isinstance(value, str) and _compares_as(value, str):
            return str.__str__(value)
    return value


def _compares_as(value: Any, kind: type) -> bool:
    return all(getattr(type(value), name) is getattr(kind, name) for name in _COMPARISONS)


_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__")


def shape_of_value(value: Any) -> Shape:
    """Return the type of a plain value.

    Raises:
        NotCompiled: the value is not plain, immutable data.
    """
    kind = type(value)
    if kind in _SCALARS:
        return Scalar(kind)
    if not is_plain(value):
        raise NotCompiled(f"it uses a {kind.__name__}, which may change")
    if kind is frozenset:
        return Constants(value)
    if len(value) > _MOST_FIELDS:
        raise NotCompiled("it uses a tuple with too many items")
    names = getattr(kind, "_fields", None) or tuple(map(str, range(len(value))))
    return RecordShape(kind, names, tuple(map(shape_of_value, value)))
