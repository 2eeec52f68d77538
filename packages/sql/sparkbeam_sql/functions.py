"""Functions and aggregates of lowered queries, which run in workers: they need no parser of SQL."""

import calendar
import functools
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import (
    ROUND_CEILING,
    ROUND_DOWN,
    ROUND_FLOOR,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DecimalException,
    localcontext,
)
from operator import index
from typing import Any

import numpy as np
from apache_beam.utils.timestamp import Timestamp

IN_SPARK = "sparkbeam_sql_"
"""Begin of the names of these functions in queries of Spark."""


def integer(number: Any) -> int:
    """Return an integer, which may be a NumPy scalar, as one of Python's.

    Raises:
        TypeError: it is another number, or a text.
    """
    return index(number)


def real(number: Any) -> float:
    """Return a number, which may be a NumPy scalar, as one of Python's.

    Raises:
        TypeError: it is a text.
    """
    if isinstance(number, str):
        raise TypeError(f"must be a number, not {type(number).__name__}")
    return float(number)


def quotient(left: int, right: int) -> int:
    """Divide integers; the result is truncated."""
    return left // right if (left < 0) == (right < 0) else -(-left // right)


def modulo(left: int, right: int) -> int:
    """Return the remainder of a truncated division; it has the sign of ``left``."""
    return left % abs(right) if left >= 0 else -(-left % abs(right))


# Texts.


def replaced(text: str, old: str, new: str) -> str:
    """Replace parts of a text; an empty part is not replaced."""
    return text.replace(old, new) if old else text


def capitals(text: str) -> str:
    """Return a text with a capital at the begin of each word of letters and digits of ASCII."""
    return _WORD.sub(
        lambda word: word[0][0].translate(_UPPER) + word[0][1:].translate(_LOWER), text
    )


_WORD = re.compile("[a-zA-Z0-9]+")
_LOWER = {each: each + 32 for each in range(ord("A"), ord("Z") + 1)}
_UPPER = {lower: upper for upper, lower in _LOWER.items()}


def position(text: str, part: str, start: int) -> int:
    """Return the position of a part from another one on, before it if that counts from the end.

    Raises:
        ValueError: ``start`` is 0.
    """
    if start == 0:
        raise ValueError("The FROM of POSITION in SQL must not be 0.")
    if start > 0:
        return 0 if start > len(text) else text.find(part, start - 1) + 1
    last = len(text) + start
    return 0 if last < 0 else text.rfind(part, 0, last + len(part)) + 1


def substring(text: Any, start: int, length: int | None = None) -> Any:
    """Return a part of a text; positions before the first character count.

    Raises:
        ValueError: the length is negative.
    """
    if length is not None and length < 0:
        raise ValueError("The length of a SUBSTRING in SQL must not be negative.")
    end = len(text) if length is None else max(start + length - 1, 0)
    return text[max(start - 1, 0) : end]


def overlay(text: str, part: str, start: int, length: int | None = None) -> str:
    """Return a text with another one in the place of some characters."""
    end = start - 1 + (len(part) if length is None else length)
    return text[: max(start - 1, 0)] + part + text[max(end, 0) :]


def padded(text: str, length: int, fill: str, is_left: bool) -> str:
    """Return a text of a length: filled, or cut."""
    missing = max(length - len(text), 0)
    more = (fill * missing)[:missing]
    return (more + text if is_left else text + more)[: max(length, 0)]


def of_hex(text: str) -> bytes:
    """Return bytes by their hexadecimal digits.

    Raises:
        ValueError: it has others.
    """
    if re.fullmatch("(?:[0-9a-fA-F]{2})*", text) is None:
        raise ValueError("A string in SQL does not consist of pairs of hexadecimal digits.")
    return bytes.fromhex(text)


def digest(name: str, value: Any) -> bytes:
    """Return a digest of bytes, or of a text."""
    return hashlib.new(name, value.encode() if isinstance(value, str) else value).digest()


def boolean_of_text(text: str) -> bool:
    """Return the truth value that a text is.

    Raises:
        ValueError: it is none in SQL.
    """
    found = {"TRUE": True, "FALSE": False}.get(text.strip(" ").upper())
    if found is None:
        raise ValueError("A string in SQL is not a BOOLEAN.")
    return found


def text_of_real(number: float) -> str:
    """Return the text of a number, as Java has it, but ``0E0`` for zero."""
    return _text_of_real(number, repr(float(number)))


def text_of_single(number: float) -> str:
    """Return the text of a number of 32 bits."""
    return _text_of_real(number, repr(float(str(np.float32(number)))))


def _text_of_real(number: float, shortest: str) -> str:
    if number == 0:
        return "0E0"
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    sign, figures, exponent = Decimal(shortest).normalize().as_tuple()
    text = "".join(map(str, figures))
    power = int(exponent) + len(text) - 1
    if -3 <= power < 7:
        plain = f"{abs(Decimal(shortest)):f}"
        found = plain if "." in plain else f"{plain}.0"
    else:
        found = f"{text[0]}.{text[1:] or '0'}E{power}"
    return f"-{found}" if sign else found


def text_of_decimal(number: Decimal, scale: int | None) -> str:
    """Return the text of a decimal without the zero before its point.

    Args:
        scale: digits behind the point; None for as many as it needs.
    """
    if scale is not None:
        text = f"{number.quantize(Decimal(1).scaleb(-scale), context=_DECIMALS):f}"
    else:
        text = f"{number:f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    if not number:
        text = text.lstrip("-")
    return re.sub(r"^(-?)0\.", r"\1.", text)


def matches(pattern: str, text: str) -> bool:
    """Return whether a regular expression matches a whole text."""
    return _compiled(pattern).fullmatch(text) is not None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


# Numbers.


def whole(number: int, bits: int) -> int:
    """Return an integer.

    Raises:
        OverflowError: it needs more bits.
    """
    if number < -(1 << bits - 1) or number >= 1 << bits - 1:
        raise OverflowError(f"A number in SQL is out of the range of {bits} bits.")
    return number


def single(number: float) -> float:
    """Round a number to one of 32 bits."""
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def number_of(kind: Callable[[str], Any], text: str) -> Any:
    """Return the ``int``, ``float`` or ``Decimal`` that a text is.

    Raises:
        ValueError: it is none in SQL.
    """
    # Python alone takes other digits, and underscores, for parts of a number.
    if text.isascii() and "_" not in text:
        with suppress(ValueError, DecimalException):
            return kind(text)
    raise ValueError(f"A string in SQL is not a {'whole number' if kind is int else 'number'}.")


def whole_of_real(number: float) -> int:
    """Return the integer part of a number.

    Raises:
        OverflowError: it is infinite, or not a number.
    """
    if not abs(number) < math.inf:
        raise OverflowError("A number in SQL is NaN or infinite, which no integer is.")
    return int(number)


_DECIMALS = Context(prec=38, rounding=ROUND_HALF_UP)
_LAST = Decimal(1).scaleb(-18)


def _exact(number: Decimal) -> Decimal:
    if number.adjusted() >= 38 and number:
        raise OverflowError("A number in SQL is out of the range of 38 digits.")
    exponent = number.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -18:
        return number.quantize(_LAST, context=_DECIMALS)
    return number


def decimal_sum(left: Decimal, right: Decimal) -> Decimal:
    """Add decimals of 38 digits."""
    return _exact(_DECIMALS.add(left, right))


def decimal_difference(left: Decimal, right: Decimal) -> Decimal:
    """Subtract decimals of 38 digits."""
    return _exact(_DECIMALS.subtract(left, right))


def decimal_product(left: Decimal, right: Decimal) -> Decimal:
    """Multiply decimals; the result has 38 digits, at most 18 of them behind the point."""
    return _exact(_DECIMALS.multiply(left, right))


def decimal_quotient(left: Decimal, right: Decimal) -> Decimal:
    """Divide decimals; the result has 38 digits, at most 18 of them behind the point."""
    return _exact(_DECIMALS.divide(left, _divisor(right)))


def decimal_remainder(left: Decimal, right: Decimal) -> Decimal:
    """Return the remainder of a truncated division; it has the sign of ``left``."""
    return _exact(_DECIMALS.remainder(left, _divisor(right)))


def _divisor(number: Decimal) -> Decimal:
    if not number:
        raise ZeroDivisionError("Decimal division by zero in SQL.")
    return number


def without_zeros(number: Decimal) -> Decimal:
    """Return a decimal without zeros at its end, as equal ones are equal keys."""
    found = _DECIMALS.add(number.normalize(_DECIMALS), Decimal(0))
    return found.quantize(Decimal(1), context=_DECIMALS) if found == found.to_integral() else found


def decimal_total(numbers: Iterable[Decimal]) -> Decimal:
    """Add all decimals."""
    return functools.reduce(decimal_sum, numbers, Decimal(0))


def decimal_of(value: Any, precision: int, scale: int) -> Decimal | None:
    """Return a number or a text as a decimal, rounded half away from zero.

    Numbers that are infinite, or none, are None.

    Raises:
        OverflowError: it has more digits.
        ValueError: a text is no number.
    """
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            return None
        exact = Decimal(repr(float(value)))
    elif isinstance(value, str):
        exact = number_of(Decimal, value)
    else:
        exact = Decimal(_plain(value))
    if not exact.is_finite():
        raise ValueError("A string in SQL is not a number.")
    with localcontext(prec=400):
        found = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) + 0
        if abs(found) >= Decimal(1).scaleb(precision - scale):
            raise OverflowError(f"A number in SQL is out of the range of {precision} digits.")
    return found


def nullif(value: Any, other: Any) -> Any:
    """Return a value, or None if it is equal to another one."""
    return None if value is not None and value == other else value


def rounded(number: Any, digits: int) -> Any:
    """Round a number half away from zero; the result has its type."""
    return _with_digits(number, digits, ROUND_HALF_UP)


def rounded_real(number: float, digits: int) -> float:
    """Round a floating-point number."""
    return float(rounded(number, digits))


def rounded_decimal(number: Decimal, digits: int) -> Decimal:
    """Round a decimal."""
    return Decimal(rounded(number, digits))


def truncated(number: Any, digits: int) -> Any:
    """Drop digits behind a place; the result has the type of the number."""
    return _with_digits(number, digits, ROUND_DOWN)


def truncated_real(number: float, digits: int) -> float:
    """Drop digits of a floating-point number."""
    return float(truncated(number, digits))


def truncated_decimal(number: Decimal, digits: int) -> Decimal:
    """Drop digits of a decimal."""
    return Decimal(truncated(number, digits))


def _with_digits(number: Any, digits: int, rounding: str) -> Any:
    if isinstance(number, float) and not math.isfinite(number):
        return number
    with localcontext(prec=400):
        exact = number if isinstance(number, Decimal) else Decimal(repr(_plain(number)))
        places = max(min(int(digits), 350), -350)
        found = exact.quantize(Decimal(1).scaleb(-places), rounding) if exact else exact
    if isinstance(number, Decimal):
        return _exact(found)
    return float(found) + 0.0 if isinstance(number, float | np.floating) else int(found)


def _plain(number: Any) -> Any:
    return number.item() if isinstance(number, np.generic) else number


def floor(number: Any) -> Any:
    """Round a number down; the result has its type."""
    return _whole(number, math.floor, ROUND_FLOOR)


def ceiling(number: Any) -> Any:
    """Round a number up; the result has its type."""
    return _whole(number, math.ceil, ROUND_CEILING)


def _whole(number: Any, of_float: Callable[[float], int], rounding: str) -> Any:
    if isinstance(number, Decimal):
        with localcontext(prec=400):
            return number.to_integral_value(rounding)
    return float(of_float(number)) if math.isfinite(number) else number


def sign(number: Any) -> Any:
    """Return -1, 0 or 1, in the type of a number."""
    if number != number:
        return number
    return type(number)(1 if number > 0 else -1 if number < 0 else 0)


def greatest(*values: Any) -> Any:
    """Return the greatest of some values; NaN is greater than all other numbers."""
    return max(values, key=_nan_last)


def least(*values: Any) -> Any:
    """Return the least of some values."""
    return min(values, key=_nan_last)


def _nan_last(value: Any) -> tuple[bool, Any]:
    is_nan = value != value
    return is_nan, 0 if is_nan else value


def of_real(name: str, *numbers: float) -> float:
    """Return a function of NumPy; NaN or infinite where it has no value."""
    with np.errstate(all="ignore"):
        return float(getattr(np, name)(*map(np.float64, numbers)))


def cotangent(number: float) -> float:
    """Return a cotangent; that of 0 is infinite."""
    with np.errstate(all="ignore"):
        return float(np.float64(1) / np.tan(np.float64(number)))


def element_at(array: Sequence[Any], position: int) -> Any:
    """Return an element of an array, which begins with 1; None if there is none."""
    return array[position - 1] if 0 < position <= len(array) else None


def only_element(array: Sequence[Any]) -> Any:
    """Return the element of an array of one; None for an empty array.

    Raises:
        ValueError: there are more.
    """
    if len(array) > 1:
        raise ValueError("ELEMENT in SQL got an array of several elements, expected one.")
    return array[0] if array else None


def root(number: float) -> float:
    """Return the square root; that of a negative number is not a number."""
    return math.sqrt(number) if number >= 0 else math.nan


# Times.

MICROS = {
    **{"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 10**6, "MINUTE": 60 * 10**6},
    **{"HOUR": 3600 * 10**6, "DAY": 86400 * 10**6, "WEEK": 7 * 86400 * 10**6},
}
"""Microseconds of the units of time up to a week."""

LONG_UNITS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1200} | {
    "MILLENNIUM": 12000
}
"""Months of longer ones."""


_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_CLOCK = re.compile(r"[^ T]+(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)?", re.ASCII)


def day_of_text(text: str) -> date:
    """Return the day that a text begins with, such as ``2024-02-29``.

    Raises:
        ValueError: it begins with none.
    """
    found = _DAY.fullmatch(text.strip())
    with suppress(ValueError):
        if found is not None:
            return date(*(int(part or 1) for part in found.groups()))
    raise ValueError("A string in SQL is not a date.")


def micros_of_text(text: str) -> int:
    """Return the time in UTC that a text is, in microseconds; further digits are left out.

    Raises:
        ValueError: it is none.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        raise ValueError("A string in SQL is not a timestamp.")
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    micros = int(((found[4] or "") + "000000")[:6])
    day = datetime.combine(day_of_text(text), datetime.min.time(), UTC)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("A string in SQL is not a timestamp.")
    moment = day.replace(hour=hour, minute=minute, second=second, microsecond=micros)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _moment(time: Timestamp) -> datetime:
    try:
        return time.to_utc_datetime(has_tz=True)
    except (OverflowError, ValueError):
        raise OverflowError("A timestamp in SQL is not within the years 1 to 9999.") from None


def day_of_time(time: Timestamp) -> date:
    """Return the day of a time in UTC."""
    return _moment(time).date()


def time_of_day(day: date) -> Timestamp:
    """Return the begin of a day in UTC."""
    return Timestamp((day.toordinal() - date(1970, 1, 1).toordinal()) * 86400)


def text_of_time(time: Timestamp) -> str:
    """Return the text of a time in UTC, without zeros at the end of its seconds."""
    text = _moment(time).replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if "." in text else text


def floor_time(time: Timestamp, unit: str) -> Timestamp:
    """Return the begin of the unit in which a time is; weeks begin on Sundays."""
    if unit in MICROS:
        # The first day of 1970 was a Thursday.
        shift = 4 * MICROS["DAY"] if unit == "WEEK" else 0
        return Timestamp(micros=time.micros - (time.micros + shift) % MICROS[unit])
    day = _moment(time).replace(hour=0, minute=0, second=0, microsecond=0)
    month, year = 1, day.year
    if unit in ("MONTH", "QUARTER"):
        month = day.month - (day.month - 1) % LONG_UNITS[unit]
    elif unit != "YEAR":
        years = LONG_UNITS[unit] // 12
        first = 0 if unit == "DECADE" else 1
        year -= (year - first) % years
    return Timestamp.from_utc_datetime(day.replace(year=year, month=month, day=1))


def ceiling_time(time: Timestamp, unit: str) -> Timestamp:
    """Return a time that is the begin of a unit, or else the begin of the next one."""
    begin = floor_time(time, unit)
    if begin == time:
        return time
    if unit in MICROS:
        return Timestamp(micros=begin.micros + MICROS[unit])
    return months_later(begin, LONG_UNITS[unit])


def months_later(time: Timestamp, months: int) -> Timestamp:
    """Return the same time of a later month; its last day if it has fewer days."""
    moment = _moment(time)
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise OverflowError("A timestamp in SQL is not within the years 1 to 9999.")
    last = calendar.monthrange(year, month + 1)[1]
    later = moment.replace(year=year, month=month + 1, day=min(moment.day, last))
    return Timestamp.from_utc_datetime(later)


def months_between(start: Timestamp, end: Timestamp) -> int:
    """Return the number of whole months to another time; the last day of a month ends one."""
    if end < start:
        return -months_between(end, start)
    one, other = map(_moment, (start, end))
    months = (other.year - one.year) * 12 + other.month - one.month
    return months - 1 if months_later(start, months) > end else months


def part_of_time(unit: str, time: Timestamp) -> int:
    """Return a part of a time in UTC: weeks are those of ISO, and Sunday is day 1 of a week."""
    if unit == "EPOCH":
        return quotient(time.micros, 10**6)
    if unit in MICROS and unit not in ("DAY", "WEEK"):
        inner = (
            86400 * 10**6 if unit == "HOUR" else 3600 * 10**6 if unit == "MINUTE" else 60 * 10**6
        )
        return int(time.micros % inner // MICROS[unit])
    return _PARTS[unit](_moment(time))


_PARTS: dict[str, Callable[[datetime], int]] = {
    "MILLENNIUM": lambda moment: (moment.year + 999) // 1000,
    "CENTURY": lambda moment: (moment.year + 99) // 100,
    "DECADE": lambda moment: moment.year // 10,
    "YEAR": lambda moment: moment.year,
    "ISOYEAR": lambda moment: moment.isocalendar().year,
    "QUARTER": lambda moment: (moment.month + 2) // 3,
    "MONTH": lambda moment: moment.month,
    "WEEK": lambda moment: moment.isocalendar().week,
    "DAY": lambda moment: moment.day,
    "DOW": lambda moment: moment.isoweekday() % 7 + 1,
    "ISODOW": lambda moment: moment.isoweekday(),
    "DOY": lambda moment: moment.timetuple().tm_yday,
}
