"""Queries as steps of a pipeline: selections, aggregations in windows, and joins.

They run in windows and in streaming, where a query is no single query of Spark's. Expressions
become functions in Python, which the planner compiles to columns.
"""

import itertools
import keyword
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam.connectors.schemas import row_constraint, without_none
from sparkbeam.replacements.calcite import ParsedQuery, QueryRefused, window_function
from sparkbeam.replacements.calcite_functions import called, moved
from sparkbeam.replacements.calcite_values import (
    KINDS,
    REAL,
    WHOLE,
    Value,
    alike,
    as_kind,
    held,
    is_integer,
    present,
    strict,
    unknown,
    wider,
)
from sparkbeam.replacements.user_functions import Parameter, SqlFunction


@dataclass(frozen=True)
class Scan:
    """The elements of a table."""

    table: str


@dataclass(frozen=True)
class Project:
    """Rows of expressions, in columns ``c0``, ``c1``, …, over the rows for which a condition holds.

    The columns of an :class:`Aggregate` are ``k0``, … for the keys, ``a0``, … for the aggregates.
    """

    step: "Step"
    values: tuple[Value, ...]
    condition: str | None = None


@dataclass(frozen=True)
class Windows:
    """Windows of an aggregation.

    Attributes:
        function: ``TUMBLE``, ``HOP`` or ``SESSION``.
        time: the timestamp of a row.
        size: their size, or the gap, in microseconds.
        period: of those of ``HOP``, in microseconds.
    """

    function: str
    time: Value
    size: int
    period: int = 0


@dataclass(frozen=True)
class Aggregate:
    """Aggregates of the rows with the same keys.

    Attributes:
        step: makes the rows: the keys, followed by an input of each aggregate.
        keys: the number of keys.
        functions: of the aggregates: ``sum``, ``min``, ``max``, ``distinct``, or the alias of one
            of the user.
        windows: the windows; None for those of the input.
        bounds: the start and the end of the window follow as two columns.
        nullable: whether each aggregate meets None.
    """

    step: "Step"
    keys: int
    functions: tuple[str, ...]
    nullable: tuple[bool, ...]
    windows: Windows | None = None
    bounds: bool = False


@dataclass(frozen=True)
class JoinSteps:
    """A join by equal keys; the columns of the right side follow those of the left."""

    left: "Step"
    right: "Step"
    how: str
    left_keys: tuple[Value, ...]
    right_keys: tuple[Value, ...]


@dataclass(frozen=True)
class Unnest:
    """Rows for each element of an array, which is the column behind those of the row.

    Attributes:
        step: makes the rows.
        array: of a row.
        element: the type of its elements.
    """

    step: "Step"
    array: Value
    element: Value


@dataclass(frozen=True)
class Union:
    """The rows of several steps."""

    steps: tuple["Step", ...]


Step = Scan | Project | Aggregate | JoinSteps | Unnest | Union

_Scope = Mapping[str, Mapping[str, Value]]
"""Columns of each relation by name."""


def steps_of(
    query: ParsedQuery,
    tables: Mapping[str, Mapping[str, tuple[Any, bool]]],
    functions: Mapping[str, SqlFunction] | None = None,
) -> Project:
    """Return the steps of a query.

    Args:
        query: the query.
        tables: the type of each column of the tables, and whether it may be None.
        functions: of the user, by their aliases.

    Raises:
        QueryRefused: a clause of it cannot run in windows or in streaming.
    """
    return _Lowering(tables, functions or {}).query(query.tree)


class _Lowering:
    def __init__(
        self,
        tables: Mapping[str, Mapping[str, tuple[Any, bool]]],
        functions: Mapping[str, SqlFunction],
    ) -> None:
        self._tables = tables
        self._functions = functions
        self._named: dict[str, tuple[Step, dict[str, Value]]] = {}

    def _expressions(self, scope: _Scope) -> "_Expressions":
        return _Expressions(scope, self._functions)

    def query(self, tree: exp.Query) -> Project:
        with_ = tree.args.get("with_") or exp.With()
        if with_.recursive:
            raise QueryRefused("WITH RECURSIVE in windows")
        for cte in with_.expressions:
            names = [each.name for each in cte.args["alias"].columns] or cte.this.named_selects
            self._named[cte.alias] = self._columns_of(self.query(cte.this), names)
        for name in ("order", "limit", "offset"):
            if tree.args.get(name):
                raise QueryRefused(f"{name.upper()} in windows or in streaming")
        if isinstance(tree, exp.Subquery):
            return self.query(tree.this)
        if isinstance(tree, exp.SetOperation):
            return self._set_operation(tree)
        if not isinstance(tree, exp.Select):
            raise QueryRefused(f"{tree.key.upper()} in windows or in streaming")
        return self._select(tree)

    def _set_operation(self, tree: exp.SetOperation) -> Project:
        if not isinstance(tree, exp.Union):
            raise QueryRefused(f"{tree.key.upper()} in windows or in streaming")
        parts = [self.query(tree.left), self.query(tree.right)]
        columns = [
            Value(f"row.c{at}", left.kind, left.nullable or right.nullable)
            for at, (left, right) in enumerate(zip(*(p.values for p in parts), strict=True))
        ]
        whole = Project(Union(tuple(parts)), tuple(columns))
        return _distinct(whole) if tree.args.get("distinct") else whole

    @staticmethod
    def _columns_of(step: Project, names: list[str]) -> tuple[Step, dict[str, Value]]:
        return step, {
            name: replace(value, source=f"row.c{at}")
            for at, (name, value) in enumerate(zip(names, step.values, strict=True))
        }

    def _relation(
        self, tree: exp.Expr, used: set[tuple[str, str]]
    ) -> tuple[Step, dict[str, Value]]:
        """Return what makes the rows of a relation, and those of its columns that are used."""
        step, columns = self._whole_relation(tree)
        name = tree.alias_or_name
        return step, {each: value for each, value in columns.items() if (name, each) in used}

    def _whole_relation(self, tree: exp.Expr) -> tuple[Step, dict[str, Value]]:
        if isinstance(tree, exp.Subquery):
            alias = tree.args.get("alias")
            names = [each.name for each in alias.columns] if alias is not None else []
            return self._columns_of(self.query(tree.this), names or tree.this.named_selects)
        if not isinstance(tree, exp.Table):
            raise QueryRefused(f"{tree.key.upper()} in windows or in streaming")
        if tree.name in self._named:
            return self._named[tree.name]
        columns = {
            name: Value(attribute(name), kind, nullable)
            for name, (kind, nullable) in self._tables[tree.name].items()
        }
        return Scan(tree.name), columns

    def _select(self, tree: exp.Select) -> Project:
        for name in ("qualify", "windows", "laterals", "match"):
            if tree.args.get(name):
                raise QueryRefused(f"{name.upper()} in windows or in streaming")
        source = tree.args.get("from_")
        if source is None:
            raise QueryRefused("a query without FROM in streaming")
        used = {(column.table, column.name) for column in tree.find_all(exp.Column)}
        step, columns = self._relation(source.this, used)
        scope: _Scope = {source.this.alias_or_name: columns}
        for join in tree.args.get("joins") or ():
            step, scope = self._joined(step, scope, join, used)
        where = tree.args.get("where")
        condition = None if where is None else self._expressions(scope).holds(where.this)
        items = [item.this if isinstance(item, exp.Alias) else item for item in tree.expressions]
        group, having = tree.args.get("group"), tree.args.get("having")
        parts = [*items, *([having.this] if having else [])]
        if group or any(part.find(exp.AggFunc) for part in parts):
            found = self._aggregated(step, scope, condition, group, items, having)
        else:
            found = Project(step, tuple(map(self._expressions(scope).value, items)), condition)
        return _distinct(found) if tree.args.get("distinct") else found

    def _joined(
        self, step: Step, scope: _Scope, join: exp.Join, used: set[tuple[str, str]]
    ) -> tuple[Step, _Scope]:
        if isinstance(join.this, exp.Unnest):
            return self._unnested(step, scope, join)
        name, side = join.this.alias_or_name, join.side.lower()
        how = {"": "inner", "full": "outer"}.get(side, side)
        left, left_scope = _positioned(step, scope)
        other, columns = self._relation(join.this, used)
        right, right_scope = _positioned(other, {name: columns})
        keys: list[tuple[exp.Expr, exp.Expr]] = []
        rest: list[exp.Expr] = []
        for condition in _conjuncts(join.args.get("on")):
            pair = _equal_sides(condition, set(scope), name)
            if pair is None:
                rest.append(condition)
            else:
                keys.append(pair)
        if not keys:
            raise QueryRefused("a JOIN without equal columns in windows or in streaming")
        if rest and how != "inner":
            raise QueryRefused(f"a condition of a {side.upper()} JOIN beside equal columns")
        of_left, of_right = (
            self._expressions(left_scope),
            self._expressions(right_scope),
        )
        pairs = [alike(of_left.value(one), of_right.value(other)) for one, other in keys]
        left_keys, right_keys = (tuple(map(_as_key, side)) for side in zip(*pairs, strict=True))
        whole = JoinSteps(left, right, how, left_keys, right_keys)
        joined: _Scope = {
            **_nullable(left_scope, how in ("right", "outer")),
            **_nullable(right_scope, how in ("left", "outer")),
        }
        joined = _numbered(joined)
        if not rest:
            return whole, joined
        expressions = self._expressions(joined)
        return _positioned(whole, joined, " and ".join(map(expressions.holds, rest)))

    def _unnested(self, step: Step, scope: _Scope, join: exp.Join) -> tuple[Step, _Scope]:
        unnest = join.this
        alias = unnest.args.get("alias")
        if join.side or join.args.get("on") or len(unnest.expressions) != 1 or alias is None:
            raise QueryRefused("UNNEST other than of one array in FROM in windows or in streaming")
        whole, columns = _positioned(step, scope)
        array = self._expressions(columns).value(unnest.expressions[0])
        hint = convert_to_beam_type(array.kind)
        inner, nullable = without_none(getattr(hint, "inner_type", Any))
        if inner is Any or row_constraint(inner) is not None:
            raise QueryRefused("UNNEST of what is no array of simple values in windows")
        element = Value(f"row.c{len(whole.values)}", inner, nullable)
        name = alias.columns[0].name if alias.columns else alias.name
        return Unnest(whole, array, element), {**columns, alias.name: {name: element}}

    def _aggregated(
        self,
        step: Step,
        scope: _Scope,
        condition: str | None,
        group: exp.Group | None,
        items: list[exp.Expr],
        having: exp.Having | None,
    ) -> Project:
        parts = [*items, *([having.this] if having is not None else [])]
        if group is not None and any(
            group.args.get(n) for n in ("rollup", "cube", "grouping_sets")
        ):
            raise QueryRefused("GROUPING SETS in windows or in streaming")
        expressions = self._expressions(scope)
        keys, windows = [], None
        for key in group.expressions if group is not None else ():
            call = window_function(key)
            if call is None:
                keys.append(key)
            elif windows is not None:
                raise QueryRefused("two window functions in GROUP BY")
            else:
                windows = _windows(*call, expressions)
        of_keys = [expressions.value(key) for key in keys]
        packed = [_as_key(value) for value in of_keys]
        aggregation = _Aggregation(expressions, len(of_keys) or 1)
        known = {
            key.sql(): _of_key(value, at)
            for at, (key, value) in enumerate(zip(keys, of_keys, strict=True))
        }
        known |= {
            each.sql(): aggregation.result(each)
            for part in parts
            for each in part.find_all(exp.AggFunc)
        }
        bounds = windows is not None and any(_bound(node) for part in parts for node in part.walk())
        behind = _Expressions({}, self._functions, known, bounds=bounds)
        if windows is not None and any(_inner_time(key) for key in keys):
            raise QueryRefused("a window function within an expression of GROUP BY")
        own = (*(packed or [Value("0", int)]), *(aggregation.inputs or [Value("1", int)]))
        inputs = Project(step, own, condition)
        if windows is not None:
            # The time travels as the last column up to the assignment of windows.
            at = len(inputs.values)
            inputs = replace(inputs, values=(*inputs.values, windows.time))
            windows = replace(windows, time=replace(windows.time, source=f"row.c{at}"))
        whole = Aggregate(
            inputs,
            len(of_keys) or 1,
            tuple(aggregation.functions or ["sum"]),
            tuple(aggregation.nullable or [False]),
            windows,
            bounds,
        )
        condition = None if having is None else behind.holds(having.this)
        return Project(whole, tuple(map(behind.value, items)), condition)


def _positioned(step: Step, scope: _Scope, condition: str | None = None) -> tuple[Project, _Scope]:
    """Return a step with all columns of a scope, and these as its columns."""
    return Project(step, tuple(_all(scope)), condition), _numbered(scope)


def _numbered(scope: _Scope) -> _Scope:
    numbers = itertools.count()
    return {
        name: {
            column: replace(value, source=f"row.c{next(numbers)}")
            for column, value in columns.items()
        }
        for name, columns in scope.items()
    }


def _nullable(scope: _Scope, may_miss: bool) -> _Scope:
    return {
        name: {
            column: replace(value, nullable=value.nullable or may_miss)
            for column, value in columns.items()
        }
        for name, columns in scope.items()
    }


def _conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    if condition is None:
        return []
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def _all(scope: _Scope) -> list[Value]:
    return [value for columns in scope.values() for value in columns.values()]


def _distinct(step: Project) -> Project:
    own = [replace(value, source=f"row.c{at}") for at, value in enumerate(step.values)]
    ones = Project(step, (*map(_as_key, own), Value("1", int)))
    keys = tuple(_of_key(value, at) for at, value in enumerate(step.values))
    return Project(Aggregate(ones, len(keys), ("sum",), (False,)), keys)


def _as_key(value: Value) -> Value:
    """Return a value as part of a key, of a type with a deterministic coder."""
    return strict(int, "{}.micros", value) if value.kind is Timestamp else value


def _of_key(value: Value, at: int) -> Value:
    """Return the value of a part of a key of an aggregation."""
    key = Value(f"row.k{at}", value.kind, value.nullable)
    return strict(Timestamp, "Timestamp(micros={})", key) if value.kind is Timestamp else key


def attribute(name: str) -> str:
    """Return the text of a field of a row."""
    # Python itself would read other characters in their normal form.
    is_plain = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
    return f"row.{name}" if is_plain else f"getattr(row, {name!r})"


def _equal_sides(
    condition: exp.Expr, left: set[str], right: str
) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the parts of an equality that belong to the left and the right side of a join."""
    if not isinstance(condition, exp.EQ):
        return None
    sides = condition.left, condition.right
    tables = [{column.table for column in side.find_all(exp.Column)} for side in sides]
    if tables[0] and tables[0] <= left and tables[1] == {right}:
        return sides
    if tables[1] and tables[1] <= left and tables[0] == {right}:
        return sides[1], sides[0]
    return None


# Windows.

_MICROS = {"SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6, "DAY": 86400 * 10**6}


def _windows(function: str, parts: list[exp.Expr], expressions: "_Expressions") -> Windows:
    if len(parts) != (3 if function == "HOP" else 2):
        raise QueryRefused(f"{function} with {len(parts)} arguments")
    time = expressions.value(parts[0])
    if time.kind is not Timestamp:
        raise QueryRefused(f"{function} of a column that is no TIMESTAMP")
    if function == "HOP":
        return Windows(function, time, _micros(parts[2]), _micros(parts[1]))
    return Windows(function, time, _micros(parts[1]))


def _micros(interval: exp.Expr) -> int:
    unit = interval.args.get("unit")
    name = "" if unit is None else unit.name.upper().removesuffix("S")
    if not isinstance(interval, exp.Interval) or name not in _MICROS:
        raise QueryRefused(f"the interval {interval.sql()} of a window")
    return int(Decimal(interval.this.name) * _MICROS[name])


def _bound(node: exp.Expr) -> str | None:
    """Return which bound of its window an expression is: ``start`` or ``end``."""
    if not isinstance(node, exp.Anonymous):
        return None
    function, _, bound = node.name.upper().partition("_")
    is_bound = function in ("TUMBLE", "HOP", "SESSION") and bound in ("START", "END")
    return bound.lower() if is_bound else None


def _inner_time(key: exp.Expr) -> bool:
    return any(window_function(node) is not None for node in key.walk())


# Aggregates.


class _Aggregation:
    """Inputs of aggregates, and results made of the aggregates.

    Args:
        expressions: over the rows.
        keys: the number of columns before the inputs.
    """

    def __init__(self, expressions: "_Expressions", keys: int) -> None:
        self._expressions = expressions
        self._keys = keys
        self._known: dict[tuple[str, str], str] = {}
        self.inputs: list[Value] = []
        self.functions: list[str] = []
        self.nullable: list[bool] = []

    def result(self, node: exp.AggFunc) -> Value:
        condition = None
        if isinstance(node.parent, exp.Filter):
            condition = self._expressions.holds(node.parent.args["expression"].this)
        if isinstance(node.parent, exp.Window):
            raise QueryRefused("OVER in windows or in streaming")
        argument = node.this
        is_distinct = isinstance(argument, exp.Distinct)
        if is_distinct:
            (argument,) = argument.expressions
        if isinstance(node, exp.Count) and isinstance(argument, exp.Star):
            return Value(self._count(None, condition), int)
        if isinstance(node, exp.AnonymousAggFunc):
            return self._of_user(node)
        if isinstance(argument, exp.Star) or not isinstance(
            node, exp.Count | exp.Sum | exp.Avg | exp.Min | exp.Max
        ):
            raise QueryRefused(f"the aggregate {node.sql_name()} in windows or in streaming")
        value = self._expressions.value(argument)
        if condition is not None:
            value = Value(f"({value.source} if {condition} else None)", value.kind, nullable=True)
        if is_distinct and not isinstance(node, exp.Min | exp.Max):
            if not isinstance(node, exp.Count):
                raise QueryRefused(f"{node.sql_name()}(DISTINCT …) in windows or in streaming")
            return Value(self._add("distinct", value), int)
        if isinstance(node, exp.Min | exp.Max):
            source = self._add(node.key, value)
            return Value(source, value.kind, value.nullable)
        count = self._count(value, None)
        if isinstance(node, exp.Count):
            return Value(count, int)
        return self._of_sum(node, value, count)

    def _of_user(self, node: exp.AnonymousAggFunc) -> Value:
        function = self._expressions.functions[node.name]
        value = self._expressions.argument(node.expressions[0].this, function.parameters[0])
        return Value(
            self._add(function.alias, value), function.result.type, function.result.nullable
        )

    def _of_sum(self, node: exp.AggFunc, value: Value, count: str) -> Value:
        first, again = held(value)
        zero = Value(f"(0 if {first} is None else {again})", value.kind)
        total = self._add("sum", zero if value.nullable else value)
        source = total
        if isinstance(node, exp.Avg):
            is_whole = is_integer(value.kind)
            source = f"quotient({total}, {count})" if is_whole else f"({total} / {count})"
        if not value.nullable:
            return Value(source, value.kind)
        return Value(f"({source} if {count} else None)", value.kind, nullable=True)

    def _count(self, value: Value | None, condition: str | None) -> str:
        if value is not None and value.nullable:
            condition = f"{value.source} is not None"
        return self._add("sum", Value(f"(1 if {condition} else 0)" if condition else "1", int))

    def _add(self, function: str, value: Value) -> str:
        key = function, value.source
        if key not in self._known:
            self._known[key] = f"row.a{len(self.inputs)}"
            self.inputs.append(value)
            self.functions.append(function)
            self.nullable.append(value.nullable)
        return self._known[key]


# Expressions.

_COMPARISONS: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("==", "!="),
    exp.NEQ: ("!=", "=="),
    exp.LT: ("<", ">="),
    exp.LTE: ("<=", ">"),
    exp.GT: (">", "<="),
    exp.GTE: (">=", "<"),
}
_ARITHMETIC: Mapping[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


class _Expressions:
    """Translator of expressions to Python.

    Args:
        scope: the columns of each relation.
        functions: of the user, by their aliases.
        known: values by the text of their expression.
        bounds: rows have the bounds of their windows.
    """

    def __init__(
        self,
        scope: _Scope,
        functions: Mapping[str, SqlFunction],
        known: Mapping[str, Value] | None = None,
        *,
        bounds: bool = False,
    ) -> None:
        self._scope = scope
        self.functions = functions
        self._known = known or {}
        self._bounds = bounds
        self._methods: dict[type[exp.Expr], Callable[[Any], Value]] = {
            exp.Column: self._column,
            exp.Literal: self._literal,
            exp.Null: lambda _: Value("None", Any, nullable=True),
            exp.Paren: lambda node: self.value(node.this),
            exp.Alias: lambda node: self.value(node.this),
            exp.Filter: lambda node: self.value(node.this),
            exp.Neg: self._negative,
            exp.Div: self._division,
            exp.Mod: self._modulo,
            exp.Case: self._case,
            exp.Coalesce: self._coalesce,
            exp.Cast: self._cast,
            exp.Anonymous: self._call,
        }

    def value(self, node: exp.Expr) -> Value:
        """Return the value of an expression.

        Raises:
            QueryRefused: it cannot be computed in windows or in streaming.
        """
        known = self._known.get(node.sql())
        if known is not None:
            return known
        if isinstance(node, exp.Add | exp.Sub) and isinstance(node.right, exp.Interval):
            return moved(node, self.value)
        if isinstance(node, exp.Binary) and type(node) in _ARITHMETIC:
            left, right = self.value(node.left), self.value(node.right)
            if not {left.kind, right.kind} <= {*WHOLE, *REAL, Decimal}:
                raise unknown(node)
            text = f"({{}} {_ARITHMETIC[type(node)]} {{}})"
            kind = wider(left.kind, right.kind)
            return strict(kind, text, as_kind(left, kind), as_kind(right, kind))
        if isinstance(node, exp.Boolean) or _is_condition(node):
            return self._truth(node)
        method = self._methods.get(type(node))
        return called(node, self.value) if method is None else method(node)

    def holds(self, node: exp.Expr, *, negated: bool = False) -> str:
        """Return the text of a condition: true if a boolean expression is true, or is false.

        Args:
            node: the expression.
            negated: whether the expression has to be false.
        """
        match node:
            case exp.Paren():
                return self.holds(node.this, negated=negated)
            case exp.Boolean():
                return str(bool(node.this) is not negated)
            case exp.Not():
                return self.holds(node.this, negated=not negated)
            case exp.And() | exp.Or():
                word = "and" if isinstance(node, exp.And) is not negated else "or"
                parts = (self.holds(part, negated=negated) for part in (node.left, node.right))
                return f"({f' {word} '.join(parts)})"
            case exp.Is():
                return self._is(node, negated=negated)
            case exp.Between():
                low = exp.GTE(this=node.this, expression=node.args["low"])
                high = exp.LTE(this=node.this, expression=node.args["high"])
                return self.holds(exp.And(this=low, expression=high), negated=negated)
            case exp.In():
                return self._in(node, negated=negated)
        if isinstance(node, exp.Binary) and type(node) in _COMPARISONS:
            return self._compared(node, negated=negated)
        value = self.value(node)
        if value.kind is not bool:
            raise unknown(node)
        return f"({value.source} is {not negated})"

    def _compared(self, node: exp.Binary, *, negated: bool) -> str:
        left, right = self.value(node.left), self.value(node.right)
        if {left.kind, right.kind} & {*REAL, Decimal} and left.kind is not right.kind:
            kind = wider(left.kind, right.kind)
            left, right = as_kind(left, kind), as_kind(right, kind)
        nulls, (one, other) = present(left, right)
        test = f"{one} {_COMPARISONS[type(node)][negated]} {other}"
        if negated and float in (left.kind, right.kind):
            test = f"not {one} {_COMPARISONS[type(node)][0]} {other}"
        return f"({' and '.join([*nulls, test])})"

    def _is(self, node: exp.Is, *, negated: bool) -> str:
        if isinstance(node.expression, exp.Null):
            value = self.value(node.this)
            return f"({value.source} is {'not ' if negated else ''}None)"
        if not isinstance(node.expression, exp.Boolean):
            raise unknown(node)
        test = self.holds(node.this, negated=not node.expression.this)
        return f"(not {test})" if negated else test

    def _in(self, node: exp.In, *, negated: bool) -> str:
        if not node.expressions:
            raise QueryRefused("IN (SELECT …) in windows or in streaming")
        tests = [exp.EQ(this=node.this, expression=each) for each in node.expressions]
        parts = (self.holds(test, negated=negated) for test in tests)
        return f"({(' and ' if negated else ' or ').join(parts)})"

    def _truth(self, node: exp.Expr) -> Value:
        true = self.holds(node)
        nullable = any(self._may_be_null(part) for part in node.find_all(exp.Column))
        if not nullable and not self._known:
            return Value(true, bool)
        false = self.holds(node, negated=True)
        return Value(f"(True if {true} else False if {false} else None)", bool, nullable=True)

    def _may_be_null(self, node: exp.Column) -> bool:
        return self._column(node).nullable

    def _column(self, node: exp.Column) -> Value:
        found = self._scope.get(node.table, {}).get(node.name)
        if found is None:
            raise QueryRefused(f"the column {node.sql()} outside of GROUP BY")
        return found

    def _negative(self, node: exp.Neg) -> Value:
        value = self.value(node.this)
        return strict(value.kind, "(-{})", value)

    def _literal(self, node: exp.Literal) -> Value:
        if node.is_string:
            return Value(repr(node.this), str)
        if "e" in node.this.lower():
            number = float(node.this)
            if math.isinf(number):
                raise unknown(node)
            return Value(repr(number), float)
        if "." in node.this:
            return Value(f"Decimal({node.this!r})", Decimal)
        whole = int(node.this)
        return Value(repr(whole), np.int32 if whole < 1 << 31 else int)

    def _division(self, node: exp.Div) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        kind = wider(left.kind, right.kind)
        if not is_integer(kind):
            return strict(kind, "({} / {})", as_kind(left, kind), as_kind(right, kind))
        return strict(kind, "quotient({}, {})", left, right)

    def _modulo(self, node: exp.Mod) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if not (is_integer(left.kind) and is_integer(right.kind)):
            raise unknown(node)
        return strict(wider(left.kind, right.kind), "modulo({}, {})", left, right)

    def _case(self, node: exp.Case) -> Value:
        default = node.args.get("default") or exp.Null()
        found = self.value(default)
        for each in reversed(node.args["ifs"]):
            test = each.this
            if node.this is not None:
                test = exp.EQ(this=node.this, expression=test)
            value = self.value(each.args["true"])
            kind = value.kind if found.kind is Any else found.kind
            if value.kind not in (kind, Any) and {value.kind, kind} <= {*WHOLE, *REAL}:
                kind = wider(value.kind, kind)
            source = f"({value.source} if {self.holds(test)} else {found.source})"
            found = Value(source, kind, value.nullable or found.nullable)
        return found

    def _coalesce(self, node: exp.Coalesce) -> Value:
        *firsts, last = map(self.value, (node.this, *node.expressions))
        found = last
        for value in reversed(firsts):
            if not value.nullable:
                found = value
                continue
            first, again = held(value)
            source = f"({again} if {first} is not None else {found.source})"
            found = Value(source, value.kind, found.nullable)
        return found

    def argument(self, node: exp.Expr, parameter: Parameter) -> Value:
        """Return the value of an argument of a function of the user.

        Raises:
            QueryRefused: it has another type.
        """
        value = self.value(node)
        if value.kind in (parameter.type, Any):
            return value
        if parameter.type in REAL and value.kind in (*WHOLE, *REAL, Decimal):
            return strict(parameter.type, "float({})", value)
        if parameter.type in WHOLE and is_integer(value.kind):
            return strict(parameter.type, "int({})", value)
        found = as_kind(value, parameter.type)
        if found.kind is not parameter.type:
            raise unknown(node)
        return found

    def _of_user(self, node: exp.Anonymous) -> Value:
        function = self.functions[node.name]
        arguments = [
            (self.argument(cast.this, parameter), parameter)
            for cast, parameter in zip(node.expressions, function.parameters, strict=False)
        ]
        sources, nulls = [], []
        for value, parameter in arguments:
            first, again = ("", value.source) if parameter.nullable else held(value)
            is_tested = value.nullable and not parameter.nullable
            nulls += [f"{first} is not None"] if is_tested else []
            sources.append(again if is_tested else value.source)
        source = f"{function.alias}({', '.join(sources)})"
        result = function.result
        if not nulls:
            return Value(source, result.type, result.nullable)
        return Value(f"({source} if {' and '.join(nulls)} else None)", result.type, nullable=True)

    def _cast(self, node: exp.Cast) -> Value:
        if isinstance(node.this, exp.AnonymousAggFunc):
            return self.value(node.this)
        if isinstance(node.this, exp.Anonymous) and node.this.name in self.functions:
            return self._of_user(node.this)
        kind = KINDS.get(node.to.this)
        if kind is Timestamp and isinstance(node.this, exp.Literal):
            return _time(node.this)
        value = self.value(node.this)
        if kind is value.kind and not node.to.expressions:
            return value
        if kind in WHOLE and value.kind in (*WHOLE, *REAL, Decimal, str):
            return strict(kind, "int({})", value)
        if kind in REAL and value.kind in (*WHOLE, *REAL, Decimal, str):
            return strict(kind, "float({})", value)
        if kind is str and is_integer(value.kind) and not node.to.expressions:
            return strict(kind, "str({})", value)
        raise unknown(node)

    def _call(self, node: exp.Anonymous) -> Value:
        bound = _bound(node)
        if bound is None or not self._bounds:
            return called(node, self.value)
        return Value(f"row.{bound}", Timestamp)


def _time(node: exp.Literal) -> Value:
    try:
        moment = Timestamp.from_rfc3339(node.this.replace(" ", "T") + "Z")
    except ValueError:
        raise unknown(node) from None
    return Value(f"Timestamp(micros={moment.micros})", Timestamp)


def _is_condition(node: exp.Expr) -> bool:
    others = exp.Not | exp.And | exp.Or | exp.Is | exp.Between | exp.In
    return isinstance(node, others) or type(node) in _COMPARISONS
