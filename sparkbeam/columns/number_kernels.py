"""Kernels over numbers and bools with Python's exact results, or FallBack.

Each takes values of one type and returns a vector. int64 stands for int while results fit; float64
is Python's float.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.python_types import TIMESTAMP
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import Value, Vector, arrow_of, bare, nulls_of, numpy_of

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
_EXACT_FLOAT = 2**53
_TOO_LARGE = "an int exceeds 64 bits"
_ZERO = "it divides by zero"


def _checked(kernel: Callable[..., Any]) -> Callable[..., Vector]:
    def checked(*args: Value) -> Vector:
        try:
            return Vector(numpy_of(kernel(*(arrow_of(arg, pa.int64()) for arg in args))))
        except pa.ArrowInvalid:
            raise FallBack(_TOO_LARGE) from None

    return checked


add_ints = _checked(pc.add_checked)
subtract_ints = _checked(pc.subtract_checked)
multiply_ints = _checked(pc.multiply_checked)
negate_int = _checked(pc.negate_checked)
abs_int = _checked(pc.abs_checked)


def _plain(function: Callable[..., Any]) -> Callable[..., Vector]:
    def applied(*args: Value) -> Vector:
        return Vector(function(*map(bare, args)))

    return applied


add_floats, subtract_floats = _plain(np.add), _plain(np.subtract)
multiply_floats, negate_float = _plain(np.multiply), _plain(np.negative)
abs_float, invert_int, invert_bool = _plain(np.abs), _plain(np.invert), _plain(np.logical_not)
and_bits, or_bits, xor_bits = _plain(np.bitwise_and), _plain(np.bitwise_or), _plain(np.bitwise_xor)
less, less_equal = _plain(np.less), _plain(np.less_equal)
greater, greater_equal = _plain(np.greater), _plain(np.greater_equal)
is_nan, is_infinite, is_finite = _plain(np.isnan), _plain(np.isinf), _plain(np.isfinite)


def equal(left: Value, right: Value) -> Vector:
    """Compute ``==`` of ints, floats or bools, any of which may be None."""
    return with_nulls_equal(left, right, np.equal)


def with_nulls_equal(left: Value, right: Value, same: Callable[[Any, Any], Any]) -> Vector:
    """Return where two values are equal, or both are None."""
    vectors = [value for value in (left, right) if isinstance(value, Vector)]
    if len(vectors) == 1 and None in (left, right):
        return is_none(vectors[0])
    data = [value.data if isinstance(value, Vector) else value for value in (left, right)]
    result = same(*data)
    if all(vector.nulls is None for vector in vectors):
        return Vector(result)
    none, other = (nulls_of(one) if isinstance(one, Vector) else np.False_ for one in (left, right))
    return Vector(np.where(none | other, none & other, result))


def is_none(value: Value) -> Vector:
    """Compute ``value is None``."""
    assert isinstance(value, Vector)
    return Vector(nulls_of(value).copy())


def truth(value: Value) -> Vector:
    """Compute ``bool(value)`` of numbers; None is False."""
    assert isinstance(value, Vector)
    result = value.data if value.data.dtype == np.bool_ else value.data != 0
    return Vector(result if value.nulls is None else result & ~value.nulls)


bool_as_int = _plain(lambda data: data.astype(np.int64))
"""Kernel that converts a bool to int, for arithmetic."""

as_float = _plain(lambda data: data.astype(np.float64))
"""Kernel that converts an int to float, rounded to even as in Python."""


def as_exact_float(value: Value) -> Vector:
    """Convert an int to the equal float, or refuse; for comparisons with floats."""
    _require_exact_float(value)
    return as_float(value)


def _require_exact_float(value: Value) -> None:
    data = bare(value)
    outside = np.max(data) > _EXACT_FLOAT or np.min(data) < -_EXACT_FLOAT
    if outside:
        raise FallBack("an int without an exact float is divided or combined with a float")


def divide_ints(left: Value, right: Value) -> Vector:
    """Compute ``/`` of ints; refuses ints that floats cannot hold exactly."""
    _require_exact_float(left)
    _require_exact_float(right)
    return divide_floats(left, right)


def divide_floats(left: Value, right: Value) -> Vector:
    """Compute ``/`` of floats, or of ints as floats."""
    return Vector(np.true_divide(bare(left), _divisor(right)))


def _divisor(right: Value) -> Any:
    data = bare(right)
    if np.any(np.equal(data, 0)):
        raise FallBack(_ZERO)
    return data


def floor_divide_ints(left: Value, right: Value) -> Vector:
    """Compute ``//`` of ints."""
    dividend, divisor = _division(left, right)
    return Vector(np.floor_divide(dividend, divisor))


def modulo_ints(left: Value, right: Value) -> Vector:
    """Compute ``%`` of ints."""
    dividend, divisor = _division(left, right)
    if isinstance(divisor, np.ndarray):
        return Vector(np.remainder(dividend, divisor))
    # numpy divides by one number far faster than it takes remainders. The product may leave
    # 64 bits where the quotient was rounded down; the difference comes back.
    product = np.floor_divide(dividend, divisor)
    product *= np.int64(divisor)
    return Vector(np.subtract(dividend, product, out=product))


def _division(left: Value, right: Value) -> tuple[Any, Any]:
    dividend, divisor = bare(left), _divisor(right)
    if np.any(np.equal(divisor, -1)) and np.any(np.equal(dividend, SMALLEST)):
        raise FallBack(_TOO_LARGE)
    return dividend, divisor


def floor_divide_floats(left: Value, right: Value) -> Vector:
    """Compute ``//`` of finite floats, for which numpy uses Python's algorithm."""
    return Vector(np.floor_divide(_finite(left), _finite(_divisor(right))))


def modulo_floats(left: Value, right: Value) -> Vector:
    """Compute ``%`` of finite floats."""
    return Vector(np.remainder(_finite(left), _finite(_divisor(right))))


def _finite(value: Any) -> Any:
    data = bare(value) if isinstance(value, Vector) else value
    if not np.all(np.isfinite(data)):
        raise FallBack("it divides or rounds a value that is not finite")
    return data


def shift_left(left: Value, right: Value) -> Vector:
    """Compute ``<<`` of ints."""
    data, bits = bare(left), _bits(right)
    if np.any(bits > 62):
        raise FallBack(_TOO_LARGE)
    shifted = np.left_shift(data, bits)
    if not np.array_equal(np.right_shift(shifted, bits), np.broadcast_to(data, np.shape(shifted))):
        raise FallBack(_TOO_LARGE)
    return Vector(shifted)


def shift_right(left: Value, right: Value) -> Vector:
    """Compute ``>>`` of ints."""
    return Vector(np.right_shift(bare(left), np.minimum(_bits(right), 63)))


def _bits(value: Value) -> Any:
    bits = np.asarray(bare(value), np.int64)
    if np.any(bits < 0):
        raise FallBack("it shifts by a negative number")
    return bits


def power(exponent: int) -> Callable[[Value], Vector]:
    """Return the kernel of ``**`` of ints and a small, non-negative constant."""

    def raised(value: Value) -> Vector:
        data = bare(value)
        result = Vector(np.ones(len(data), np.int64))
        for _ in range(exponent):
            result = multiply_ints(result, Vector(data))
        return result

    return raised


def rounded_to_int(function: Callable[[Any], Any]) -> Callable[[Value], Vector]:
    """Return the kernel that converts floats to ints."""

    def applied(value: Value) -> Vector:
        whole = function(_finite(value))
        if np.any(whole >= 2.0**63) or np.any(whole < -(2.0**63)):
            raise FallBack(_TOO_LARGE)
        return Vector(whole.astype(np.int64))

    return applied


truncated, floored = rounded_to_int(np.trunc), rounded_to_int(np.floor)
raised_up, rounded = rounded_to_int(np.ceil), rounded_to_int(np.rint)


def rounded_to(digits: int) -> Callable[[Value], Vector]:
    """Return the kernel of ``round`` of floats to 0 to 22 decimal places.

    The power of ten is exact, and so is the rounded product, unless the product lies within its
    rounding error of the midpoint between two integers. Python rounds these values.
    """
    scale = 10.0**digits

    def applied(value: Value) -> Vector:
        data = bare(value)
        product = data * scale
        size = np.abs(product)
        from_middle = np.abs(size - np.floor(size) - 0.5)
        result = np.rint(product) / scale
        for at in np.flatnonzero(~((size < 2.0**50) & (from_middle > size * 2.0**-50))):
            result[at] = round(float(data[at]), digits)
        return Vector(result)

    return applied


def square_root(value: Value) -> Vector:
    """Compute ``math.sqrt``."""
    data = bare(value)
    if np.any(data < 0):
        raise FallBack("it takes the root of a negative number")
    return Vector(np.sqrt(data))


def contained(constants: frozenset[Any], has_none: bool) -> Callable[[Value], Vector]:
    """Return the kernel of ``in`` for numbers, str or bytes.

    Args:
        constants: values of the type of the column.
        has_none: whether None is among the constants, too.
    """
    wanted = sorted(constants)

    def applied(value: Value) -> Vector:
        assert isinstance(value, Vector)
        data = value.data
        if isinstance(data, np.ndarray):
            found = np.isin(data, np.array(wanted, data.dtype))
        else:
            found = numpy_of(pc.is_in(data, pa.array(wanted, data.type)))
        if value.nulls is not None:
            found = np.where(value.nulls, has_none, found)
        return Vector(found)

    return applied


def timestamps(micros: Value) -> Value:
    """Return Timestamps as columns hold them."""
    data = bare(micros)
    if not isinstance(data, np.ndarray):
        return data  # A constant.
    return Vector(pa.array(data).view(TIMESTAMP.arrow_type))
