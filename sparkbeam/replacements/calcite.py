"""Queries in the dialect of Beam SQL, Calcite's, and their translation to Spark SQL.

Only modules whose names begin with ``calcite`` import ``sqlglot``. This one parses a query,
resolves its names, and follows types through it, as both are needed to keep Calcite's semantics
where Spark's differ.
"""

import itertools
import keyword
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.replacements.user_functions import SqlFunction

try:
    import sqlglot
    from sqlglot import Token, exp
    from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
    from sqlglot.optimizer.annotate_types import annotate_types
    from sqlglot.optimizer.qualify import qualify
except ModuleNotFoundError as error:
    raise ConfigurationError(
        "SQL needs the package sqlglot, which is not installed: pip install 'sparkbeam[sql]'."
    ) from error

Types = Mapping[str, str]
"""Columns of a table, as Spark names their types."""

TIME = "sparkbeam_time"
"""Hidden column of tables and results with the timestamp of each element in microseconds."""

_END = 9223371950454775000
"""Timestamp of what has been grouped in the global window, in microseconds."""

_FIRST = -9223372036854775000
"""Timestamp of rows that come from no table."""

_EPOCH = exp.Literal.string("1970-01-01 00:00:00")

_INTEGERS = exp.DataType.INTEGER_TYPES
_FLOATS = exp.DataType.FLOAT_TYPES

_NO_CLAUSES: Mapping[type[exp.Expr], str] = {
    exp.MatchRecognize: "MATCH_RECOGNIZE",
    exp.Pivot: "PIVOT",
    exp.Lateral: "LATERAL",
    exp.TableSample: "TABLESAMPLE",
    exp.JSONTable: "JSON_TABLE",
    exp.Placeholder: "a placeholder '?'",
    exp.Parameter: "a parameter",
    exp.Lock: "FOR UPDATE",
    exp.Into: "INTO",
}


class QueryRefused(Exception):
    """A clause that cannot be translated.

    Args:
        clause: names it.
    """

    def __init__(self, clause: str) -> None:
        super().__init__(clause)
        self.clause = clause


_WITH_UNIT = ("TIMESTAMPADD", "TIMESTAMPDIFF", "TIMESTAMP_ADD", "TIMESTAMP_DIFF")
"""Functions whose first argument is a unit of time."""


class _Calcite(Dialect):
    """The dialect of Beam SQL.

    Names are case-sensitive and quoted by backticks, as by Calcite's lexical policy ``JAVA``, or
    by double quotes. Nulls are greater than all other values.
    """

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    NULL_ORDERING = "nulls_are_large"
    TYPED_DIVISION = True

    class Tokenizer(sqlglot.Tokenizer):
        IDENTIFIERS = ["`", '"']  # noqa: RUF012

    class Parser(sqlglot.Parser):
        FUNC_TOKENS = {*sqlglot.Parser.FUNC_TOKENS, sqlglot.TokenType.SESSION}  # noqa: RUF012
        FUNCTIONS = {  # noqa: RUF012
            name: parse
            for name, parse in sqlglot.Parser.FUNCTIONS.items()
            if name not in _WITH_UNIT
        }


@dataclass(frozen=True)
class ParsedQuery:
    """A query with resolved names and types.

    Attributes:
        tree: its syntax tree.
        tables: the names of the tables that it reads, in the order of their first use.
        columns: the names of its columns, each different from the others.
    """

    tree: exp.Query
    tables: tuple[str, ...]
    columns: tuple[str, ...]

    def spark_sql(self, columns: Mapping[str, Types]) -> str:
        """Return the query in Spark's dialect, with the hidden column :data:`TIME` as its last one.

        Tables are in braces, as parameters of ``SparkSession.sql``: ``{t0}`` for the first. Their
        columns are ``c0``, ``c1``, …, followed by :data:`TIME`.

        Args:
            columns: of the tables.

        Raises:
            QueryRefused: a clause of it has no counterpart.
        """
        tree = self.tree.copy()
        spark = _Names(columns).of_tree(tree)
        _Timestamps(tuple(map(spark, self.tables))).add(tree)
        _to_spark(tree)
        inputs = [
            _input(spark(name), f"sparkbeam_t{at}", map(spark, columns[name]))
            for at, name in enumerate(self.tables)
        ]
        own = tree.args.get("with_")
        with_ = exp.With(
            expressions=[*inputs, *(own.expressions if own else ())],
            recursive=bool(own and own.recursive),
        )
        if inputs:
            tree.set("with_", with_)
        text = tree.sql("spark", unsupported_level=sqlglot.ErrorLevel.RAISE)
        text = text.replace("{", "{{").replace("}", "}}")
        for at in range(len(self.tables)):
            text = text.replace(f"`sparkbeam_t{at}`", f"{{t{at}}}")
        return text


def parse(
    query: str, tables: Mapping[str, Types], functions: Mapping[str, SqlFunction] | None = None
) -> ParsedQuery:
    """Parse a query and resolve its names.

    Args:
        query: the text.
        tables: the columns of each table.
        functions: in Python, by their names in lower case. A call of one of them has its alias, and
            is within a cast to the type of its result; so are its arguments.

    Raises:
        ConfigurationError: it is not a query, gives a function other arguments, or names what there
            is not.
        QueryRefused: a clause of it cannot be translated.
    """
    tree = _query(query)
    _check(tree, tables)
    tree = _called(_named(tree), functions or {})
    used = _used(tree, tables)
    try:
        tree = qualify(
            tree,
            schema={name: _columns(tables[name]) for name in used},
            dialect=_Calcite,
            quote_identifiers=True,
            validate_qualify_columns=True,
        )
        tree = annotate_types(
            tree, schema={name: _columns(tables[name]) for name in used}, dialect=_Calcite
        )
    except sqlglot.errors.SqlglotError as error:
        raise ConfigurationError(f"{_first_line(error)} {_known(tables)}") from None
    _check_arguments(tree, {each.alias: each for each in (functions or {}).values()})
    return ParsedQuery(tree, tuple(used), tuple(_unique(tree.named_selects)))


# Functions of the user.


def check_name(name: str) -> None:
    """Check that SQL has no function of a name.

    Raises:
        ConfigurationError: it has.
    """
    special = {*_WINDOWS, *_AGGREGATES, *_FUNCTIONS, *_WITH_UNIT, *_OTHERS}
    try:
        call = sqlglot.parse_one(f"{name}(1)", dialect=_Calcite)
    except sqlglot.errors.SqlglotError:
        call = None
    if not isinstance(call, exp.Anonymous) or name.upper() in special:
        raise ConfigurationError(
            f"The parser of SQL has a function {shown(name)}: give yours another name."
        )


_OTHERS = frozenset(["CARDINALITY", "CHARACTER_LENGTH", "MAP"])


def _called(tree: exp.Query, functions: Mapping[str, SqlFunction]) -> exp.Query:
    """Mark calls of functions of the user, with casts of arguments and results."""
    for node in list(tree.find_all(exp.Anonymous)):
        function = functions.get(node.name.lower())
        if function is None:
            continue
        given, most = len(node.expressions), len(function.parameters)
        if not function.least <= given <= most:
            wanted = f"{most}" if function.least == most else f"{function.least} to {most}"
            raise ConfigurationError(
                f"The function {function.name} has {wanted} arguments, and the query gives {given}."
            )
        for argument, parameter in zip(list(node.expressions), function.parameters, strict=False):
            _put_within(argument, exp.Cast(to=_type(parameter.column)))
        call = _aggregate_call(node, function) if function.is_aggregate else node
        call.set("this", function.alias)
        _put_within(call, exp.Cast(to=_type(function.result.column)))
    return tree


def _aggregate_call(node: exp.Anonymous, function: SqlFunction) -> exp.Expr:
    (argument,) = node.expressions
    outer = node.parent
    if isinstance(outer, exp.Window) or isinstance(argument.this, exp.Distinct):
        clause = "OVER" if isinstance(outer, exp.Window) else "DISTINCT"
        raise QueryRefused(f"{clause} with the function {function.name}")
    call = exp.AnonymousAggFunc(this=function.alias, expressions=[argument])
    if isinstance(outer, exp.Filter):
        condition = outer.expression.this
        argument.set("this", exp.Case(ifs=[exp.If(this=condition, true=argument.this)]))
        outer.replace(call)
    else:
        node.replace(call)
    return call


def _put_within(node: exp.Expr, outer: exp.Expr) -> None:
    node.replace(outer)
    outer.set("this", node)


_RANKS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL", "FLOAT", "DOUBLE")
"""Types of numbers; each can be an argument for those behind it."""


def _check_arguments(tree: exp.Query, functions: Mapping[str, SqlFunction]) -> None:
    for node in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc):
        function = functions.get(node.name)
        for cast in () if function is None else node.expressions:
            given = cast.this
            if function is not None and not _fits(given.type, cast.to):
                wanted, found = cast.to.sql(_Calcite), given.type.sql(_Calcite)
                raise ConfigurationError(
                    f"The function {function.name} takes {wanted}, and the query gives "
                    f"{shown(given.sql(_Calcite))}, which is {found}: CAST it."
                )


def _fits(given: exp.DataType | None, wanted: exp.DataType) -> bool:
    if given is None or given.is_type(exp.DataType.Type.UNKNOWN, exp.DataType.Type.NULL):
        return True
    names = given.this.name, wanted.this.name
    if set(names) <= {*_RANKS}:
        return _RANKS.index(names[0]) <= _RANKS.index(names[1])
    groups = ((*_TEXTS, exp.DataType.Type.TEXT), (*_TIMESTAMPS, exp.DataType.Type.TIMESTAMPNTZ))
    same = any(given.is_type(*group) and wanted.is_type(*group) for group in groups)
    return same or names[0] == names[1]


def window_function(node: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """Return the name and the arguments of a function that assigns windows; None for others."""
    if not isinstance(node, exp.Anonymous) or node.name.upper() not in _WINDOWS:
        return None
    return node.name.upper(), node.expressions


def has_windows(query: ParsedQuery) -> bool:
    """Return whether a query assigns windows."""
    return any(window_function(node) is not None for node in query.tree.walk())


_WINDOWS = frozenset(["TUMBLE", "HOP", "SESSION"])


def tokens(text: str, argument: str) -> list[Token]:
    """Return the tokens of statements.

    Args:
        text: the statements.
        argument: that has them, in messages.

    Raises:
        ConfigurationError: a text or a quoted name does not end.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"{argument} is of type {type(text).__name__}: give a text.")
    try:
        return list(sqlglot.tokenize(text, dialect=_Calcite))
    except sqlglot.errors.SqlglotError:  # Its message has a part of the text.
        raise ConfigurationError(
            f"{argument} is not valid SQL: a text in quotes, or a comment, does not end."
        ) from None


def tables_in(query: str) -> frozenset[str]:
    """Return the names of the tables that a query reads, and those of its WITH.

    Raises:
        ConfigurationError: it is not a query.
        QueryRefused: it is another statement.
    """
    return frozenset(table.name for table in _query(query).find_all(exp.Table))


def _parsed(text: str) -> list[exp.Expr]:
    if not isinstance(text, str):
        raise ConfigurationError(f"query={shown(text)} is not a text.")
    try:
        return [each for each in sqlglot.parse(text, dialect=_Calcite) if each is not None]
    except sqlglot.errors.SqlglotError as error:
        raise ConfigurationError(f"The query is not valid SQL: {_first_line(error)}") from None
    except RecursionError:
        raise ConfigurationError("The query is nested too deeply: divide it.") from None


def _first_line(error: Exception) -> str:
    errors = getattr(error, "errors", None)
    if errors:
        where = errors[0]
        at = f" in line {where['line']}, column {where['col']}" if where.get("line") else ""
        return f"{where['description'].rstrip('.')}{at}."
    return f"{str(error).splitlines()[0].rstrip('.')}."


def _query(text: str) -> exp.Query:
    found = _parsed(text)
    if len(found) != 1:
        raise ConfigurationError(f"query has {len(found)} statements: give one query.")
    (tree,) = found
    if isinstance(tree, exp.Values):
        tree = exp.select("*").from_(exp.alias_(tree, "values", table=True))
    if isinstance(tree, exp.Subquery):
        tree = tree.unnest()
    if not isinstance(tree, exp.Query) or isinstance(tree, exp.Table):
        raise QueryRefused(f"the statement {_command(tree)}")
    return tree


def _command(statement: exp.Expr) -> str:
    return str(statement.this if isinstance(statement, exp.Command) else statement.key).upper()


def _check(tree: exp.Query, tables: Mapping[str, Types]) -> None:
    for node in tree.walk():
        clause = _NO_CLAUSES.get(type(node))
        if clause is not None:
            raise QueryRefused(clause)
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Func):
            raise QueryRefused(f"the table function {node.this.sql(_Calcite)[:40]}")
    own = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        name = table.name
        if table.db or (name not in own and name not in tables):
            raise ConfigurationError(
                f"There is no table {shown(table.sql(_Calcite))}. {_known(tables)}"
            )


def _known(tables: Mapping[str, Types]) -> str:
    if not tables:
        return "The query has no input: apply it to a PCollection, or to a dictionary of them."
    columns = (f"{name} ({', '.join(types)})" for name, types in tables.items())
    return f"The tables are {listed(list(columns))}; the case of names matters."


def _used(tree: exp.Query, tables: Mapping[str, Types]) -> list[str]:
    return list(
        dict.fromkeys(each.name for each in tree.find_all(exp.Table) if each.name in tables)
    )


def _columns(types: Types) -> dict[str, Any]:
    return {name: _type(kind) for name, kind in types.items()}


def _type(kind: str) -> exp.DataType:
    try:
        return exp.DataType.build(kind, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return exp.DataType.build("unknown")


def _named(tree: exp.Query) -> exp.Query:
    """Give expressions without a name Calcite's: ``EXPR$0`` for the first one."""
    if not tree.args.get("limit") and not tree.args.get("offset"):
        tree.set("order", None)  # A PCollection has no order.
    for node in list(tree.find_all(exp.Bracket, exp.Anonymous)):
        if isinstance(node, exp.Bracket):
            _build_map(node)
        elif node.name.upper() in _WITH_UNIT:
            unit = node.expressions[0]
            unit.replace(exp.var(unit.name.removeprefix("SQL_TSI_").upper()))
    for select in tree.find_all(exp.Select):
        for at, item in enumerate(select.expressions):
            if not isinstance(item, exp.Alias | exp.Column | exp.Star | exp.Dot):
                item.replace(exp.alias_(item.copy(), f"EXPR${at}", quoted=True))
    for unnest in tree.find_all(exp.Unnest):
        alias = unnest.args.get("alias")
        if alias is not None and not alias.columns:
            alias.set("columns", [alias.this.copy()])
    for values in tree.find_all(exp.Values):
        alias = values.args.get("alias")
        if alias is not None and not alias.columns and values.expressions:
            width = len(values.expressions[0].expressions) or 1
            names = [exp.to_identifier(f"EXPR${at}", quoted=True) for at in range(width)]
            alias.set("columns", names)
    return tree


def _build_map(node: exp.Bracket) -> None:
    this = node.this
    if isinstance(this, exp.Column) and this.sql(_Calcite).upper() == "MAP":
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

    Args:
        columns: of the tables.
    """

    def __init__(self, columns: Mapping[str, Types]) -> None:
        self._taken = {TIME}
        self._names: dict[str, str] = {}
        for table, types in columns.items():
            for name in (table, *types):
                self(name)

    def __call__(self, name: str) -> str:
        """Return the name for Spark; it is the same one whenever it occurs."""
        if name not in self._names:
            numbered = (f"{name}_{number}" for number in itertools.count(1))
            candidates = itertools.chain([name], numbered)
            found = next(each for each in candidates if each.lower() not in self._taken)
            self._taken.add(found.lower())
            self._names[name] = found
        return self._names[name]

    def of_tree(self, tree: exp.Query) -> "_Names":
        """Rename tables and columns; the fields of a struct keep their names."""
        for node in tree.find_all(exp.Identifier):
            if not isinstance(node.parent, exp.Dot):
                node.set("this", self(node.this))
        return self


def _input(name: str, parameter: str, columns: Iterable[str]) -> exp.CTE:
    """Return the expression that gives a table and its columns their names."""
    named = [
        exp.alias_(exp.column(f"c{at}"), column, quoted=True) for at, column in enumerate(columns)
    ]
    table = exp.Table(this=exp.to_identifier(parameter, quoted=True))
    select = exp.select(*named, exp.column(TIME)).from_(table)
    return exp.CTE(this=select, alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True)))


class _Timestamps:
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
            return exp.Literal.number(_FIRST) if _is_plain(select) else exp.Literal.number(_END)
        relation = source.this
        if not _is_plain(select) or not self._has_time(relation):
            return exp.Literal.number(_END)
        return exp.column(TIME, table=exp.to_identifier(relation.alias_or_name, quoted=True))

    def _has_time(self, relation: exp.Expr) -> bool:
        if isinstance(relation, exp.Subquery):
            if relation.args["alias"].columns if relation.args.get("alias") else False:
                return False
            self.add(relation.this)
            return True
        return isinstance(relation, exp.Table) and relation.name in self._timed


class _Ends(_Timestamps):
    """Gives all rows the timestamp of the end."""

    def _time(self, select: exp.Select) -> exp.Expr:
        return exp.Literal.number(_END)


_GROUPING = ("group", "having", "distinct", "joins", "limit", "offset", "order", "qualify")


def _is_plain(select: exp.Select) -> bool:
    """Return whether a query only selects and projects rows, one by one."""
    if any(select.args.get(name) for name in _GROUPING):
        return False
    parts = [*select.expressions, select.args.get("where")]
    return not any(_gathers(node) for part in parts if part is not None for node in part.walk())


def _gathers(node: exp.Expr) -> bool:
    """Return whether an expression depends on more than one row."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper() in _AGGREGATES
    return isinstance(node, exp.AggFunc | exp.Window | exp.Query)


_AGGREGATES = frozenset(["COLLECT", "FUSION", "INTERSECTION", "LISTAGG", "SINGLE_VALUE"])
"""Functions of many rows that are no others in ``sqlglot``."""


# Differences between the dialects.


def _to_spark(tree: exp.Query) -> None:
    """Replace expressions by Spark's, innermost first."""
    for node in reversed(list(tree.dfs())):
        change = _CHANGES.get(type(node))
        if change is None:
            continue
        parent, key, index = node.parent, node.arg_key, node.index
        changed = change(node)
        if changed is not node and parent is not None and key is not None:
            changed.type = node.type
            parent.set(key, changed, index)


def _division(node: exp.Div) -> exp.Expr:
    """Truncate the quotient of integers."""
    parts = (node.left, node.right)
    if all(part.is_type(*_INTEGERS) for part in parts):
        return _as(exp.IntDiv(this=node.left, expression=node.right), node.type)
    if any(part.is_type(exp.DataType.Type.UNKNOWN) for part in parts):
        raise QueryRefused(
            f"the division {node.sql(_Calcite)}, as the type of its operands is unknown; CAST them"
        )
    return exp.Div(this=node.left, expression=node.right, typed=False)


def _average(node: exp.Avg) -> exp.Expr:
    """Truncate the average of integers."""
    value = node.this.expressions[0] if isinstance(node.this, exp.Distinct) else node.this
    if not value.is_type(*_INTEGERS):
        return node
    if isinstance(node.parent, exp.Window | exp.Filter):
        return node
    whole = exp.IntDiv(this=exp.Sum(this=node.this), expression=exp.Count(this=node.this.copy()))
    return _as(whole, value.type)


def _window(node: exp.Window | exp.Filter) -> exp.Expr:
    average = node.this
    if isinstance(average, exp.Avg) and average.this.is_type(*_INTEGERS):
        if isinstance(node.parent, exp.Window):
            return node
        return _as(node.copy(), average.this.type)
    return node


def _as(node: exp.Expr, kind: exp.DataType | None) -> exp.Expr:
    if kind is None or kind.is_type(exp.DataType.Type.UNKNOWN):
        kind = exp.DataType.build("bigint")
    return exp.Cast(this=node, to=kind.copy())


_LARGE = exp.Literal.number(1 << 53)


def _rounded(node: exp.Ceil | exp.Floor) -> exp.Expr:
    """Keep the type of floating-point numbers, and truncate timestamps."""
    unit = node.args.get("to")
    if unit is not None:
        return _rounded_time(node, unit.name.upper())
    if not node.this.is_type(*_FLOATS):
        return node
    # Spark's result is a BIGINT, which has not all of them; large ones are whole.
    is_small = exp.LT(this=exp.Abs(this=node.this.copy()), expression=_LARGE.copy())
    return exp.If(this=is_small, true=_as(node.copy(), node.this.type), false=node.this.copy())


def _rounded_time(node: exp.Ceil | exp.Floor, unit: str) -> exp.Expr:
    floor = _floor(node.this, unit)
    if isinstance(node, exp.Floor):
        return floor
    after = _call("TIMESTAMPADD", exp.var(unit), exp.Literal.number(1), floor.copy())
    is_floor = exp.EQ(this=floor, expression=node.this.copy())
    return exp.If(this=is_floor, true=node.this.copy(), false=after)


def _floor(time: exp.Expr, unit: str) -> exp.Expr:
    """Truncate a time without DATE_TRUNC, which depends on the time zone of the session."""
    day = exp.Cast(this=time.copy(), to=exp.DataType.build("DATE"))
    if unit in ("HOUR", "MINUTE", "SECOND"):
        whole = _between(unit, day, time)
        return _call("TIMESTAMPADD", exp.var(unit), whole, _ntz(day.copy()))
    return _ntz(day if unit == "DAY" else _call("TRUNC", day, exp.Literal.string(unit)))


def _between(unit: str, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """Return the number of units between two times.

    TIMESTAMPDIFF of times that differ by less than a month depends on the session's time zone.
    """
    elapsed = exp.Paren(this=exp.Sub(this=_ntz(end.copy()), expression=_ntz(start.copy())))
    count, of = ("7", "DAY") if unit == "WEEK" else ("1", unit)
    one = exp.Interval(this=exp.Literal.string(count), unit=exp.var(of))
    return exp.IntDiv(this=elapsed, expression=one)


def _call(name: str, *parts: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(parts))


def _ntz(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("TIMESTAMPNTZ"))


def _element(node: exp.Bracket) -> exp.Expr:
    """Count elements of arrays from 1, and return null for those that there are not."""
    if len(node.expressions) != 1:
        raise QueryRefused(f"the element {node.sql(_Calcite)}")
    (key,) = node.expressions
    if not node.this.is_type(exp.DataType.Type.MAP) and key.is_type(*_INTEGERS):
        key = exp.Cast(this=key, to=exp.DataType.build("INT"))
    return _call("TRY_ELEMENT_AT", node.this, key)


_TIMESTAMPS = (
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.DATETIME,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
)
_TEXTS = (
    exp.DataType.Type.VARCHAR,
    exp.DataType.Type.CHAR,
    exp.DataType.Type.NCHAR,
)


def _cast(node: exp.Cast) -> exp.Expr:
    """Cut and pad texts; times are those of UTC."""
    to = node.to
    if to.is_type(*_TIMESTAMPS):
        return _ntz(node.this)
    if to.is_type(exp.DataType.Type.DECIMAL) and not to.expressions:
        return exp.Cast(this=node.this, to=exp.DataType.build("DECIMAL(38, 18)"))
    if not to.is_type(*_TEXTS):
        return node
    text: exp.Expr = exp.Cast(this=node.this, to=exp.DataType.build("TEXT"))
    if node.this.is_type(exp.DataType.Type.BOOLEAN):
        text = exp.Upper(this=text)
    is_char = not to.is_type(exp.DataType.Type.VARCHAR)
    length = to.expressions[0].this if to.expressions else exp.Literal.number(1)
    if is_char:
        return _call("RPAD", text, length, exp.Literal.string(" "))
    return exp.Left(this=text, expression=length) if to.expressions else text


def _like(node: exp.Like) -> exp.Expr:
    """Take backslashes in patterns as they are."""
    pattern = node.expression
    if isinstance(node.parent, exp.Escape) or not isinstance(pattern, exp.Literal):
        return node
    node.set("expression", exp.Literal.string(pattern.this.replace("\\", "\\\\")))
    return node


def _similar(node: exp.SimilarTo) -> exp.Expr:
    from sparkbeam.replacements.calcite_patterns import regex_of_similar

    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise QueryRefused("SIMILAR TO with a pattern that is no text in the query")
    regex = exp.Literal.string(rf"(?s)^(?:{regex_of_similar(pattern.this)})\z")
    return exp.RegexpLike(this=node.this, expression=regex)


def _extract(node: exp.Extract) -> exp.Expr:
    """Return whole seconds too."""
    return _as(node.copy(), exp.DataType.build("bigint"))


def _now(node: exp.Expr) -> exp.Expr:
    """Return the time in UTC."""
    now = _call("UNIX_MICROS", exp.CurrentTimestamp())
    return _call("TIMESTAMPADD", exp.var("MICROSECOND"), now, _ntz(_EPOCH.copy()))


def _today(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=_now(node), to=exp.DataType.build("DATE"))


def _user_aggregate(node: exp.AnonymousAggFunc) -> exp.Expr:
    """Call the function with the list of the values, which has no nulls."""
    values = _call("COLLECT_LIST", *node.expressions)
    return _call(node.name, values)


def _function(node: exp.Anonymous) -> exp.Expr:
    if node.name.upper() == "TIMESTAMPDIFF" and node.expressions[0].name in _FIXED_UNITS:
        unit, start, end = node.expressions
        return _between(unit.name, start, end)
    name = _FUNCTIONS.get(node.name.upper())
    if name is not None:
        node.set("this", name)
    return node


_FIXED_UNITS = frozenset(["SECOND", "MINUTE", "HOUR", "DAY", "WEEK"])

_FUNCTIONS: Mapping[str, str] = {"COLLECT": "COLLECT_LIST", "ROW": "STRUCT"}

_CHANGES: dict[type[exp.Expr], Callable[[Any], exp.Expr]] = {
    exp.Div: _division,
    exp.Avg: _average,
    exp.Window: _window,
    exp.Filter: _window,
    exp.Ceil: _rounded,
    exp.Floor: _rounded,
    exp.Bracket: _element,
    exp.Cast: _cast,
    exp.Extract: _extract,
    exp.Like: _like,
    exp.SimilarTo: _similar,
    exp.CurrentTimestamp: _now,
    exp.Localtimestamp: _now,
    exp.CurrentDate: _today,
    exp.Anonymous: _function,
    exp.AnonymousAggFunc: _user_aggregate,
}
