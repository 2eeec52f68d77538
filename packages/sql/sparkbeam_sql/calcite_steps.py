"""Queries as steps of a pipeline.

They run in windows and in streaming, where a query is no single query of Spark's. Expressions
become functions in Python, which the planner compiles to columns.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from apache_beam.typehints.native_type_compatibility import convert_to_beam_type
from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam.common.arguments import shown
from sparkbeam.connectors.schemas import row_constraint, without_none
from sparkbeam_sql.calcite import ParsedQuery
from sparkbeam_sql.calcite_aggregates import Aggregation
from sparkbeam_sql.calcite_calls import (
    BOUNDS,
    bound_of,
    window_function,
    windows_of_rows,
)
from sparkbeam_sql.calcite_checks import IN_STEPS
from sparkbeam_sql.calcite_dialect import QueryRefused, deeply, place, text_of
from sparkbeam_sql.calcite_expressions import Expressions, Scope, attribute, field_of
from sparkbeam_sql.calcite_order import first_rows, further_keys, orders
from sparkbeam_sql.calcite_subqueries import SUBQUERY, conjuncts, with_joins
from sparkbeam_sql.calcite_times import interval_number
from sparkbeam_sql.calcite_timestamps import is_plain
from sparkbeam_sql.calcite_types import ROWS, SPREADS
from sparkbeam_sql.calcite_values import (
    REAL,
    Value,
    alike,
    common_kind,
    converted,
    held,
    is_integer,
    is_nested,
    parts_of,
    strict,
)
from sparkbeam_sql.functions import MICROS
from sparkbeam_sql.steps import (
    Aggregate,
    Assigned,
    Constants,
    JoinSteps,
    Project,
    Scan,
    Step,
    Top,
    Union,
    Unnest,
    Windows,
    columns_of,
    lacks_row,
)
from sparkbeam_sql.user_functions import SqlFunction


@deeply
def steps_of(
    query: ParsedQuery,
    tables: Mapping[str, Mapping[str, tuple[Any, bool]]],
    functions: Mapping[str, SqlFunction] | None = None,
) -> Project:
    """Return the steps of a query.

    Args:
        tables: the type of each column of the tables, and whether it may be None.
    """
    if query.only_spark is not None:
        raise query.only_spark
    return _Lowering(tables, functions or {}).query(query.tree)


_ONE_ROW = Constants(((Value("0", int),),), (Value("row.c0", int),))
"""Rows of a query without FROM."""


class _Lowering:
    def __init__(
        self,
        tables: Mapping[str, Mapping[str, tuple[Any, bool]]],
        functions: Mapping[str, SqlFunction],
    ) -> None:
        self._tables = tables
        self._functions = functions
        self._named: Mapping[str, tuple[Step, dict[str, Value]]] = {}

    def _expressions(self, scope: Scope) -> "Expressions":
        return Expressions(scope, self._functions)

    def query(self, tree: exp.Query) -> Project:
        around = self._named
        try:
            return self._query(tree)
        finally:
            self._named = around

    def _query(self, tree: exp.Query) -> Project:
        with_ = tree.args.get("with_") or exp.With()
        for cte in with_.expressions:
            names = cte.alias_column_names or cte.this.named_selects
            named = self._columns_of(self.query(cte.this), names)
            self._named = {**self._named, cte.alias: named}
        if isinstance(tree, exp.Subquery):
            return self._first(self.query(tree.this), tree)
        if isinstance(tree, exp.SetOperation):
            return self._first(self._set_operation(tree), tree)
        if not isinstance(tree, exp.Select):
            raise QueryRefused(f"{tree.key.upper()} in windows or in streaming")
        return self._select(tree)

    @staticmethod
    def _first(step: Project, tree: exp.Query) -> Project:
        """Return the first rows of a query, which is ordered by columns of its result."""
        names = [exp.column(name, quoted=True) for name in tree.named_selects]
        return _limited(step, tree, names)

    def _set_operation(self, tree: exp.SetOperation) -> Project:
        if not isinstance(tree, exp.Union):
            raise QueryRefused(f"{tree.key.upper()} in windows or in streaming")
        parts = [self.query(part) for part in _operands(tree)]
        try:
            kinds, columns = _common(tree, [part.values for part in parts])
        except QueryRefused:
            clause = "UNION of columns of different types in windows or in streaming"
            raise QueryRefused(clause) from None
        whole = Project(Union(tuple(_as_kinds(part, kinds) for part in parts)), columns)
        return _distinct(whole) if tree.args.get("distinct") else whole

    @staticmethod
    def _columns_of(step: Project | Constants, names: list[str]) -> tuple[Step, dict[str, Value]]:
        return step, dict(zip(names, columns_of(step), strict=True))

    def _relation(
        self, tree: exp.Expr, used: set[tuple[str, str]]
    ) -> tuple[Step, dict[str, Value]]:
        """Return what makes the rows of a relation, and those of its columns that are used."""
        step, columns = self._whole_relation(tree)
        name = tree.alias_or_name
        return step, {each: value for each, value in columns.items() if (name, each) in used}

    def _whole_relation(self, tree: exp.Expr) -> tuple[Step, dict[str, Value]]:
        if isinstance(tree, exp.Subquery):
            names = tree.alias_column_names or tree.this.named_selects
            return self._columns_of(self.query(tree.this), names)
        if isinstance(tree, exp.Values):
            return self._columns_of(self._constants(tree), tree.alias_column_names)
        if not isinstance(tree, exp.Table):
            raise QueryRefused(f"{tree.key.upper()} in windows or in streaming")
        if tree.name in self._named:
            return self._named[tree.name]
        columns = {
            name: Value(attribute("row", name), kind, nullable)
            for name, (kind, nullable) in self._tables[tree.name].items()
        }
        return Scan(tree.name), columns

    def _constants(self, tree: exp.Values) -> Constants:
        value = self._expressions({}).value
        rows = [tuple(map(value, each.expressions)) for each in tree.expressions]
        kinds, columns = _common(tree, rows)
        return Constants(tuple(tuple(map(converted, row, kinds)) for row in rows), columns)

    def _select(self, tree: exp.Select) -> Project:
        tree = with_joins(tree)
        source = tree.args.get("from_")
        used = {(column.table, column.name) for column in tree.find_all(exp.Column)}
        step: Step = _ONE_ROW
        scope: Scope = {}
        if source is not None:
            step, columns = self._relation(source.this, used)
            scope = {source.this.alias_or_name: columns}
        where = tree.args.get("where")
        conditions = conjuncts(None if where is None else where.this)
        joins = list(tree.args.get("joins") or ())
        while joins:
            join = _next_join(joins, scope, conditions)
            joins.remove(join)
            step, scope = self._joined(step, scope, join, used, conditions)
        holds = [*map(self._expressions(scope).holds, conditions)]
        condition = " and ".join(holds) or None
        items = [item.unalias() for item in tree.expressions]
        group, having = tree.args.get("group"), tree.args.get("having")
        further = further_keys(tree, items)
        if further and tree.args.get("distinct"):
            raise QueryRefused("DISTINCT with ORDER BY of an expression that is not selected")
        parts = [*items, *further, *([having.this] if having else [])]
        if group or any(part.find(exp.AggFunc) for part in parts):
            all_items = [*items, *further]
            found = self._aggregated(step, scope, condition, group, all_items, having)
        elif calls := list(filter(None, map(windows_of_rows, items))):
            found = self._assigned(step, scope, condition, items, calls[0])
        else:
            value = self._expressions(scope).value
            found = Project(step, tuple(map(value, [*items, *further])), condition)
        whole = _distinct(found) if tree.args.get("distinct") else found
        return _limited(whole, tree, [*items, *further], len(items))

    def _joined(
        self,
        step: Step,
        scope: Scope,
        join: exp.Join,
        used: set[tuple[str, str]],
        conditions: Sequence[exp.Expr],
    ) -> tuple[Step, Scope]:
        """Return the rows of a join.

        Args:
            step: makes the rows of the left side.
            conditions: that hold for the rows of the whole query.
        """
        if isinstance(join.this, exp.Unnest | exp.Lateral):
            return self._lateral(step, scope, join)
        name, side = join.this.alias_or_name, join.side.lower()
        how = {"": "inner", "full": "outer"}.get(side, side)
        left, left_scope = _positioned(step, scope)
        other, columns = self._relation(join.this, used)
        right, right_scope = _positioned(other, {name: columns})
        keys: list[tuple[exp.Expr, exp.Expr]] = []
        rest: list[exp.Expr] = []
        for condition in conjuncts(join.args.get("on")):
            pair = _equal_sides(condition, set(scope), name)
            if pair is not None:
                keys.append(pair)
            elif not isinstance(condition, exp.Boolean) or not condition.this:
                rest.append(condition)
        if not keys and how == "inner":
            keys = _pairs(conditions, set(scope), name)
        if not keys:
            raise QueryRefused(f"a JOIN without a condition a.x = b.y{IN_STEPS}{place(join)}")
        if rest and how != "inner":
            raise QueryRefused(f"a {side.upper()} JOIN with a condition other than a.x = b.y")
        of_left, of_right = (
            self._expressions(left_scope),
            self._expressions(right_scope),
        )
        if name.startswith(SUBQUERY):
            # Its own aggregates are replaced where there are no rows.
            is_aggregate = isinstance(other, Project) and isinstance(other.step, Aggregate)
            inner = other.step.step if is_aggregate else other  # type: ignore[union-attr]
            _check_row(join.this, inner, [], of_right)
        else:
            _check_row(join.this, step, [one for one, _ in keys], of_left)
            _check_row(join.this, other, [own for _, own in keys], of_right)
        pairs = [alike(of_left.value(one), of_right.value(other)) for one, other in keys]
        for sides, key in zip(pairs, keys, strict=True):
            if len({each.kind for each in sides} - {Any}) > 1:
                raise QueryRefused(
                    f"the equality of {text_of(key[0])} and {text_of(key[1])}, which have "
                    f"different types,{IN_STEPS}{place(key[0])}"
                )
        left_keys, right_keys = (
            tuple(map(_as_join_key, side)) for side in zip(*pairs, strict=True)
        )
        whole = JoinSteps(left, right, how, left_keys, right_keys)
        if how in ("right", "outer"):
            left_scope = _nullable(left_scope)
        if how in ("left", "outer"):
            right_scope = _nullable(right_scope)
        joined = _numbered({**left_scope, **right_scope})
        if not rest:
            return whole, joined
        expressions = self._expressions(joined)
        return _positioned(whole, joined, " and ".join(map(expressions.holds, rest)))

    def _lateral(self, step: Step, scope: Scope, join: exp.Join) -> tuple[Step, Scope]:
        on, source = join.args.get("on"), join.this
        always = on is None or (isinstance(on, exp.Boolean) and on.this)
        is_left = join.side.upper() == "LEFT"
        if not always or (join.side and not (is_left and isinstance(source, exp.Unnest))):
            raise QueryRefused(
                "a JOIN of UNNEST or LATERAL with a condition in windows or in streaming"
            )
        if isinstance(source, exp.Unnest):
            return self._unnested(step, scope, source, outer=is_left)
        return self._correlated(step, scope, source)

    def _correlated(self, step: Step, scope: Scope, lateral: exp.Lateral) -> tuple[Step, Scope]:
        """Return the rows with those that a query makes of each of them."""
        query, alias = lateral.this.this, lateral.args["alias"]
        source = query.args.get("from_")
        relations = [each.this for each in (source, *(query.args.get("joins") or ())) if each]
        if (
            not isinstance(query, exp.Select)
            or not is_plain(query, without=("joins",))
            or not all(isinstance(each, exp.Unnest) for each in relations)
            or any(each.side or each.args.get("on") for each in query.args.get("joins") or ())
        ):
            raise QueryRefused(
                "LATERAL with anything but expressions of the row and elements of its arrays in "
                "windows or in streaming"
            )
        inner = scope
        for relation in relations:
            if relation.alias_or_name in inner:
                raise QueryRefused(f"the name {shown(relation.alias_or_name)} within LATERAL")
            step, inner = self._unnested(step, inner, relation)
        expressions = self._expressions(inner)
        where = query.args.get("where")
        condition = None if where is None else expressions.holds(where.this)
        names = [each.name for each in alias.columns] or query.named_selects
        made = dict(zip(names, map(expressions.value, query.expressions), strict=True))
        kept = {name: inner[name] for name in scope}
        return _positioned(step, {**kept, alias.name: made}, condition)

    def _unnested(
        self, step: Step, scope: Scope, unnest: exp.Unnest, *, outer: bool = False
    ) -> tuple[Step, Scope]:
        alias = unnest.args.get("alias")
        if len(unnest.expressions) != 1 or alias is None:
            raise QueryRefused(f"UNNEST of anything but one array in FROM{IN_STEPS}")
        whole, columns = _positioned(step, scope)
        array = self._expressions(columns).value(unnest.expressions[0])
        hint = convert_to_beam_type(array.kind)
        inner, nullable = without_none(getattr(hint, "inner_type", Any))
        rows = row_constraint(inner)
        names = [each.name for each in alias.columns] or [alias.name]
        if rows is not None and len(names) == 1 and not unnest.meta.get(ROWS):
            rows = None
        if inner is Any or len(names) != (1 if rows is None else len(rows._fields)):
            raise QueryRefused(
                "UNNEST of a value that is not an array, or with more or fewer columns than its "
                f"rows have,{IN_STEPS}{place(unnest)}"
            )
        element = Value(f"row.c{len(whole.values)}", inner, nullable or outer)
        found = {names[0]: element}
        if rows is not None:
            parts = zip(names, rows._fields, strict=True)
            found = {name: field_of(element, *part) for name, part in parts}
        return Unnest(whole, array, element, outer), {**columns, alias.name: found}

    def _assigned(
        self,
        step: Step,
        scope: Scope,
        condition: str | None,
        items: list[exp.Expr],
        call: exp.Expr,
    ) -> Project:
        """Return rows in windows, with their bounds."""
        inputs, columns = _positioned(step, scope, condition)
        found = window_function(call)
        assert found is not None
        whole = Assigned(inputs, _windows(*found, self._expressions(columns)))
        bounds = {
            name: Value(f"row.c{len(inputs.values) + at}", Timestamp)
            for at, name in enumerate(BOUNDS)
        }
        value = self._expressions(columns).value
        return Project(
            whole,
            tuple(bounds[item.name] if windows_of_rows(item) else value(item) for item in items),
        )

    def _aggregated(
        self,
        step: Step,
        scope: Scope,
        condition: str | None,
        group: exp.Group | None,
        items: list[exp.Expr],
        having: exp.Having | None,
    ) -> Project:
        parts = [*items, *([having.this] if having is not None else [])]
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
        aggregation = Aggregation(expressions, len(of_keys) or 1)
        known = {
            key.sql(): of_micros(value, f"row.k{at}")
            for at, (key, value) in enumerate(zip(keys, of_keys, strict=True))
        }
        known |= {
            _with_condition(each).sql(): aggregation.result(each)
            for part in parts
            for each in part.find_all(exp.AggFunc)
        }
        bounds = windows is not None and any(
            bound_of(node) for part in parts for node in part.walk()
        )
        behind = Expressions({}, self._functions, known, bounds=bounds)
        if windows is not None and any(
            window_function(node) is not None for key in keys for node in key.walk()
        ):
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
            not of_keys or (windows is None and all(_is_bound(step, key) for key in of_keys)),
            group is None,
        )
        condition = None if having is None else behind.holds(having.this)
        values = (
            replace(
                behind.value(item),
                null_without_rows=group is None and isinstance(item, _NULL_WITHOUT_ROWS),
            )
            for item in items
        )
        return Project(whole, tuple(values), condition)


def _with_condition(node: exp.AggFunc) -> exp.Expr:
    """Return an aggregate with its FILTER."""
    return node.parent if isinstance(node.parent, exp.Filter) else node


def _is_bound(step: Step, value: Value) -> bool:
    """Return whether a value is a bound of the window in which a step makes the row."""
    name = value.source.removeprefix("row.")
    if isinstance(step, Aggregate):
        return step.bounds and name in ("start", "end")
    column = re.fullmatch(r"c(\d+)", name)
    if column is None or not isinstance(step, Project):
        return False
    return _is_bound(step.step, step.values[int(column.group(1))])


def _limited(
    step: Project, tree: exp.Query, items: Sequence[exp.Expr], selected: int | None = None
) -> Project:
    """Return the rows to which a query is limited.

    Args:
        step: makes all rows.
        items: the expressions of the columns of the step.
        selected: the number of those that are in the result; None for all.
    """
    rows = first_rows(tree)
    if rows is None:
        return step
    kinds = [value.kind for value in step.values]
    return Project(Top(step, orders(tree, items, kinds), *rows), columns_of(step)[:selected])


def _positioned(step: Step, scope: Scope, condition: str | None = None) -> tuple[Project, Scope]:
    """Return a step with all columns of a scope, and these as its columns."""
    values = tuple(value for columns in scope.values() for value in columns.values())
    return Project(step, values, condition), _numbered(scope)


def _numbered(scope: Scope) -> Scope:
    numbers = itertools.count()
    return _changed(scope, lambda value: replace(value, source=f"row.c{next(numbers)}"))


def _nullable(scope: Scope) -> Scope:
    return _changed(scope, lambda value: replace(value, nullable=True))


def _changed(scope: Scope, change: Callable[[Value], Value]) -> Scope:
    return {
        name: {column: change(value) for column, value in columns.items()}
        for name, columns in scope.items()
    }


def _operands(tree: exp.SetOperation) -> list[exp.Query]:
    """Return the parts of a UNION, with those of one within it that has all rows, in order."""
    parts: list[exp.Query] = []
    stack: list[exp.Query] = [tree.right, tree.left]
    while stack:
        part = stack.pop()
        is_chain = isinstance(part, exp.Union) and not any(
            part.args.get(name) for name in ("distinct", "order", "limit", "offset", "with_")
        )
        if isinstance(part, exp.Union) and is_chain:
            stack += [part.right, part.left]
        else:
            parts.append(part)
    return parts


def _next_join(joins: Sequence[exp.Join], scope: Scope, conditions: Sequence[exp.Expr]) -> exp.Join:
    """Return the next join: of tables with commas between them one that equals a column so far."""
    for join in joins:
        is_plain = not join.args.get("on") and not join.side
        if not is_plain or isinstance(join.this, exp.Unnest | exp.Lateral):
            break
        if _pairs(conditions, set(scope), join.this.alias_or_name):
            return join
    return joins[0]


def _pairs(
    conditions: Sequence[exp.Expr], left: set[str], right: str
) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return the equal expressions of the left and the right side of a join."""
    found = (_equal_sides(condition, left, right) for condition in conditions)
    return [pair for pair in found if pair is not None]


def _distinct(step: Project) -> Project:
    ones = Project(step, (*map(_as_key, columns_of(step)), Value("1", int)))
    keys = tuple(of_micros(value, f"row.k{at}") for at, value in enumerate(step.values))
    return Project(Aggregate(ones, len(keys), ("sum",), (False,)), keys)


def _common(
    tree: exp.Expr, rows: Sequence[tuple[Value, ...]]
) -> tuple[list[Any], tuple[Value, ...]]:
    """Return the types that the columns of some rows have in common, and these columns."""
    columns = [*zip(*rows, strict=True)]
    kinds = [common_kind(tree, *column) for column in columns]
    return kinds, tuple(
        Value(f"row.c{at}", kind, any(value.nullable for value in column))
        for at, (kind, column) in enumerate(zip(kinds, columns, strict=True))
    )


def _as_kinds(step: Project, kinds: Sequence[Any]) -> Project:
    """Return the rows of a query in the types of a set operation."""
    if [value.kind for value in step.values] == [*kinds]:
        return step
    return Project(step, tuple(map(converted, columns_of(step), kinds)))


def _as_key(value: Value) -> Value:
    """Return a value as part of the key of a group, of a type with a deterministic coder.

    Equal values are equal keys.
    """
    if value.kind is Decimal:
        return strict(Decimal, "without_zeros({})", value)
    if value.kind in REAL:
        return _normal_real(value)
    if any(part in (Decimal, dict, *REAL) for part in parts_of(value.kind)):
        return strict(value.kind, "normal({})", value)
    return as_micros(value)


def _normal_real(value: Value) -> Value:
    """Return a number with one zero and one NaN."""
    first, again = held(value)
    if value.nullable:
        source = f"(None if {first} is None else {again} + 0.0 if {again} == {again} else nan)"
    else:
        source = f"({again} + 0.0 if {first} == {again} else nan)"
    return replace(value, source=source)


def _as_join_key(value: Value) -> Value:
    """Return a value as part of the key of a join, of which only the equality counts."""
    if is_integer(value.kind):
        return value if value.kind is int else strict(int, "integer({})", value)
    if value.kind in REAL:
        text = "({} + 0.0)" if value.kind is float else "(real({}) + 0.0)"
        return strict(float, text, value)
    if value.kind is Decimal:
        return strict(str, "str(without_zeros({}))", value)
    if value.kind is date:
        return strict(int, "{}.toordinal()", value)
    return strict(Any, "hashable({})", value) if is_nested(value.kind) else as_micros(value)


def as_micros(value: Value) -> Value:
    """Return the microseconds of a timestamp, which are a plain number, and others as they are."""
    return strict(int, "{}.micros", value) if value.kind is Timestamp else value


def of_micros(value: Value, source: str) -> Value:
    """Return the value of which :func:`as_micros` has made another one."""
    found = replace(value, source=source)
    return strict(Timestamp, "Timestamp(micros={})", found) if value.kind is Timestamp else found


def _check_row(
    node: exp.Expr, step: Step, keys: Sequence[exp.Expr], expressions: Expressions
) -> None:
    """Check that an aggregate without GROUP BY that is joined has a row if it matters.

    Args:
        keys: expressions of these that are equal to others; one that is null without rows joins
            nothing, as no row does.
    """
    if lacks_row(step) and not any(
        all(isinstance(part, _NULL_OF_NULL) for part in key.walk())
        and any(expressions.value(each).null_without_rows for each in key.find_all(exp.Column))
        for key in keys
    ):
        raise QueryRefused(
            "a join or subquery of an aggregate without GROUP BY, which has no row in a window "
            f"where it has no input,{IN_STEPS}{place(node)}",
            "Compare with the aggregate itself: WHERE x = (SELECT COUNT(*) FROM …).",
        )


_NULL_OF_NULL = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul),
    *(exp.Div, exp.Mod, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Upper, exp.Lower),
)
"""Expressions that are null if a part of them is."""

_NULL_WITHOUT_ROWS = (exp.Sum, exp.Avg, exp.Min, exp.Max, exp.AnyValue, *SPREADS)


def _equal_sides(
    condition: exp.Expr, left: set[str], right: str
) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the parts of an equality that belong to the left and the right side of a join."""
    if not isinstance(condition, exp.EQ):
        return None
    sides = condition.left, condition.right
    tables = [{column.table for column in side.find_all(exp.Column)} for side in sides]
    is_subquery = right.startswith(SUBQUERY)  # A value that is constant can be equal to it.
    if tables[0] <= left and tables[1] == {right} and (tables[0] or is_subquery):
        return sides
    if tables[1] <= left and tables[0] == {right} and (tables[1] or is_subquery):
        return sides[1], sides[0]
    return None


# Windows.


def _windows(function: str, parts: list[exp.Expr], expressions: "Expressions") -> Windows:
    if len(parts) != (3 if function == "HOP" else 2):
        raise QueryRefused(f"{function} with {len(parts)} arguments")
    time = expressions.value(parts[0])
    if time.kind is not Timestamp:
        raise QueryRefused(f"{function} of a column that is not a TIMESTAMP")
    if function == "HOP":
        return Windows(function, time, _micros(parts[2]), _micros(parts[1]))
    return Windows(function, time, _micros(parts[1]))


def _micros(interval: exp.Expr) -> int:
    unit = interval.args.get("unit")
    name = "" if unit is None else unit.name.upper().removesuffix("S")
    number = interval_number(interval) if isinstance(interval, exp.Interval) else None
    micros = int(number * MICROS[name]) if number is not None and name in MICROS else 0
    if micros < 1:
        raise QueryRefused(f"the interval {text_of(interval)} of a window{place(interval)}")
    return micros
