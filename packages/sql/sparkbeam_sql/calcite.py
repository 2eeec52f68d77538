"""Queries in the dialect of Beam SQL, and their translation to Spark SQL.

A query is parsed, its names are resolved, and types are followed through it, as both are needed to
keep Calcite's semantics where Spark's differ.
"""

import itertools
import keyword
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types
from sqlglot.optimizer.qualify import qualify

from sparkbeam.errors import ConfigurationError
from sparkbeam_sql.calcite_calls import (
    called,
    check_arguments,
    check_counts,
    window_function,
    with_windows,
)
from sparkbeam_sql.calcite_checks import check_clauses, check_nodes, check_tables, unresolved
from sparkbeam_sql.calcite_dialect import (
    Calcite,
    QueryRefused,
    Types,
    data_type,
    deeply,
    first_line,
    meant_word,
    statements,
)
from sparkbeam_sql.calcite_functions import TYPES
from sparkbeam_sql.calcite_implicit import cast_implicitly
from sparkbeam_sql.calcite_nodes import relations
from sparkbeam_sql.calcite_rows import spelled_out
from sparkbeam_sql.calcite_rules import NAMED, check_rules
from sparkbeam_sql.calcite_spark import to_spark
from sparkbeam_sql.calcite_text import SparkDialect
from sparkbeam_sql.calcite_timestamps import TIME, Timestamps
from sparkbeam_sql.calcite_types import ROWS, metadata, type_laterals, unify
from sparkbeam_sql.user_functions import SqlFunction

_METADATA = metadata(TYPES)


@dataclass(frozen=True)
class ParsedQuery:
    """A query with resolved names and types.

    Attributes:
        tables: the names of the tables that it reads, in the order of their first use.
        columns: the names of its columns, each different from the others.
        only_spark: the refusal of a construct that there is only in Spark; None for none.
    """

    tree: exp.Query
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    only_spark: QueryRefused | None = None

    def reads(self, column: str) -> bool:
        """Return whether the query may read a column of this name."""
        return self._named is None or column in self._named

    @cached_property
    def _named(self) -> frozenset[str] | None:
        """The names in the query; None where it means columns without naming them."""
        stars = (
            star for star in self.tree.find_all(exp.Star) if type(star.parent) is not exp.Count
        )
        natural = (join for join in self.tree.find_all(exp.Join) if join.method)
        if any(stars) or any(natural):
            return None
        return frozenset(each.name for each in self.tree.find_all(exp.Identifier))

    @deeply
    def spark_sql(self, columns: Mapping[str, Types]) -> str:
        """Return the query in Spark's dialect, with the hidden column :data:`TIME` as its last one.

        Tables are in braces, as parameters of ``SparkSession.sql``: ``{t0}`` for the first. Their
        columns are ``c0``, ``c1``, …, followed by :data:`TIME`.

        Raises:
            QueryRefused: a clause of it has no counterpart.
        """
        tree = self.tree.copy()
        spark = _Names(columns)
        spark.rename(tree, self.tables)
        Timestamps(tuple(map(spark.relation, self.tables))).add(tree)
        to_spark(tree)
        inputs = [
            _input(spark.relation(name), f"sparkbeam_t{at}", map(spark.column, columns[name]))
            for at, name in enumerate(self.tables)
        ]
        own = tree.args.get("with_")
        with_ = exp.With(
            expressions=[*inputs, *(own.expressions if own else ())],
            recursive=bool(own and own.recursive),
        )
        if inputs:
            tree.set("with_", with_)
        try:
            text = tree.sql(SparkDialect, unsupported_level=sqlglot.ErrorLevel.RAISE)
        except sqlglot.errors.UnsupportedError as error:
            raise QueryRefused(first_line(error).rstrip(".")) from None
        text = text.replace("{", "{{").replace("}", "}}")
        for at in range(len(self.tables)):
            text = text.replace(f"`sparkbeam_t{at}`", f"{{t{at}}}")
        return text


@deeply
def parse(
    query: str,
    tables: Mapping[str, Types],
    functions: Mapping[str, SqlFunction] | None = None,
) -> ParsedQuery:
    """Parse a query and resolve its names.

    Args:
        tables: the columns of each table.
        functions: in Python, by their names in lower case. A call of one of them has its alias, and
            is within a cast to the type of its result; so are its arguments.

    Raises:
        ConfigurationError: it is not a query, gives a function other arguments, or names what there
            is not.
        QueryRefused: a clause of it cannot be translated.
    """
    parsed = _query(query)
    check_counts(parsed)
    parsed = with_windows(parsed)
    only_spark = check_nodes(parsed)
    _check(parsed)
    check_clauses(parsed)
    check_tables(parsed, tables)
    tree = called(_named(spelled_out(parsed.copy(), tables), tables), functions or {})
    used = list(
        dict.fromkeys(each.name for each in tree.find_all(exp.Table) if each.name in tables)
    )
    try:
        tree = qualify(
            tree,
            schema={name: _columns(tables[name]) for name in used},
            dialect=Calcite,
            quote_identifiers=True,
            validate_qualify_columns=True,
        )
        columns = {name: _columns(tables[name]) for name in used}
        tree = _typed(tree, columns)
        if unify(tree) | cast_implicitly(tree):
            tree = _typed(tree, columns)
    except sqlglot.errors.SqlglotError as error:
        raise unresolved(first_line(error), _named(parsed, tables), tables) from None
    check_arguments(tree, {each.alias: each for each in (functions or {}).values()})
    check_rules(tree)
    return ParsedQuery(tree, tuple(used), tuple(_unique(tree.named_selects)), only_spark)


def _typed(tree: exp.Query, columns: dict[str, Any]) -> exp.Query:
    found = annotate_types(tree, schema=columns, expression_metadata=_METADATA, dialect=Calcite)
    while type_laterals(found):
        found = annotate_types(
            found,
            schema=columns,
            expression_metadata=_METADATA,
            dialect=Calcite,
            overwrite_types=False,
        )
    return found


def has_windows(query: ParsedQuery) -> bool:
    """Return whether a query assigns windows."""
    return any(window_function(node) is not None for node in query.tree.walk())


def _query(text: str) -> exp.Query:
    found = statements(text)
    if not found:
        raise ConfigurationError("The query is empty. Write a SELECT.")
    if len(found) > 1:
        raise ConfigurationError(f"The query has {len(found)} statements. Write one query.")
    query = _as_query(found[0])
    if query is not None:
        return query
    if isinstance(found[0], exp.Condition | exp.Alias):
        raise ConfigurationError(
            "The query is not valid SQL: it does not start with SELECT."
            + meant_word(text.split()[0])
        )
    remedy = (
        "Write the rows of the query with a transform." if isinstance(found[0], exp.Insert) else ""
    )
    command = found[0].this if isinstance(found[0], exp.Command) else found[0].key
    raise QueryRefused(f"the statement {str(command).upper()}", remedy)


def _as_query(tree: exp.Expr | None) -> exp.Query | None:
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(exp.alias_(tree, "values", table=True))
    if isinstance(tree, exp.Subquery):
        tree = tree.unnest()
    return tree if isinstance(tree, exp.Query) and not isinstance(tree, exp.Table) else None


def _check(tree: exp.Query) -> None:
    for node in tree.walk():
        is_table = isinstance(node, exp.Table) and isinstance(node.this, exp.Func)
        is_lateral = isinstance(node, exp.Lateral) and isinstance(node.this, exp.Func)
        if (is_table or is_lateral) and not isinstance(node.this, exp.Unnest):
            raise QueryRefused(f"the table function {node.this.sql(Calcite)[:40]}")


def _columns(types: Types) -> dict[str, Any]:
    return {name: data_type(kind) for name, kind in types.items()}


def _named(tree: exp.Query, tables: Mapping[str, Types]) -> exp.Query:
    """Give expressions without a name Calcite's: ``EXPR$0`` for the first one."""
    if not tree.args.get("limit") and not tree.args.get("offset"):
        tree.set("order", None)  # A PCollection has no order.
    for node in list(tree.find_all(exp.Bracket, exp.Anonymous)):
        if isinstance(node, exp.Bracket):
            _build_map(node)
        elif node.name.upper() in ("TIMESTAMPADD", "TIMESTAMPDIFF"):
            unit = node.expressions[0]
            unit.replace(exp.var(unit.name.removeprefix("SQL_TSI_").upper()))
    for limit in list(tree.find_all(exp.Limit)):
        if isinstance(limit.expression, exp.Column) and limit.expression.sql().upper() == "ALL":
            limit.pop()
    for subquery in list(tree.find_all(exp.Subquery)):
        if isinstance(subquery.this, exp.Table):
            table = subquery.this
            table.set("alias", subquery.args.get("alias") or table.args.get("alias"))
            subquery.replace(table)
    for table in list(tree.find_all(exp.Table)):
        alias = table.args.get("alias")
        if alias is not None and alias.columns:
            table.set("alias", None)
            table.replace(exp.Subquery(this=exp.select("*").from_(table.copy()), alias=alias))
    for between in list(tree.find_all(exp.Between)):
        _order_bounds(between)
    for row in list(tree.find_all(exp.Tuple, exp.Paren)):
        _flatten(row)
    for renamed in list(tree.find_all(exp.Subquery, exp.CTE)):
        alias = renamed.args.get("alias")
        if alias is not None and alias.columns:
            renamed.meta[NAMED] = len(alias.columns)
            _keep_order(renamed)
    for select in tree.find_all(exp.Select):
        for at, item in enumerate(select.expressions):
            if not isinstance(item, exp.Alias | exp.Column | exp.Star | exp.Dot):
                item.replace(exp.alias_(item.copy(), f"EXPR${at}", quoted=True))
        _prefer_columns(select, tables)
    for fetch in tree.find_all(exp.Fetch):
        if fetch.args.get("count") is None:
            fetch.set("count", exp.Literal.number(1))
    for lateral in list(tree.find_all(exp.Lateral)):
        if isinstance(lateral.this, exp.Unnest):
            unnest = lateral.this
            unnest.set("alias", lateral.args.get("alias"))
            lateral.replace(unnest)
    for unnest in tree.find_all(exp.Unnest):
        alias = unnest.args.get("alias")
        fields = _fields_of_rows(unnest, tables)
        if alias is not None and not alias.columns:
            names = [exp.to_identifier(name, quoted=True) for name in fields or [alias.name]]
            alias.set("columns", names)
            unnest.meta[ROWS] = bool(fields)
    for values in tree.find_all(exp.Values):
        alias = values.args.get("alias")
        if alias is not None and not alias.columns and values.expressions:
            width = len(values.expressions[0].expressions) or 1
            names = [exp.to_identifier(f"EXPR${at}", quoted=True) for at in range(width)]
            alias.set("columns", names)
    return tree


def _fields_of_rows(unnest: exp.Unnest, tables: Mapping[str, Types]) -> list[str]:
    """Return the names of the fields of rows in an array; none for an array of other values."""
    kind = None
    if len(unnest.expressions) == 1 and not unnest.args.get("offset"):
        kind = _type_of(unnest.expressions[0], unnest.parent_select, tables)
    inner = kind.expressions[0] if kind is not None and kind.expressions else None
    if not isinstance(inner, exp.DataType) or not inner.is_type(exp.DataType.Type.STRUCT):
        return []
    return [field.name for field in inner.expressions]


def _type_of(
    node: exp.Expr, select: exp.Expr | None, tables: Mapping[str, Types]
) -> exp.DataType | None:
    """Return the type of a column of a table, also through subqueries; None for another value."""
    if not isinstance(node, exp.Column) or node.db or not isinstance(select, exp.Select):
        return None
    own = {cte.alias: cte.this for cte in select.root().find_all(exp.CTE)}
    for relation in relations(select):
        if node.table and node.table != relation.alias_or_name:
            continue
        found = relation
        if isinstance(relation, exp.Table):
            if relation.name in own:
                found = own[relation.name]
            elif node.name in tables.get(relation.name, ()):
                return data_type(tables[relation.name][node.name])
        query = found.unnest()
        for item in query.selects if isinstance(query, exp.Select) else ():
            value = item.unalias()
            if isinstance(item, exp.Star):
                value = exp.column(node.name)
            if item.alias_or_name == node.name or isinstance(item, exp.Star):
                return _type_of(value, query, tables)
    return _type_of(node, select.parent_select, tables)


def _order_bounds(node: exp.Between) -> None:
    """Replace BETWEEN SYMMETRIC by BETWEEN with its bounds in both orders."""
    if not node.args.pop("symmetric", None):
        return
    turned = exp.Between(
        this=node.this.copy(), low=node.args["high"].copy(), high=node.args["low"].copy()
    )
    node.replace(exp.Paren(this=exp.Or(this=node.copy(), expression=turned)))


def _flatten(node: exp.Expr) -> None:
    """Replace ``ROW(…)`` in VALUES, and parentheses in GROUP BY, by their parts."""
    if isinstance(node.parent, exp.Values) and len(node.expressions) == 1:
        (row,) = node.expressions
        if isinstance(row, exp.Anonymous) and row.name.upper() == "ROW":
            node.set("expressions", row.expressions)
    elif isinstance(node.parent, exp.Group) and not isinstance(node.this, exp.Literal):
        inner = [node.this] if isinstance(node, exp.Paren) else node.expressions
        parts = [
            part for each in node.parent.expressions for part in (inner if each is node else [each])
        ]
        node.parent.set("expressions", parts)


def _keep_order(node: exp.Expr) -> None:
    """Put an ordered query into one that renames its columns, as its order has their names."""
    if node.this.args.get("order"):
        inner = exp.Subquery(
            this=node.this, alias=exp.TableAlias(this=exp.to_identifier("ordered"))
        )
        node.set("this", exp.select("*").from_(inner))


def _prefer_columns(select: exp.Select, tables: Mapping[str, Types]) -> None:
    """Have names in HAVING mean columns of tables before those of expressions that are selected."""
    having, source = select.args.get("having"), select.args.get("from_")
    if having is None or source is None:
        return
    relations = [source.this, *(join.this for join in select.args.get("joins") or ())]
    for column in list(having.find_all(exp.Column)):
        if column.table or column.parent_select is not select:
            continue
        for relation in relations:
            is_table = isinstance(relation, exp.Table)
            names = tables.get(relation.name, ()) if is_table else relation.named_selects
            if column.name in names:
                column.set("table", exp.to_identifier(relation.alias_or_name, quoted=True))
                break


def _build_map(node: exp.Bracket) -> None:
    this = node.this
    if isinstance(this, exp.Column) and this.sql(Calcite).upper() == "MAP":
        node.replace(exp.Anonymous(this="MAP", expressions=node.expressions))


def _unique(names: list[str]) -> Iterator[str]:
    """Yield names that rows can have as attributes; repeated ones are numbered.

    As in Calcite, these are ``id``, ``id0``, ``id1``. An expression without a name, ``EXPR$0``, is
    ``EXPR_0``.
    """
    seen: set[str] = set()
    for name in map(_as_attribute, names):
        numbered = (f"{name}{number}" for number in itertools.count())
        found = next(each for each in itertools.chain([name], numbered) if each not in seen)
        seen.add(found)
        yield found


def _as_attribute(name: str) -> str:
    plain = re.sub(r"\W", "_", name)
    if not plain.isidentifier() or plain.startswith("_"):
        plain = f"f{plain}"
    return f"{plain}_" if keyword.iskeyword(plain) else plain


class _Names:
    """Names for Spark, which does not tell those apart that differ only in their case.

    Relations have names that no column has: Spark takes the ``x`` of ``r.x`` in a subquery for a
    field of a column ``r`` before it looks for a relation ``r`` of the outer query.
    """

    def __init__(self, columns: Mapping[str, Types]) -> None:
        self._taken = {TIME}
        self._columns: dict[str, str] = {}
        self._relations: dict[str, str] = {}
        for name in itertools.chain.from_iterable(columns.values()):
            self.column(name)

    def column(self, name: str) -> str:
        """Return the name of a column; it is the same one whenever it occurs."""
        return self._found(self._columns, name)

    def relation(self, name: str) -> str:
        """Return the name of a relation, likewise."""
        return self._found(self._relations, name)

    def _found(self, known: dict[str, str], name: str) -> str:
        if name not in known:
            known[name] = self._new(name)
        return known[name]

    def _new(self, name: str) -> str:
        numbered = (f"{name}_{number}" for number in itertools.count(1))
        candidates = itertools.chain([name], numbered)
        found = next(each for each in candidates if each.lower() not in self._taken)
        self._taken.add(found.lower())
        return found

    def rename(self, tree: exp.Query, tables: Iterable[str]) -> None:
        """Rename relations and columns; the fields of a struct keep their names."""
        relations: list[exp.Identifier] = []
        for node in tree.find_all(exp.Identifier):
            parent = node.parent
            if isinstance(parent, exp.Table):
                continue
            if _names_relation(node):
                relations.append(node)
            elif not isinstance(parent, exp.Dot):
                node.set("this", self.column(node.this))
        inputs = {name: self.relation(name) for name in tables}
        for node in relations:
            if (
                not isinstance(node.parent, exp.TableAlias)
                or type(node.parent.parent) is not exp.CTE
            ):
                node.set("this", self.relation(node.this))
        self._rename_tables(tree, inputs)

    def _rename_tables(self, tree: exp.Query, inputs: Mapping[str, str]) -> None:
        """Give each query of WITH a name of its own, as it may have that of a table or of another.

        Spark refuses a name that occurs twice, also in a query within the other one.
        """
        stack: list[tuple[exp.Expr, Mapping[str, str]]] = [(tree, inputs)]
        while stack:
            node, known = stack.pop()
            if isinstance(node, exp.Table):
                node.this.set("this", known[node.name])
            with_ = node.args.get("with_")
            for cte in () if with_ is None else with_.expressions:
                name = self._new(cte.alias)
                behind = {**known, cte.alias: name}
                stack.append((cte.this, behind if with_ and with_.recursive else known))
                cte.args["alias"].this.set("this", name)
                known = behind
            stack += [(part, known) for part in node.iter_expressions() if part is not with_]


def _names_relation(node: exp.Identifier) -> bool:
    parent = node.parent
    if isinstance(parent, exp.TableAlias):
        return node.arg_key == "this"
    return isinstance(parent, exp.Column) and node.arg_key == "table"


def _input(name: str, parameter: str, columns: Iterable[str]) -> exp.CTE:
    """Return the expression that gives a table and its columns their names."""
    named = [
        exp.alias_(exp.column(f"c{at}"), column, quoted=True) for at, column in enumerate(columns)
    ]
    table = exp.Table(this=exp.to_identifier(parameter, quoted=True))
    select = exp.select(*named, exp.column(TIME)).from_(table)
    return exp.CTE(this=select, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
