"""Expressions of Beam SQL in Spark's dialect, with the values that they have in Calcite."""

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from sparkbeam_sql.calcite_casts import cast_in_spark
from sparkbeam_sql.calcite_comparisons import between, case, compared, contained, nullif
from sparkbeam_sql.calcite_dialect import INTEGERS, Calcite, QueryRefused, place
from sparkbeam_sql.calcite_functions import function_of, like_in_spark
from sparkbeam_sql.calcite_text import SparkText, by_python
from sparkbeam_sql.calcite_times import interval_number
from sparkbeam_sql.calcite_types import (
    ROWS,
    SPREADS,
    Kind,
    built,
    decimal,
    digits,
    require_known,
)


def to_spark(tree: exp.Query) -> None:
    """Replace expressions by Spark's, innermost first."""
    for found in list(tree.find_all(exp.Filter)):
        _condition_within(found)
    for clause in tree.find_all(exp.Where, exp.Having, exp.If, exp.Join):
        name = "on" if isinstance(clause, exp.Join) else "this"
        if isinstance(clause.args.get(name), exp.Null):  # Which is no condition to Spark.
            clause.set(name, exp.cast(exp.Null(), "BOOLEAN"))
    for node in reversed(list(tree.dfs())):
        change, function = _CHANGES.get(type(node)), function_of(node)
        if change is None and function is None:
            continue
        parent, key, index = node.parent, node.arg_key, node.index
        kind = node.type
        changed = node if function is None else function.in_spark(node)
        if changed is node and change is not None:
            changed = change(node)
        if changed is not node and parent is not None and key is not None:
            changed.type = kind
            parent.set(key, changed, index)
    for group in tree.find_all(exp.Group):
        for each in group.expressions:
            if each.is_int:  # Which Spark takes for a position.
                each.replace(SparkText.of("CAST({0} AS {type})", each.copy(), type=each.type))


def _interval(node: exp.Interval) -> exp.Expr:
    """Write quarters as months, as Spark has none."""
    if node.args["unit"].name.upper() not in ("QUARTER", "QUARTERS"):
        return node
    months = 3 * int(interval_number(node) or 0)
    return exp.Interval(this=exp.Literal.string(str(months)), unit=exp.var("MONTH"))


_EXACT = (*INTEGERS, Kind.DECIMAL)


def _arithmetic(node: exp.Binary) -> exp.Expr:
    """Keep 18 digits of decimals behind the point, of which Spark would drop some."""
    left, right = node.left, node.right
    if any(part.is_type(Kind.DECIMAL) for part in (left, right)):
        require_known(left, right)
    if isinstance(right, exp.Interval) and left.is_type(Kind.DATE) and not node.is_type(Kind.DATE):
        node.set("this", exp.Cast(this=left, to=exp.DataType.build("TIMESTAMPNTZ")))
    if not node.is_type(Kind.DECIMAL):
        return node
    parts = [_exact(part) for part in (left, right)]
    (one, scale), (other, behind) = (digits(part.type) for part in (left, right))
    if isinstance(node, exp.Mul):
        if scale + behind <= 18 and one + other < 38:
            return exp.Mul(this=parts[0], expression=parts[1])
        if one + other < 38:
            return SparkText.of("CAST({0} * {1} AS {type})", *parts, type=node.type)
        return by_python("decimal_product", *parts)
    if isinstance(node, exp.Mod) or max(one - scale, other - behind) + max(scale, behind) < 38:
        return type(node)(this=parts[0], expression=parts[1])
    sign = "+" if isinstance(node, exp.Add) else "-"
    return SparkText.of(
        f"CAST({{0}} AS DECIMAL(37, 18)) {sign} CAST({{1}} AS DECIMAL(37, 18))", *parts
    )


def _exact(node: exp.Expr) -> exp.Expr:
    """Return a number as a decimal."""
    if not node.is_type(*INTEGERS):
        return node.copy()
    kind = decimal(*digits(node.type))
    found = exp.Cast(this=node.copy(), to=kind.copy())
    found.type = kind
    return found


def _division(node: exp.Div) -> exp.Expr:
    """Truncate the quotient of integers; that of decimals has 18 digits behind the point."""
    left, right = node.left, node.right
    require_known(left, right)
    if node.is_type(*INTEGERS):
        return _as(exp.IntDiv(this=left, expression=right), node.type)
    if node.is_type(Kind.DECIMAL):
        if digits(right.type)[1]:
            return by_python("decimal_quotient", *(_exact(part) for part in (left, right)))
        return SparkText.of("CAST({0} AS DECIMAL(38, 18)) / {1}", left, _exact(right))
    found = exp.Div(this=left, expression=right, typed=False)
    return _as(found, node.type) if node.is_type(Kind.FLOAT) else found


def _condition_within(node: exp.Filter) -> None:
    """Put the condition of an aggregate that is divided into its argument."""
    aggregate, condition = node.this, node.expression.this
    if not isinstance(aggregate, exp.Avg):
        return
    value = _argument(aggregate)
    case = exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
    case.type = value.type
    value.replace(case)
    node.replace(aggregate)


def _average(node: exp.Avg) -> exp.Expr:
    """Truncate the average of integers; that of decimals has 18 digits behind the point."""
    require_known(_argument(node))
    if isinstance(node.parent, exp.Window):
        return node
    return _quotient(node, exp.Sum(this=node.this.copy()), exp.Count(this=node.this.copy()))


def _quotient(node: exp.Expr, *parts: exp.Expr) -> exp.Expr:
    """Return an average as the quotient of a sum and a count, which is exact."""
    if node.is_type(*INTEGERS):
        return SparkText.of("CAST({0} DIV {1} AS {type})", *parts, type=node.type)
    if node.is_type(Kind.DECIMAL):
        text = "CAST({0} AS DECIMAL(38, 18)) / CAST({1} AS DECIMAL(20, 0))"
        return SparkText.of(text, *parts)
    return node


def _spread(node: exp.AggFunc) -> exp.Expr:
    """Truncate a variance of integers, of which Spark's is a double that is nearly exact."""
    require_known(_argument(node))
    is_inner = isinstance(node.parent, exp.Window | exp.Filter)
    return node if is_inner else _truncated(node)


def _argument(node: exp.AggFunc) -> exp.Expr:
    value: exp.Expr = node.this
    return value.expressions[0] if isinstance(value, exp.Distinct) else value


def _truncated(node: exp.Expr) -> exp.Expr:
    if not node.is_type(*_EXACT):
        return node
    text = "CAST(ROUND({0}, 6) AS {type})" if node.is_type(*INTEGERS) else "CAST({0} AS {type})"
    return SparkText.of(text, node, type=node.type)


def _window(node: exp.Window | exp.Filter) -> exp.Expr:
    aggregate = node.this.this if isinstance(node.this, exp.Filter) else node.this
    is_inner = isinstance(node.parent, exp.Window)
    if is_inner or type(aggregate) not in (exp.Avg, *_SPREADS):
        return node
    if isinstance(aggregate, exp.Avg):
        parts = []
        for kind in (exp.Sum, exp.Count):
            part = node.copy()
            part.set("this", kind(this=aggregate.this.copy()))
            parts.append(part)
        return _quotient(node, *parts)
    return _truncated(node)


_SPREADS = (*SPREADS, exp.CovarPop, exp.CovarSamp)


def _as(node: exp.Expr, kind: exp.DataType | None) -> exp.Expr:
    return exp.Cast(this=node, to=(kind or built("BIGINT")).copy())


def _call(name: str, *parts: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(parts))


def _element(node: exp.Bracket) -> exp.Expr:
    """Count elements of arrays from 1; null if out of range."""
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
    is_inline = alias is not None and (len(alias.columns) > 1 or bool(node.meta.get(ROWS)))
    if not (is_joined or position or is_inline) or alias is None:
        return node
    if len(node.expressions) != 1:
        raise QueryRefused("UNNEST of several arrays")
    (array,) = node.expressions
    columns = alias.columns
    _check_unnested(array, columns)
    rows: exp.Expr
    if not position:
        rows = _call("INLINE" if is_inline else "EXPLODE", array)
    elif isinstance(position, exp.Identifier) and len(columns) == 1:
        rows = _numbered(array, columns[0], position)
        alias.append("columns", position.copy())
    else:
        raise QueryRefused("WITH ORDINALITY without names for the element and its position")
    if not is_joined:
        kind = exp.Subquery if position else exp.Table
        return kind(this=rows.this if position else rows, alias=alias)
    return exp.Lateral(this=rows, alias=alias)


def _check_unnested(array: exp.Expr, columns: list[exp.Identifier]) -> None:
    kind = array.type
    if kind is not None and kind.is_type(Kind.MAP):
        raise QueryRefused(f"UNNEST of a MAP{place(array)}", "UNNEST an array.")
    if kind is None or not kind.expressions or len(columns) < 2:
        return
    element = kind.expressions[0]
    fields = len(element.expressions) if element.is_type(Kind.STRUCT) else 1
    if fields != len(columns):
        raise QueryRefused(
            f"UNNEST of an array, whose elements have {fields} values, as {len(columns)} columns"
            f"{place(array)}",
            f"Give names to {fields} columns.",
        )


def _numbered(array: exp.Expr, element: exp.Identifier, position: exp.Identifier) -> exp.Subquery:
    """Return the query of the elements of an array and of their positions."""
    one = exp.Add(this=exp.column(position.copy()), expression=exp.Literal.number(1))
    select = exp.select(exp.column(element.copy()), exp.alias_(one, position.copy()))
    names = exp.TableAlias(
        this=exp.to_identifier("sparkbeam_elements"), columns=[position.copy(), element.copy()]
    )
    exploded = exp.Table(this=_call("POSEXPLODE", array), alias=names)
    return exp.Subquery(this=select.from_(exploded))


def _user_aggregate(node: exp.AnonymousAggFunc) -> exp.Expr:
    """Call the function with the list of the values, which has no nulls."""
    values = _call("COLLECT_LIST", *node.expressions)
    return _call(node.name, values)


def _function(node: exp.Anonymous) -> exp.Expr:
    name = RENAMED.get(node.name.upper())
    if name is not None:
        node.set("this", name)
    return node


RENAMED: Mapping[str, str] = {"COLLECT": "COLLECT_LIST", "ROW": "STRUCT"}

_CHANGES: dict[type[exp.Expr], Callable[[Any], exp.Expr]] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod), _arithmetic),
    exp.Div: _division,
    **dict.fromkeys(
        (
            *(exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ),
            *(exp.GT, exp.GTE, exp.LT, exp.LTE),
        ),
        compared,
    ),
    exp.Between: between,
    exp.Nullif: nullif,
    exp.In: contained,
    exp.ILike: like_in_spark,
    exp.Case: case,
    exp.Avg: _average,
    **dict.fromkeys(_SPREADS, _spread),
    exp.AnyValue: lambda node: SparkText.of("ANY_VALUE({0}, TRUE)", node.this),
    exp.Window: _window,
    exp.Filter: _window,
    exp.Bracket: _element,
    exp.Cast: cast_in_spark,
    exp.Unnest: _unnest,
    exp.Interval: _interval,
    exp.Anonymous: _function,
    exp.AnonymousAggFunc: _user_aggregate,
}
