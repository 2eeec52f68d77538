"""Expressions of Beam SQL in Spark's dialect, with the values that they have in Calcite."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from sparkbeam.replacements.calcite_dialect import (
    FLOATS,
    INTEGERS,
    TEXTS,
    TIMESTAMPS,
    Calcite,
    QueryRefused,
)

ROWS = "rows"
"""Key of an UNNEST whose columns are the fields of the rows in an array."""

_EPOCH = exp.Literal.string("1970-01-01 00:00:00")


def to_spark(tree: exp.Query) -> None:
    """Replace expressions by Spark's, innermost first."""
    for node in reversed(list(tree.dfs())):
        change = _CHANGES.get(type(node))
        if change is None:
            continue
        parent, key, index = node.parent, node.arg_key, node.index
        changed = change(node)
        if changed is not node and parent is not None and key is not None:
            changed.type = node.type
            parent.set(key, changed, index)


def _division(node: exp.Div) -> exp.Expr:
    """Truncate the quotient of integers."""
    parts = (node.left, node.right)
    if all(part.is_type(*INTEGERS) for part in parts):
        return _as(exp.IntDiv(this=node.left, expression=node.right), node.type)
    if any(part.is_type(exp.DataType.Type.UNKNOWN) for part in parts):
        raise QueryRefused(
            f"the division {node.sql(Calcite)}, as the type of its operands is unknown; CAST them"
        )
    return exp.Div(this=node.left, expression=node.right, typed=False)


def _compared(node: exp.Binary) -> exp.Expr:
    """Compare floating-point numbers as Java does: NaN is neither equal to a number nor greater.

    To Spark it is equal to itself, and greater than all others.
    """
    left, right = node.left, node.right
    of_left, of_right = _is_nan(left), _is_nan(right)
    if isinstance(node, exp.GT | exp.GTE) and of_left is not None:
        return _unless(node, _and(of_left, _is_present(right)))
    if isinstance(node, exp.LT | exp.LTE) and of_right is not None:
        return _unless(node, _and(of_right, _is_present(left)))
    if of_left is None or of_right is None:
        return node
    both = _and(of_left, of_right)
    if isinstance(node, exp.NEQ | exp.NullSafeNEQ):
        return exp.Paren(this=exp.Or(this=node.copy(), expression=both))
    return _unless(node, both) if isinstance(node, exp.EQ | exp.NullSafeEQ) else node


def _unless(node: exp.Expr, condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=_and(node.copy(), exp.Not(this=exp.Paren(this=condition))))


def _and(left: exp.Expr, right: exp.Expr | None) -> exp.Expr:
    return left if right is None else exp.And(this=left, expression=right)


def _is_nan(node: exp.Expr) -> exp.Expr | None:
    """Return the condition that a number is NaN; None if it cannot be."""
    plain = node.unnest()
    if isinstance(plain, exp.Neg):
        plain = plain.this.unnest()
    if isinstance(plain, exp.Literal) or not node.is_type(*FLOATS):
        return None
    return exp.IsNan(this=node.copy())


def _is_present(node: exp.Expr) -> exp.Expr | None:
    """Return the condition that a value is not null; None if it is a constant."""
    if isinstance(node.unnest(), exp.Literal):
        return None
    return exp.Not(this=exp.Is(this=node.copy(), expression=exp.Null()))


def _between_numbers(node: exp.Between) -> exp.Expr:
    parts = (node.this, node.args["low"], node.args["high"])
    if not any(part.is_type(*FLOATS) for part in parts):
        return node
    low = _compared(exp.GTE(this=parts[0].copy(), expression=parts[1].copy()))
    high = _compared(exp.LTE(this=parts[0].copy(), expression=parts[2].copy()))
    return exp.Paren(this=_and(low, high))


def _nullif(node: exp.Nullif) -> exp.Expr:
    equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    compared = _compared(equal)
    return node if compared is equal else exp.If(this=compared, true=exp.Null(), false=node.this)


def _average(node: exp.Avg) -> exp.Expr:
    """Truncate the average of integers."""
    value = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    if not value.is_type(*INTEGERS):
        return node
    if isinstance(node.parent, exp.Window | exp.Filter):
        return node
    whole = exp.IntDiv(this=exp.Sum(this=node.this), expression=exp.Count(this=node.this.copy()))
    return _as(whole, value.type)


def _window(node: exp.Window | exp.Filter) -> exp.Expr:
    average = node.this
    if isinstance(average, exp.Avg) and average.this.is_type(*INTEGERS):
        if isinstance(node.parent, exp.Window):
            return node
        return _as(node.copy(), average.this.type)
    return node


def _as(node: exp.Expr, kind: exp.DataType | None) -> exp.Expr:
    if kind is None or kind.is_type(exp.DataType.Type.UNKNOWN):
        kind = exp.DataType.build("bigint")
    return exp.Cast(this=node, to=kind.copy())


_LARGE = exp.Literal.number(1 << 53)


def _rounded(node: exp.Ceil | exp.Floor) -> exp.Expr:
    """Keep the type of floating-point numbers, and truncate timestamps."""
    unit = node.args.get("to")
    if unit is not None:
        return _rounded_time(node, unit.name.upper())
    if not node.this.is_type(*FLOATS):
        return node
    # Spark's result is a BIGINT, which has not all of them; large ones are whole.
    is_small = exp.LT(this=exp.Abs(this=node.this.copy()), expression=_LARGE.copy())
    return exp.If(this=is_small, true=_as(node.copy(), node.this.type), false=node.this.copy())


def _rounded_time(node: exp.Ceil | exp.Floor, unit: str) -> exp.Expr:
    floor, time = _floor(node.this, unit), _ntz(node.this.copy())
    if isinstance(node, exp.Ceil):
        after = _call("TIMESTAMPADD", exp.var(unit), exp.Literal.number(1), floor.copy())
        is_floor = exp.EQ(this=floor, expression=time)
        floor = exp.If(this=is_floor, true=time.copy(), false=after)
    return _day(floor) if node.this.is_type(exp.DataType.Type.DATE) else floor


def _floor(time: exp.Expr, unit: str) -> exp.Expr:
    """Truncate a time without DATE_TRUNC, which depends on the time zone of the session."""
    day = exp.Cast(this=time.copy(), to=exp.DataType.build("DATE"))
    if unit in ("HOUR", "MINUTE", "SECOND"):
        whole = _between(unit, day, time)
        return _call("TIMESTAMPADD", exp.var(unit), whole, _ntz(day.copy()))
    return _ntz(day if unit == "DAY" else _call("TRUNC", day, exp.Literal.string(unit)))


def _between(unit: str, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """Return the number of units between two times.

    TIMESTAMPDIFF of times that differ by less than a month depends on the session's time zone.
    """
    elapsed = exp.Paren(this=exp.Sub(this=_ntz(end.copy()), expression=_ntz(start.copy())))
    count, of = ("7", "DAY") if unit == "WEEK" else ("1", unit)
    one = exp.Interval(this=exp.Literal.string(count), unit=exp.var(of))
    return exp.IntDiv(this=elapsed, expression=one)


def _call(name: str, *parts: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(parts))


def _ntz(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("TIMESTAMPNTZ"))


def _element(node: exp.Bracket) -> exp.Expr:
    """Count elements of arrays from 1, and return null for those that there are not."""
    if len(node.expressions) != 1:
        raise QueryRefused(f"the element {node.sql(Calcite)}")
    (key,) = node.expressions
    if node.this.is_type(exp.DataType.Type.MAP) or not key.is_type(*INTEGERS):
        return _call("TRY_ELEMENT_AT", node.this, key)
    position = exp.Cast(this=key, to=exp.DataType.build("INT"))
    found = _call("TRY_ELEMENT_AT", node.this, position)
    if isinstance(key, exp.Literal) and int(key.name) > 0:
        return found
    # Spark counts from the end of the array too.
    is_none = exp.LT(this=position.copy(), expression=exp.Literal.number(1))
    return exp.If(this=is_none, true=exp.Null(), false=found)


def _unnest(node: exp.Unnest) -> exp.Expr:
    """Join the elements of an array to the row that has it; positions begin with 1."""
    alias, position = node.args.get("alias"), node.args.get("offset")
    is_joined = isinstance(node.parent, exp.Join)
    if not (is_joined or position) or alias is None:
        return node
    if len(node.expressions) != 1:
        raise QueryRefused("UNNEST of several arrays")
    (array,) = node.expressions
    columns = alias.columns
    rows: exp.Expr
    if not position:
        is_inline = len(columns) > 1 or node.meta.get(ROWS)
        rows = _call("INLINE" if is_inline else "EXPLODE", array)
    elif isinstance(position, exp.Identifier) and len(columns) == 1:
        rows = _numbered(array, columns[0], position)
        alias.append("columns", position.copy())
    else:
        raise QueryRefused("WITH ORDINALITY without a name of the element and of its position")
    if not is_joined:
        return exp.Subquery(this=rows.this, alias=alias)
    return exp.Lateral(this=rows, alias=alias)


def _numbered(array: exp.Expr, element: exp.Identifier, position: exp.Identifier) -> exp.Subquery:
    """Return the query of the elements of an array and of their positions."""
    one = exp.Add(this=exp.column(position.copy()), expression=exp.Literal.number(1))
    select = exp.select(exp.column(element.copy()), exp.alias_(one, position.copy()))
    names = exp.TableAlias(
        this=exp.to_identifier("sparkbeam_elements"), columns=[position.copy(), element.copy()]
    )
    exploded = exp.Table(this=_call("POSEXPLODE", array), alias=names)
    return exp.Subquery(this=select.from_(exploded))


def _cast(node: exp.Cast) -> exp.Expr:
    """Cut and pad texts; times are those of UTC."""
    to = node.to
    if to.is_type(exp.DataType.Type.TIME):
        raise QueryRefused("the type TIME")
    if to.is_type(*TIMESTAMPS):
        return _ntz(node.this)
    if to.is_type(exp.DataType.Type.DECIMAL) and not to.expressions:
        return exp.Cast(this=node.this, to=exp.DataType.build("DECIMAL(38, 18)"))
    if not to.is_type(*TEXTS):
        return node
    text: exp.Expr = exp.Cast(this=node.this, to=exp.DataType.build("TEXT"))
    if node.this.is_type(exp.DataType.Type.BOOLEAN):
        text = exp.Upper(this=text)
    is_char = not to.is_type(exp.DataType.Type.VARCHAR)
    length = to.expressions[0].this if to.expressions else exp.Literal.number(1)
    if is_char:
        return _call("RPAD", text, length, exp.Literal.string(" "))
    return exp.Left(this=text, expression=length) if to.expressions else text


def _like(node: exp.Like) -> exp.Expr:
    """Take backslashes in patterns as they are."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or not isinstance(pattern, exp.Literal):
        return node
    node.set("expression", exp.Literal.string(pattern.this.replace("\\", "\\\\")))
    return node


def _similar(node: exp.SimilarTo) -> exp.Expr:
    from sparkbeam.replacements.calcite_patterns import regex_of_similar

    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise QueryRefused("SIMILAR TO with a pattern that is no text in the query")
    regex = exp.Literal.string(rf"(?s)^(?:{regex_of_similar(pattern.this)})\z")
    return exp.RegexpLike(this=node.this, expression=regex)


def _extract(node: exp.Extract) -> exp.Expr:
    """Return whole seconds too."""
    return _as(node.copy(), exp.DataType.build("bigint"))


def _now(node: exp.Expr) -> exp.Expr:
    """Return the time in UTC."""
    now = _call("UNIX_MICROS", exp.CurrentTimestamp())
    return _call("TIMESTAMPADD", exp.var("MICROSECOND"), now, _ntz(_EPOCH.copy()))


def _today(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=_now(node), to=exp.DataType.build("DATE"))


def _user_aggregate(node: exp.AnonymousAggFunc) -> exp.Expr:
    """Call the function with the list of the values, which has no nulls."""
    values = _call("COLLECT_LIST", *node.expressions)
    return _call(node.name, values)


def _substring(node: exp.Substring) -> exp.Expr:
    """Take positions before the first character as such; Spark counts them from the end."""
    start, length = node.args.get("start"), node.args.get("length")
    if start is None or (isinstance(start, exp.Literal) and int(start.name) > 0):
        return node
    one, zero = exp.Literal.number(1), exp.Literal.number(0)
    begin = exp.Greatest(this=start.copy(), expressions=[one])
    if length is None:
        return exp.Substring(this=node.this, start=begin)
    end = exp.Paren(this=exp.Add(this=start.copy(), expression=length.copy()))
    number = exp.Greatest(this=exp.Sub(this=end, expression=begin.copy()), expressions=[zero])
    return exp.Substring(this=node.this, start=begin, length=number)


def _logarithm(node: exp.Ln | exp.Log) -> exp.Expr:
    """Return NaN and infinity where Spark returns null."""
    value = node.this if isinstance(node, exp.Ln) else node.expression
    if value is None:
        return node
    zero = exp.Literal.number(0)
    at_most = exp.LTE(this=value.copy(), expression=zero)
    is_zero = exp.EQ(this=value.copy(), expression=zero.copy())
    other = exp.If(this=is_zero, true=_double("-Infinity"), false=_double("NaN"))
    return exp.If(this=at_most, true=other, false=node.copy())


def _double(text: str) -> exp.Expr:
    return exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build("DOUBLE"))


def _sign(node: exp.Sign) -> exp.Expr:
    return _as(node.copy(), node.this.type) if node.this.is_type(*INTEGERS) else node


def _capital(node: exp.Initcap) -> exp.Expr:
    raise QueryRefused("INITCAP, as words of Spark end at spaces alone")


def _truncated(node: exp.Trunc) -> exp.Expr:
    raise QueryRefused("TRUNCATE, which Spark does not have: use ROUND, FLOOR or CEIL")


def _day(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("DATE"))


def _time_added(node: exp.Anonymous) -> exp.Expr:
    """Add to a day too; Spark takes it as a time in the time zone of the session."""
    unit, number, time = node.expressions
    if not time.is_type(exp.DataType.Type.DATE):
        return node
    found = _call("TIMESTAMPADD", unit, number, _ntz(time))
    return found if unit.name in ("HOUR", "MINUTE", "SECOND") else _day(found)


def _time_between(node: exp.Anonymous) -> exp.Expr:
    unit, start, end = node.expressions
    if unit.name in _FIXED_UNITS:
        return _between(unit.name, start, end)
    return _call("TIMESTAMPDIFF", unit, _ntz(start), _ntz(end))


def _function(node: exp.Anonymous) -> exp.Expr:
    change = _WITH_UNIT.get(node.name.upper())
    if change is not None and len(node.expressions) == 3:
        return change(node)
    name = RENAMED.get(node.name.upper())
    if name is not None:
        node.set("this", name)
    return node


_WITH_UNIT = {"TIMESTAMPADD": _time_added, "TIMESTAMPDIFF": _time_between}
_FIXED_UNITS = frozenset(["SECOND", "MINUTE", "HOUR", "DAY", "WEEK"])

RENAMED: Mapping[str, str] = {"COLLECT": "COLLECT_LIST", "ROW": "STRUCT"}

_CHANGES: dict[type[exp.Expr], Callable[[Any], exp.Expr]] = {
    exp.Div: _division,
    **dict.fromkeys(
        (
            *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ),
            *(exp.GT, exp.GTE, exp.LT, exp.LTE),
        ),
        _compared,
    ),
    exp.Between: _between_numbers,
    exp.Nullif: _nullif,
    exp.Substring: _substring,
    exp.Ln: _logarithm,
    exp.Log: _logarithm,
    exp.Sign: _sign,
    exp.Initcap: _capital,
    exp.Trunc: _truncated,
    exp.Avg: _average,
    exp.Window: _window,
    exp.Filter: _window,
    exp.Ceil: _rounded,
    exp.Floor: _rounded,
    exp.Bracket: _element,
    exp.Cast: _cast,
    exp.Unnest: _unnest,
    exp.Extract: _extract,
    exp.Like: _like,
    exp.SimilarTo: _similar,
    exp.CurrentTimestamp: _now,
    exp.Localtimestamp: _now,
    exp.CurrentDate: _today,
    exp.Anonymous: _function,
    exp.AnonymousAggFunc: _user_aggregate,
}
