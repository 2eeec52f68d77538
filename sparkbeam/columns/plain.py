"""What a function may take from around it: plain, immutable data.

A value counts only if it is exactly of one of Python's own immutable types, or a tuple,
NamedTuple or frozenset of such.
"""

from typing import Any

from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.shapes import (
    Constants,
    Record,
    Scalar,
    Shape,
    is_plain_namedtuple,
)

_SCALARS = (int, float, bool, str, bytes, type(None))
_MOST_FIELDS = 1000


def is_plain(value: Any) -> bool:
    """Whether a value is plain, immutable data."""
    kind = type(value)
    if kind in _SCALARS:
        return True
    if kind is frozenset or kind is tuple or is_plain_namedtuple(kind):
        return all(map(is_plain, value))
    return False


def shape_of_value(value: Any) -> Shape:
    """What a plain value is.

    Raises:
        NotCompiled: it is no plain, immutable data.
    """
    kind = type(value)
    if kind in _SCALARS:
        return Scalar(kind)
    if not is_plain(value):
        raise NotCompiled(f"it uses a {kind.__name__}, which may change")
    if kind is frozenset:
        return Constants(value)
    if len(value) > _MOST_FIELDS:
        raise NotCompiled("it uses a tuple of very many items")
    names = getattr(kind, "_fields", None) or tuple(map(str, range(len(value))))
    return Record(kind, names, tuple(map(shape_of_value, value)))
