"""Approximate size of any value in memory, in bytes.

The size decides how much is gathered before it is handed on. It must be right to a factor of two
and cost little. Therefore only a few members of a large collection are measured, and nested objects
only to a limited depth.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any

from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.type_cache import ByType

SMALL_BYTES = 50
"""Size of a small object, with its place in a list."""

_LOOKED_AT = (16, 8, 4, 2)
"""Number of members of a collection that are measured, by its depth in the value."""

_Sizer = Callable[[Any, int], int]


def size_of(value: Any) -> int:
    """Return the approximate size of a value in bytes, at least :data:`SMALL_BYTES`."""
    return max(SMALL_BYTES, _size(value, 0))


def _size(value: Any, depth: int) -> int:
    kind = type(value)
    if kind in _SMALL:
        return SMALL_BYTES
    sizer = _SIZERS.get(id(kind)) or _SIZERS.learn(kind)
    return sizer(value, depth)


def _plain(value: Any, depth: int) -> int:
    return max(SMALL_BYTES, sys.getsizeof(value))


def _sequence(value: Any, depth: int) -> int:
    return sys.getsizeof(value) + _members(value, len(value), depth)


def _mapping(value: Any, depth: int) -> int:
    count = len(value)
    return (
        sys.getsizeof(value)
        + _members(value, count, depth)
        + _members(value.values(), count, depth)
    )


def _array(value: Any, depth: int) -> int:
    size = SMALL_BYTES + int(value.nbytes)
    if getattr(getattr(value, "dtype", None), "hasobject", False):
        size += _members(getattr(value, "flat", value), int(value.size), depth)
    return size


def _message(value: Any, depth: int) -> int:
    return SMALL_BYTES + int(value.ByteSize())


def _wrapper(value: Any, depth: int) -> int:
    return 2 * SMALL_BYTES + _size(value.value, depth)


def _object(value: Any, depth: int) -> int:
    size = max(SMALL_BYTES, sys.getsizeof(value))
    if depth >= len(_LOOKED_AT):
        return size
    attributes = getattr(value, "__dict__", None)
    if attributes:
        size += _mapping(attributes, depth)
    for name in _slots(type(value)):
        part = getattr(value, name, None)
        if part is not None:
            size += _size(part, depth + 1)
    return size


def _members(members: Iterable[Any], count: int, depth: int) -> int:
    """Return the members of a collection, by the mean of some of them."""
    if not count or depth >= len(_LOOKED_AT):
        return 0
    most = _LOOKED_AT[depth]
    if count > most:
        if isinstance(members, list | tuple):
            members = members[:: count // most]
        members = islice(members, most)
    total = 0
    for member in members:  # A generator costs more than what it yields here.
        total += _size(member, depth + 1)
    return total * count // min(count, most)


def _slots(kind: type) -> list[str]:
    names: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if name not in ("__dict__", "__weakref__")]


def _sizer(kind: type) -> _Sizer:
    """Return the function that measures values of a type."""
    if issubclass(kind, str | bytes | bytearray):
        return _plain
    if issubclass(kind, list | tuple | set | frozenset | deque):
        return _sequence
    if issubclass(kind, Mapping):
        return _mapping
    if issubclass(kind, WindowedValue | TimestampedValue):
        return _wrapper
    if hasattr(kind, "nbytes"):
        return _safely(_array)
    if hasattr(kind, "ByteSize"):
        return _safely(_message)
    return _safely(_object)


def _safely(sizer: _Sizer) -> _Sizer:
    """Return a sizer that takes a value whose own code fails as a small one."""

    def measured(value: Any, depth: int) -> int:
        try:
            return sizer(value, depth)
        except Exception:  # Whatever a user's class does when it is asked.
            return SMALL_BYTES

    return measured


_SMALL = frozenset([int, float, bool, complex, type(None)])
_SIZERS = ByType(_sizer)
