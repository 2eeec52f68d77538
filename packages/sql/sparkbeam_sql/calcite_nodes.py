"""Nodes of a query's syntax tree that are translated, with the attributes of each.

The table is closed: another node, or another attribute that is set, is refused by name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp


@dataclass(frozen=True)
class Node:
    """Attributes of a node that both translations understand.

    Attributes:
        spark: further ones that Spark's text alone has; None for a node that it alone has.
        values: the values of attributes that are words.
    """

    names: frozenset[str]
    spark: frozenset[str] | None = frozenset()
    values: Mapping[str, frozenset[str]] = field(default_factory=dict)


def _node(names: str = "", spark: str = "", **values: str) -> Node:
    words = {name: frozenset(text.split(",")) for name, text in values.items()}
    return Node(frozenset(names.split()), frozenset(spark.split()), words)


def _spark(names: str = "", **values: str) -> Node:
    """Return a node that only Spark's text has."""
    return replace(_node(names, **values), spark=None)


def _each(names: str, node: Node) -> dict[type[exp.Expr], Node]:
    return {getattr(exp, name): node for name in names.split()}


_LIMITED = "order limit offset"
_BINARY = _node("this expression")
_UNARY = _node("this")
_LIST = _node("expressions")

NODES: Mapping[type[exp.Expr], Node] = {
    # Clauses.
    exp.Select: _node(
        f"with_ expressions distinct from_ joins where group having {_LIMITED}", "windows"
    ),
    **_each("Union Except Intersect", _node(f"with_ this expression distinct {_LIMITED}")),
    exp.Subquery: _node(f"this alias with_ {_LIMITED}"),
    exp.Values: _node("expressions alias"),
    exp.With: _node("expressions", "recursive"),
    exp.CTE: _node("this alias"),
    exp.TableAlias: _node("this columns"),
    exp.Table: _node("this alias db catalog"),
    **_each("From Where Having", _UNARY),
    exp.Join: _node(
        "this on using side kind method",
        side="LEFT,RIGHT,FULL",
        kind="INNER,CROSS,OUTER",
        method="NATURAL",
    ),
    exp.Lateral: _node("this alias"),
    exp.Unnest: _node("expressions alias", "offset"),
    **_each("Group Distinct Order", _LIST),
    **_each("Cube Rollup GroupingSets", _spark("expressions")),
    exp.Ordered: _node("this desc nulls_first"),
    **_each("Limit Offset", _node("expression")),
    exp.Fetch: _node("direction count limit_options"),
    exp.LimitOptions: _node("rows"),
    # Expressions.
    **_each(
        "Add Sub Mul Mod And Or Dot Escape EQ NEQ GT GTE LT LTE NullSafeEQ NullSafeNEQ Is "
        "SimilarTo Filter",
        _BINARY,
    ),
    **_each("Not Neg Paren Exists HexString Boolean Var DataTypeParam", _UNARY),
    **_each("Null Star", _node()),
    exp.Div: _node("this expression typed safe"),
    exp.DPipe: _node("this expression safe"),
    exp.Like: _node("this expression negate"),
    exp.ILike: _spark("this expression negate"),
    exp.Between: _node("this low high symmetric"),
    exp.In: _node("this expressions query"),
    exp.Case: _node("this ifs default"),
    exp.If: _node("this true", "false"),
    exp.Column: _node("this table db catalog"),
    exp.Identifier: _node("this quoted"),
    exp.Literal: _node("this is_string"),
    exp.Alias: _node("this alias"),
    exp.Tuple: _LIST,
    exp.Bracket: _node("this expressions offset"),
    exp.Cast: _node("this to"),
    exp.DataType: _node("this expressions nested"),
    exp.ColumnDef: _node("this kind"),
    exp.Interval: _node("this unit"),
    exp.IntervalSpan: _spark("this expression"),
    exp.Array: _node("expressions", "bracket_notation"),
    exp.Map: _spark("keys values"),
    exp.Window: _spark("this partition_by order spec alias over"),
    exp.WindowSpec: _spark("kind start start_side end end_side", kind="ROWS,RANGE"),
    # Functions.
    **_each("Anonymous AnonymousAggFunc Coalesce", _node("this expressions")),
    **_each(
        "Abs Acos Ascii Asin Atan Cbrt Cos Cosh Cot Day DayOfMonth DayOfWeek DayOfYear "
        "Degrees Exp IsInf IsNan FromBase64 Hex Hour LastDay Length Ln Lower LowerHex MD5 "
        "MD5Digest Minute Month Quarter Radians Rand Reverse SHA SHA2 Second Sign Sin Sinh "
        "Soundex Space Sqrt Tan Tanh ToBase64 Unhex Upper Week Year",
        _UNARY,
    ),
    **_each(
        "Atan2 EndsWith Extract RegexpLike StartsWith Initcap Left Log Nullif Pow Right IntDiv",
        _BINARY,
    ),
    **_each("Pi CurrentDate CurrentTimestamp Localtimestamp", _node()),
    **_each("Ceil Floor", _node("this to")),
    exp.Round: _node("this decimals"),
    exp.Trunc: _node("this decimals fractions_supported"),
    exp.Chr: _LIST,
    **_each("Concat ConcatWs", _node("expressions safe")),
    **_each("Greatest Least", _node("this expressions ignore_nulls")),
    exp.Overlay: _node("this expression from_ for_"),
    exp.Pad: _node("this expression fill_pattern is_left"),
    exp.Repeat: _node("this times"),
    exp.Replace: _node("this expression replacement"),
    exp.StrPosition: _node("this substr position"),
    exp.Substring: _node("this start length"),
    exp.Translate: _node("this from_ to"),
    exp.Trim: _node("this expression position"),
    # Aggregates.
    **_each(
        "AnyValue Avg LogicalAnd LogicalOr Max Min Stddev StddevPop StddevSamp Sum "
        "Variance VariancePop ApproxDistinct ArrayAgg CountIf First Kurtosis Last "
        "Median Mode Skewness",
        _UNARY,
    ),
    **_each(
        "ArgMax ArgMin Corr CovarPop CovarSamp RegrCount RegrAvgx RegrAvgy "
        "RegrIntercept RegrR2 RegrSlope RegrSxx RegrSxy RegrSyy",
        _BINARY,
    ),
    exp.Count: _node("this expressions big_int"),
    **_each("Grouping GroupingId", _spark("expressions")),
    # Functions of windows.
    **_each("CumeDist DenseRank PercentRank Rank RowNumber", _spark()),
    **_each("FirstValue LastValue Ntile IgnoreNulls RespectNulls", _spark("this")),
    **_each("Lag Lead", _spark("this offset default")),
    exp.NthValue: _spark("this offset"),
}
"""The attributes of each node that is translated."""


def relations(select: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the tables of FROM."""
    for each in (select.args.get("from_"), *(select.args.get("joins") or ())):
        if each is not None:
            yield each.this


def compared_values(node: exp.Expr) -> list[exp.Expr]:
    """Return the values that are compared with each other; none for what is no comparison."""
    match node:
        case exp.EQ() | exp.NEQ() | exp.GT() | exp.GTE() | exp.LT() | exp.LTE() | exp.Is():
            return [node.this, node.expression]
        case exp.NullSafeEQ() | exp.NullSafeNEQ() | exp.Nullif():
            return [node.this, node.expression]
        case exp.Between():
            return [node.this, node.args["low"], node.args["high"]]
        case exp.In() if node.expressions:
            return [node.this, *node.expressions]
        case exp.Case() if node.this is not None:
            return [node.this, *(each.this for each in node.args["ifs"])]
    return []
