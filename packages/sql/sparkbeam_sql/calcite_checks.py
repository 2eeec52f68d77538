"""Checks of the syntax tree of a query, before it is translated."""

import re
from collections.abc import Iterable, Iterator, Mapping

from sqlglot import exp

from sparkbeam.common.arguments import listed, nearest, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam_sql.calcite_dialect import (
    Calcite,
    QueryRefused,
    Types,
    place,
    text_of,
)
from sparkbeam_sql.calcite_nodes import NODES, relations

IN_STEPS = " in windows or in streaming"
_WORDS: Mapping[str, str] = {
    "CTE.materialized": "MATERIALIZED",
    "Distinct.on": "DISTINCT ON",
    "Group.all": "GROUP BY ALL",
    "Group.cube": "WITH CUBE",
    "Group.rollup": "WITH ROLLUP",
    "In.unnest": "IN UNNEST(…)",
    "Join.using": "USING",
    "Limit.limit_options": "PERCENT or WITH TIES",
    "LimitOptions.percent": "PERCENT",
    "LimitOptions.with_ties": "WITH TIES",
    "Ordered.with_fill": "WITH FILL",
    "Select.cluster": "CLUSTER BY",
    "Select.connect": "CONNECT BY",
    "Select.distribute": "DISTRIBUTE BY",
    "Select.hint": "a hint (/*+ … */)",
    "Select.laterals": "LATERAL VIEW",
    "Select.locks": "FOR UPDATE",
    "Select.match": "MATCH_RECOGNIZE",
    "Select.pivots": "PIVOT",
    "Select.sample": "TABLESAMPLE",
    "Select.sort": "SORT BY",
    "Select.windows": "WINDOW",
    "Star.except_": "* EXCEPT",
    "Star.rename": "* RENAME",
    "Star.replace": "* REPLACE",
    "Table.hints": "a table hint",
    "Table.joins": "a JOIN in parentheses",
    "Table.pivots": "PIVOT",
    "Table.sample": "TABLESAMPLE",
    "Table.version": "FOR SYSTEM_TIME AS OF",
    "Union.by_name": "UNION BY NAME",
    "Unnest.offset": "WITH ORDINALITY",
    "Values.limit": "LIMIT of VALUES",
    "Values.offset": "OFFSET of VALUES",
    "Values.order": "ORDER BY of VALUES",
    "WindowSpec.exclude": "EXCLUDE in a window frame",
    "WindowSpec.kind": "GROUPS in a window frame",
    "With.recursive": "WITH RECURSIVE",
}
"""Attributes in SQL's words, by class and name."""

_NODE_WORDS: Mapping[type[exp.Expr], str] = {
    exp.All: "a comparison with ALL (SELECT …)",
    exp.Any: "a comparison with ANY (SELECT …)",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Collate: "COLLATE",
    exp.CurrentTime: "the type TIME",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS",
    exp.Having: "HAVING",
    exp.HavingMax: "HAVING MAX within an aggregate",
    exp.JSON: "IS JSON",
    exp.Localtime: "the type TIME",
    exp.MatchRecognize: "MATCH_RECOGNIZE",
    exp.Overlaps: "OVERLAPS",
    exp.Parameter: "a parameter",
    exp.Pivot: "PIVOT",
    exp.Placeholder: "a placeholder",
    exp.Prior: "PRIOR",
    exp.Qualify: "QUALIFY",
    exp.Rollup: "ROLLUP",
    exp.TableSample: "TABLESAMPLE",
    exp.TryCast: "TRY_CAST",
    exp.Window: "OVER",
    exp.WithinGroup: "WITHIN GROUP",
}

_REMEDIES: Mapping[str, str] = {
    "DISTINCT ON": "Number the rows with ROW_NUMBER() OVER (…) in a subquery.",
    "QUALIFY": "Make the query a subquery, and move the condition to the outer WHERE.",
    "LEFT SEMI JOIN": "Use WHERE EXISTS (SELECT …), or WHERE … IN (SELECT …).",
    "LEFT ANTI JOIN": "Use WHERE NOT EXISTS (SELECT …).",
    "FOR SYSTEM_TIME AS OF": "Remove it: tables have no versions here.",
    "a hint (/*+ … */)": "Remove it.",
    "FOR UPDATE": "Remove it: queries do not lock rows.",
    "LIMIT of VALUES": "Put VALUES into FROM: SELECT * FROM (VALUES …) AS t(x) LIMIT 1.",
}


def check_nodes(tree: exp.Expr) -> QueryRefused | None:
    """Check that all constructs of a query are translated.

    Args:
        tree: of a query, as it is parsed.

    Returns:
        The refusal of the first one that Spark alone has; None if there is none.
    """
    only_spark = None
    for clause, node, spark in _refused(tree):
        if not spark:
            raise _refusal(clause, node)
        only_spark = only_spark or _refusal(f"{clause}{IN_STEPS}", node)
    return only_spark


def _refusal(clause: str, node: exp.Expr) -> QueryRefused:
    remedy = _REMEDIES.get(clause.removesuffix(IN_STEPS), "")
    return QueryRefused(f"{clause}{place(node)}", remedy)


def _refused(tree: exp.Expr) -> Iterator[tuple[str, exp.Expr, bool]]:
    """Yield each construct that is not translated, and whether Spark has it."""
    for node in tree.walk():
        known = NODES.get(type(node))
        if known is None:
            yield _words(node), node, False
            continue
        if known.spark is None:
            yield _words(node), node, True
        yield from ((clause, node, False) for clause in _odd_parts(node))
        for name, value in node.args.items():
            words = known.values.get(name)
            if not value or (name in known.names and (not words or str(value).upper() in words)):
                continue
            parts = value if isinstance(value, list) else [value]
            inner = next((part for part in parts if isinstance(part, exp.Expr)), None)
            is_clause = inner is not None or isinstance(node, exp.Query)
            at = (inner or exp.Null()) if is_clause else node
            yield _attribute_words(node, name), at, name in (known.spark or ())


def _odd_parts(node: exp.Expr) -> Iterator[str]:
    """Yield constructs that attributes of a node do not tell apart."""
    match node:
        case exp.Group() if node.args.get("all") is False:
            yield "GROUP BY DISTINCT"
        case exp.Group() if any(
            isinstance(each, exp.Tuple) and not each.expressions for each in node.expressions
        ):
            yield "GROUP BY ()"
        case exp.Interval() if not isinstance(node.unit, exp.Var | exp.IntervalSpan):
            yield "an INTERVAL with a precision, or without a unit"
        case exp.Unnest() if node.parent and not isinstance(node.parent, _RELATIONS):
            yield "UNNEST outside of FROM"
        case exp.Array() if any(isinstance(each, exp.Query) for each in node.expressions):
            yield "ARRAY(SELECT …)"
        case exp.DataType() if node.args.get("kind") or node.is_type(*_ZONED) or _is_odd(node):
            yield f"the type {node.sql(Calcite)}"
        case exp.Bracket(this=exp.Column(name=name)) if name.upper() == "MULTISET":
            yield "MULTISET"


def _is_odd(kind: exp.DataType) -> bool:
    """Return whether a type has a size that no engine applies."""
    if kind.args.get("nested"):
        return False
    sizes = [each.name for each in kind.expressions]
    if not all(map(str.isdecimal, sizes)):
        return True
    match kind.this, [*map(int, sizes)]:
        case _, []:
            return False
        case exp.DType.DECIMAL, [precision, *scale]:
            return len(scale) > 1 or not max([1, *scale]) <= precision <= _DIGITS
        case ((exp.DType.VARCHAR | exp.DType.CHAR | exp.DType.NCHAR), [_]):
            return isinstance(kind.parent, exp.DataType)
        case exp.DType.TIMESTAMP, [precision]:
            return precision != _MICROS
    return True


_DIGITS, _MICROS = 38, 6
"""The most digits of a decimal, and those of a second in timestamps."""

_RELATIONS = (exp.From, exp.Join, exp.Lateral, exp.Table, exp.Subquery)
_ZONED = (exp.DataType.Type.TIMESTAMPTZ, exp.DataType.Type.TIMESTAMPLTZ)


def _words(node: exp.Expr) -> str:
    """Return the words of SQL for a node."""
    words = _NODE_WORDS.get(type(node))
    if words is not None:
        return words
    if isinstance(node, exp.Func):
        kind = "aggregate" if isinstance(node, exp.AggFunc) else "function"
        return f"the {kind} {_name(node)}"
    return f"the expression {text_of(node)}"


def _name(node: exp.Func) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return node.sql_name().replace("J_S_O_N", "JSON")


def _attribute_words(node: exp.Expr, name: str) -> str:
    """Return the words of SQL for an attribute of a node."""
    plain = name.strip("_").replace("_", " ").upper()
    if isinstance(node, exp.Join):
        parts = (node.args.get(each) for each in ("method", "side", "kind"))
        words = " ".join(str(part).upper() for part in parts if part)
        beside = "" if name in ("method", "side", "kind") else f" with {plain}"
        return f"{words if words.endswith('JOIN') else f'{words} JOIN'.strip()}{beside}"
    if isinstance(node, exp.Order | exp.Limit) and name == "this" and node.parent:
        return f"{_words(node.parent)} with {'ORDER BY' if node.key == 'order' else 'LIMIT'}"
    if isinstance(node, exp.Func):
        return _WORDS.get(
            f"{type(node).__name__}.{name}",
            f"{_name(node)} with {plain.replace('THIS', 'a precision')}",
        )
    of = type(node).__name__.upper()
    kinds = (
        ("Select", type(node).__name__) if isinstance(node, exp.Query) else (type(node).__name__,)
    )
    found = [_WORDS[f"{kind}.{name}"] for kind in kinds if f"{kind}.{name}" in _WORDS]
    return found[-1] if found else plain if isinstance(node, exp.Query) else f"{of} with {plain}"


def check_clauses(tree: exp.Query) -> None:
    """Check that joins have a condition if they need one, and stars columns to stand for.

    Raises:
        ConfigurationError: a join has no condition or one too many, or there is no FROM.
        QueryRefused: a star stands for the fields of a row.
    """
    for node in tree.find_all(exp.Join, exp.Select):
        if isinstance(node, exp.Join):
            _check_join(node)
            continue
        for item in node.expressions:
            if isinstance(item, exp.Star) and node.args.get("from_") is None:
                raise ConfigurationError(f"SELECT *{place(node)} needs FROM. Add it.")
            if item.is_star and isinstance(item, exp.Dot | exp.Column) and len(item.parts) > 2:
                raise QueryRefused(f"{text_of(item)}{place(item)}", "Select its fields by name.")


def _check_join(join: exp.Join) -> None:
    words = " ".join(part.upper() for part in (join.method, join.side, join.kind, "JOIN") if part)
    conditions = [word.upper() for word in ("on", "using") if join.args.get(word)]
    needs_one = join.kind != "CROSS" and join.method != "NATURAL"
    if needs_one and not conditions:
        raise ConfigurationError(
            f"{words}{place(join)} has no condition. Add ON or USING, or use CROSS JOIN."
        )
    if conditions and not needs_one:
        raise ConfigurationError(f"{words}{place(join)} cannot have {conditions[0]}. Use JOIN.")


# Names.


def check_tables(tree: exp.Query, tables: Mapping[str, Types]) -> None:
    """Check that there are all tables of a query.

    Raises:
        ConfigurationError: there is no table of a name, or there are two in FROM.
    """
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = table.name
        if table.db or (name not in own and name not in tables):
            text = ".".join(part.name for part in table.parts)
            raise ConfigurationError(
                f"There is no table {shown(text)}{place(table)}.{_meant(name, [*own, *tables])} "
                f"{known(tables)}"
            )
    for select in tree.find_all(exp.Select):
        names = [each.alias_or_name for each in relations(select)]
        twice = [name for name in names if name and names.count(name) > 1]
        if twice:
            raise ConfigurationError(
                f"FROM has two tables named {shown(twice[0])}. Rename one of them with AS."
            )


def known(tables: Mapping[str, Types]) -> str:
    """Return a sentence with the tables that a query can read."""
    if not tables:
        return "The query has no input. Apply it to a PCollection or a dictionary of PCollections."
    columns = (f"{name} ({', '.join(types)})" for name, types in tables.items())
    return f"The tables are {listed(list(columns))}. Names are case-sensitive."


def _meant(name: str, names: Iterable[str]) -> str:
    found = nearest(name, names)
    return f" Did you mean {shown(found)}?" if found is not None else ""


def unresolved(problem: str, tree: exp.Query, tables: Mapping[str, Types]) -> ConfigurationError:
    """Return the error of a name that is not resolved.

    Args:
        problem: that the resolution of names has told.
        tree: of the query, with the names that it gives.
        tables: the columns of each table.
    """
    number = re.match(r"Unknown output column: (\d+)", problem)
    if number is not None:
        return ConfigurationError(
            f"GROUP BY or ORDER BY refers to column {number[1]}, which the query does not select."
        )
    table = re.match(r"Unknown table: (.+?)\.?$", problem)
    if table is not None:
        return ConfigurationError(f"FROM has no table {shown(table[1])}. {known(tables)}")
    using = re.match(r"Cannot automatically join: (.+?)\.?$", problem)
    if using is not None:
        return ConfigurationError(
            f"The column {shown(using[1])} of USING must be on both sides of the JOIN. "
            f"{known(tables)}"
        )
    name = re.search(r"[Cc]olumn:? '?([^':]+)'?", problem)
    columns = [
        each
        for each in tree.find_all(exp.Column)
        if name is not None and each.name == name[1].strip().rstrip(".")
    ]
    for column in columns:
        sources = dict(_sources(column, tables))
        of = shown(column.sql().replace('"', ""))
        table_name = column.parts[0].name if column.table else ""
        if table_name and table_name not in sources:
            return ConfigurationError(
                f"There is no table {shown(table_name)} for the column {of}{place(column)}."
                f"{_meant(table_name, sources)} {known(tables)}"
            )
        having = [source for source, names in sources.items() if column.name in names]
        if not column.table and len(having) > 1:
            choice = " or ".join(shown(f"{source}.{column.name}") for source in having)
            return ConfigurationError(f"The column {of} is ambiguous{place(column)}. Use {choice}.")
        if column.name not in (sources.get(column.table, ()) if column.table else having or ()):
            names = [each for found in sources.values() for each in found]
            if not having:
                return ConfigurationError(
                    f"There is no column {of}{place(column)}.{_meant(column.name, names)} "
                    f"{known(tables)}"
                )
    return ConfigurationError(f"{problem} {known(tables)}")


def _sources(column: exp.Column, tables: Mapping[str, Types]) -> Iterator[tuple[str, list[str]]]:
    """Yield the relations that a column may be of, and their columns."""
    own = {cte.alias: cte for cte in column.root().find_all(exp.CTE)}
    select = column.parent_select
    while select is not None:
        for this in relations(select):
            source = own.get(this.name, this) if isinstance(this, exp.Table) else this
            alias = source.args.get("alias")
            if alias is not None and alias.columns:
                names = [each.name for each in alias.columns]
            elif isinstance(source, exp.Table):
                names = list(tables.get(this.name, ()))
            else:
                query = source.this if isinstance(source, exp.CTE) else source
                names = list(getattr(query, "named_selects", ()))
            yield this.alias_or_name, names
        select = select.parent_select
