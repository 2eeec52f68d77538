"""Kernels over str and bytes: exactly what Python gives, or NotExact.

Arrow compares UTF-8 byte by byte, which is the order of code points, Python's own.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.number_kernels import with_nulls_equal
from sparkbeam.columns.python_kernels import called
from sparkbeam.columns.python_types import INT, STR
from sparkbeam.columns.reasons import NotExact
from sparkbeam.columns.vectors import Value, Vector, arrow_of, bare, nulls_of, numpy_of

_WHITESPACE = "".join(chr(code) for code in range(0x3001) if chr(code).isspace())
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
    """``==``, where any may be None."""

    def same(one: Any, other: Any) -> Any:
        scalars = [side if isinstance(side, pa.Array) else _typed(side) for side in (one, other)]
        return numpy_of(pc.fill_null(pc.equal(*scalars), False))

    return with_nulls_equal(left, right, same)


def truth(value: Value) -> Vector:
    """Whether it is not empty; None is False."""
    assert isinstance(value, Vector)
    lengths = pc.binary_length(value.data)
    return Vector(numpy_of(pc.fill_null(pc.greater(lengths, 0), False)))


def length(value: Value) -> Vector:
    """``len`` of str, in code points."""
    return Vector(numpy_of(pc.utf8_length(bare(value))).astype(np.int64))


def length_of_bytes(value: Value) -> Vector:
    """``len`` of bytes."""
    return Vector(numpy_of(pc.binary_length(bare(value))).astype(np.int64))


def joined(*parts: Value) -> Vector:
    """``+``, and the parts of an f-string."""
    kind = _kind_of(parts[0])
    typed = [arrow_of(part, kind) for part in parts]
    return Vector(pc.binary_join_element_wise(*typed, pa.scalar(_empty(kind), kind)))


def _kind_of(value: Value) -> pa.DataType:
    if isinstance(value, Vector):
        return value.data.type
    return pa.binary() if isinstance(value, bytes) else pa.string()


def _empty(kind: pa.DataType) -> Any:
    return b"" if pa.types.is_binary(kind) else ""


def of_int(value: Value) -> Vector:
    """``str`` of ints."""
    return Vector(pa.array(bare(value)).cast(pa.string()))


def of_bool(value: Value) -> Vector:
    """``str`` of bools."""
    return Vector(pc.if_else(pa.array(bare(value)), "True", "False"))


def as_int(value: Value) -> Vector:
    """``int`` of str, of plain decimal digits."""
    data = _matching(value, _WHOLE)
    return Vector(numpy_of(data.cast(pa.int64())))


def as_float(value: Value) -> Vector:
    """``float`` of str, of plain decimal digits: both round correctly."""
    data = _matching(value, _DECIMAL)
    return Vector(numpy_of(data.cast(pa.float64())))


def _matching(value: Value, pattern: str) -> Any:
    data = bare(value)
    # RE2's $ is the end of the text, where Python's also goes before a newline at the end.
    if not pc.all(pc.match_substring_regex(data, pattern)).as_py():
        raise NotExact("it reads a number that is not written plainly")
    return data


def _of_ascii(
    kernel: Callable[..., Any], of_all: Callable[[Value], Vector]
) -> Callable[[Value], Vector]:
    """What a kernel gives for ASCII alone, and something slower for all text."""

    def applied(value: Value) -> Vector:
        data = bare(value)
        is_ascii = pc.all(pc.string_is_ascii(data)).as_py()
        return Vector(kernel(data)) if is_ascii else of_all(value)

    return applied


upper = _of_ascii(pc.ascii_upper, called(str.upper, STR))
lower = _of_ascii(pc.ascii_lower, called(str.lower, STR))


def trimmed(kernel: Callable[..., Any], characters: str | None) -> Callable[[Value], Vector]:
    """``strip`` and its kin.

    Args:
        kernel: Arrow's trim.
        characters: what is taken off; whitespace, as Python has it, if None.
    """
    taken_off = _WHITESPACE if characters is None else characters

    def applied(value: Value) -> Vector:
        return Vector(kernel(bare(value), characters=taken_off))

    return applied


def matched(kernel: Callable[..., Any], patterns: tuple[Any, ...]) -> Callable[[Value], Vector]:
    """Whether any of some patterns is where Arrow's ``kernel`` looks for it."""

    def applied(value: Value) -> Vector:
        data = bare(value)
        found = np.zeros(len(data), np.bool_)
        for pattern in patterns:
            found |= numpy_of(kernel(data, pattern))
        return Vector(found)

    return applied


def counted(pattern: Any) -> Callable[[Value], Vector]:
    """How often a pattern occurs that is not empty, without overlaps."""

    def applied(value: Value) -> Vector:
        return Vector(numpy_of(pc.count_substring(bare(value), pattern)).astype(np.int64))

    return applied


def found_at(pattern: str) -> Callable[[Value], Vector]:
    """``find``; in ASCII bytes are code points."""

    def kernel(data: Any) -> Any:
        return numpy_of(pc.find_substring(data, pattern)).astype(np.int64)

    return _of_ascii(kernel, called(str.find, INT, pattern))


def replaced(pattern: Any, replacement: Any) -> Callable[[Value], Vector]:
    """``replace`` of a pattern that is not empty."""

    def applied(value: Value) -> Vector:
        return Vector(pc.replace_substring(bare(value), pattern=pattern, replacement=replacement))

    return applied


def sliced(start: int, stop: int | None) -> Callable[[Value], Vector]:
    """A slice of str with step 1, in code points."""

    def applied(value: Value) -> Vector:
        data = bare(value)
        return Vector(pc.utf8_slice_codeunits(data, start=start, stop=stop))

    return applied


def item(position: int) -> Callable[[Value], Vector]:
    """One character of a str."""
    needed = position + 1 if position >= 0 else -position

    def applied(value: Value) -> Vector:
        data = bare(value)
        if pc.min(pc.utf8_length(data)).as_py() < needed:
            raise NotExact("a str has fewer characters")
        stop = position + 1 or None
        return Vector(pc.utf8_slice_codeunits(data, start=position, stop=stop))

    return applied


def encoded(value: Value) -> Vector:
    """``encode`` as UTF-8."""
    return Vector(bare(value).cast(pa.binary()))


def decoded(value: Value) -> Vector:
    """``decode`` of UTF-8."""
    try:
        return Vector(bare(value).cast(pa.string()))
    except pa.ArrowInvalid:
        raise NotExact("bytes are no UTF-8") from None


def split(separator: str, most: int) -> Callable[[Value], Vector]:
    """``split`` by a constant.

    Args:
        separator: not empty.
        most: how many times at most; any number of times if negative.
    """

    def applied(value: Value) -> Vector:
        limit = None if most < 0 else most
        return Vector(pc.split_pattern(bare(value), separator, max_splits=limit))

    return applied


def part(position: int, of: int | None) -> Callable[[Value], Vector]:
    """One of the parts of a split.

    Args:
        position: which one; from the end if negative.
        of: how many there have to be; any number if None.
    """
    needed = position + 1 if position >= 0 else -position

    def applied(value: Value) -> Vector:
        data = bare(value)
        lengths = numpy_of(pc.list_value_length(data))
        if lengths.min() < needed or (of is not None and (lengths != of).any()):
            raise NotExact("it takes apart a list of another length")
        offsets = data.offsets.to_numpy()
        starts = offsets[:-1] if position >= 0 else offsets[1:]
        return Vector(data.values.take(pa.array(starts + position)))

    return applied


def length_of_list(value: Value) -> Vector:
    """``len`` of a list."""
    return Vector(numpy_of(pc.list_value_length(bare(value))).astype(np.int64))


def contained(constants: frozenset[Any], has_none: bool) -> Callable[[Value], Vector]:
    """``in`` for str or bytes.

    Args:
        constants: of the type of the values.
        has_none: whether None is among the constants, too.
    """
    wanted = sorted(constants)

    def applied(value: Value) -> Vector:
        assert isinstance(value, Vector)
        found = numpy_of(pc.is_in(value.data, pa.array(wanted, value.data.type)))
        if value.nulls is not None:
            found = np.where(nulls_of(value), has_none, found)
        return Vector(found)

    return applied
