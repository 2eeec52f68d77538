"""Types of expressions by Calcite's rules.

The types of functions are in the table of :mod:`sparkbeam_sql.calcite_functions`.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import cache
from typing import Any

from sqlglot import exp
from sqlglot.typing import EXPRESSION_METADATA

from sparkbeam_sql.calcite_dialect import (
    FLOATS,
    INTEGERS,
    TEXTS,
    TIMESTAMPS,
    Calcite,
    QueryRefused,
)
from sparkbeam_sql.upstream import with_type

Kind = exp.DataType.Type
Type = exp.DataType
Rule = Callable[[Any], Type | None]
"""Function of an expression whose operands have types; None for an unknown type."""

ROWS = "rows"
"""Key of an UNNEST whose columns are the fields of the rows in an array."""

_MOST = 38
"""Digits of a decimal."""

_WHOLE = {Kind.TINYINT: 3, Kind.SMALLINT: 5, Kind.INT: 10, Kind.BIGINT: 20}
"""Digits of whole numbers, the narrowest type first."""

SPREADS = (exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance, exp.VariancePop)
BYTES = (Kind.BINARY, Kind.VARBINARY)


@cache
def built(text: str) -> Type:
    """Return a type by its name."""
    return exp.DataType.build(text)


@cache
def decimal(precision: int, scale: int) -> Type:
    """Return a type of decimals, with at most 38 digits and 18 of them behind the point."""
    if precision > _MOST or scale > 18:
        precision, scale = _MOST, 18
    return built(f"DECIMAL({precision}, {scale})")


def digits(kind: Type | None) -> tuple[int, int]:
    """Return the digits of an exact number, and how many of them are behind the point."""
    assert kind is not None
    if kind.this in _WHOLE:
        return _WHOLE[kind.this], 0
    sizes = [int(each.name) for each in kind.expressions]
    return (sizes[0], (*sizes, 0)[1]) if sizes else (_MOST, 18)


def is_known(kind: Type | None) -> bool:
    """Return whether a type is known; null has each type."""
    return kind is not None and not kind.is_type(Kind.UNKNOWN)


def is_number(kind: Type) -> bool:
    """Return whether a type is one of numbers."""
    return kind.is_type(*FLOATS, *INTEGERS, Kind.DECIMAL)


def require_known(*nodes: exp.Expr) -> None:
    """Check that the types of expressions are known, where they decide about a result."""
    for node in nodes:
        if not is_known(node.type) and not isinstance(node.unnest(), exp.Null):
            text = written(node)
            raise QueryRefused(
                f"{text}, whose type is unknown",
                f"Declare the type that it has: CAST({text} AS …).",
            )


def written(node: exp.Expr) -> str:
    """Return the text of an expression for a message, without names of tables."""
    plain = node.copy()
    for column in plain.find_all(exp.Column):
        column.set("table", None)
    return plain.sql(Calcite, identify=False)[:60].replace("`", "").replace('"', "")


def common(kinds: Iterable[Type | None]) -> Type | None:
    """Return the type of values of which each may be a result; None if it is unknown."""
    found: Type | None = built("NULL")
    for kind in kinds:
        found = _wider(found, kind)
    return found


def _wider(left: Type | None, right: Type | None) -> Type | None:
    if left is None or right is None or not (is_known(left) and is_known(right)):
        return None
    if left.is_type(Kind.NULL) or left == right:
        return right
    if right.is_type(Kind.NULL):
        return left
    if is_number(left) and is_number(right):
        if left.is_type(*FLOATS) or right.is_type(*FLOATS):
            return built("FLOAT" if left.this is right.this else "DOUBLE")
        if left.is_type(*INTEGERS) and right.is_type(*INTEGERS):
            return max(left, right, key=digits)
        (one, scale), (other, behind) = digits(left), digits(right)
        most = max(scale, behind)
        return decimal(max(one - scale, other - behind) + most, most)
    for group in (TEXTS, BYTES, TIMESTAMPS):
        if left.is_type(*group) and right.is_type(*group):
            return left
    if {left.this, right.this} - {*TIMESTAMPS} == {Kind.DATE}:
        return built("TIMESTAMP")
    return left if left.this is right.this else None


def _arithmetic(node: exp.Binary) -> Type | None:
    left, right = node.left.type, node.right.type
    if left is None or right is None or not (is_known(left) and is_known(right)):
        return None
    for time, other in ((left, node.right), (right, node.left)):
        if time.is_type(Kind.DATE, *TIMESTAMPS):
            return _moved(time, other)
    kind = common((left, right))
    if kind is None or not kind.is_type(Kind.DECIMAL):
        return kind
    (most, scale), (others, behind) = digits(left), digits(right)
    widest = max(scale, behind)
    match node:
        case exp.Mul():
            return decimal(most + others + 1, scale + behind)
        case exp.Div():
            return decimal(_MOST, 18)
        case exp.Mod():
            return decimal(min(most - scale, others - behind) + widest, widest)
    return decimal(max(most - scale, others - behind) + widest + 1, widest)


def _moved(time: Type, by: exp.Expr) -> Type | None:
    if not isinstance(by, exp.Interval):
        return None
    unit = by.args.get("unit")
    parts = (unit.this, unit.expression) if isinstance(unit, exp.IntervalSpan) else (unit,)
    names = {part.name.upper().removesuffix("S") for part in parts if isinstance(part, exp.Var)}
    of_days = bool(names) and names <= {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"}
    stays = of_days or not time.is_type(Kind.DATE)
    return time if stays else built("TIMESTAMP")


def _literal(node: exp.Literal) -> Type:
    if node.is_string:
        return built("VARCHAR")
    if "e" in node.name.lower():
        return built("DOUBLE")
    if "." not in node.name and int(node.name) < 1 << 63:
        return built("INT" if int(node.name) < 1 << 31 else "BIGINT")
    _, figures, exponent = Decimal(node.name).as_tuple()
    scale = max(-int(exponent), 0)
    return built(f"DECIMAL({max(len(figures), scale)}, {scale})")


def _cast(node: exp.Cast) -> Type:
    to = node.to
    return decimal(_MOST, 18) if to.is_type(Kind.DECIMAL) and not to.expressions else to


def inner_type(owner: Type | None, *kinds: exp.DType) -> Type | None:
    """Return the type of the values in one of some kinds, such as arrays; None for others."""
    if owner is None or not owner.is_type(*kinds) or not owner.expressions:
        return None
    found: Type = owner.expressions[-1]
    return found


def _unnested(node: exp.Unnest) -> Type | None:
    """Return the type of elements; that of rows has the names of the columns for its fields."""
    owner = node.expressions[0].type if len(node.expressions) == 1 else None
    element: Any = owner.expressions[0] if owner is not None and owner.expressions else None
    alias = node.args.get("alias")
    columns = [] if alias is None else alias.columns
    if element is None or not element.is_type(Kind.STRUCT) or not columns:
        return element
    is_inline = len(columns) > 1 or node.meta.get(ROWS)
    kinds = [field.kind for field in element.expressions] if is_inline else [element]
    fields = [
        exp.ColumnDef(this=name.copy(), kind=kind.copy())
        for name, kind in zip(columns, kinds, strict=False)
    ]
    return exp.DataType(this=Kind.STRUCT, expressions=fields, nested=True)


def _map(node: exp.Expr) -> Type | None:
    keys, values = (common(each.type for each in node.expressions[at::2]) for at in (0, 1))
    if keys is None or values is None:
        return None
    return exp.DataType(this=Kind.MAP, expressions=[keys.copy(), values.copy()], nested=True)


def _array(node: exp.Array) -> Type | None:
    inner = common(each.type for each in node.expressions)
    if inner is None:
        return None
    return exp.DataType(this=Kind.ARRAY, expressions=[inner.copy()], nested=True)


def _sum(node: exp.Sum) -> Type | None:
    kind = aggregated(node)
    if kind is None or kind.is_type(*FLOATS):
        return kind and built("DOUBLE")
    if kind.is_type(*INTEGERS):
        return built("BIGINT")
    return decimal(digits(kind)[0] + 10, digits(kind)[1]) if kind.is_type(Kind.DECIMAL) else None


def _average(node: exp.AggFunc) -> Type | None:
    kind = aggregated(node)
    if kind is None or kind.is_type(*INTEGERS):
        return kind
    return decimal(_MOST, 18) if kind.is_type(Kind.DECIMAL) else built("DOUBLE")


def _spread(node: exp.AggFunc) -> Type | None:
    """Return the type of a variance; that of integers is one."""
    kind = _average(node)
    return built("BIGINT") if kind is not None and kind.is_type(*INTEGERS) else kind


def aggregated(node: exp.AggFunc) -> Type | None:
    """Return the type of the argument of an aggregate; None if it is unknown."""
    value = node.this
    found = value.expressions[0].type if isinstance(value, exp.Distinct) else value.type
    return found if is_known(found) else None


RULES: Mapping[type[exp.Expr], Rule] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), _arithmetic),
    exp.Literal: _literal,
    exp.HexString: lambda node: built("BINARY"),
    exp.Cast: _cast,
    exp.Bracket: lambda node: inner_type(node.this.type, Kind.ARRAY, Kind.MAP),
    exp.Unnest: _unnested,
    exp.Array: _array,
    exp.Case: lambda node: common(
        [*(each.args["true"].type for each in node.args["ifs"])]
        + ([node.args["default"].type] if node.args.get("default") else [])
    ),
    exp.If: lambda node: common(
        each.type for each in (node.args["true"], node.args.get("false")) if each
    ),
    exp.Coalesce: lambda node: common(each.type for each in (node.this, *node.expressions)),
    exp.Neg: lambda node: node.this.type,
    exp.Count: lambda node: built("BIGINT"),
    exp.Sum: _sum,
    exp.Avg: _average,
    **dict.fromkeys((*SPREADS, exp.CovarPop, exp.CovarSamp), _spread),
    **dict.fromkeys((exp.Min, exp.Max, exp.AnyValue), aggregated),
}


def metadata(functions: Mapping[type[exp.Expr] | str, Rule]) -> dict[type[exp.Expr], Any]:
    """Return how the parser finds types.

    Args:
        functions: the rules of functions, by their class or their name.
    """

    def anonymous(node: exp.Anonymous) -> Type | None:
        if node.name.upper() == "MAP":
            return _map(node)
        rule = functions.get(node.name.upper())
        return None if rule is None else rule(node)

    rules = {
        **RULES,
        **{key: rule for key, rule in functions.items() if not isinstance(key, str)},
        exp.Anonymous: anonymous,
    }
    return {**EXPRESSION_METADATA, **{key: _annotator(rule) for key, rule in rules.items()}}


def _annotator(rule: Rule) -> dict[str, Any]:
    return {"annotator": lambda annotator, node: with_type(annotator, node, rule(node))}


def type_laterals(tree: exp.Query) -> bool:
    """Give columns of queries behind LATERAL the types that the queries have for them.

    Returns:
        Whether there was any of unknown type: then types of others are to be found anew.
    """
    found = False
    for lateral in tree.find_all(exp.Lateral):
        query, select = lateral.this.unnest(), lateral.parent_select
        if not isinstance(query, exp.Query) or select is None:
            continue
        names = lateral.alias_column_names or query.named_selects
        kinds = {name: each.type for name, each in zip(names, query.selects, strict=False)}
        for column in select.find_all(exp.Column):
            kind = kinds.get(column.name)
            is_own = column.table == lateral.alias and not is_known(column.type)
            if is_own and kind is not None and is_known(kind):
                column.type = kind.copy()
                found = True
    return found


def unify(tree: exp.Query) -> bool:
    """Cast columns of set operations, and of VALUES, to the type of the column in all of them.

    Returns:
        Whether there was any: then types are to be found anew.
    """
    rows = [_leaves(each) for each in tree.find_all(exp.SetOperation)]
    tables = [
        [row.expressions for row in values.expressions] for values in tree.find_all(exp.Values)
    ]
    found = False
    for lists in (*rows, *tables):
        if len({*map(len, lists)}) == 1:
            found |= sum(map(_unify_column, zip(*lists, strict=True))) > 0
    return found


def _leaves(query: exp.Expr) -> list[list[exp.Expr]]:
    """Return the columns of each selection of a set operation."""
    if isinstance(query, exp.SetOperation):
        return [*_leaves(query.left.unnest()), *_leaves(query.right.unnest())]
    return [query.selects] if isinstance(query, exp.Select) else []


def _unify_column(column: Iterable[exp.Expr]) -> bool:
    parts = [part for part in column if not isinstance(part, exp.Star)]
    kind = common(part.type for part in parts)
    if kind is None or not kind.is_type(*FLOATS, Kind.DECIMAL):
        return False
    others = [part for part in parts if part.type != kind and not part.is_type(Kind.NULL)]
    for part in others:
        value = part.this if isinstance(part, exp.Alias) else part
        cast = exp.Cast(this=value.copy(), to=kind.copy())
        is_column = isinstance(part, exp.Column) and isinstance(part.parent, exp.Select)
        value.replace(exp.alias_(cast, part.name, quoted=True) if is_column else cast)
    return bool(others)
