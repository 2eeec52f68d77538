"""Comparisons of rows as those of their parts, and ``PI`` as the function that it is."""

from collections.abc import Mapping, Sequence
from functools import reduce

from sqlglot import exp

from sparkbeam_sql.calcite_dialect import Calcite, QueryRefused, Types


def spelled_out(tree: exp.Query, tables: Mapping[str, Types]) -> exp.Query:
    """Replace comparisons of rows, and the name ``PI`` if no table has a column of this name.

    Raises:
        QueryRefused: rows of different widths are compared.
    """
    for node in list(tree.find_all(exp.In, exp.EQ, exp.NEQ)):
        compared = _compared(node)
        if compared is not None:
            node.replace(compared)
    is_column = any(name.upper() == "PI" for types in tables.values() for name in types)
    for column in () if is_column else list(tree.find_all(exp.Column)):
        if column.name.upper() == "PI" and not column.table and not column.this.quoted:
            column.replace(exp.Pi())
    return tree


def _compared(node: exp.Expr) -> exp.Expr | None:
    """Return the comparison of the parts of rows; None for one of other values."""
    left = _parts(node.this)
    if left is None:
        return None
    if isinstance(node, exp.In):
        if not node.expressions:
            return None
        tests = [_equal(node, left, _parts(each)) for each in node.expressions]
        return exp.Paren(this=balanced(tests))
    equal = _equal(node, left, _parts(node.expression))
    return exp.Not(this=equal) if isinstance(node, exp.NEQ) else equal


def _parts(node: exp.Expr) -> Sequence[exp.Expr] | None:
    is_row = isinstance(node, exp.Anonymous) and node.name.upper() == "ROW"
    return node.expressions if is_row or isinstance(node, exp.Tuple) else None


def _equal(node: exp.Expr, left: Sequence[exp.Expr], right: Sequence[exp.Expr] | None) -> exp.Expr:
    if right is None or len(left) != len(right):
        raise QueryRefused(f"a comparison of rows of different widths: {node.sql(Calcite)[:60]}")
    tests: list[exp.Expr] = [
        exp.EQ(this=one.copy(), expression=other.copy())
        for one, other in zip(left, right, strict=True)
    ]
    return exp.Paren(this=reduce(lambda one, other: exp.And(this=one, expression=other), tests))


def balanced(tests: Sequence[exp.Expr]) -> exp.Expr:
    """Return whether one of some tests holds, without deep nesting."""
    if len(tests) == 1:
        return tests[0]
    half = len(tests) // 2
    return exp.Or(this=balanced(tests[:half]), expression=balanced(tests[half:]))
