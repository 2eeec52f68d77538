"""Table of the functions of SQL: their types, and what computes them in Spark and in Python.

In Python those that Python has in the same form run over columns; others call functions of
:mod:`sparkbeam_sql.functions` for each row.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import chain
from typing import Any

import numpy as np
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam.connectors.schemas import without_none
from sparkbeam_sql.calcite_dialect import FLOATS, INTEGERS, QueryRefused, text_of
from sparkbeam_sql.calcite_patterns import MATCHES, like, regex_of_similar
from sparkbeam_sql.calcite_text import SparkText, by_python
from sparkbeam_sql.calcite_times import (
    added,
    added_in_spark,
    added_type,
    between,
    between_in_spark,
    part_in_spark,
    part_of,
    rounded_time,
    rounded_time_in_spark,
)
from sparkbeam_sql.calcite_types import (
    Kind,
    Rule,
    Type,
    built,
    common,
    decimal,
    digits,
    inner_type,
)
from sparkbeam_sql.calcite_values import (
    KINDS,
    REAL,
    WHOLE,
    Value,
    alike,
    arithmetic,
    common_kind,
    computable,
    converted,
    is_integer,
    ranged,
    strict,
    unknown,
)

_Values = Callable[[exp.Expr], Value]
"""Function of the value of an expression."""


@dataclass(frozen=True)
class Function:
    """A function of SQL.

    Attributes:
        key: the class of its calls, or its name where the parser has no class.
        parameters: the types of its arguments, with a ``?`` behind one that may be left out, and a
            ``+`` behind one that may be repeated. Empty for none, and where ``python`` gets the
            call and what makes values.
        python: its value as an expression of the arguments; None if there is none in windows.
        spark: likewise in Spark, with ``{type}`` for the type of the result; None if Spark has the
            same function.
        count: the number of its arguments if ``parameters`` is empty.
    """

    names: str
    key: type[exp.Expr] | str
    parameters: str
    result: exp.DType | Rule
    python: str | Callable[..., Value] | None
    spark: str | Callable[[Any], exp.Expr] | None = None
    count: int = 0

    @property
    def counts(self) -> tuple[int, float]:
        """The least and the greatest number of arguments."""
        kinds = self.parameters.split()
        if not kinds:
            return self.count, self.count
        least = sum(not kind.endswith("?") for kind in kinds)
        return least, math.inf if kinds[-1].endswith("+") else len(kinds)

    def kinds(self, count: int) -> list[str]:
        """Return the types of some arguments."""
        kinds = [kind.rstrip("?+") for kind in self.parameters.split()]
        return kinds + kinds[-1:] * (count - len(kinds))

    def type(self, node: exp.Expr) -> Type | None:
        """Return the type of a call."""
        if isinstance(self.result, exp.DType):
            return built(self.result.name)
        return self.result(node)

    def value(self, node: exp.Expr, value: _Values) -> Value:
        """Return the value of a call."""
        if self.python is None:
            raise unknown(node)
        if not self.parameters and callable(self.python):
            return self.python(node, value)
        given = arguments(node)
        pairs = zip(given, self.kinds(len(given)), strict=False)
        values = [_as(node, value(each), kind) for each, kind in pairs]
        if not isinstance(self.python, str):
            return self.python(node, *values)
        return strict(self._kind(node, values), self.python, *values)

    def _kind(self, node: exp.Expr, values: Sequence[Value]) -> Any:
        return KINDS[self.result] if isinstance(self.result, exp.DType) else values[0].kind

    def in_spark(self, node: exp.Expr) -> exp.Expr:
        """Return a call in Spark's dialect."""
        if self.spark is None:
            return node
        if isinstance(self.spark, str):
            return SparkText.of(self.spark, *arguments(node), type=node.type)
        return self.spark(node)


def arguments(node: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a call, without units of time."""
    parts = [node.args.get(name) for name in type(node).arg_types]
    found = chain.from_iterable(part if isinstance(part, list) else [part] for part in parts)
    return [each for each in found if isinstance(each, exp.Expr) and not isinstance(each, exp.Var)]


def function_of(node: exp.Expr) -> Function | None:
    """Return the function of a call; None for what is none, or one that only Spark has."""
    key = node.name.upper() if isinstance(node, exp.Anonymous) else type(node)
    return FUNCTIONS.get(key)


def called(node: exp.Expr, value: _Values) -> Value:
    """Return the value of a call of a function."""
    function = function_of(node)
    if function is None:
        raise unknown(node)
    return function.value(node, value)


_PARAMETERS: Mapping[str, Sequence[Any]] = {
    "text": (str,),
    "bytes": (bytes,),
    "data": (str, bytes),
    "whole": WHOLE,
    "number": (*WHOLE, *REAL, Decimal),
    "time": (Timestamp, date),
}


def _as(node: exp.Expr, found: Value, kind: str) -> Value:
    """Return an argument as the type of a parameter."""
    if kind == "real":
        if found.kind not in (float, Any, *_PARAMETERS["number"]):
            raise unknown(node)
        return found if found.kind is float else strict(float, "float({})", found)
    if kind != "any" and found.kind is not Any and found.kind not in _PARAMETERS[kind]:
        raise unknown(node)
    return found


# Types of results.


def _same(node: exp.Expr) -> Type | None:
    return arguments(node)[0].type


def _widest(node: exp.Expr) -> Type | None:
    return common(each.type for each in arguments(node))


def _whole_type(node: exp.Expr) -> Type | None:
    kind = _same(node)
    if kind is None or not kind.is_type(Kind.DECIMAL):
        return kind
    precision, scale = digits(kind)
    return decimal(precision - scale + 1, 0) if scale else kind


# Texts.


def _joined(node: exp.Expr, *texts: Value) -> Value:
    kinds = {text.kind for text in texts} - {Any}
    if len(kinds) > 1:
        raise unknown(node)
    (kind,) = kinds or {str}
    if len(texts) > _TERMS:  # Python limits the depth of sums.
        empty = "b''" if kind is bytes else "''"
        return strict(kind, f"{empty}.join(({', '.join(['{}'] * len(texts))}))", *texts)
    return strict(kind, f"({' + '.join(['{}'] * len(texts))})", *texts)


_TERMS = 100


def _trim(node: exp.Trim, text: Value, marks: Value | None = None) -> Value:
    method = {"LEADING": "lstrip", "TRAILING": "rstrip"}.get(node.args.get("position") or "")
    if marks is None:
        return strict(str, f"{{}}.{method or 'strip'}(' ')", text)
    return strict(str, f"{{}}.{method or 'strip'}({{}})", text, marks)


def _position(node: exp.StrPosition, text: Value, part: Value, start: Value | None = None) -> Value:
    if start is None:
        return strict(np.int32, "({}.find({}) + 1)", text, part)
    return strict(np.int32, "position({}, {}, {})", text, part, start)


def _position_in_spark(node: exp.StrPosition) -> exp.Expr:
    """Let Python find what begins at a position, as Calcite has other rules for these."""
    return (
        by_python("position", *arguments(node), type=node.type)
        if node.args.get("position")
        else node
    )


def _replace(node: exp.Replace, text: Value, old: Value, new: Value) -> Value:
    is_constant = isinstance(node.expression, exp.Literal) and node.expression.name
    form = "{}.replace({}, {})" if is_constant else "replaced({}, {}, {})"
    return strict(str, form, text, old, new)


def _substring(node: exp.Substring, text: Value, *places: Value) -> Value:
    constant = [whole_number(each) for each in arguments(node)[1:]]
    if None in constant or constant[0] < 1 or constant[-1] < 0:
        return strict(text.kind, _call("substring", node), text, *places)
    begin = constant[0] - 1
    end = "" if len(constant) == 1 else str(begin + constant[1])
    return strict(text.kind, f"{{}}[{begin}:{end}]", text)


def whole_number(node: exp.Expr) -> Any:
    """Return a whole number in a query; None for another expression."""
    sign, inner = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    is_whole = isinstance(inner, exp.Literal) and inner.is_int
    return sign * int(inner.name) if is_whole else None


def _substring_in_spark(node: exp.Substring) -> exp.Expr:
    """Take positions before the first character as such; Spark counts them from the end."""
    _, start, *length = arguments(node)
    if (whole_number(start) or 0) > 0:
        return node
    if not length:
        return SparkText.of("SUBSTRING({0}, IF({1} < 1, 1, {1}))", node.this, start)
    text = "SUBSTRING({0}, IF({1} < 1, 1, {1}), IF({1} < 1, {1} + {2} - 1, {2}))"
    return SparkText.of(text, node.this, start, *length)


def _overlay_in_spark(node: exp.Overlay) -> exp.Expr:
    """Let Python replace a part of negative length, which Spark takes as one without a length."""
    length = node.args.get("for_")
    if length is None or (whole_number(length) or -1) >= 0:
        return node
    return by_python("overlay", *arguments(node), type=node.type)


def _pad(node: exp.Pad, text: Value, length: Value, *fill: Value) -> Value:
    marks = fill or (Value("' '", str),)
    form = f"padded({{}}, {{}}, {{}}, {bool(node.args.get('is_left'))})"
    return strict(str, form, text, length, *marks)


def _like(node: exp.Like, text: Value, pattern: Value) -> Value:
    return _matched(node, text, *like(_constant(node)))


def _escaped(node: exp.Escape, value: _Values) -> Value:
    mark = node.expression
    if not isinstance(node.this, exp.Like | exp.SimilarTo) or not isinstance(mark, exp.Literal):
        raise unknown(node)
    if isinstance(node.this, exp.SimilarTo):
        regex = regex_of_similar(_constant(node.this), mark.name)
        return _matched(node.this, value(node.this.this), MATCHES, regex)
    return _matched(node.this, value(node.this.this), *like(_constant(node.this), mark.name))


def _similar(node: exp.SimilarTo, text: Value, pattern: Value) -> Value:
    return _matched(node, text, MATCHES, regex_of_similar(_constant(node)))


def _constant(node: exp.Expr) -> str:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise unknown(node)
    return str(pattern.this)


def _matched(node: exp.Expr, text: Value, test: str, pattern: str) -> Value:
    found = strict(bool, test, text, Value(repr(pattern), str))
    return strict(bool, "(not {})", found) if node.args.get("negate") else found


def like_in_spark(node: exp.Like | exp.ILike) -> exp.Expr:
    """Take backslashes in patterns as they are; with ESCAPE, Spark does so too."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape):
        return node
    if isinstance(pattern, exp.Literal):
        doubled: exp.Expr = exp.Literal.string(pattern.this.replace("\\", "\\\\"))
    else:
        doubled = SparkText.of(r"REPLACE({0}, '\\', '\\\\')", pattern)
    node.set("expression", doubled)
    return node


def _similar_in_spark(node: exp.SimilarTo) -> exp.Expr:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise QueryRefused("SIMILAR TO with a pattern that is not a string literal")
    mark = node.parent.expression if isinstance(node.parent, exp.Escape) else exp.Literal.string("")
    if not isinstance(mark, exp.Literal):
        raise QueryRefused("ESCAPE with a value that is not a string literal")
    regex = exp.Literal.string(rf"(?s)^(?:{regex_of_similar(pattern.this, mark.name)})\z")
    return exp.RegexpLike(this=node.this, expression=regex)


def _escaped_in_spark(node: exp.Escape) -> exp.Expr:
    """Return the test of SIMILAR TO, whose regular expression has no escapes any more."""
    if not isinstance(node.this, exp.Like | exp.ILike | exp.RegexpLike):
        raise QueryRefused(f"ESCAPE behind {text_of(node.this)}")
    return node.this if isinstance(node.this, exp.RegexpLike) else node


# Numbers.


def _abs(node: exp.Abs, found: Value) -> Value:
    text = "{}.copy_abs()" if found.kind is Decimal else ranged("abs({})", found.kind)
    return arithmetic(found.kind, text, computable(found))


def _rounding(name: str) -> Callable[..., Value]:
    """Return the function that rounds a number to some digits."""

    def make(node: exp.Expr, found: Value, *places: Value) -> Value:
        (_, *given) = arguments(node)
        if is_integer(found.kind) and all((whole_number(each) or -1) >= 0 for each in given):
            return found
        form = f"{name}({{}}, {'{}' if places else '0'})"
        return strict(found.kind, ranged(form, found.kind), found, *places)

    return make


def _round_in_spark(node: exp.Round) -> exp.Expr:
    (_, *places) = arguments(node)
    if any(whole_number(each) is None for each in places):
        return _number_by_python("rounded", node)
    return SparkText.of(
        f"CAST({_call('ROUND', node)} AS {{type}})", *arguments(node), type=node.type
    )


def _truncate_in_spark(node: exp.Trunc) -> exp.Expr:
    (number, *places) = arguments(node)
    if number.is_type(*INTEGERS) and all((whole_number(each) or -1) >= 0 for each in places):
        return number
    return _number_by_python("truncated", node)


def _number_by_python(name: str, node: exp.Expr) -> exp.Expr:
    (number, *places) = arguments(node)
    is_real = number.is_type(*FLOATS)
    to, name = ("DOUBLE", f"{name}_real") if is_real else ("DECIMAL(38, 18)", f"{name}_decimal")
    places = places or [exp.Literal.number(0)]
    return by_python(name, exp.cast(number.copy(), to), *places, type=node.type)


def _call(name: str, node: exp.Expr) -> str:
    return f"{name}({', '.join(f'{{{at}}}' for at in range(len(arguments(node))))})"


def _whole(name: str) -> Callable[..., Value]:
    """Return the function that rounds a number to a whole one, or a time to a unit."""

    def make(node: exp.Floor | exp.Ceil, value: _Values) -> Value:
        found, unit = value(node.this), node.args.get("to")
        if unit is not None:
            return rounded_time(node, name, found, unit.name.upper())
        if is_integer(found.kind) or found.kind is Any:
            return found
        if found.kind not in (*REAL, Decimal):
            raise unknown(node)
        return strict(found.kind, f"{name}({{}})", found)

    return make


def _whole_in_spark(node: exp.Ceil | exp.Floor) -> exp.Expr:
    unit = node.args.get("to")
    if unit is not None:
        return rounded_time_in_spark(node, unit.name.upper())
    if node.this.is_type(*INTEGERS):
        return node.this
    name = node.key.upper()
    if node.this.is_type(*FLOATS):
        # Spark's result is a BIGINT, which has not all of them; large ones are whole.
        text = f"IF(ABS({{0}}) < {1 << 53}, CAST({name}({{0}}) AS {{type}}), {{0}})"
        return SparkText.of(text, node.this, type=node.type)
    return node


def _ordered(name: str) -> Callable[..., Value]:
    """Return the function that chooses the least or the greatest value."""

    def make(node: exp.Expr, *values: Value) -> Value:
        kind = common_kind(node, *values)
        found = [converted(value, kind) for value in values]
        return strict(kind, _call(name, node), *found)

    return make


def _ordered_in_spark(node: exp.Greatest | exp.Least) -> exp.Expr:
    """Return null if a value is null; Spark leaves these out."""
    nulls = " OR ".join(f"{{{at}}} IS NULL" for at in range(len(arguments(node))))
    text = f"IF({nulls}, NULL, {_call(node.key.upper(), node)})"
    return SparkText.of(text, *arguments(node), type=node.type)


_NAN, _INFINITY = ("CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS DOUBLE)")


def _logarithm(name: str) -> str:
    """Return a logarithm with NaN and infinity where Spark returns null."""
    return f"IF({{0}} <= 0, IF({{0}} = 0, {_INFINITY}, {_NAN}), {name}({{0}}))"


_OF_REAL = {
    **{"SIN": "sin", "COS": "cos", "TAN": "tan", "ASIN": "arcsin", "ACOS": "arccos"},
    **{"ATAN": "arctan", "SINH": "sinh", "COSH": "cosh", "TANH": "tanh", "CBRT": "cbrt"},
    **{"EXP": "exp", "DEGREES": "degrees", "RADIANS": "radians"},
}
"""Functions of one number, and of NumPy."""


# Times.


_UNITS = {
    **{name: name for name in ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")},
    **{"SECOND": "SECOND", "DAYOFMONTH": "DAY", "DAYOFWEEK": "DOW", "DAYOFYEAR": "DOY"},
}
"""Functions of a time, and the parts that they return."""


def _part(name: str) -> Function:
    return Function(
        name,
        exp.FUNCTION_BY_NAME[name],
        "",
        Kind.BIGINT,
        lambda node, value: part_of(node, _UNITS[name], value(node.this)),
        lambda node: part_in_spark(node, _UNITS[name], node.this),
        1,
    )


# Arrays, maps, and conditions.


def inner_kinds(value: Value) -> tuple[Any, Any, bool]:
    """Return the types of the keys and the values of an array or a map; Any for others.

    The third part tells whether a value may be None.
    """
    hint = convert_to_beam_type(value.kind)
    found, nullable = without_none(getattr(hint, "inner_type", getattr(hint, "value_type", Any)))
    return getattr(hint, "key_type", int), found, nullable


def _element(node: exp.Anonymous, array: Value) -> Value:
    _, kind, _ = inner_kinds(array)
    if kind is Any:
        raise unknown(node)
    return Value(strict(kind, "only_element({})", array).source, kind, nullable=True)


def _size(node: exp.Anonymous, array: Value) -> Value:
    if inner_kinds(array)[1] is Any:
        raise unknown(node)
    return strict(np.int32, "len({})", array)


def item(node: exp.Bracket, value: _Values) -> Value:
    """Return the value of an element of an array or a map; None if there is none."""
    owner, keys = value(node.this), [*map(value, node.expressions)]
    key, kind, _ = inner_kinds(owner)
    is_map = hasattr(convert_to_beam_type(owner.kind), "key_type")
    if kind is Any or len(keys) != 1:
        raise unknown(node)
    fits = keys[0].kind is key if is_map else is_integer(keys[0].kind)
    if not fits and not (is_map and is_integer(key) and is_integer(keys[0].kind)):
        raise unknown(node)
    text = "{}.get({})" if is_map else "element_at({}, {})"
    return Value(strict(kind, text, owner, *keys).source, kind, nullable=True)


def _nullif(node: exp.Nullif, value: _Values) -> Value:
    left, right = value(node.this), value(node.expression)
    one, other = alike(left, right)
    if one.kind is not other.kind and other.kind is not Any:
        raise unknown(node)
    source = f"nullif({left.source}, {other.source})"
    if left.kind is not one.kind:
        source = f"(None if {one.source} == {other.source} else {left.source})"
    return Value(source, left.kind, nullable=True)


def _same_value(text: str) -> Callable[[exp.Binary, _Values], Value]:
    def make(node: exp.Binary, value: _Values) -> Value:
        left, right = alike(value(node.left), value(node.right))
        if left.kind is not right.kind and Any not in (left.kind, right.kind):
            raise unknown(node)
        return Value(text.format(left.source, right.source), bool)

    return make


_NOW = "TIMESTAMPADD(MICROSECOND, UNIX_MICROS(CURRENT_TIMESTAMP()), {0})".replace(
    "{0}", "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
)
"""The time in UTC in Spark."""

_TABLE = (
    # Texts and bytes.
    Function("CHAR_LENGTH CHARACTER_LENGTH LENGTH", exp.Length, "data", Kind.INT, "len({0})"),
    Function("LOWER", exp.Lower, "text", Kind.VARCHAR, "{0}.lower()"),
    Function("UPPER", exp.Upper, "text", Kind.VARCHAR, "{0}.upper()"),
    Function("INITCAP", exp.Initcap, "text", Kind.VARCHAR, "capitals({0})",
             lambda node: by_python("capitals", node.this)),
    Function("CONCAT", exp.Concat, "data+", _widest, _joined),
    Function("||", exp.DPipe, "data data", _widest, _joined),
    Function("TRIM", exp.Trim, "text text?", Kind.VARCHAR, _trim),
    Function("POSITION", exp.StrPosition, "text text whole?", Kind.INT, _position,
             _position_in_spark),
    Function("REPLACE", exp.Replace, "text text text", Kind.VARCHAR, _replace),
    Function("SUBSTRING", exp.Substring, "data whole whole?", _same, _substring,
             _substring_in_spark),
    Function("OVERLAY", exp.Overlay, "text text whole whole?", Kind.VARCHAR,
             lambda node, *parts: strict(str, _call("overlay", node), *parts), _overlay_in_spark),
    Function("LPAD RPAD", exp.Pad, "text whole text?", Kind.VARCHAR, _pad),
    Function("REVERSE", exp.Reverse, "text", Kind.VARCHAR, "{0}[::-1]"),
    Function("STARTS_WITH", exp.StartsWith, "text text", Kind.BOOLEAN, "{0}.startswith({1})",
             "STARTSWITH({0}, {1})"),
    Function("ENDS_WITH", exp.EndsWith, "text text", Kind.BOOLEAN, "{0}.endswith({1})",
             "ENDSWITH({0}, {1})"),
    Function("LIKE", exp.Like, "text text", Kind.BOOLEAN, _like, like_in_spark),
    Function("ESCAPE", exp.Escape, "", Kind.BOOLEAN, _escaped, _escaped_in_spark),
    Function("SIMILAR TO", exp.SimilarTo, "text text", Kind.BOOLEAN, _similar, _similar_in_spark),
    Function("TO_HEX", exp.Hex, "bytes", Kind.VARCHAR, "{0}.hex()", "LOWER(HEX({0}))"),
    Function("FROM_HEX", "FROM_HEX", "text", Kind.BINARY, "of_hex({0})",
             lambda node: by_python("of_hex", *node.expressions)),
    Function("MD5", exp.MD5, "data", Kind.BINARY, "digest('md5', {0})", "UNHEX(MD5({0}))"),
    Function("SHA1", exp.SHA, "data", Kind.BINARY, "digest('sha1', {0})", "UNHEX(SHA1({0}))"),
    Function("SHA256", "SHA256", "data", Kind.BINARY, "digest('sha256', {0})",
             "UNHEX(SHA2({0}, 256))"),
    Function("SHA512", "SHA512", "data", Kind.BINARY, "digest('sha512', {0})",
             "UNHEX(SHA2({0}, 512))"),
    # Numbers.
    Function("ABS", exp.Abs, "number", _same, _abs),
    Function("SIGN", exp.Sign, "number", _same, "sign({0})", "CAST(SIGN({0}) AS {type})"),
    Function("CEIL CEILING", exp.Ceil, "", _whole_type, _whole("ceiling"), _whole_in_spark, 1),
    Function("FLOOR", exp.Floor, "", _whole_type, _whole("floor"), _whole_in_spark, 1),
    Function("ROUND", exp.Round, "number whole?", _same, _rounding("rounded"), _round_in_spark),
    Function("TRUNCATE", exp.Trunc, "number whole?", _same, _rounding("truncated"),
             _truncate_in_spark),
    Function("GREATEST", exp.Greatest, "any+", _widest, _ordered("greatest"), _ordered_in_spark),
    Function("LEAST", exp.Least, "any+", _widest, _ordered("least"), _ordered_in_spark),
    Function("SQRT", exp.Sqrt, "real", Kind.DOUBLE, "root({0})"),
    Function("POWER", exp.Pow, "real real", Kind.DOUBLE, "of_real('power', {0}, {1})"),
    Function("LN", exp.Ln, "real", Kind.DOUBLE, "of_real('log', {0})", _logarithm("LN")),
    Function("LOG10", "LOG10", "real", Kind.DOUBLE, "of_real('log10', {0})", _logarithm("LOG10")),
    Function("PI", exp.Pi, "", Kind.DOUBLE, repr(math.pi)),
    Function("ATAN2", exp.Atan2, "real real", Kind.DOUBLE, "of_real('arctan2', {0}, {1})"),
    Function("COT", exp.Cot, "real", Kind.DOUBLE, "cotangent({0})"),
    *(Function(name, exp.FUNCTION_BY_NAME[name], "real", Kind.DOUBLE, f"of_real({of!r}, {{0}})")
      for name, of in _OF_REAL.items()),
    Function("IS_NAN", exp.IsNan, "real", Kind.BOOLEAN, "({0} != {0})",
             "IF({0} IS NULL, NULL, ISNAN({0}))"),
    Function("IS_INF", exp.IsInf, "real", Kind.BOOLEAN, "(abs({0}) == inf)",
             "ABS({0}) = CAST('Infinity' AS DOUBLE)"),
    Function("RAND", exp.Rand, "real?", Kind.DOUBLE, None),
    # Times.
    Function("EXTRACT", exp.Extract, "", Kind.BIGINT,
             lambda node, value: part_of(node, node.name.upper(), value(node.expression)),
             lambda node: part_in_spark(node, node.name.upper(), node.expression), 1),
    *map(_part, _UNITS),
    Function("TIMESTAMPADD", "TIMESTAMPADD", "", added_type, added, added_in_spark, 3),
    Function("TIMESTAMPDIFF", "TIMESTAMPDIFF", "", Kind.BIGINT, between, between_in_spark, 3),
    Function("CURRENT_TIMESTAMP", exp.CurrentTimestamp, "whole?", Kind.TIMESTAMP, None, _NOW),
    Function("LOCALTIMESTAMP", exp.Localtimestamp, "whole?", Kind.TIMESTAMP, None, _NOW),
    Function("CURRENT_DATE", exp.CurrentDate, "", Kind.DATE, None, f"CAST({_NOW} AS DATE)"),
    # Arrays, maps, and conditions.
    Function("CARDINALITY", "CARDINALITY", "any", Kind.INT, _size,
             "IF({0} IS NULL, NULL, SIZE({0}))"),
    Function("ELEMENT", "ELEMENT", "any", lambda node: inner_type(_same(node), Kind.ARRAY),
             _element,
             "IF(SIZE({0}) > 1, RAISE_ERROR('ELEMENT: several values'), TRY_ELEMENT_AT({0}, 1))"),
    Function("NULLIF", exp.Nullif, "", _same, _nullif, count=2),
    Function("IS NOT DISTINCT FROM", exp.NullSafeEQ, "", Kind.BOOLEAN, _same_value("({} == {})")),
    Function("IS DISTINCT FROM", exp.NullSafeNEQ, "", Kind.BOOLEAN, _same_value("({} != {})")),
)  # fmt: skip

FUNCTIONS: Mapping[type[exp.Expr] | str, Function] = {
    **{name: each for each in _TABLE for name in each.names.split()},
    **{each.key: each for each in _TABLE},
}
"""Functions of SQL, by their names and the classes of their calls."""

TYPES: Mapping[type[exp.Expr] | str, Rule] = {key: each.type for key, each in FUNCTIONS.items()}
"""Rules of their types."""
