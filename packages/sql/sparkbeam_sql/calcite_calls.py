"""Calls of functions of the user, and of those that assign windows, in queries."""

import math
from collections.abc import Mapping

import sqlglot
from sqlglot import exp

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam_sql.calcite_dialect import (
    ARGUMENTS,
    TEXTS,
    TIMESTAMPS,
    WITH_UNIT,
    Calcite,
    QueryRefused,
    data_type,
    place,
)
from sparkbeam_sql.calcite_functions import FUNCTIONS, arguments, function_of
from sparkbeam_sql.calcite_nodes import NODES
from sparkbeam_sql.calcite_spark import RENAMED
from sparkbeam_sql.calcite_timestamps import AGGREGATES
from sparkbeam_sql.user_functions import SqlFunction


def check_name(name: str) -> None:
    """Check that SQL has no function of a name.

    Raises:
        ConfigurationError: it has.
    """
    special = {*WINDOWS, *AGGREGATES, *RENAMED, *WITH_UNIT, *FUNCTIONS, "MAP"}
    try:
        call = sqlglot.parse_one(f"{name}(1)", dialect=Calcite)
    except sqlglot.errors.SqlglotError:
        call = None
    if not isinstance(call, exp.Anonymous) or name.upper() in special:
        raise ConfigurationError(
            f"The SQL parser already has a function {shown(name)}. Rename your function."
        )


def check_counts(tree: exp.Query) -> None:
    """Check the number of arguments of each call of a function that SQL has, as it is parsed.

    Raises:
        ConfigurationError: a call has too many or too few.
    """
    for node in tree.walk():
        if ARGUMENTS not in node.meta:
            continue
        name, given = node.meta[ARGUMENTS]
        counts = _counts(node, name)
        if counts is None:
            continue
        if isinstance(node, exp.StrPosition | exp.Substring | exp.Overlay | exp.Trim):
            # Words may divide arguments: SUBSTRING(s FROM 2 FOR 1).
            given = max(given, len(arguments(node)))
        distinct = node.this.expressions if isinstance(node.this, exp.Distinct) else None
        kind = "aggregate" if isinstance(node, exp.AggFunc) else "function"
        _check_count(kind, name, 0 if distinct == [] else given, counts, place(node))
        parts = [node.this, *node.expressions, *(distinct or ())]
        is_count = isinstance(node, exp.Count) and given == 1 and distinct is None
        if not is_count and any(isinstance(part, exp.Star) for part in parts):
            raise ConfigurationError(
                f"{name}{place(node)} cannot have * among its arguments. Use COUNT(*), or columns."
            )


_COUNTS: Mapping[str, tuple[int, float]] = {
    "ARRAY": (0, math.inf),
    "IF": (2, 3),
    "LAG": (1, 3),
    "LEAD": (1, 3),
    "LOG": (1, 2),
    "MOD": (2, 2),
}
"""Numbers of arguments of functions that are not in the table and do not have all of a node."""


def _counts(node: exp.Expr, name: str) -> tuple[int, float] | None:
    """Return the least and the greatest number of arguments of a call; None if it is not known."""
    function, known = function_of(node), NODES.get(type(node))
    if name in _COUNTS or known is None:
        return _COUNTS.get(name)
    if function is not None:
        return None if isinstance(node, exp.Extract) else function.counts
    if isinstance(node, exp.Anonymous | exp.Cast | exp.UDTF | exp.Connector):
        return None
    names = {*known.names, *(known.spark or ())} - {"safe"}
    return (1, math.inf) if "expressions" in names else (len(names), len(names))


def _check_count(
    kind: str, name: str, given: int, counts: tuple[int, float], where: str = ""
) -> None:
    least, most = counts
    if least <= given <= most:
        return
    wanted = f"{least} to {most}" if math.isfinite(most) else f"at least {least}"
    wanted = f"{least}" if least == most else wanted
    plural = "" if given == 1 else "s"
    raise ConfigurationError(
        f"The {kind} {name}{where} got {given} argument{plural}, but expects {wanted}."
    )


def called(tree: exp.Query, functions: Mapping[str, SqlFunction]) -> exp.Query:
    """Mark calls of functions of the user, with casts of arguments and results."""
    for node in list(tree.find_all(exp.Anonymous)):
        function = functions.get(node.name.lower())
        if function is None:
            continue
        counts = function.least, len(function.parameters)
        _check_count("function", function.name, len(node.expressions), counts)
        for argument, parameter in zip(list(node.expressions), function.parameters, strict=False):
            _put_within(argument, exp.Cast(to=data_type(parameter.column)))
        call = _aggregate_call(node, function) if function.is_aggregate else node
        call.set("this", function.alias)
        _put_within(call, exp.Cast(to=data_type(function.result.column)))
    return tree


def _aggregate_call(node: exp.Anonymous, function: SqlFunction) -> exp.Expr:
    (argument,) = node.expressions
    outer = node.parent
    if isinstance(outer, exp.Window) or isinstance(argument.this, exp.Distinct):
        clause = "OVER" if isinstance(outer, exp.Window) else "DISTINCT"
        raise QueryRefused(f"{clause} with the function {function.name}")
    call = exp.AnonymousAggFunc(this=function.alias, expressions=[argument])
    if isinstance(outer, exp.Filter):
        condition = outer.expression.this
        argument.set("this", exp.Case(ifs=[exp.If(this=condition, true=argument.this)]))
        outer.replace(call)
    else:
        node.replace(call)
    return call


def _put_within(node: exp.Expr, outer: exp.Expr) -> None:
    node.replace(outer)
    outer.set("this", node)


_RANKS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE")
"""Types of numbers; each can be an argument for those behind it."""


def check_arguments(tree: exp.Query, functions: Mapping[str, SqlFunction]) -> None:
    """Check the types of the arguments of calls in a query with types.

    Raises:
        ConfigurationError: one does not fit its parameter.
    """
    for node in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc):
        function = functions.get(node.name)
        for cast in () if function is None else node.expressions:
            given = cast.this
            if function is not None and not _fits(given.type, cast.to):
                wanted, found = cast.to.sql(Calcite), given.type.sql(Calcite)
                raise ConfigurationError(
                    f"The function {function.name} expects {wanted}, got "
                    f"{shown(given.sql(Calcite))} of type {found}. CAST it."
                )


def _fits(given: exp.DataType | None, wanted: exp.DataType) -> bool:
    if given is None or given.is_type(exp.DataType.Type.UNKNOWN, exp.DataType.Type.NULL):
        return True
    names = given.this.name, wanted.this.name
    if set(names) <= {*_RANKS}:
        return _RANKS.index(names[0]) <= _RANKS.index(names[1])
    groups = (TEXTS, TIMESTAMPS)
    same = any(given.is_type(*group) and wanted.is_type(*group) for group in groups)
    return same or given.this == wanted.this


def window_function(node: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """Return the name and the arguments of a function that assigns windows; None for others."""
    if not isinstance(node, exp.Anonymous) or node.name.upper() not in WINDOWS:
        return None
    return node.name.upper(), node.expressions


WINDOWS = frozenset(["TUMBLE", "HOP", "SESSION"])


def bound_of(node: exp.Expr) -> str | None:
    """Return which bound of its window an expression is: ``start`` or ``end``."""
    if not isinstance(node, exp.Anonymous):
        return None
    function, _, bound = node.name.upper().partition("_")
    return bound.lower() if function in WINDOWS and bound in ("START", "END") else None


_ARGUMENTS = {"TUMBLE": ("DATA", "TIMECOL", "SIZE"), "HOP": ("DATA", "TIMECOL", "SLIDE", "SIZE")}


def with_windows(tree: exp.Query) -> exp.Query:
    """Replace ``TABLE(TUMBLE(…))`` and ``TABLE(HOP(…))`` by queries with the bounds of windows."""
    for table in list(tree.find_all(exp.Table)):
        call = table.this
        if isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE" and call.expressions:
            call = call.expressions[0]
        if not isinstance(call, exp.Anonymous) or call.name.upper() not in WINDOWS:
            continue
        table.replace(_query_of_windows(call, table.args.get("alias")))
    return tree


def _query_of_windows(call: exp.Anonymous, alias: exp.TableAlias | None) -> exp.Subquery:
    function = call.name.upper()
    names = _ARGUMENTS.get(function)
    if names is None:
        raise QueryRefused(f"TABLE({function}(…)){place(call)}", f"Use GROUP BY {function}(…).")
    named = {
        each.this.name.upper(): each.expression
        for each in call.expressions
        if isinstance(each, exp.Kwarg)
    }
    given = [named.get(name) for name in names] if named else call.expressions
    if len(given) != len(names) or None in given or len(named) not in (0, len(names)):
        raise QueryRefused(
            f"TABLE({function}(…)) with these arguments{place(call)}",
            f"Pass {', '.join(names)}: TABLE t, DESCRIPTOR(time) and INTERVALs.",
        )
    data, descriptor, *intervals = (each for each in given if each is not None)
    if isinstance(data, exp.Column) and not data.table:
        data = exp.Table(this=data.this)
    is_column = isinstance(descriptor, exp.Anonymous) and len(descriptor.expressions) == 1
    if not isinstance(data, exp.Table | exp.Subquery) or not is_column:
        raise QueryRefused(
            f"TABLE({function}(…)) without a table and DESCRIPTOR(column){place(call)}",
            "Pass TABLE t and DESCRIPTOR(time) as the first arguments.",
        )
    windows = exp.Anonymous(this=function, expressions=[descriptor.expressions[0], *intervals])
    bounds = [
        exp.alias_(exp.Anonymous(this=name, expressions=[windows.copy()]), name.lower())
        for name in BOUNDS
    ]
    return exp.Subquery(this=exp.select(exp.Star(), *bounds).from_(data), alias=alias)


BOUNDS = ("WINDOW_START", "WINDOW_END")
"""Functions of the bounds of a row's window, and the columns that they make."""


def windows_of_rows(node: exp.Expr) -> exp.Expr | None:
    """Return the call of a function of windows of which an expression has a bound."""
    is_bound = (
        isinstance(node, exp.Anonymous) and node.name in BOUNDS and len(node.expressions) == 1
    )
    return node.expressions[0] if is_bound and window_function(node.expressions[0]) else None
