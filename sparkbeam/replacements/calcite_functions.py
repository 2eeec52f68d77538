"""Functions of SQL as expressions in Python.

Those that Python has in the same form run over columns; others call functions of
:mod:`sparkbeam.replacements.sql_functions` for each row.
"""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam.replacements.calcite_patterns import Pattern, like, similar
from sparkbeam.replacements.calcite_values import (
    NUMBERS,
    REAL,
    WHOLE,
    Value,
    alike,
    is_integer,
    ranged,
    strict,
    unknown,
)
from sparkbeam.replacements.sql_functions import MICROS

_Values = Callable[[exp.Expr], Value]
"""Function of the value of an expression."""

_FIXED: Mapping[str, int] = {**MICROS, "WEEK": 7 * MICROS["DAY"]}
"""Microseconds of units of time that have a fixed length."""


def called(node: exp.Expr, value: _Values) -> Value:
    """Return the value of a function of SQL.

    Args:
        node: its call.
        value: makes the values of the arguments.

    Raises:
        QueryRefused: the function, or one of its arguments, cannot be computed.
    """
    if isinstance(node, exp.Anonymous):
        make = _BY_NAME.get(node.name.upper())
    else:
        make = _FUNCTIONS.get(type(node))
    if make is None:
        raise unknown(node)
    return make(node, value)


def _text_of(node: exp.Expr, value: _Values, part: exp.Expr) -> Value:
    found = value(part)
    if found.kind is not str:
        raise unknown(node)
    return found


def _of_text(kind: Any, text: str) -> Callable[[Any, _Values], Value]:
    return lambda node, value: strict(kind, text, _text_of(node, value, node.this))


def _abs(node: exp.Abs, value: _Values) -> Value:
    found = value(node.this)
    if found.kind not in NUMBERS:
        raise unknown(node)
    text = "{}.copy_abs()" if found.kind is Decimal else ranged("abs({})", found.kind)
    return strict(found.kind, text, found)


def _joined(node: Any, value: _Values) -> Value:
    parts = node.expressions or [node.left, node.right]
    texts = [_text_of(node, value, part) for part in parts]
    if len(texts) > _TERMS:  # Python limits the depth of sums.
        return strict(str, f"''.join(({', '.join(['{}'] * len(texts))}))", *texts)
    return strict(str, f"({' + '.join(['{}'] * len(texts))})", *texts)


_TERMS = 100


def _trim(node: exp.Trim, value: _Values) -> Value:
    method = {"LEADING": "lstrip", "TRAILING": "rstrip"}.get(node.args.get("position") or "")
    text = _text_of(node, value, node.this)
    if node.expression is None:
        return strict(str, f"{{}}.{method or 'strip'}(' ')", text)
    marks = _text_of(node, value, node.expression)
    return strict(str, f"{{}}.{method or 'strip'}({{}})", text, marks)


def _position(node: exp.StrPosition, value: _Values) -> Value:
    if node.args.get("position") or node.args.get("occurrence"):
        raise unknown(node)
    text, part = (_text_of(node, value, each) for each in (node.this, node.args["substr"]))
    return strict(np.int32, "({}.find({}) + 1)", text, part)


def _replace(node: exp.Replace, value: _Values) -> Value:
    parts = (node.this, node.expression, node.args["replacement"])
    text, old, new = (_text_of(node, value, part) for part in parts)
    is_constant = isinstance(node.expression, exp.Literal) and node.expression.name
    form = "{}.replace({}, {})" if is_constant else "replaced({}, {}, {})"
    return strict(str, form, text, old, new)


def _substring(node: exp.Substring, value: _Values) -> Value:
    start, length = node.args.get("start"), node.args.get("length")
    numbers = [int(part.name) for part in (start, length) if isinstance(part, exp.Literal)]
    if len(numbers) != (1 if length is None else 2) or numbers[0] < 1:
        raise unknown(node)
    begin = numbers[0] - 1
    end = "" if length is None else str(begin + numbers[1])
    return strict(str, f"{{}}[{begin}:{end}]", _text_of(node, value, node.this))


def _like(node: exp.Like, value: _Values, escape: str = "") -> Value:
    return _matched(node, value, like(_constant(node), escape))


def _escaped(node: exp.Escape, value: _Values) -> Value:
    mark = node.expression
    if not isinstance(node.this, exp.Like) or not isinstance(mark, exp.Literal):
        raise unknown(node)
    return _like(node.this, value, mark.name)


def _similar(node: exp.SimilarTo, value: _Values) -> Value:
    return _matched(node, value, similar(_constant(node)))


def _constant(node: exp.Expr) -> str:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise unknown(node)
    return str(pattern.this)


def _matched(node: exp.Expr, value: _Values, pattern: Pattern) -> Value:
    text = _text_of(node, value, node.this)
    found = strict(bool, pattern.test, text, *(Value(repr(each), str) for each in pattern.texts))
    return strict(bool, "(not {})", found) if node.args.get("negate") else found


def _nullif(node: exp.Nullif, value: _Values) -> Value:
    left, right = value(node.this), value(node.expression)
    one, other = alike(left, right)
    if one.kind is not other.kind and other.kind is not Any:
        raise unknown(node)
    return Value(f"nullif({left.source}, {other.source})", left.kind, nullable=True)


def _same(text: str) -> Callable[[exp.Binary, _Values], Value]:
    def make(node: exp.Binary, value: _Values) -> Value:
        left, right = alike(value(node.left), value(node.right))
        if left.kind is not right.kind and Any not in (left.kind, right.kind):
            raise unknown(node)
        return Value(text.format(left.source, right.source), bool)

    return make


def _of_float(name: str, *parts: str) -> Callable[[exp.Expr, _Values], Value]:
    """Return the function of some arguments as floating-point numbers."""

    def make(node: exp.Expr, value: _Values) -> Value:
        found = [_as_float(node, value(node.args[part])) for part in parts]
        return strict(float, f"{name}({', '.join(['{}'] * len(found))})", *found)

    return make


def _as_float(node: exp.Expr, found: Value) -> Value:
    if found.kind is float:
        return found
    if found.kind not in (*WHOLE, *REAL, Decimal):
        raise unknown(node)
    return strict(float, "float({})", found)


def _rounded(node: exp.Round, value: _Values) -> Value:
    found, decimals = value(node.this), node.args.get("decimals")
    if isinstance(decimals, exp.Neg):
        digits = -int(decimals.this.name)
    elif decimals is None or isinstance(decimals, exp.Literal):
        digits = 0 if decimals is None else int(decimals.name)
    else:
        raise unknown(node)
    if found.kind not in (*WHOLE, *REAL, Decimal):
        raise unknown(node)
    if is_integer(found.kind) and digits >= 0:
        return found
    return strict(found.kind, ranged(f"rounded({{}}, {digits})", found.kind), found)


def _whole(name: str) -> Callable[[Any, _Values], Value]:
    """Return the function that rounds a number, or a time to a unit."""

    def make(node: exp.Floor | exp.Ceil, value: _Values) -> Value:
        found, unit = value(node.this), node.args.get("to")
        if unit is not None and found.kind is Timestamp and unit.name.upper() in _UNITS:
            return strict(Timestamp, f"{name}_time({{}}, {unit.name.upper()!r})", found)
        if unit is not None and found.kind is date and unit.name.upper() in _UNITS_OF_DAYS:
            text = f"day_of_time({name}_time(time_of_day({{}}), {unit.name.upper()!r}))"
            return strict(date, text, found)
        if is_integer(found.kind):
            return found
        if unit is not None or found.kind not in (*REAL, Decimal):
            raise unknown(node)
        return strict(found.kind, f"{name}({{}})", found)

    return make


_UNITS_OF_DAYS = frozenset(["DAY", "WEEK", "MONTH", "QUARTER", "YEAR"])
_UNITS = frozenset([*_FIXED, *_UNITS_OF_DAYS])

_PARTS_OF_DAYS = frozenset([*_UNITS_OF_DAYS, "DOW", "DOY"])
_PARTS = frozenset([*_PARTS_OF_DAYS, "HOUR", "MINUTE", "SECOND"])


def _extract(node: exp.Extract, value: _Values) -> Value:
    return _part_of(node, node.name.upper(), value(node.expression))


def _part(unit: str) -> Callable[[exp.Func, _Values], Value]:
    return lambda node, value: _part_of(node, unit, value(node.this))


def _part_of(node: exp.Expr, unit: str, time: Value) -> Value:
    if time.kind is date and unit in _PARTS_OF_DAYS:
        time = strict(Timestamp, "time_of_day({})", time)
    if time.kind is not Timestamp or unit not in _PARTS:
        raise unknown(node)
    return strict(int, f"part_of_time({unit!r}, {{}})", time)


def moved(node: exp.Add | exp.Sub, value: _Values) -> Value:
    """Return the value of a time and an interval of a fixed length.

    Raises:
        QueryRefused: it is something else.
    """
    time, interval = value(node.left), node.right
    assert isinstance(interval, exp.Interval)
    unit = interval.args.get("unit")
    micros = _FIXED.get(unit.name.upper()) if isinstance(unit, exp.Var) else None
    if time.kind is not Timestamp or micros is None or not interval.name.lstrip("-").isdigit():
        raise unknown(node)
    sign = "-" if isinstance(node, exp.Sub) else "+"
    return strict(
        Timestamp, f"Timestamp(micros={{}}.micros {sign} {int(interval.name) * micros})", time
    )


def _time_added(node: exp.Anonymous, value: _Values) -> Value:
    unit, count, time = _unit_and_two(node, value)
    if time.kind is not Timestamp or not is_integer(count.kind):
        raise unknown(node)
    return strict(Timestamp, f"Timestamp(micros={{}}.micros + {{}} * {unit})", time, count)


def _time_between(node: exp.Anonymous, value: _Values) -> Value:
    unit, start, end = _unit_and_two(node, value)
    if start.kind is not Timestamp or end.kind is not Timestamp:
        raise unknown(node)
    return strict(int, f"quotient({{}}.micros - {{}}.micros, {unit})", end, start)


def _unit_and_two(node: exp.Anonymous, value: _Values) -> tuple[int, Value, Value]:
    unit, *others = node.expressions
    if len(others) != 2 or unit.name.upper() not in _FIXED:
        raise unknown(node)
    return _FIXED[unit.name.upper()], value(others[0]), value(others[1])


_FUNCTIONS: dict[type[exp.Expr], Callable[[Any, _Values], Value]] = {
    exp.Abs: _abs,
    exp.Ceil: _whole("ceiling"),
    exp.Concat: _joined,
    exp.DPipe: _joined,
    exp.DayOfMonth: _part("DAY"),
    exp.DayOfWeek: _part("DOW"),
    exp.DayOfYear: _part("DOY"),
    exp.Escape: _escaped,
    exp.Exp: _of_float("exponential", "this"),
    exp.Extract: _extract,
    exp.Floor: _whole("floor"),
    exp.Hour: _part("HOUR"),
    exp.Length: _of_text(np.int32, "len({})"),
    exp.Like: _like,
    exp.Lower: _of_text(str, "{}.lower()"),
    exp.Minute: _part("MINUTE"),
    exp.Month: _part("MONTH"),
    exp.NullSafeEQ: _same("({} == {})"),
    exp.NullSafeNEQ: _same("({} != {})"),
    exp.Nullif: _nullif,
    exp.Pow: _of_float("power", "this", "expression"),
    exp.Quarter: _part("QUARTER"),
    exp.Replace: _replace,
    exp.Round: _rounded,
    exp.Second: _part("SECOND"),
    exp.SimilarTo: _similar,
    exp.Sqrt: _of_float("root", "this"),
    exp.StrPosition: _position,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.Upper: _of_text(str, "{}.upper()"),
    exp.Week: _part("WEEK"),
    exp.Year: _part("YEAR"),
}

_BY_NAME: Mapping[str, Callable[[Any, _Values], Value]] = {
    "TIMESTAMPADD": _time_added,
    "TIMESTAMPDIFF": _time_between,
}
