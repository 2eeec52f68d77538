"""Timestamps of elements in queries of Spark."""

from sqlglot import exp

TIME = "sparkbeam_time"
"""Hidden column of tables and results with the timestamp of each element in microseconds."""

_END = 9223371950454775000
"""Timestamp of what has been grouped in the global window, in microseconds."""

_FIRST = -9223372036854775000
"""Timestamp of rows that come from no table."""


class Timestamps:
    """Carrier of the timestamps of elements through a query.

    Rows of a selection of one table keep their timestamps, all others get that of the end of the
    global window.

    Args:
        tables: the names of tables that have the column :data:`TIME`.
    """

    def __init__(self, tables: tuple[str, ...]) -> None:
        self._timed = set(tables)

    def add(self, query: exp.Query) -> None:
        """Add the column :data:`TIME` to a query."""
        with_ = query.args.get("with_") or exp.With()
        for cte in () if with_.recursive else with_.expressions:
            self.add(cte.this)
            self._timed.add(cte.alias)
            if cte.args["alias"].columns:
                cte.args["alias"].append("columns", exp.to_identifier(TIME))
        if isinstance(query, exp.Subquery):
            self.add(query.this)
        elif isinstance(query, exp.SetOperation):
            self._add_to_parts(query)
        elif isinstance(query, exp.Select):
            query.append("expressions", exp.alias_(self._time(query), TIME))

    def _add_to_parts(self, query: exp.SetOperation) -> None:
        is_flatten = isinstance(query, exp.Union) and not query.args.get("distinct")
        for part in (query.left, query.right):
            if is_flatten:
                self.add(part)
            else:
                _Ends(()).add(part)

    def _time(self, select: exp.Select) -> exp.Expr:
        """Return the expression of the timestamp of a row."""
        source = select.args.get("from_")
        if source is None:
            return exp.Literal.number(_FIRST) if is_plain(select) else exp.Literal.number(_END)
        relation = source.this
        if not is_plain(select) or not self._has_time(relation):
            return exp.Literal.number(_END)
        return exp.column(TIME, table=exp.to_identifier(relation.alias_or_name, quoted=True))

    def _has_time(self, relation: exp.Expr) -> bool:
        if isinstance(relation, exp.Subquery):
            if relation.args["alias"].columns if relation.args.get("alias") else False:
                return False
            self.add(relation.this)
            return True
        return isinstance(relation, exp.Table) and relation.name in self._timed


class _Ends(Timestamps):
    """Gives all rows the timestamp of the end."""

    def _time(self, select: exp.Select) -> exp.Expr:
        return exp.Literal.number(_END)


_GROUPING = ("group", "having", "distinct", "joins", "limit", "offset", "order", "qualify")


def is_plain(select: exp.Select, without: tuple[str, ...] = ()) -> bool:
    """Return whether a query only selects and projects rows, one by one.

    Args:
        without: clauses that do not matter.
    """
    if any(select.args.get(name) for name in _GROUPING if name not in without):
        return False
    parts = [*select.expressions, select.args.get("where")]
    return not any(_gathers(node) for part in parts if part is not None for node in part.walk())


def _gathers(node: exp.Expr) -> bool:
    """Return whether an expression depends on more than one row."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in (*AGGREGATES, *_OF_SPARK)
    return isinstance(node, exp.AggFunc | exp.Window | exp.Query)


AGGREGATES = frozenset(["COLLECT", "FUSION", "INTERSECTION", "LISTAGG", "SINGLE_VALUE"])
"""Functions of many rows that are no others in ``sqlglot``."""

_OF_SPARK = frozenset(
    [
        *("ANY", "BIT_AND", "BIT_OR", "BIT_XOR", "BITMAP_CONSTRUCT_AGG", "BITMAP_OR_AGG"),
        *("BOOL_AND", "BOOL_OR", "COLLECT_LIST", "COLLECT_SET", "COUNT_MIN_SKETCH", "EVERY"),
        *("HISTOGRAM_NUMERIC", "HLL_SKETCH_AGG", "HLL_UNION_AGG", "MEAN", "PERCENTILE"),
        *("PERCENTILE_APPROX", "SOME", "STD", "STRING_AGG", "TRY_AVG", "TRY_SUM"),
    ]
)
"""Aggregates of Spark, likewise."""
