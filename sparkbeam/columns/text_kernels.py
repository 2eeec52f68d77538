"""Kernels over str and bytes with Python's exact results, or FallBack.

Arrow compares UTF-8 byte by byte, which is the order of code points, as in Python.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.number_kernels import with_nulls_equal
from sparkbeam.columns.python_kernels import called
from sparkbeam.columns.python_types import INT, STR
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import Value, Vector, arrow_of, bare, numpy_of

WHITESPACE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
_WHOLE = "^-?[0-9]{1,18}$"
_DECIMAL = r"^-?[0-9]{1,40}(\.[0-9]{1,40})?([eE][-+]?[0-9]{1,2})?$"


def _typed(value: Value) -> Any:
    return arrow_of(value, pa.binary() if isinstance(value, bytes) else pa.string())


def _comparison(kernel: Callable[..., Any]) -> Callable[[Value, Value], Vector]:
    def compared(left: Value, right: Value) -> Vector:
        return Vector(numpy_of(kernel(_typed(left), _typed(right))))

    return compared


less, less_equal = _comparison(pc.less), _comparison(pc.less_equal)
greater, greater_equal = _comparison(pc.greater), _comparison(pc.greater_equal)


def equal(left: Value, right: Value) -> Vector:
    """Compute ``==``, where any value may be None."""

    def same(one: Any, other: Any) -> Any:
        scalars = [side if isinstance(side, pa.Array) else _typed(side) for side in (one, other)]
        return numpy_of(pc.fill_null(pc.equal(*scalars), False))

    return with_nulls_equal(left, right, same)


def truth(value: Value) -> Vector:
    """Compute ``bool(value)``; None is False."""
    assert isinstance(value, Vector)
    lengths = pc.binary_length(value.data)
    return Vector(numpy_of(pc.fill_null(pc.greater(lengths, 0), False)))


def counting(kernel: Callable[..., Any], **options: Any) -> Callable[[Value], Vector]:
    """Return the kernel that counts something in each text by one of Arrow's."""

    def applied(value: Value) -> Vector:
        return Vector(numpy_of(kernel(bare(value), **options)).astype(np.int64))

    return applied


length, length_of_bytes = counting(pc.utf8_length), counting(pc.binary_length)


def joined(*parts: Value) -> Vector:
    """Compute ``+`` of texts, or join the parts of an f-string."""
    kind = _kind_of(parts[0])
    typed = [arrow_of(part, kind) for part in parts]
    empty = b"" if pa.types.is_binary(kind) else ""
    return Vector(pc.binary_join_element_wise(*typed, pa.scalar(empty, kind)))


def _kind_of(value: Value) -> pa.DataType:
    if isinstance(value, Vector):
        return value.data.type
    return pa.binary() if isinstance(value, bytes) else pa.string()


def of_int(value: Value) -> Vector:
    """Compute ``str`` of ints."""
    return Vector(pa.array(bare(value)).cast(pa.string()))


def of_bool(value: Value) -> Vector:
    """Compute ``str`` of bools."""
    return Vector(pc.if_else(pa.array(bare(value)), "True", "False"))


def as_int(value: Value) -> Vector:
    """Compute ``int`` of str with plain decimal digits."""
    data = _matching(value, _WHOLE)
    return Vector(numpy_of(data.cast(pa.int64())))


def as_float(value: Value) -> Vector:
    """Compute ``float`` of str with plain decimal digits; both round correctly."""
    data = _matching(value, _DECIMAL)
    return Vector(numpy_of(data.cast(pa.float64())))


def _matching(value: Value, pattern: str) -> Any:
    data = bare(value)
    # RE2's $ is the end of the text, where Python's also goes before a newline at the end.
    if not pc.all(pc.match_substring_regex(data, pattern)).as_py():
        raise FallBack("it parses a number not in plain decimal notation")
    return data


def _of_ascii(
    kernel: Callable[..., Any], of_all: Callable[[Value], Vector]
) -> Callable[[Value], Vector]:
    """Return a kernel that is used if all text is ASCII, with a slower one for other text."""

    def applied(value: Value) -> Vector:
        data = bare(value)
        is_ascii = pc.all(pc.string_is_ascii(data)).as_py()
        return Vector(kernel(data)) if is_ascii else of_all(value)

    return applied


upper = _of_ascii(pc.ascii_upper, called(str.upper, STR))
lower = _of_ascii(pc.ascii_lower, called(str.lower, STR))


def in_arrow(kernel: Callable[..., Any], **options: Any) -> Callable[[Value], Vector]:
    """Return the kernel that calls one of Arrow's with constant options."""

    def applied(value: Value) -> Vector:
        return Vector(kernel(bare(value), **options))

    return applied


def matched(kernel: Callable[..., Any], patterns: tuple[Any, ...]) -> Callable[[Value], Vector]:
    """Return a kernel that tests for any of some patterns by an Arrow kernel."""

    def applied(value: Value) -> Vector:
        data = bare(value)
        found = np.zeros(len(data), np.bool_)
        for pattern in patterns:
            found |= numpy_of(kernel(data, pattern))
        return Vector(found)

    return applied


def found_at(pattern: str) -> Callable[[Value], Vector]:
    """Return the kernel of ``find``; byte offsets are code points in ASCII only."""

    def kernel(data: Any) -> Any:
        return numpy_of(pc.find_substring(data, pattern)).astype(np.int64)

    return _of_ascii(kernel, called(str.find, INT, pattern))


def item(position: int) -> Callable[[Value], Vector]:
    """Return the kernel that takes one character of a str."""
    needed = position + 1 if position >= 0 else -position

    def applied(value: Value) -> Vector:
        data = bare(value)
        if pc.min(pc.utf8_length(data)).as_py() < needed:
            raise FallBack("a str has fewer characters")
        stop = position + 1 or None
        return Vector(pc.utf8_slice_codeunits(data, start=position, stop=stop))

    return applied


encoded = in_arrow(pc.cast, target_type=pa.binary())
"""Kernel of ``encode`` as UTF-8."""


def decoded(value: Value) -> Vector:
    """Compute ``decode`` of UTF-8."""
    try:
        return Vector(bare(value).cast(pa.string()))
    except pa.ArrowInvalid:
        raise FallBack("bytes are not valid UTF-8") from None
