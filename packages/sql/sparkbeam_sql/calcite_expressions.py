"""Expressions of SQL over rows as expressions in Python."""

import keyword
import math
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Optional

import numpy as np
from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam.connectors.schemas import row_constraint, without_none
from sparkbeam_sql.calcite_calls import bound_of
from sparkbeam_sql.calcite_casts import cast
from sparkbeam_sql.calcite_dialect import QueryRefused
from sparkbeam_sql.calcite_functions import called, item
from sparkbeam_sql.calcite_times import moved
from sparkbeam_sql.calcite_values import (
    BITS,
    NUMBERS,
    REAL,
    WHOLE,
    Value,
    arithmetic,
    as_kind,
    common_kind,
    computable,
    converted,
    held,
    is_integer,
    is_nested,
    parts_of,
    present,
    ranged,
    strict,
    unknown,
    wider,
)
from sparkbeam_sql.user_functions import Parameter, SqlFunction

Scope = Mapping[str, Mapping[str, Value]]
"""Columns of each relation by name."""

_COMPARISONS: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.EQ: ("==", "!="),
    exp.NEQ: ("!=", "=="),
    exp.LT: ("<", ">="),
    exp.LTE: ("<=", ">"),
    exp.GT: (">", "<="),
    exp.GTE: (">=", "<"),
}
_ARITHMETIC: Mapping[type[exp.Expr], tuple[str, str]] = {
    exp.Add: ("+", "decimal_sum"),
    exp.Sub: ("-", "decimal_difference"),
    exp.Mul: ("*", "decimal_product"),
}
"""Operators of numbers, and functions of decimals."""


_BRANCHES = 20
"""Branches of CASE without further parentheses, as Python limits how long such chains are."""


_LONGEST = 200_000
"""Characters of a condition that is repeated, for when it is true and when it is false."""


class Expressions:
    """Translator of expressions to Python.

    Args:
        scope: the columns of each relation.
        known: values by the text of their expression.
        bounds: rows have the bounds of their windows.
    """

    def __init__(
        self,
        scope: Scope,
        functions: Mapping[str, SqlFunction],
        known: Mapping[str, Value] | None = None,
        *,
        bounds: bool = False,
    ) -> None:
        self._scope = scope
        self.functions = functions
        self._known = known or {}
        self._bounds = bounds
        # By the id of the node, which is kept so that no other node gets its id.
        self._values: dict[int, tuple[exp.Expr, Value]] = {}
        self._methods: dict[type[exp.Expr], Callable[[Any], Value]] = {
            exp.Column: self._column,
            exp.Dot: self._field,
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
            exp.Bracket: lambda node: item(node, self.value),
            exp.Array: self._array,
            exp.HexString: self._bytes,
        }

    def value(self, node: exp.Expr) -> Value:
        """Return the value of an expression."""
        found = self._values.get(id(node))
        if found is None:
            found = self._values[id(node)] = node, self._new_value(node)
        return found[1]

    def _new_value(self, node: exp.Expr) -> Value:
        known = self._known.get(node.sql()) if self._known else None
        if known is not None:
            return known
        if isinstance(node, exp.Add | exp.Sub) and isinstance(node.right, exp.Interval):
            return moved(node, self.value)
        if isinstance(node, exp.Binary) and type(node) in _ARITHMETIC:
            symbol, of_decimals = _ARITHMETIC[type(node)]
            return self._computed(node, f"({{}} {symbol} {{}})", of_decimals)
        if isinstance(node, exp.Boolean) or _is_condition(node):
            return self._truth(node)
        method = self._methods.get(type(node))
        return called(node, self.value) if method is None else method(node)

    def holds(self, node: exp.Expr, *, negated: bool = False) -> str:
        """Return the text of a condition: true if a boolean expression is true, or is false.

        Args:
            negated: whether the expression has to be false.
        """
        match node:
            case exp.Paren():
                return self.holds(node.this, negated=negated)
            case exp.Boolean():
                return str(bool(node.this) is not negated)
            case exp.Null():
                return "False"
            case exp.Not():
                return self.holds(node.this, negated=not negated)
            case exp.And() | exp.Or():
                word = "and" if isinstance(node, exp.And) is not negated else "or"
                parts = (self.holds(part, negated=negated) for part in node.flatten())
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
        return f"({value.source} == {not negated})"

    def _sides(self, node: exp.Binary) -> tuple[Value, Value]:
        """Return the sides of a comparison in types that are comparable."""
        left, right = self.value(node.left), self.value(node.right)
        if {left.kind, right.kind} <= NUMBERS and left.kind is not right.kind:
            kind = wider(left.kind, right.kind)
            left, right = (_comparable(as_kind(each, kind), kind) for each in (left, right))
        elif left.kind is not right.kind and Any not in (left.kind, right.kind):
            left, right = _as_times(node, left, right)
        if is_nested(left.kind) and is_nested(right.kind):
            is_order = not isinstance(node, exp.EQ | exp.NEQ)
            if is_order and dict in (*parts_of(left.kind), *parts_of(right.kind)):
                raise unknown(node)
            text = "ordered({})" if is_order else "hashable({})"
            left, right = strict(Any, text, left), strict(Any, text, right)
        return left, right

    def _compared(self, node: exp.Binary, *, negated: bool) -> str:
        left, right = self._sides(node)
        nulls, (one, other) = present(left, right)
        test = f"{one} {_COMPARISONS[type(node)][negated]} {other}"
        if negated and {left.kind, right.kind} & {*REAL}:
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
        if isinstance(node, exp.Binary) and type(node) in _COMPARISONS:
            return strict(bool, f"({{}} {_COMPARISONS[type(node)][0]} {{}})", *self._sides(node))
        true = self.holds(node)
        if not self._may_be_null(node):
            return Value(true, bool)
        if len(true) > _LONGEST:
            raise QueryRefused("deeply nested conditions")
        false = self.holds(node, negated=True)
        return Value(f"(True if {true} else False if {false} else None)", bool, nullable=True)

    def _may_be_null(self, node: exp.Expr) -> bool:
        """Return whether a condition may be neither true nor false."""
        match node:
            case exp.Boolean() | exp.Is():
                return False
            case exp.Paren() | exp.Not():
                return self._may_be_null(node.this)
            case exp.And() | exp.Or():
                return any(map(self._may_be_null, node.flatten()))
            case exp.Between():
                parts = [node.this, node.args["low"], node.args["high"]]
            case exp.In():
                parts = [node.this, *node.expressions]
            case _:
                is_comparison = type(node) in _COMPARISONS
                parts = [node.left, node.right] if is_comparison else [node]  # type: ignore[attr-defined]
        return any(self.value(part).nullable for part in parts)

    def _column(self, node: exp.Column) -> Value:
        found = self._scope.get(node.table, {}).get(node.name)
        if found is None:
            raise QueryRefused(f"the column {node.sql()} outside of GROUP BY")
        return found

    def _field(self, node: exp.Dot) -> Value:
        owner = self.value(node.this)
        rows = row_constraint(owner.kind)
        fields = {} if rows is None else dict(rows._fields)
        if node.name not in fields:
            raise unknown(node)
        return field_of(owner, node.name, fields[node.name])

    def _negative(self, node: exp.Neg) -> Value:
        if isinstance(node.this, exp.Literal) and node.this.name == str(1 << 63):
            return Value(f"({-(1 << 63)})", int)
        value = self.value(node.this)
        if value.kind is Decimal:
            return strict(Decimal, "decimal_difference(Decimal(0), {})", value)
        if value.kind not in NUMBERS:
            raise unknown(node)
        return arithmetic(value.kind, ranged("(-{})", value.kind), computable(value))

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
        if whole >= 1 << 63:
            return Value(f"Decimal({node.this!r})", Decimal)
        return Value(repr(whole), np.int32 if whole < 1 << 31 else int)

    @staticmethod
    def _bytes(node: exp.HexString) -> Value:
        try:
            return Value(repr(bytes.fromhex(node.name)), bytes)
        except ValueError:
            raise unknown(node) from None

    def _array(self, node: exp.Array) -> Value:
        values = [*map(self.value, node.expressions)]
        kind = common_kind(node, *values)
        parts = [converted(value, kind) for value in values]
        inner = Optional[kind] if any(part.nullable for part in parts) else kind  # noqa: UP045
        return Value(f"[{', '.join(part.source for part in parts)}]", list[inner])  # type: ignore[valid-type]

    def _computed(self, node: exp.Binary, text: str, of_decimals: str) -> Value:
        """Return the result of arithmetic."""
        left, right = (computable(self.value(part)) for part in (node.left, node.right))
        if not {left.kind, right.kind} <= NUMBERS:
            raise unknown(node)
        kind = wider(left.kind, right.kind)
        found = f"{of_decimals}({{}}, {{}})" if kind is Decimal else ranged(text, kind)
        return arithmetic(kind, found, as_kind(left, kind), as_kind(right, kind))

    def _division(self, node: exp.Div) -> Value:
        kinds = self.value(node.left).kind, self.value(node.right).kind
        is_whole = all(map(is_integer, kinds))
        text = "quotient({}, {})" if is_whole else "({} / {})"
        return self._computed(node, text, "decimal_quotient")

    def _modulo(self, node: exp.Mod) -> Value:
        left, right = self.value(node.left), self.value(node.right)
        if Decimal in (left.kind, right.kind):
            return self._computed(node, "", "decimal_remainder")
        if not (is_integer(left.kind) and is_integer(right.kind)):
            raise unknown(node)
        operands = computable(left), computable(right)
        return arithmetic(wider(left.kind, right.kind), "modulo({}, {})", *operands)

    def _case(self, node: exp.Case) -> Value:
        default = self.value(node.args.get("default") or exp.Null())
        values = [self.value(each.args["true"]) for each in node.args["ifs"]]
        kind = common_kind(node, *values, default)
        found = converted(default, kind)
        branches = []
        for each, value in zip(node.args["ifs"], values, strict=True):
            test = each.this
            if node.this is not None:
                test = exp.EQ(this=node.this, expression=test)
            branches.append(f"{converted(value, kind).source} if {self.holds(test)} else ")
        source = found.source
        for at in reversed(range(0, len(branches), _BRANCHES)):
            source = f"({''.join(branches[at : at + _BRANCHES])}{source})"
        return Value(source, kind, any(value.nullable for value in (*values, found)))

    def _coalesce(self, node: exp.Coalesce) -> Value:
        values = [*map(self.value, (node.this, *node.expressions))]
        kind = common_kind(node, *values)
        *firsts, found = (converted(value, kind) for value in values)
        for value in reversed(firsts):
            if not value.nullable:
                found = value
                continue
            first, again = held(value)
            source = f"({again} if {first} is not None else {found.source})"
            found = Value(source, kind, found.nullable)
        return found

    def argument(self, node: exp.Expr, parameter: Parameter) -> Value:
        """Return the value of an argument of a function of the user."""
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
        return cast(node, self.value(node.this))

    def _call(self, node: exp.Anonymous) -> Value:
        bound = bound_of(node)
        if bound is None or not self._bounds:
            return called(node, self.value)
        return Value(f"row.{bound}", Timestamp)


def field_of(owner: Value, name: str, hint: Any) -> Value:
    """Return a field of a row."""
    kind, nullable = without_none(hint)
    found = strict(kind, attribute("{}", name.replace("{", "{{").replace("}", "}}")), owner)
    return Value(found.source, kind, found.nullable or nullable)


def attribute(owner: str, name: str) -> str:
    """Return the text of a field of a row."""
    # Python itself would read other characters in their normal form.
    is_plain = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
    return f"{owner}.{name}" if is_plain else f"getattr({owner}, {name!r})"


def _as_times(node: exp.Expr, left: Value, right: Value) -> tuple[Value, Value]:
    """Return days, times and texts as days, or as times if one of them is."""
    kinds = {left.kind, right.kind}
    if not kinds <= {date, Timestamp, str}:
        raise unknown(node)
    kind = "TIMESTAMP" if Timestamp in kinds else "DATE"
    to = exp.Cast(this=exp.Null(), to=exp.DataType.build(kind))
    return cast(to, left), cast(to, right)


def _comparable(value: Value, kind: Any) -> Value:
    """Return a number for a comparison in a type; Python would compare an integer exactly."""
    is_long = is_integer(value.kind) and value.kind not in BITS
    return converted(value, kind) if is_long and kind in REAL else value


def _is_condition(node: exp.Expr) -> bool:
    others = exp.Not | exp.And | exp.Or | exp.Is | exp.Between | exp.In
    return isinstance(node, others) or type(node) in _COMPARISONS
