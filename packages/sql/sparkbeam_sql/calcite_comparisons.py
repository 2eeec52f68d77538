"""Comparisons in Spark: NaN is not equal to itself, and ``IN (SELECT …)`` may be null."""

from sqlglot import exp

from sparkbeam_sql.calcite_dialect import FLOATS, QueryRefused, place
from sparkbeam_sql.calcite_rows import balanced
from sparkbeam_sql.calcite_types import Kind, require_known


def compared(node: exp.Binary) -> exp.Expr:
    """Compare floating-point numbers as Java does: NaN is neither equal to a number nor greater.

    To Spark it is equal to itself, and greater than all others.
    """
    left, right = node.left, node.right
    if any(part.is_type(*FLOATS, Kind.DECIMAL) for part in (left, right)):
        require_known(left, right)
    of_left, of_right = _is_nan(left), _is_nan(right)
    if isinstance(node, exp.GT | exp.GTE) and of_left is not None:
        return _unless(node, _and(of_left, _is_present(right)))
    if isinstance(node, exp.LT | exp.LTE) and of_right is not None:
        return _unless(node, _and(of_right, _is_present(left)))
    if of_left is None or of_right is None:
        return node
    both = _and(of_left, of_right)
    if isinstance(node, exp.NEQ | exp.NullSafeNEQ):
        return exp.Paren(this=exp.Or(this=node.copy(), expression=both))
    return _unless(node, both) if isinstance(node, exp.EQ | exp.NullSafeEQ) else node


def _unless(node: exp.Expr, condition: exp.Expr) -> exp.Expr:
    return exp.Paren(this=_and(node.copy(), exp.Not(this=exp.Paren(this=condition))))


def _and(left: exp.Expr, right: exp.Expr | None) -> exp.Expr:
    return left if right is None else exp.And(this=left, expression=right)


def _is_nan(node: exp.Expr) -> exp.Expr | None:
    """Return the condition that a number is NaN; None if it cannot be."""
    plain = node.unnest()
    if isinstance(plain, exp.Neg):
        plain = plain.this.unnest()
    if isinstance(plain, exp.Literal) or not node.is_type(*FLOATS):
        return None
    return exp.IsNan(this=node.copy())


def _is_present(node: exp.Expr) -> exp.Expr | None:
    """Return the condition that a value is not null; None if it is a constant."""
    if isinstance(node.unnest(), exp.Literal):
        return None
    return exp.Not(this=exp.Is(this=node.copy(), expression=exp.Null()))


def between(node: exp.Between) -> exp.Expr:
    """Compare with both bounds."""
    parts = (node.this, node.args["low"], node.args["high"])
    if any(part.is_type(*FLOATS, Kind.DECIMAL) for part in parts):
        require_known(*parts)
    if not any(part.is_type(*FLOATS) for part in parts):
        return node
    low = compared(exp.GTE(this=parts[0].copy(), expression=parts[1].copy()))
    high = compared(exp.LTE(this=parts[0].copy(), expression=parts[2].copy()))
    return exp.Paren(this=_and(low, high))


def nullif(node: exp.Nullif) -> exp.Expr:
    """Compare the values of NULLIF."""
    test = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
    found = compared(test)
    return node if found is test else exp.If(this=found, true=exp.Null(), false=node.this)


def case(node: exp.Case) -> exp.Expr:
    """Compare the operand of CASE with the values of its branches like any other two values."""
    if node.this is None:
        return node
    tests = [
        exp.EQ(this=node.this.copy(), expression=each.this.copy()) for each in node.args["ifs"]
    ]
    found = [compared(test) for test in tests]
    if all(one is other for one, other in zip(tests, found, strict=True)):
        return node
    branches = [
        exp.If(this=test, true=each.args["true"])
        for test, each in zip(found, node.args["ifs"], strict=True)
    ]
    return exp.Case(ifs=branches, default=node.args.get("default"))


def contained(node: exp.In) -> exp.Expr:
    """Return whether a value is in a list, or in the result of a query."""
    if node.args.get("query") is not None:
        return _in_query(node)
    tests = [exp.EQ(this=node.this.copy(), expression=each.copy()) for each in node.expressions]
    pairs = [(test, compared(test)) for test in tests]
    others = [found for test, found in pairs if found is not test]
    if not others:
        return node
    plain = [test.expression for test, found in pairs if found is test]
    parts = [exp.In(this=node.this.copy(), expressions=plain), *others] if plain else others
    return exp.Paren(this=balanced(parts))


_ROWS = "sparkbeam_rows"
"""Name of the rows of a query behind IN."""


def _in_query(node: exp.In) -> exp.Expr:
    """Leave out NaN, which equals nothing, and return null where Spark returns false."""
    query: exp.Query = node.args["query"].unnest()
    values = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    for value, item in zip(values, query.selects, strict=False):
        if any(part.is_type(*FLOATS, Kind.DECIMAL) for part in (value, item)):
            require_known(value, item)
    names = [f"c{at}" for at in range(len(query.selects))]
    reals = [
        name
        for name, value, item in zip(names, values, query.selects, strict=False)
        if value.is_type(*FLOATS) and item.is_type(*FLOATS)
    ]
    if reals:
        rows = _rows(query, names)
        for name in reals:
            rows = rows.where(f"{name} IS NULL OR NOT ISNAN({name})", dialect="spark")
        node.set("query", exp.Subquery(this=rows))
    if _decides(node):
        return node
    if len(values) > 1:
        raise QueryRefused(
            f"IN (SELECT …) of several columns{place(node)}, unless it is a condition of WHERE",
            "Join the subquery, or use EXISTS (SELECT …).",
        )
    # Spark's IN is false where a null makes it null.
    some = exp.Exists(this=_rows(query, names).select("1", append=False))
    null = exp.Exists(
        this=_rows(query, names).select("1", append=False).where("c0 IS NULL", dialect="spark")
    )
    found = exp.Case().when(node.copy(), exp.true())
    of_null = exp.Is(this=node.this.copy(), expression=exp.Null())
    is_null = exp.Or(this=exp.Paren(this=exp.And(this=of_null, expression=some)), expression=null)
    return found.when(is_null, exp.Null()).else_(exp.false())


def _rows(query: exp.Query, names: list[str]) -> exp.Select:
    alias = exp.TableAlias(
        this=exp.to_identifier(_ROWS), columns=[exp.to_identifier(name) for name in names]
    )
    return exp.select(*names).from_(exp.Subquery(this=query.copy(), alias=alias))


def _decides(node: exp.Expr) -> bool:
    """Return whether a condition only decides about rows, where null and false are the same."""
    is_negated = False
    parent = node.parent
    while isinstance(parent, exp.And | exp.Or | exp.Paren | exp.Not):
        if is_negated and not isinstance(parent, exp.And | exp.Paren):
            return False
        is_negated |= isinstance(parent, exp.Not)
        node, parent = parent, parent.parent
    if isinstance(parent, exp.If):
        is_branch = isinstance(parent.parent, exp.Case) and parent.parent.this is None
        return is_branch and node.arg_key == "this" and not is_negated
    if isinstance(parent, exp.Join):
        return node.arg_key == "on" and not is_negated
    return isinstance(parent, exp.Where | exp.Having)
