"""Safety check for user results that wait for others: nobody may be able to change them.

A function may emit an object and change it afterwards: numpy's ``out=``, a message that is filled
anew for each call, a view of a buffer. Beam processes each result before the next call, so the
change stays invisible. Results that wait in a block would all look like the last one. Therefore a
result waits only if it is immutable, or if only the block still refers to it and to its parts.

CPython counts references, which makes the check exact and cheap. If there are more references than
necessary, or if the parts of an object are unknown, the result does not wait. That costs a little
time and never gives a wrong result.
"""

import datetime
import decimal
import enum
import uuid
import weakref
from collections.abc import Callable, Collection, Iterable
from itertools import count
from sys import getrefcount
from typing import Any

import numpy as np
from apache_beam.pvalue import Row
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkbeam.worker.row_formats.key_table import IMMUTABLE
from sparkbeam.worker.type_cache import ByType

_FIXED = (
    *(complex, range, decimal.Decimal, uuid.UUID, Timestamp, Duration),
    *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
)
_SEQUENCES = frozenset([list, tuple, set, frozenset])


class _Plain:
    """A plain instance of a class in Python, for comparison."""


def may_wait(result: Any, element: Any, references: int) -> bool:
    """Return whether a result may wait while its function is called again.

    Args:
        result: the result, or a part of it.
        element: the argument of the call. Its producer ensures that it does not change during the
            call and the calls of its consumers.
        references: the number of references to a result that the function has released, counted
            within this function.
    """
    kind = type(result)
    if kind in IMMUTABLE or result is element:
        return True
    if kind is tuple and _is_plain(result):
        return True
    is_own = _KINDS.get(id(kind)) or _KINDS.learn(kind)
    if is_own is _fixed or (is_own is _parts and issubclass(kind, tuple) and _is_plain(result)):
        return True
    if getrefcount(result) > references:
        # It may be a part of the element, which is as good.
        return _is_fixed(result) or (
            type(element) is tuple and any(result is part for part in element)
        )
    return is_own(result, element)


def all_may_wait(results: Collection[Any], element: Any, references: int) -> bool:
    """Return whether all parts of a result that is a list, a tuple or a set may wait.

    Args:
        element: see :func:`may_wait`.
        references: the number of references to ``results`` itself, likewise.
    """
    if _is_plain(results):
        return True
    if getrefcount(results) > references:
        return all(_is_fixed(part) or part is element for part in results)
    return _are_own(results, element, _PART)


def _is_plain(parts: Iterable[Any]) -> bool:
    """Return whether all parts are immutable values or tuples of them."""
    for part in parts:
        if type(part) not in IMMUTABLE and not (type(part) is tuple and _is_plain(part)):
            return False
    return True


def _are_own(parts: Iterable[Any], element: Any, references: int) -> bool:
    for part in parts:  # noqa: SIM110 - a generator may count as a reference.
        if not may_wait(part, element, references):
            return False
    return True


def _is_fixed(value: Any) -> bool:
    """Return whether a value is immutable."""
    kind = type(value)
    if kind in IMMUTABLE:
        return True
    is_own = _KINDS.get(id(kind)) or _KINDS.learn(kind)
    return is_own is _fixed or (
        is_own is _parts and issubclass(kind, tuple) and all(map(_is_fixed, value))
    )


def _unknown(value: Any, element: Any) -> bool:
    """Refuse objects of unknown parts."""
    return False


def _fixed(value: Any, element: Any) -> bool:
    """Accept objects that cannot be changed."""
    return True


def _bytes(value: Any, element: Any) -> bool:
    """Accept a ``bytearray``, whose views are references."""
    return True


def _parts(value: Any, element: Any) -> bool:
    """Check sequences and sets."""
    return _are_own(value, element, _PART)


def _dict(value: Any, element: Any) -> bool:
    """Check dicts, and attributes."""
    return _is_plain(value) and (
        _is_plain(value.values()) or _are_own(value.values(), element, _PART)
    )


def _array(value: Any, element: Any) -> bool:
    """Check arrays of numpy, which may be views."""
    return value.base is None and value.flags.owndata and not value.dtype.hasobject


def _instance(value: Any, element: Any) -> bool:
    """Check instances of a class in Python that are only their attributes."""
    attributes = vars(value)
    return (
        getrefcount(attributes) <= _ATTRIBUTES
        and not weakref.getweakrefcount(value)
        and _are_own(attributes.values(), element, _PART)
    )


_IsOwn = Callable[[Any, Any], bool]
"""Return whether only the block refers to the parts of a value, to which only it refers."""


def _check_of(kind: type) -> _IsOwn:
    if kind in _FIXED or issubclass(kind, enum.Enum):
        return _fixed
    if issubclass(kind, np.generic) and not issubclass(kind, np.void):
        return _fixed
    if kind in _SEQUENCES or (issubclass(kind, tuple) and not kind.__dictoffset__):
        return _parts
    if kind is dict:
        return _dict
    if kind is bytearray:
        return _bytes
    if kind is np.ndarray:
        return _array
    return _instance if kind is Row or _is_simple(kind) else _unknown


def _is_simple(kind: type) -> bool:
    """Return whether an instance consists of its attributes alone, and is pickled as them."""
    return (
        kind.__basicsize__ == _Plain.__basicsize__
        and kind.__itemsize__ == _Plain.__itemsize__
        and kind.__dictoffset__ == _Plain.__dictoffset__
        and all(getattr(kind, name, None) is getattr(_Plain, name, None) for name in _MEANS)
        and type(kind) is type
    )


_MEANS = ("__getstate__", "__getattribute__", "__getattr__", "__reduce__", "__reduce_ex__")
"""Methods by which an object may be more than its attributes."""

_KINDS = ByType(_check_of)
"""Facts about each type seen so far."""


def _fewest(is_own: Callable[[int], bool]) -> int:
    """Return the smallest reference count of an object without other owners."""
    return next(filter(is_own, count()))


def _part_is_own(references: int) -> bool:
    value = [bytearray()]
    return _are_own(value, None, references)


def _attributes_are_own(references: int) -> bool:
    value = _Plain()
    attributes = vars(value)
    return getrefcount(attributes) <= references


_PART = _fewest(_part_is_own)
_ATTRIBUTES = _fewest(_attributes_are_own)


def _result_is_own(references: int) -> bool:
    block: list[Any] = []
    result = bytearray()
    block.append(result)
    return may_wait(result, None, references)


def _results_are_own(references: int) -> bool:
    results = [bytearray()]
    return all_may_wait(results, None, references)


OF_A_RESULT = _fewest(_result_is_own)
"""Reference count for :func:`may_wait` if a result is in one variable and one list."""

OF_RESULTS = _fewest(_results_are_own)
"""Reference count for :func:`all_may_wait` if the results are in one variable."""
