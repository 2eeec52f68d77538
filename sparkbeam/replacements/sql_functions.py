"""Functions and aggregates of lowered queries, which run in workers: they need no parser of SQL."""

import functools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import (
    ROUND_CEILING,
    ROUND_FLOOR,
    ROUND_HALF_UP,
    Context,
    Decimal,
    DecimalException,
    localcontext,
)
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import coders
from apache_beam.utils.timestamp import Timestamp


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


def whole_of_text(text: str) -> int:
    """Return the integer that a text is.

    Raises:
        ValueError: it is none in SQL.
    """
    return int(_of_number(text, "whole number"))


def real_of_text(text: str) -> float:
    """Return the number that a text is.

    Raises:
        ValueError: it is none in SQL.
    """
    return float(_of_number(text, "number"))


def _of_number(text: str, what: str) -> str:
    """Return a text that has nothing that Python alone takes for a part of a number."""
    if not text.isascii() or "_" in text:
        raise ValueError(f"A text in SQL is no {what}.")
    return text


_DECIMALS = Context(prec=38, rounding=ROUND_HALF_UP)
_LAST = Decimal(1).scaleb(-18)


def _exact(number: Decimal) -> Decimal:
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
    return _exact(_DECIMALS.divide(left, right))


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
        value = repr(float(value))
    elif isinstance(value, str) and (not value.isascii() or "_" in value):
        raise ValueError("A text in SQL is no number.")
    try:
        exact = Decimal(_plain(value))
    except DecimalException:
        raise ValueError("A text in SQL is no number.") from None
    if not exact.is_finite():
        raise ValueError("A text in SQL is no number.")
    with localcontext() as context:
        context.prec = 400
        found = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP) + 0
        if abs(found) >= Decimal(1).scaleb(precision - scale):
            raise OverflowError(f"A number in SQL is out of the range of {precision} digits.")
    return found


def nullif(value: Any, other: Any) -> Any:
    """Return a value, or None if it is equal to another one."""
    return None if value is not None and value == other else value


def rounded(number: Any, digits: int) -> Any:
    """Round a number half away from zero; the result has its type."""
    if isinstance(number, float) and not math.isfinite(number):
        return number
    with localcontext() as context:
        context.prec = 400
        exact = number if isinstance(number, Decimal) else Decimal(repr(_plain(number)))
        found = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    if isinstance(number, Decimal):
        return found
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
        with localcontext() as context:
            context.prec = 400
            return number.to_integral_value(rounding)
    return float(of_float(number)) if math.isfinite(number) else number


def root(number: float) -> float:
    """Return the square root; that of a negative number is not a number."""
    return math.sqrt(number) if number >= 0 else math.nan


def power(base: float, exponent: float) -> float:
    """Return a power; one that is too large is infinite."""
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(base), np.float64(exponent)))


def exponential(number: float) -> float:
    """Return a power of Euler's number; one that is too large is infinite."""
    with np.errstate(all="ignore"):
        return float(np.exp(np.float64(number)))


# Times.

MICROS = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6, "DAY": 86400 * 10**6}
"""Microseconds of the units of time up to a day."""


_DAY = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_CLOCK = re.compile(r"[^ T]+(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,9}))?)?)?", re.ASCII)


def day_of_text(text: str) -> date:
    """Return the day that a text begins with, such as ``2024-02-29``.

    Raises:
        ValueError: it begins with none.
    """
    found = _DAY.fullmatch(text.strip())
    if found is None:
        raise ValueError("A text in SQL is no date.")
    year, month, day = (int(part or 1) for part in found.groups())
    return date(year, month, day)


def micros_of_text(text: str) -> int:
    """Return the time in UTC that a text is, in microseconds; further digits are left out.

    Raises:
        ValueError: it is none.
    """
    found = _CLOCK.fullmatch(text.strip())
    if found is None:
        raise ValueError("A text in SQL is no timestamp.")
    hour, minute, second = (int(part or 0) for part in found.groups()[:3])
    micros = int(((found[4] or "") + "000000")[:6])
    day = datetime.combine(day_of_text(text), datetime.min.time(), UTC)
    moment = day.replace(hour=hour, minute=minute, second=second, microsecond=micros)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def day_of_time(time: Timestamp) -> date:
    """Return the day of a time in UTC."""
    return time.to_utc_datetime().date()


def time_of_day(day: date) -> Timestamp:
    """Return the begin of a day in UTC."""
    return Timestamp((day.toordinal() - date(1970, 1, 1).toordinal()) * 86400)


def text_of_time(time: Timestamp) -> str:
    """Return the text of a time in UTC, without zeros at the end of its seconds."""
    text = time.to_utc_datetime().isoformat(" ")
    return text.rstrip("0") if "." in text else text


def floor_time(time: Timestamp, unit: str) -> Timestamp:
    """Return the begin of the unit in which a time is; weeks begin on Mondays."""
    if unit in MICROS:
        return Timestamp(micros=time.micros - time.micros % MICROS[unit])
    day = time.to_utc_datetime(has_tz=True).replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "WEEK":
        return Timestamp.from_utc_datetime(day - timedelta(days=day.weekday()))
    month = {"MONTH": day.month, "QUARTER": (day.month - 1) // 3 * 3 + 1}.get(unit, 1)
    return Timestamp.from_utc_datetime(day.replace(month=month, day=1))


def ceiling_time(time: Timestamp, unit: str) -> Timestamp:
    """Return a time that is the begin of a unit, or else the begin of the next one."""
    begin = floor_time(time, unit)
    if begin == time:
        return time
    if unit in MICROS:
        return Timestamp(micros=begin.micros + MICROS[unit])
    longest = {"WEEK": 7, "MONTH": 31, "QUARTER": 92}.get(unit, 366)
    return floor_time(begin + longest * 86400, unit)


def part_of_time(unit: str, time: Timestamp) -> int:
    """Return a part of a time in UTC: weeks are those of ISO, and Sunday is day 1 of a week."""
    if unit in ("HOUR", "MINUTE", "SECOND"):
        whole = time.micros // MICROS[unit]
        return int(whole % (24 if unit == "HOUR" else 60))
    moment = time.to_utc_datetime(has_tz=True)
    return _PARTS[unit](moment)


_PARTS: dict[str, Callable[[datetime], int]] = {
    "YEAR": lambda moment: moment.year,
    "QUARTER": lambda moment: (moment.month + 2) // 3,
    "MONTH": lambda moment: moment.month,
    "WEEK": lambda moment: moment.isocalendar().week,
    "DAY": lambda moment: moment.day,
    "DOW": lambda moment: moment.isoweekday() % 7 + 1,
    "DOY": lambda moment: moment.timetuple().tm_yday,
}


# Aggregates.


class Best(beam.CombineFn):
    """The least or greatest value that is not None.

    Args:
        choose: ``min`` or ``max``.
    """

    def __init__(self, choose: Callable[[Any], Any]) -> None:
        super().__init__()
        self._choose = choose

    def create_accumulator(self) -> Any:
        return None

    def add_input(self, best: Any, value: Any) -> Any:
        return self._of((best, value))

    def merge_accumulators(self, accumulators: Any) -> Any:
        return self._of(accumulators)

    def extract_output(self, best: Any) -> Any:
        return best

    def _of(self, values: Any) -> Any:
        present = [value for value in values if value is not None]
        return self._choose(present) if present else None


class Present(beam.CombineFn):
    """Another CombineFn over the values that are not None.

    Args:
        combine: the other one.
    """

    def __init__(self, combine: beam.CombineFn) -> None:
        super().__init__()
        self._combine = combine

    def setup(self) -> None:
        self._combine.setup()

    def create_accumulator(self) -> Any:
        return self._combine.create_accumulator()

    def add_input(self, accumulator: Any, value: Any) -> Any:
        return accumulator if value is None else self._combine.add_input(accumulator, value)

    def merge_accumulators(self, accumulators: Any) -> Any:
        return self._combine.merge_accumulators(accumulators)

    def compact(self, accumulator: Any) -> Any:
        return self._combine.compact(accumulator)

    def extract_output(self, accumulator: Any) -> Any:
        return self._combine.extract_output(accumulator)

    def teardown(self) -> None:
        self._combine.teardown()


class CountDistinct(beam.CombineFn):
    """Number of different values that are not None."""

    def create_accumulator(self) -> set[Any]:
        return set()

    def add_input(self, values: set[Any], value: Any) -> set[Any]:
        if value is not None:
            values.add(value if value == value else None)  # NaN is one value.
        return values

    def merge_accumulators(self, accumulators: Any) -> set[Any]:
        return set().union(*accumulators)

    def extract_output(self, values: set[Any]) -> int:
        return len(values)


@dataclass(frozen=True)
class Order:
    """Order of rows by a column; NaN is greater than all other numbers.

    Attributes:
        column: its name.
        descending: the greatest value comes first.
        nulls_first: None comes before all values, or else behind them.
    """

    column: str
    descending: bool
    nulls_first: bool

    def sort(self, rows: list[Any]) -> None:
        """Sort rows; those with equal values keep their order."""
        rows.sort(key=self._key, reverse=self.descending)

    def _key(self, row: Any) -> tuple[Any, ...]:
        value = getattr(row, self.column)
        if value is None:
            return (2,) if self.nulls_first == self.descending else (-1,)
        return (0, value) if value == value else (1,)


class First(beam.CombineFn):
    """The first rows in an order, as a list.

    Args:
        orders: the order; the first one counts most.
        count: the number of rows.
        skipped: the number of rows before these.
        coder: of the rows.
    """

    def __init__(
        self, orders: tuple[Order, ...], count: int, skipped: int, coder: coders.Coder
    ) -> None:
        super().__init__()
        self._orders = orders
        self._skipped = skipped
        self._end = skipped + count if count else 0
        self._coder = coder

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, rows: list[Any], row: Any) -> list[Any]:
        rows.append(row)
        return rows if len(rows) < 2 * self._end + 100 else self.compact(rows)

    def merge_accumulators(self, accumulators: Any) -> list[Any]:
        return self.compact([row for rows in accumulators for row in rows])

    def compact(self, rows: list[Any]) -> list[Any]:
        for order in reversed(self._orders):
            order.sort(rows)
        return rows[: self._end]

    def extract_output(self, rows: list[Any]) -> list[Any]:
        return self.compact(rows)[self._skipped :]

    def get_accumulator_coder(self) -> coders.Coder:
        return coders.ListCoder(self._coder)
