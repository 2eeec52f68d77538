"""Aggregates of SQL as aggregations of columns, and expressions over their results."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sqlglot import exp

from sparkbeam_sql.calcite_checks import IN_STEPS
from sparkbeam_sql.calcite_dialect import QueryRefused
from sparkbeam_sql.calcite_expressions import Expressions
from sparkbeam_sql.calcite_values import (
    NUMBERS,
    REAL,
    Value,
    computable,
    held,
    is_integer,
    is_nested,
    parts_of,
    strict,
)

_ENDS = {
    ("min", True): "inf",
    ("max", True): "-inf",
    ("min", False): f"{(1 << 63) - 1}",
    ("max", False): f"{-(1 << 63)}",
}
"""Numbers that are never chosen, by the function and whether they are fractional."""

_QUOTIENTS = {
    int: "quotient({}, {})",
    Decimal: "decimal_quotient({}, Decimal({}))",
    float: "({} / {})",
}
"""Averages of sums and counts."""

_SPREADS: Mapping[type[exp.Expr], str] = {
    exp.Variance: "var_samp",
    exp.VariancePop: "var_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.StddevPop: "stddev_pop",
}


class Aggregation:
    """Inputs of aggregates, and results made of the aggregates.

    Args:
        keys: the number of columns before the inputs.
    """

    def __init__(self, expressions: Expressions, keys: int) -> None:
        self._expressions = expressions
        self._keys = keys
        self._known: dict[tuple[str, str], str] = {}
        self.inputs: list[Value] = []
        self.functions: list[str] = []
        self.nullable: list[bool] = []

    def result(self, node: exp.AggFunc) -> Value:
        """Return the result of an aggregate, over the row of the aggregation."""
        condition = None
        if isinstance(node.parent, exp.Filter):
            condition = self._expressions.holds(node.parent.args["expression"].this)
        argument, others = node.this, node.args.get("expressions") or ()
        is_distinct = isinstance(argument, exp.Distinct)
        if is_distinct:
            if len(argument.expressions) > 1:
                raise QueryRefused(f"{node.sql_name()}(DISTINCT …) of several columns{IN_STEPS}")
            (argument,) = argument.expressions
        if isinstance(node, exp.Count) and isinstance(argument, exp.Star):
            return Value(self._count(None, condition), int)
        if isinstance(node, exp.AnonymousAggFunc):
            return self._of_user(node)
        spread = _SPREADS.get(type(node))
        plain = exp.Count | exp.Sum | exp.Avg | exp.Min | exp.Max | exp.AnyValue
        if isinstance(argument, exp.Star) or not (spread or isinstance(node, plain)):
            raise QueryRefused(f"the aggregate {node.sql_name()} in windows or in streaming")
        value = self._expressions.value(argument)
        further = [exp.Not(this=exp.Is(this=each, expression=exp.Null())) for each in others]
        tests = [*([condition] if condition else []), *map(self._expressions.holds, further)]
        condition = " and ".join(tests) or None
        if condition is not None:
            value = Value(f"({value.source} if {condition} else None)", value.kind, nullable=True)
        if isinstance(node, exp.Min | exp.Max):
            if is_nested(value.kind):
                return self._best_nested(node, value)
            return self._best(node.key, value)
        if isinstance(node, exp.AnyValue):
            return Value(self._add("any", value), value.kind, value.nullable)
        if is_distinct and isinstance(node, exp.Count):
            key = strict(Any, "hashable({})", value) if is_nested(value.kind) else value
            return Value(self._add("distinct", key), int)
        if value.kind not in NUMBERS and not isinstance(node, exp.Count):
            raise QueryRefused(f"{node.sql_name()} of a value that is not a number{IN_STEPS}")
        if spread:
            return self._spread(node, spread, value, is_distinct=is_distinct)
        if is_distinct:
            return self._of_distinct(node, value)
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

    def _best_nested(self, node: exp.AggFunc, value: Value) -> Value:
        if dict in parts_of(value.kind):
            raise QueryRefused(
                f"{node.sql_name()} of a map, which has no order",
                "Aggregate one of its values, such as m['key'].",
            )
        function = "least" if isinstance(node, exp.Min) else "greatest"
        return Value(self._add(function, value), value.kind, value.nullable)

    def _best(self, function: str, value: Value) -> Value:
        """Return the least or the greatest value; NaN is greater than all other numbers.

        Among numbers another one stands for null and NaN, as plain numbers are aggregated in
        columns; counts tell whether there was any.
        """
        is_real = value.kind in REAL
        if not is_real and not (is_integer(value.kind) and value.nullable):
            return Value(self._add(function, value), value.kind, value.nullable)
        first, again = held(value)
        tests = [f"{first} is not None"] if value.nullable else []
        tests += [f"{again if tests else first} == {again}"] if is_real else []
        number = " and ".join(tests)
        best = self._add(
            function,
            Value(
                f"({again} if {number} else {_ENDS[function, is_real]})",
                value.kind if is_real else int,
            ),
        )
        source = best
        if is_real:
            numbers = self._add("sum", Value(f"(1 if {number} else 0)", int))
            count = self._count(value, None)
            is_nan = f"{numbers} < {count}" if function == "max" else f"{numbers} == 0"
            source = f"(nan if {is_nan} else {best})"
        if value.nullable:
            source = f"({source} if {self._count(value, None)} else None)"
        return Value(source, value.kind, value.nullable)

    def _spread(self, node: exp.AggFunc, name: str, value: Value, *, is_distinct: bool) -> Value:
        if is_distinct:
            raise QueryRefused(f"{node.sql_name()}(DISTINCT …) in windows or in streaming")
        is_whole, is_exact = is_integer(value.kind), value.kind is Decimal
        kind = int if is_whole else Decimal if is_exact else float
        number = strict(float, "float({})", value) if is_exact else value
        source = self._add(f"whole_{name}" if is_whole else name, number)
        found = Value(source, kind, nullable=True)
        return strict(kind, "decimal_of({}, 38, 18)", found) if is_exact else found

    def _of_distinct(self, node: exp.AggFunc, value: Value) -> Value:
        """Return the sum or the average of different values."""
        kind = int if is_integer(value.kind) else Decimal if value.kind is Decimal else float
        total = Value(self._add("distinct_sum", value), kind, value.nullable)
        if isinstance(node, exp.Sum):
            return total
        average = value.kind if is_integer(value.kind) else kind
        return strict(average, _QUOTIENTS[kind].format("{}", self._add("distinct", value)), total)

    def _of_sum(self, node: exp.AggFunc, value: Value, count: str) -> Value:
        is_whole, is_exact = is_integer(value.kind), value.kind is Decimal
        value = computable(value)
        first, again = held(value)
        nothing = "Decimal(0)" if is_exact else "0" if is_whole else "0.0"
        zero = Value(f"({nothing} if {first} is None else {again})", value.kind)
        source = self._add("decimals" if is_exact else "sum", zero if value.nullable else value)
        kind = int if is_whole else Decimal if is_exact else float
        if isinstance(node, exp.Avg):
            kind = value.kind if is_whole else kind
            source = _QUOTIENTS[int if is_whole else kind].format(source, count)
        if not value.nullable:
            return Value(source, kind)
        return Value(f"({source} if {count} else None)", kind, nullable=True)

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
