"""Times of SQL: their parts, their units, and what is between them, in Python and in Spark."""

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam_sql.calcite_dialect import INTEGERS, Calcite, QueryRefused, place
from sparkbeam_sql.calcite_text import SparkText
from sparkbeam_sql.calcite_types import Kind, Type, built, written
from sparkbeam_sql.calcite_values import (
    Value,
    computable,
    is_integer,
    strict,
    unknown,
)
from sparkbeam_sql.functions import LONG_UNITS, MICROS

_Values = Callable[[exp.Expr], Value]

_DAY, _TIME = "CAST({0} AS DATE)", "CAST({0} AS TIMESTAMP_NTZ)"
_SECONDS = ("SECOND", "MINUTE", "HOUR")
_SHORT = {"MICROSECOND": "'0.000001' SECOND", "MILLISECOND": "'0.001' SECOND"} | {
    unit: f"'1' {unit}" for unit in (*_SECONDS, "DAY")
}
"""Intervals of the units up to a day in Spark."""

_FIRST_DAYS = {
    "DAY": _DAY,
    "WEEK": f"DATE_SUB({_DAY}, DAYOFWEEK({_DAY}) - 1)",
    **{unit: f"TRUNC({_DAY}, '{unit}')" for unit in ("MONTH", "QUARTER", "YEAR")},
    "DECADE": f"MAKE_DATE(YEAR({_DAY}) DIV 10 * 10, 1, 1)",
    "CENTURY": f"MAKE_DATE((YEAR({_DAY}) + 99) DIV 100 * 100 - 99, 1, 1)",
    "MILLENNIUM": f"MAKE_DATE((YEAR({_DAY}) + 999) DIV 1000 * 1000 - 999, 1, 1)",
}
"""First days of the units of time from a day on in Spark; weeks begin on Sundays."""


def _unit(node: exp.Expr, found: str, *kinds: Any) -> str:
    """Return the name of a unit of time; there is none below a day for a day."""
    name = found.upper().removesuffix("S")
    if name not in {*_SHORT, *_FIRST_DAYS} or (date in kinds and name not in _FIRST_DAYS):
        raise QueryRefused(f"the unit {found} in {node.sql(Calcite)[:60]}")
    return name


def rounded_time(node: exp.Expr, name: str, found: Value, unit: str) -> Value:
    """Return the value of a time that is rounded to a unit."""
    if found.kind not in (date, Timestamp):
        raise unknown(node)
    unit = _unit(node, unit, found.kind)
    if found.kind is Timestamp:
        return strict(Timestamp, f"{name}_time({{}}, {unit!r})", found)
    return strict(date, f"day_of_time({name}_time(time_of_day({{}}), {unit!r}))", found)


def rounded_time_in_spark(node: exp.Expr, unit: str) -> exp.Expr:
    """Round a time without DATE_TRUNC, which depends on the time zone of the session."""
    is_day = node.this.is_type(Kind.DATE)
    unit = _unit(node, unit, *([date] if is_day else []))
    midnight = f"CAST({_DAY} AS TIMESTAMP_NTZ)"
    if unit in _FIRST_DAYS:
        floor = f"CAST({_FIRST_DAYS[unit]} AS TIMESTAMP_NTZ)"
    else:
        count = f"({_TIME} - {midnight}) DIV INTERVAL {_SHORT[unit]}"
        floor = f"TIMESTAMPADD({unit}, {count}, {midnight})"
    if isinstance(node, exp.Ceil):
        step = f"MONTH, {LONG_UNITS[unit]}" if unit in LONG_UNITS else f"{unit}, 1"
        floor = f"IF({floor} = {_TIME}, {_TIME}, TIMESTAMPADD({step}, {floor}))"
    return SparkText.of(f"CAST({floor} AS DATE)" if is_day else floor, node.this, type=node.type)


_PARTS = {
    **dict.fromkeys(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DOY"), ""),
    **dict.fromkeys(_SECONDS, ""),
    "ISODOW": "EXTRACT(DOW_ISO FROM {0})",
    "ISOYEAR": "EXTRACT(YEAROFWEEK FROM {0})",
    "DECADE": "YEAR({0}) DIV 10",
    "CENTURY": "(YEAR({0}) + 99) DIV 100",
    "MILLENNIUM": "(YEAR({0}) + 999) DIV 1000",
    "MILLISECOND": "FLOOR(EXTRACT(SECOND FROM {0}) * 1000)",
    "MICROSECOND": "EXTRACT(SECOND FROM {0}) * 1000000",
    "EPOCH": f"({_TIME} - TIMESTAMP_NTZ '1970-01-01 00:00:00') DIV INTERVAL '1' SECOND",
}
"""Parts of times in Spark; empty for those with the same name."""


def part_of(node: exp.Expr, unit: str, time: Value) -> Value:
    """Return the value of a part of a time."""
    is_of_day = unit not in (*_SECONDS, "MILLISECOND", "MICROSECOND")
    if time.kind is date and is_of_day:
        time = strict(Timestamp, "time_of_day({})", time)
    if time.kind is not Timestamp or unit not in _PARTS:
        raise unknown(node)
    return strict(int, f"part_of_time({unit!r}, {{}})", time)


def part_in_spark(node: exp.Expr, unit: str, time: exp.Expr) -> exp.Expr:
    """Return a part of a time in Spark."""
    if unit not in _PARTS:
        raise QueryRefused(f"the unit {unit} in {node.sql(Calcite)[:60]}")
    found = _PARTS[unit] or f"EXTRACT({unit} FROM {{0}})"
    return SparkText.of(f"CAST({found} AS BIGINT)", time, type=node.type)


def added(node: exp.Anonymous, value: _Values) -> Value:
    """Return the value of ``TIMESTAMPADD``."""
    unit, count, time = node.expressions
    return moved_by(node, value(time), value(count), _unit(node, unit.name))


def moved_by(node: exp.Expr, time: Value, count: Value, unit: str) -> Value:
    """Return the value of a time that is moved by some units."""
    if time.kind not in (date, Timestamp) or not (is_integer(count.kind) or count.kind is Any):
        raise unknown(node)
    count = computable(count)
    moment = time if time.kind is Timestamp else strict(Timestamp, "time_of_day({})", time)
    if unit in LONG_UNITS:
        found = strict(Timestamp, f"months_later({{}}, {{}} * {LONG_UNITS[unit]})", moment, count)
    else:
        form = f"Timestamp(micros={{}}.micros + {{}} * {MICROS[unit]})"
        found = strict(Timestamp, form, moment, count)
    is_day = time.kind is date and unit in _FIRST_DAYS
    return strict(date, "day_of_time({})", found) if is_day else found


def moved(node: exp.Add | exp.Sub, value: _Values) -> Value:
    """Return the value of a time and an interval of one unit."""
    interval = node.right
    unit, number = interval.args.get("unit"), interval_number(interval)
    if not isinstance(unit, exp.Var) or number is None or number % 1:
        raise unknown(node)
    sign = -1 if isinstance(node, exp.Sub) else 1
    count = Value(str(sign * int(number)), int)
    return moved_by(node, value(node.left), count, _unit(node, unit.name))


def interval_number(interval: exp.Expr) -> Decimal | None:
    """Return the number of units of an interval; None if it has no constant number."""
    sign, number = (
        (-1, interval.this.this) if isinstance(interval.this, exp.Neg) else (1, interval.this)
    )
    text = number.name.replace(" ", "") if isinstance(number, exp.Literal) else ""
    return sign * Decimal(text) if re.fullmatch(r"[-+]?\d+(\.\d+)?", text) else None


def added_in_spark(node: exp.Anonymous) -> exp.Expr:
    """Add to a day too; Spark takes it as a time in the time zone of the session."""
    given, count, time = node.expressions
    unit = _unit(node, given.name)
    if not count.is_type(*INTEGERS, Kind.NULL, Kind.UNKNOWN):
        raise QueryRefused(
            f"TIMESTAMPADD of {written(count)} units, which is no whole number{place(node)}",
            "CAST it to INTEGER.",
        )
    step = f"MONTH, {{0}} * {LONG_UNITS[unit]}" if unit in LONG_UNITS else f"{unit}, {{0}}"
    text = f"TIMESTAMPADD({step}, CAST({{1}} AS TIMESTAMP_NTZ))"
    is_day = time.is_type(Kind.DATE) and unit in _FIRST_DAYS
    return SparkText.of(f"CAST({text} AS DATE)" if is_day else text, count, time, type=node.type)


def between(node: exp.Anonymous, value: _Values) -> Value:
    """Return the value of ``TIMESTAMPDIFF``."""
    given, start, end = node.expressions
    times = []
    for found in (value(start), value(end)):
        if found.kind not in (date, Timestamp):
            raise unknown(node)
        is_day = found.kind is date
        times.append(strict(Timestamp, "time_of_day({})", found) if is_day else found)
    unit = _unit(node, given.name)
    if unit in LONG_UNITS:
        return strict(int, f"quotient(months_between({{}}, {{}}), {LONG_UNITS[unit]})", *times)
    return strict(int, f"quotient({{1}}.micros - {{0}}.micros, {MICROS[unit]})", *times)


def between_in_spark(node: exp.Anonymous) -> exp.Expr:
    """Count whole units; that Spark's TIMESTAMPDIFF depends on the session's time zone."""
    given, start, end = node.expressions
    unit = _unit(node, given.name)
    start, end = (exp.cast(each.copy(), "TIMESTAMPNTZ") for each in (start, end))
    if unit in LONG_UNITS:
        forth, back = _months("{0}", "{1}"), _months("{1}", "{0}")
        found = f"(CASE WHEN {{1}} >= {{0}} THEN {forth} ELSE -({back}) END) DIV {LONG_UNITS[unit]}"
    else:
        interval = "'7' DAY" if unit == "WEEK" else _SHORT[unit]
        found = f"({{1}} - {{0}}) DIV INTERVAL {interval}"
    return SparkText.of(f"CAST({found} AS BIGINT)", start, end, type=node.type)


def _months(start: str, end: str) -> str:
    """Return the number of whole months to a later time; the last day of a month ends one."""
    count = f"(YEAR({end}) - YEAR({start})) * 12 + MONTH({end}) - MONTH({start})"
    return f"IF(TIMESTAMPADD(MONTH, {count}, {start}) > {end}, {count} - 1, {count})"


def added_type(node: exp.Anonymous) -> Type | None:
    """Return the type of ``TIMESTAMPADD``: a day is one unless hours are added to it."""
    unit, _, time = node.expressions
    is_moment = time.is_type(Kind.DATE) and unit.name.upper() not in _FIRST_DAYS
    return built("TIMESTAMP") if is_moment else time.type
