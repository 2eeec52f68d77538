"""Orders of queries, and the numbers of their first rows."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from apache_beam.utils.timestamp import Timestamp
from sqlglot import exp

from sparkbeam_sql.calcite_dialect import QueryRefused
from sparkbeam_sql.calcite_values import REAL, WHOLE
from sparkbeam_sql.combines import Order

_ORDERED = (*WHOLE, *REAL, Decimal, bool, str, bytes, date, Timestamp)


def first_rows(tree: exp.Query) -> tuple[int, int] | None:
    """Return the number of rows to which a query is limited, and of those before them.

    None for a query with all of its rows: a PCollection has no order.
    """
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if limit is None and offset is None:
        return None
    if limit is None:
        raise QueryRefused("OFFSET without LIMIT in windows or in streaming")
    count = limit.args["count"] if isinstance(limit, exp.Fetch) else limit.expression
    return _number(count), 0 if offset is None else _number(offset.expression)


def _number(node: exp.Expr) -> int:
    if not isinstance(node, exp.Literal) or not node.is_int:
        raise QueryRefused(f"LIMIT or OFFSET {node.sql()[:40]} in windows or in streaming")
    return int(node.this)


def further_keys(tree: exp.Select, items: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return the expressions by which a limited query is ordered, and which it does not select."""
    if first_rows(tree) is None:
        return []
    selected = {item.sql() for item in items}
    found = {key.sql(): key for key, _ in _keys(tree, items)}
    return [key for text, key in found.items() if text not in selected]


def orders(tree: exp.Query, items: Sequence[exp.Expr], kinds: Sequence[Any]) -> tuple[Order, ...]:
    """Return the order of the rows of a query.

    Args:
        items: its columns, and others by which it is ordered.
    """
    texts = [item.sql() for item in items]
    found = []
    for key, ordered in _keys(tree, items):
        if key.sql() not in texts:
            raise QueryRefused(f"ORDER BY {key.sql()[:60]} of a set operation")
        at = texts.index(key.sql())
        if kinds[at] not in _ORDERED:
            raise QueryRefused(f"ORDER BY {key.sql()[:60]}, whose type has no order")
        is_descending = bool(ordered.args.get("desc"))
        found.append(Order(f"c{at}", is_descending, bool(ordered.args.get("nulls_first"))))
    return tuple(found)


def _keys(tree: exp.Query, items: Sequence[exp.Expr]) -> list[tuple[exp.Expr, exp.Ordered]]:
    """Return the expressions of an order, with those that a query selects in place of names."""
    order = tree.args.get("order")
    named = dict(zip(tree.named_selects, items, strict=False))

    def selected(node: exp.Expr) -> exp.Expr:
        is_name = isinstance(node, exp.Column) and not node.table and node.name in named
        return named[node.name].copy() if is_name else node

    return [
        (each.this.copy().transform(selected), each)
        for each in (order.expressions if order is not None else ())
    ]
