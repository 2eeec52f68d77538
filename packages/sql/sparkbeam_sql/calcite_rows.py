"""Comparisons of rows as those of their parts, and ``PI`` as the function that it is."""

from collections.abc import Mapping, Sequence
from functools import reduce

from sqlglot import exp

from sparkbeam_sql.calcite_dialect import Calcite, QueryRefused, Types, place, text_of
from sparkbeam_sql.calcite_nodes import compared_values


def spelled_out(tree: exp.Query, tables: Mapping[str, Types]) -> exp.Query:
    """Replace comparisons of rows, and the name ``PI`` if no table has a column of this name."""
    for found in list(tree.find_all(exp.In)):
        _list_values(found)
    node: exp.Expr
    for node in list(tree.find_all(exp.In, exp.EQ, exp.NEQ)):
        compared = _compared(node)
        if compared is not None:
            node.replace(compared)
    for node in tree.walk():
        _check_no_row(node)
    is_column = any(name.upper() == "PI" for types in tables.values() for name in types)
    for column in () if is_column else list(tree.find_all(exp.Column)):
        if column.name.upper() == "PI" and not column.table and not column.this.quoted:
            column.replace(exp.Pi())
    return tree


def _list_values(node: exp.In) -> None:
    """Replace VALUES behind IN by the list of its rows."""
    if len(node.expressions) == 1 and isinstance(node.expressions[0], exp.Values):
        rows = [_parts(row) or [row] for row in node.expressions[0].expressions]
        values = [row[0] if len(row) == 1 else exp.Tuple(expressions=[*row]) for row in rows]
        node.set("expressions", values)


def _check_no_row(node: exp.Expr) -> None:
    row = next((each for each in compared_values(node) if _parts(each) is not None), None)
    if row is not None:
        raise QueryRefused(
            f"this comparison of a row{place(row)}: {text_of(node)}",
            "Compare the fields one by one, or two rows of the same width by = or IN.",
        )


def _compared(node: exp.Expr) -> exp.Expr | None:
    """Return the comparison of the parts of rows; None for one of other values."""
    left = _parts(node.this)
    if left is None:
        return None
    if isinstance(node, exp.In):
        if not node.expressions:
            return None
        tests = [_equal(node, left, each) for each in node.expressions]
        return exp.Paren(this=balanced(tests))
    equal = _equal(node, left, node.expression)
    return exp.Not(this=equal) if isinstance(node, exp.NEQ) else equal


def _parts(node: exp.Expr) -> Sequence[exp.Expr] | None:
    node = node.unnest()
    is_row = isinstance(node, exp.Anonymous) and node.name.upper() == "ROW"
    return node.expressions if is_row or isinstance(node, exp.Tuple) else None


def _equal(node: exp.Expr, left: Sequence[exp.Expr], other: exp.Expr) -> exp.Expr:
    right = _parts(other)
    if right is None:
        raise QueryRefused(
            f"a comparison of a row with {text_of(other)}{place(other)}",
            "Compare the fields one by one.",
        )
    if len(left) != len(right):
        raise QueryRefused(f"a comparison of rows of different widths: {node.sql(Calcite)[:60]}")
    tests: list[exp.Expr] = []
    for one, each in zip(left, right, strict=True):
        test = exp.EQ(this=one.copy(), expression=each.copy())
        tests.append(_compared(test) or test)
    return exp.Paren(this=reduce(lambda one, other: exp.And(this=one, expression=other), tests))


def balanced(tests: Sequence[exp.Expr]) -> exp.Expr:
    """Return whether one of some tests holds, without deep nesting."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return exp.Or(this=balanced(tests[:half]), expression=balanced(tests[half:]))
