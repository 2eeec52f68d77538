"""Subqueries in expressions as joins, for queries in windows and in streaming."""

import itertools
from typing import TypeGuard

from sqlglot import exp

from sparkbeam_sql.calcite_checks import IN_STEPS
from sparkbeam_sql.calcite_dialect import QueryRefused, place, text_of
from sparkbeam_sql.calcite_nodes import relations
from sparkbeam_sql.calcite_order import first_rows
from sparkbeam_sql.calcite_timestamps import is_plain

SUBQUERY = "subquery "
"""Beginning of the names of joins that stand for subqueries."""

_ZERO = exp.Literal.number(0)


def with_joins(select: exp.Select) -> exp.Select:
    """Return a query with joins in place of subqueries in its WHERE and its expressions.

    ``x IN (SELECT …)`` and ``EXISTS (SELECT …)`` are to be parts of WHERE between ANDs. A subquery
    may be correlated by equalities.
    """
    clauses = (select.args.get(name) for name in ("where", "having"))
    parts = [*select.expressions, *filter(None, clauses)]
    if not any(isinstance(node, exp.Query) for part in parts for node in part.walk()):
        return select
    return _Joining(select.copy()).result()


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that all hold if one does."""
    if condition is None:
        return []
    if isinstance(condition, exp.And):
        return list(condition.flatten(unnest=False))
    plain = condition.unnest()
    return conjuncts(plain) if isinstance(plain, exp.And) else [condition]


class _Joining:
    def __init__(self, select: exp.Select) -> None:
        self._select = select
        self._numbers = itertools.count()

    def result(self) -> exp.Select:
        select = self._select
        where = select.args.get("where")
        kept = [self._replaced(each) for each in conjuncts(where.this if where else None)]
        select.set("where", None)
        for condition in filter(None, kept):
            select.where(condition, copy=False)
        self._check_items()
        select.set("expressions", [self._with_scalars(item) for item in select.expressions])
        return select

    def _check_items(self) -> None:
        """Check that no value of a query with groups is a subquery."""
        items = self._select.expressions
        having = self._select.args.get("having")
        is_grouped = self._select.args.get("group") or any(map(_aggregates, items))
        for item in [*(items if is_grouped else ()), *([having] if having else [])]:
            if item.find(exp.Query):
                raise _refused("a subquery next to aggregates", item)

    def _replaced(self, condition: exp.Expr) -> exp.Expr | None:
        """Return what is left of a condition, for which a join may have been added."""
        node, is_negated = condition.unnest(), False
        while isinstance(node, exp.Not):
            node, is_negated = node.this.unnest(), not is_negated
        if isinstance(node, exp.In) and node.args.get("query") is not None:
            value, query = self._with_scalars(node.this), _query_of(node.args["query"], node)
            if len(query.named_selects) != 1 or isinstance(value, exp.Tuple):
                raise _refused("IN (SELECT …) of several columns", node)
            if _is_one_row(query):
                return self._equal(value, query, node, is_negated=is_negated)
            if is_negated:
                return self._not_in(value, query)
            return self._exists(query, [(value, 0)], node, is_negated=False)
        if isinstance(node, exp.Exists):
            query = _query_of(node.this, node)
            if _is_one_row(query):
                _, there = self._one_row(query, node)
                is_there = exp.Is(this=exp.Paren(this=there or exp.true()), expression=exp.true())
                return exp.Not(this=is_there) if is_negated else is_there
            return self._exists(query, [], node, is_negated=is_negated)
        return self._with_scalars(condition)

    def _equal(
        self, value: exp.Expr, query: exp.Select, node: exp.Expr, *, is_negated: bool
    ) -> exp.Expr:
        """Return the condition that a value is that of a query of one row, or that it is not."""
        found, there = self._one_row(query, node)
        kind = exp.NEQ if is_negated else exp.EQ
        test = kind(this=value.copy(), expression=found)
        if there is None:
            return test
        default = exp.Boolean(this=is_negated)
        return exp.Case(ifs=[exp.If(this=there, true=test)], default=default)

    def _exists(
        self,
        query: exp.Query,
        values: list[tuple[exp.Expr, int]],
        node: exp.Expr,
        *,
        is_negated: bool,
    ) -> exp.Expr | None:
        """Join the rows that there are in a query, or keep those that there are not.

        Args:
            values: expressions that equal columns of the query, with their numbers.
            is_negated: whether no row may be in the query.
        """
        inner, pairs = self._uncorrelated(query, node)
        keys = [value for value, _ in values]
        if isinstance(inner, exp.Select) and is_plain(inner, without=("joins", "distinct")):
            inside = [inner.selects[at].unalias() for _, at in values]
            inside += [own for _, own in pairs]
            inside, keys = inside or [_ZERO], [*keys, *(outer for outer, _ in pairs)] or [_ZERO]
            derived = inner.copy()
            derived.set("expressions", [])
        elif pairs:
            raise _refused("a correlated subquery that groups or limits its rows", node)
        else:
            inside = [exp.column(inner.named_selects[at], table="inner") for _, at in values]
            inside, keys = inside or [_ZERO], keys or [_ZERO]
            derived = _over(inner)
        name = self._join(derived, inside, keys, distinct=True, is_left=is_negated)
        return (
            exp.Is(this=exp.column("k0", table=name), expression=exp.Null()) if is_negated else None
        )

    def _not_in(self, value: exp.Expr, query: exp.Query) -> exp.Expr | None:
        """Keep rows that are not in a query: none if there is null in it, or the value is null."""
        column = exp.column(query.named_selects[0], table="inner")
        counts = _over(query.copy())
        absent = self._exists(query, [(value, 0)], value, is_negated=True)
        everything = exp.Count(this=exp.Star(), big_int=True)
        name = self._join(
            counts,
            [_ZERO, everything, exp.Count(this=column, big_int=True)],
            [_ZERO],
            distinct=False,
            is_left=True,
        )
        rows, present = (exp.column(each, table=name) for each in ("k1", "k2"))
        is_empty = exp.Is(this=rows, expression=exp.Null())
        is_known = exp.And(
            this=exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null())),
            expression=exp.EQ(this=rows.copy(), expression=present),
        )
        return exp.And(
            this=absent, expression=exp.Paren(this=exp.Or(this=is_empty, expression=is_known))
        )

    def _with_scalars(self, node: exp.Expr) -> exp.Expr:
        """Return an expression with columns of joins in place of its scalar subqueries."""
        for query in list(node.find_all(exp.Subquery)):
            if isinstance(query.parent, exp.In | exp.Exists | exp.From | exp.Join):
                continue
            if query.find_ancestor(exp.Query) not in (None, self._select):
                continue
            found = self._scalar(query)
            if query is node:
                return found
            query.replace(found)
        return node

    def _scalar(self, node: exp.Subquery) -> exp.Expr:
        query = _query_of(node, node)
        if len(query.named_selects) != 1:
            raise _refused("a subquery as a value that may have several rows", node)
        if _is_one_row(query):
            found, condition = self._one_row(query, node)
            is_first = exp.If(this=condition, true=found)
            return found if condition is None else exp.Case(ifs=[is_first])
        inner, pairs = self._uncorrelated(query, node)
        limit = inner.args.get("limit")
        if limit is None or limit.sql().strip() != "LIMIT 1" or pairs:
            raise _refused("a subquery as a value that may have several rows", node)
        item = exp.column(inner.named_selects[0], table="inner")
        derived = _over(inner)
        name = self._join(derived, [_ZERO, item], [_ZERO], distinct=False, is_left=True)
        return exp.column("k1", table=name)

    def _one_row(self, query: exp.Select, node: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
        """Join the aggregates of a query without GROUP BY.

        Expressions of aggregates are computed in the rows around, as without rows there are no
        aggregates in a window: COUNT is 0 then, and all others are null.

        Returns:
            The value of the query, and the condition under which it has its row; None for always.
        """
        inner, pairs = self._uncorrelated(query, node)
        assert isinstance(inner, exp.Select)
        item = exp.Paren(this=inner.selects[0].unalias().copy())
        having = inner.args.get("having")
        condition = exp.Paren(this=having.this.copy()) if having is not None else None
        rows = first_rows(inner)
        for part in filter(None, (item, condition)):
            if part.find(exp.Query):
                raise _refused("a subquery next to aggregates", node)
        for name in ("having", "order", "limit", "offset", "distinct"):
            inner.set(name, None)
        inside = [own for _, own in pairs] or [_ZERO]
        for own in inside if pairs else ():
            inner.group_by(own.copy(), copy=False)
        found = [
            each.parent if isinstance(each.parent, exp.Filter) else each
            for part in filter(None, (item, condition))
            for each in part.find_all(exp.AggFunc)
        ]
        aggregates = [each.copy() for each in found]
        keys = [outer for outer, _ in pairs] or [_ZERO]
        name = ""
        if found:
            name = self._join(inner, [*inside, *aggregates], keys, distinct=False, is_left=True)
        for at, each in enumerate(found, start=len(inside)):
            column: exp.Expr = exp.column(f"k{at}", table=name)
            aggregate = each.this if isinstance(each, exp.Filter) else each
            if isinstance(aggregate, exp.Count):
                column = exp.Coalesce(this=column, expressions=[_ZERO.copy()])
            column.type = each.type
            each.replace(column)
        if rows is not None and (rows[0] == 0 or rows[1] > 0):
            return item, exp.false()
        return item, condition

    def _join(
        self,
        derived: exp.Select,
        inside: list[exp.Expr],
        keys: list[exp.Expr],
        *,
        distinct: bool,
        is_left: bool,
    ) -> str:
        """Add a join to a query, and return its name.

        Args:
            derived: the query without what it selects.
            inside: what it selects; the first ones are equal to the keys.
            keys: expressions of the rows to which it is joined.
            is_left: whether rows without another stay.
        """
        name = f"{SUBQUERY}{next(self._numbers)}"
        items = [exp.alias_(each.copy(), f"k{at}") for at, each in enumerate(inside)]
        derived.set("expressions", items)
        if distinct:
            derived.set("distinct", exp.Distinct())
        known = {
            each.alias_or_name
            for query in derived.find_all(exp.Select)
            for each in relations(query)
        }
        for column in derived.find_all(exp.Column):
            if column.table and column.table not in known:
                raise _refused(f"a subquery with {text_of(column)} of the outer query", column)
        on = [
            exp.EQ(this=key.copy(), expression=exp.column(f"k{at}", table=name))
            for at, key in enumerate(keys)
        ]
        alias = exp.TableAlias(this=exp.to_identifier(name))
        join = exp.Join(this=exp.Subquery(this=derived, alias=alias), on=exp.and_(*on))
        if is_left:
            join.set("side", "LEFT")
        self._select.append("joins", join)
        return name

    def _uncorrelated(
        self, query: exp.Query, node: exp.Expr
    ) -> tuple[exp.Query, list[tuple[exp.Expr, exp.Expr]]]:
        """Return a query without its equalities with rows around it, and these.

        Returns:
            The query, and pairs of an expression around it and one of its own rows.
        """
        query = query.copy()
        where = query.args.get("where")
        if not isinstance(query, exp.Select) or where is None:
            return query, []
        own = {each.alias_or_name for each in relations(query)}
        pairs, kept = [], []
        for condition in conjuncts(where.this):
            if _of(condition) <= own or condition.find(exp.Query):
                kept.append(condition)
                continue
            sides = [condition.left, condition.right] if isinstance(condition, exp.EQ) else []
            inside = [side for side in sides if side.find(exp.Column) and _of(side) <= own]
            outside = [side for side in sides if not _of(side) & own]
            if len(inside) != 1 or len(outside) != 1:
                raise _refused("a subquery that is correlated other than by equalities", node)
            pairs.append((outside[0], inside[0]))
        query.set("where", None)
        for condition in kept:
            query.where(condition, copy=False)
        return query, pairs


def _over(query: exp.Query) -> exp.Select:
    """Return a query of the rows of another one, which has the name ``inner`` in it."""
    alias = exp.TableAlias(this=exp.to_identifier("inner"))
    return exp.select().from_(exp.Subquery(this=query, alias=alias))


def _of(node: exp.Expr) -> set[str]:
    """Return the tables of the columns in an expression."""
    return {column.table for column in node.find_all(exp.Column)}


def _query_of(node: exp.Expr, condition: exp.Expr) -> exp.Query:
    query = node.unnest()
    if not isinstance(query, exp.Query):
        raise _refused("EXISTS without a query", condition)
    return query


def _is_one_row(query: exp.Query) -> TypeGuard[exp.Select]:
    """Return whether a query is an aggregate without GROUP BY, which has a row without input."""
    if not isinstance(query, exp.Select) or query.args.get("group"):
        return False
    having = query.args.get("having")
    return having is not None or any(map(_aggregates, query.selects))


def _aggregates(node: exp.Expr) -> bool:
    """Return whether an expression has an aggregate, other than within its subqueries."""
    found = node.walk(prune=lambda each: isinstance(each, exp.Query))
    return any(isinstance(each, exp.AggFunc) for each in found)


def _refused(clause: str, node: exp.Expr) -> QueryRefused:
    return QueryRefused(f"{clause}{IN_STEPS}{place(node)}")
