"""Rules of SQL that a query with resolved names and types has to follow."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam_sql.calcite_calls import bound_of, window_function
from sparkbeam_sql.calcite_dialect import (
    FLOATS,
    INTEGERS,
    TEXTS,
    TIMESTAMPS,
    Calcite,
    QueryRefused,
    place,
    text_of,
)
from sparkbeam_sql.calcite_nodes import relations

NAMED = "named_columns"
"""Key of the number of columns that an alias names, which a query with resolved names lacks."""


def check_rules(tree: exp.Query) -> None:
    """Check rules of SQL in a query whose names and types are resolved.

    Raises:
        ConfigurationError: aggregates or columns stand where they may not, or queries do not fit.
    """
    for node in tree.walk():
        if isinstance(node, exp.SetOperation):
            _check_parts(node)
        elif isinstance(node, exp.Select):
            _check_select(node)
        elif isinstance(node, exp.Interval):
            _check_interval(node)
        elif isinstance(node, exp.Sub) and node.left.is_type(*_TYPES[2]):
            if node.right.is_type(*_TYPES[2]):
                raise QueryRefused(f"a difference of times{place(node)}", _DIFFERENCE)
        elif isinstance(node, exp.And | exp.Or):
            for part in (node.left, node.right):
                _check_condition(part, node.key.upper())
        elif isinstance(node, exp.Not):
            _check_condition(node.this, "NOT")
        elif isinstance(node, exp.Case):
            for branch in node.args["ifs"] if node.this is None else ():
                _check_condition(branch.this, "WHEN")
            results = [branch.args["true"] for branch in node.args["ifs"]]
            _check_mixed(node, [*results, node.args.get("default")])
        elif isinstance(node, exp.Coalesce | exp.Greatest | exp.Least):
            _check_mixed(node, [node.this, *node.expressions])
        elif isinstance(node, exp.Array):
            _check_mixed(node, node.expressions)
        elif isinstance(node, exp.Is) and not isinstance(node.expression, exp.Null | exp.Boolean):
            raise ConfigurationError(
                f"IS needs NULL, TRUE or FALSE, got {text_of(node.expression)}{place(node)}. Use =."
            )
        elif isinstance(node, exp.HexString):
            _check_bytes(node)
        elif isinstance(node, exp.Limit | exp.Offset | exp.Fetch):
            _check_number(node)
        elif isinstance(node, exp.In) and not (node.expressions or node.args.get("query")):
            raise ConfigurationError(f"IN () has no values{place(node)}.")
        elif isinstance(node, exp.Values):
            _check_rows(node)
        elif isinstance(node, exp.Subquery | exp.CTE) and NAMED in node.meta:
            _check_names(node.alias, node.meta[NAMED], len(node.this.named_selects))


def _check_parts(node: exp.SetOperation) -> None:
    name = node.key.upper()
    order = node.args.get("order")
    for column in order.find_all(exp.Column) if order is not None else ():
        if column.name not in node.named_selects:
            raise ConfigurationError(
                f"ORDER BY of {name} refers to {shown(column.name)}{place(column)}, which is not "
                f"one of the columns of its result: {listed(node.named_selects)}."
            )
    parts = [part.unnest() for part in (node.left, node.right)]
    left, right = (part.selects for part in parts if isinstance(part, exp.Query))
    if len(left) != len(right):
        raise ConfigurationError(
            f"The parts of {name} have {len(left)} and {len(right)} columns. The counts must match."
        )
    for at, (one, other) in enumerate(zip(left, right, strict=True), 1):
        kinds = [_type(each.type) for each in (one, other)]
        if not _fit(one.type, other.type):
            raise ConfigurationError(
                f"Column {at} of the parts of {name} is {kinds[0]} and {kinds[1]}"
                f"{place(one)}. CAST one of them."
            )


_TYPES = (
    (*INTEGERS, *FLOATS, exp.DataType.Type.DECIMAL),
    TEXTS,
    (*TIMESTAMPS, exp.DataType.Type.DATE),
    (exp.DataType.Type.BOOLEAN,),
    (exp.DataType.Type.BINARY, exp.DataType.Type.VARBINARY),
    (exp.DataType.Type.ARRAY, exp.DataType.Type.LIST),
    (exp.DataType.Type.MAP,),
    (exp.DataType.Type.STRUCT,),
)
"""Types whose values have a common type; those of different lines have none."""


def _type(kind: exp.DataType | None) -> str:
    return "" if kind is None else kind.sql(Calcite).replace("TEXT", "VARCHAR")


def _fit(one: exp.DataType | None, other: exp.DataType | None) -> bool:
    lines = [
        next((at for at, kinds in enumerate(_TYPES) if each.is_type(*kinds)), None)
        for each in (one, other)
        if each is not None
    ]
    return None in lines or len({*lines}) < 2


def _check_mixed(node: exp.Expr, parts: list[exp.Expr | None]) -> None:
    """Check that values of which each may be the result have a common type."""
    kinds = [part.type for part in parts if part is not None and part.type is not None]
    known = [kind for kind in kinds if not kind.is_type(*_CONDITIONS[1:])]
    for kind in known[1:]:
        if not _fit(known[0], kind):
            raise ConfigurationError(
                f"{node.key.upper()} has values of {_type(known[0])} and {_type(kind)}"
                f"{place(node)}. CAST one of them."
            )


def _check_bytes(node: exp.HexString) -> None:
    if re.fullmatch("(?:[0-9a-fA-F]{2})*", node.name) is None:
        raise ConfigurationError(
            f"X'{node.name}' does not consist of pairs of hexadecimal digits. Use, for example, "
            "X'0f'."
        )


def _check_number(node: exp.Limit | exp.Offset | exp.Fetch) -> None:
    number = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    is_wrong = isinstance(number, exp.Neg) or (
        isinstance(number, exp.Literal) and not number.is_int
    )
    if number is not None and (is_wrong or number.find(exp.Column)):
        raise ConfigurationError(
            f"{node.key.upper()} {text_of(number)} is not a number of rows{place(number)}. Use a "
            "whole number."
        )


def _check_rows(node: exp.Values) -> None:
    widths = {len(row.expressions) for row in node.expressions}
    if len(widths) > 1:
        raise ConfigurationError(
            f"Rows of VALUES have {listed(map(str, sorted(widths)))} columns. Counts must match."
        )
    alias = node.args.get("alias")
    if alias is not None and alias.columns:
        _check_names(alias.name, len(alias.columns), max(widths))


def _check_names(alias: str, names: int, columns: int) -> None:
    if names != columns:
        raise ConfigurationError(
            f"{shown(alias)} names {names} columns, but there are {columns}. Name all of them."
        )


_UNITS = frozenset(["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"])
_SPANS = {
    ("YEAR", "MONTH"): r"\d+-\d+",
    ("DAY", "HOUR"): r"\d+ \d+",
    ("DAY", "MINUTE"): r"\d+ \d+:\d+",
    ("DAY", "SECOND"): r"\d+ \d+:\d+:\d+(\.\d+)?",
    ("HOUR", "MINUTE"): r"\d+:\d+",
    ("HOUR", "SECOND"): r"\d+:\d+:\d+(\.\d+)?",
    ("MINUTE", "SECOND"): r"\d+:\d+(\.\d+)?",
}


def _check_interval(node: exp.Interval) -> None:
    value, unit = node.this, node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        names = unit.this.name.upper(), unit.expression.name.upper()
        pattern = _SPANS.get(names)
        said = " TO ".join(names)
    else:
        said = "" if unit is None else unit.name.upper()
        is_unit = said.removesuffix("S") in _UNITS
        pattern = (r"\d+(\.\d+)?" if said.startswith("SECOND") else r"\d+") if is_unit else None
    if pattern is None:
        raise ConfigurationError(f"INTERVAL has no unit {said}{place(node)}.")
    plain = value.this if isinstance(value, exp.Neg) else value
    if not isinstance(plain, exp.Literal):
        raise ConfigurationError(
            f"INTERVAL {text_of(plain)} {said} is not constant{place(node)}. Use, for example, "
            f"TIMESTAMPADD({said.split()[0]}, {text_of(plain)}, t)."
        )
    if not re.fullmatch(rf"\s*[-+]?\s*{pattern}\s*", plain.name):
        raise ConfigurationError(
            f"INTERVAL {shown(plain.name)} {said} is not valid{place(node)}. Use, for example, "
            f"INTERVAL '1' MINUTE, or INTERVAL '1:30' MINUTE TO SECOND."
        )


_DIFFERENCE = "Use TIMESTAMPDIFF(SECOND, …, …)."


def _check_condition(node: exp.Expr, clause: str) -> None:
    kind = node.type
    if kind is not None and not kind.is_type(*_CONDITIONS):
        raise ConfigurationError(
            f"{clause} needs a condition, but {text_of(node)} is {_type(kind)}{place(node)}."
        )


_CONDITIONS = (
    exp.DataType.Type.BOOLEAN,
    exp.DataType.Type.UNKNOWN,
    exp.DataType.Type.NULL,
)


def _check_select(select: exp.Select) -> None:
    group, having = select.args.get("group"), select.args.get("having")
    for name, clause in (("WHERE", "where"), ("GROUP BY", "group")):
        for node in _within(select.args.get(clause)):
            _check_plain(node, name)
    for join in select.args.get("joins") or ():
        for node in _within(join.args.get("on")):
            _check_plain(node, "the condition of a JOIN")
    for item in select.expressions:
        if isinstance(item.unalias().unnest(), exp.Interval):
            raise QueryRefused(f"a column of the type INTERVAL{place(item)}", _DIFFERENCE)
    parts = [*select.expressions, *([having] if having else [])]
    order = select.args.get("order")
    ordered = list(order.expressions) if order is not None else []
    found = [node for part in [*parts, *ordered] for node in _within(part) if _gathers(node)]
    for node in found:
        inner = [each for part in node.iter_expressions() for each in _within(part)]
        if any(_gathers(each) or isinstance(each, exp.Window) for each in inner):
            raise ConfigurationError(
                f"{_called(node)} is an aggregate of an aggregate{place(node)}. Compute the inner "
                "one in a subquery."
            )
    where = select.args.get("where")
    for filtering in (where, having):
        if filtering is not None:
            _check_condition(filtering.this, filtering.key.upper())
    _check_bounds(select, parts)
    if group is not None or found:
        _check_grouped(select, [*parts, *ordered])
    elif having is not None:
        raise ConfigurationError("HAVING needs GROUP BY or an aggregate. Use WHERE instead.")


def _check_plain(node: exp.Expr, clause: str) -> None:
    if isinstance(node, exp.AggFunc | exp.Window) and not isinstance(node.parent, exp.Window):
        is_filter = clause == "WHERE" and isinstance(node, exp.AggFunc)
        remedy = "Use HAVING" if is_filter else "Compute it in a subquery"
        raise ConfigurationError(f"{_called(node)} is invalid in {clause}{place(node)}. {remedy}.")


def _check_grouped(select: exp.Select, parts: list[exp.Expr]) -> None:
    """Check that columns beside aggregates are grouped by."""
    group = select.args.get("group")
    keys: set[str] = set()
    for node in group.walk() if group is not None else ():
        if isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets | exp.Group | exp.Tuple):
            keys |= {each.sql() for each in node.expressions}
        if isinstance(node, exp.Paren):
            keys.add(node.this.sql())
    own = {each.alias_or_name for each in relations(select)}
    for part in parts:
        for node in _within(part, lambda node: node.sql() in keys or _hides(node)):
            if isinstance(node, exp.Column) and node.table in own and node.sql() not in keys:
                raise ConfigurationError(
                    f"The column {shown(node.name)} is neither in GROUP BY nor within an "
                    f"aggregate{place(node)}."
                )


def _hides(node: exp.Expr) -> bool:
    """Return whether columns in an expression need no group, as those of an aggregate.

    A function that only Spark knows may be an aggregate.
    """
    is_call = isinstance(node, exp.Anonymous) and node.name.upper() not in ("ROW", "MAP")
    return _gathers(node) or is_call or isinstance(node, exp.Filter)


def _check_bounds(select: exp.Select, parts: list[exp.Expr]) -> None:
    """Check that bounds of windows are those of the window in GROUP BY."""
    group = select.args.get("group")
    keys = [key for key in group.expressions if window_function(key)] if group is not None else []
    for node in (node for part in parts for node in _within(part) if bound_of(node)):
        function = node.name.upper().rpartition("_")[0]
        call = exp.Anonymous(this=function, expressions=[each.copy() for each in node.expressions])
        if call.sql() not in {key.sql().replace(key.name, key.name.upper(), 1) for key in keys}:
            if not keys:
                raise ConfigurationError(
                    f"{node.name.upper()} needs {function}(…) in GROUP BY{place(node)}."
                )
            raise ConfigurationError(
                f"{node.name.upper()} must have the arguments of the window in GROUP BY"
                f"{place(node)}. Repeat those of {keys[0].sql()}."
            )


def _gathers(node: exp.Expr) -> bool:
    """Return whether an expression is an aggregate, not a function of a window."""
    outer = node.parent.parent if isinstance(node.parent, exp.Filter) else node.parent
    if isinstance(outer, exp.Window | exp.IgnoreNulls | exp.RespectNulls):
        return False
    if isinstance(node, exp.Grouping | exp.GroupingId):
        return False
    return isinstance(node, exp.AggFunc)


def _called(node: exp.Expr) -> str:
    this: Any = node.this if isinstance(node, exp.Window) else node
    name = this.name if isinstance(this, exp.AnonymousAggFunc) else this.sql_name()
    return f"The aggregate {name}" if this is node else f"{name}(…) OVER"


def _within(
    node: exp.Expr | None, hides: Callable[[exp.Expr], bool] | None = None
) -> Iterator[exp.Expr]:
    """Yield the nodes of an expression, without those of queries in it.

    Args:
        hides: returns whether nodes below one are left out.
    """
    if node is None:
        return
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, exp.Query):
            continue
        yield each
        if hides is None or not hides(each):
            stack.extend(reversed(list(each.iter_expressions())))
