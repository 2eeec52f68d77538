"""The dialect of Beam SQL, Calcite's, and the statements of a text in it.

Only modules whose names begin with ``calcite`` import ``sqlglot``.
"""

import functools
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from typing import Any, ParamSpec, TypeVar

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy
from sqlglot.helper import seq_get

from sparkbeam.common.arguments import nearest, shown
from sparkbeam.common.display_text import shortened
from sparkbeam.errors import ConfigurationError
from sparkbeam_sql.calcite_nodes import NODES
from sparkbeam_sql.upstream import current_token, parsed_operand

_P = ParamSpec("_P")
_R = TypeVar("_R")
_E = TypeVar("_E", bound=exp.Expr)

Types = Mapping[str, str]
"""Columns of a table, as Spark names their types."""

INTEGERS = exp.DataType.INTEGER_TYPES
FLOATS = exp.DataType.FLOAT_TYPES
TIMESTAMPS = (
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.DATETIME,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
    exp.DataType.Type.TIMESTAMPNTZ,
)
TEXTS = (
    exp.DataType.Type.VARCHAR,
    exp.DataType.Type.CHAR,
    exp.DataType.Type.NCHAR,
    exp.DataType.Type.TEXT,
)

_UNENDED = "a quoted string or a comment is not closed"
# Parts of the parser's messages that name its own classes.
_TOKEN = re.compile(r" but got <Token.*")
_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '.*\b(\w+)'>")

_WORDS = (
    *("SELECT", "DISTINCT", "FROM", "WHERE", "GROUP", "BY", "HAVING", "ORDER", "LIMIT", "OFFSET"),
    *("FETCH", "UNION", "EXCEPT", "INTERSECT", "WITH", "JOIN", "LEFT", "RIGHT", "FULL", "INNER"),
    *("OUTER", "CROSS", "NATURAL", "ON", "USING", "VALUES", "BETWEEN", "LIKE", "EXISTS", "CASE"),
    *("WHEN", "THEN", "ELSE", "END", "INTERVAL", "AND", "UNNEST", "LATERAL", "OVER", "PARTITION"),
)
"""Words that a misspelt one may have been meant for."""

_MOST_TOKENS = 100_000
_DEEPEST = 500
_DEEPEST_TREE = 4_000
"""Tokens of a query, parentheses within each other, and levels of its tree that are translated."""

_CHAIN = 16
"""Parts of AND or OR that stay a chain."""


class QueryRefused(Exception):
    """A clause that cannot be translated.

    The functions of all modules whose names begin with ``calcite`` raise it for what they do not
    translate. It becomes the error of the step that applies the query.
    """

    def __init__(self, clause: str, remedy: str = "") -> None:
        super().__init__(clause)
        self.clause = clause
        self.remedy = remedy or "Rewrite it: docs/sql.md lists the supported SQL."


def _is_known(function: str) -> bool:
    """Return whether a function is one of SQL's; others are Spark's own, by their names."""
    made = exp.FUNCTION_BY_NAME.get(function)
    return made is None or made in NODES or issubclass(made, exp.AggFunc)


def _logarithm(given: list[exp.Expr], dialect: Any) -> exp.Expr:
    """Read ``LOG(10, x)`` as ``LOG10(x)``."""
    if len(given) == 2 and isinstance(given[0], exp.Literal) and given[0].name == "10":
        return exp.Anonymous(this="LOG10", expressions=given[1:])
    found: exp.Expr = sqlglot.Parser.FUNCTIONS["LOG"](given, dialect)
    return found


WITH_UNIT = ("TIMESTAMPADD", "TIMESTAMPDIFF", "TIMESTAMP_ADD", "TIMESTAMP_DIFF")
"""Functions whose first argument is a unit of time."""


class Calcite(Dialect):
    """The dialect of Beam SQL.

    Names are case-sensitive and quoted by backticks, as by Calcite's lexical policy ``JAVA``, or
    by double quotes. Nulls are greater than all other values.
    """

    NORMALIZATION_STRATEGY = NormalizationStrategy.CASE_SENSITIVE
    NULL_ORDERING = "nulls_are_large"
    TYPED_DIVISION = True

    class Tokenizer(sqlglot.Tokenizer):
        """Tokens, with the quotes of names."""

        IDENTIFIERS = ["`", '"']  # noqa: RUF012
        HEX_STRINGS = [("X'", "'"), ("x'", "'")]  # noqa: RUF012
        KEYWORDS = {  # noqa: RUF012
            **sqlglot.Tokenizer.KEYWORDS,
            "MATCH_RECOGNIZE": TokenType.MATCH_RECOGNIZE,
            "LOCALTIME": TokenType.LOCALTIME,
            "LOCALTIMESTAMP": TokenType.LOCALTIMESTAMP,
        }

    class Parser(sqlglot.Parser):
        """Parser that takes units of time as names, and SESSION as a function."""

        JOINS_HAVE_EQUAL_PRECEDENCE = True  # A comma is a CROSS JOIN.
        FUNC_TOKENS = {*sqlglot.Parser.FUNC_TOKENS, sqlglot.TokenType.SESSION}  # noqa: RUF012
        FUNCTIONS = {
            name: parse
            for name, parse in sqlglot.Parser.FUNCTIONS.items()
            # TO_HEX is not another name of Spark's HEX, and LOG10 has one argument, unlike LOG.
            if name not in (*WITH_UNIT, "HEX", "LOG10") and _is_known(name)
        } | {
            # Not as parts of HEX, as sqlglot has them: TO_HEX has small letters here.
            name: kind.from_arg_list
            for name, kind in (("LOWER", exp.Lower), ("UPPER", exp.Upper))
        }
        FUNCTIONS["LOG"] = _logarithm
        # The pattern is the second argument, not the first one.
        FUNCTIONS["LIKE"] = lambda given: exp.Like(
            this=seq_get(given, 0), expression=seq_get(given, 1)
        )

        NO_PAREN_FUNCTIONS = {  # noqa: RUF012
            **sqlglot.Parser.NO_PAREN_FUNCTIONS,
            TokenType.LOCALTIME: exp.Localtime,
            TokenType.LOCALTIMESTAMP: exp.Localtimestamp,
        }

        def _parse_function_call(self, *arguments: Any, **named: Any) -> exp.Expr | None:
            token = current_token(self)
            found: exp.Expr | None = super()._parse_function_call(*arguments, **named)
            # Calls with a syntax of their own have no place yet.
            if isinstance(found, exp.Func) and token.text.upper() in (*self.FUNCTION_PARSERS, "IF"):
                found.update_positions(token)
            return found

        def validate_expression(self, expression: _E, args: list[Any] | None = None) -> _E:
            # The arguments of functions are counted by the table of functions.
            is_call = args is not None or isinstance(
                expression, exp.StrPosition | exp.Overlay | exp.Trim
            )
            return expression if is_call else super().validate_expression(expression)

        def _parse_position(self, haystack_first: bool = False) -> exp.StrPosition:
            found = super()._parse_position(haystack_first)
            if self._match(TokenType.FROM):
                found.set("position", parsed_operand(self))
            return found


def deeply(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a function that has a deeper stack if it needs one, for long and nested queries.

    It is called again then, so it must change nothing before it ends.

    Raises:
        ConfigurationError: the query is nested too deeply for that too, or the function raises an
            error that is not for the user.
    """

    @functools.wraps(function)
    def call(*arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(*arguments, **named)
        except RecursionError:
            if threading.current_thread().name.startswith(_DEEP_THREAD):
                raise
            return _with_deep_stack(lambda: call(*arguments, **named))
        except (QueryRefused, ConfigurationError):
            raise
        except Exception as error:
            raise ConfigurationError(
                f"The query cannot be translated: {type(error).__name__}: {error}. Rewrite it."
            ) from error

    return call


_DEEP_STACK = threading.Lock()
_DEEP_THREAD = "sparkbeam-sql"


def _with_deep_stack(call: Callable[[], _R]) -> _R:
    with _DEEP_STACK, ThreadPoolExecutor(1, _DEEP_THREAD) as threads:
        size, limit = threading.stack_size(512 << 20), sys.getrecursionlimit()
        try:
            sys.setrecursionlimit(200_000)
            return threads.submit(call).result()
        except RecursionError:
            raise ConfigurationError("The query is nested too deeply. Split it.") from None
        finally:
            sys.setrecursionlimit(limit)
            threading.stack_size(size)


def data_type(kind: str) -> exp.DataType:
    """Return the type that Spark gives a name; the unknown one for others."""
    try:
        return exp.DataType.build(kind, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return exp.DataType.build("unknown")


def statements(text: str) -> list[exp.Expr]:
    """Parse the statements of a query.

    Raises:
        ConfigurationError: they are not valid, or too long.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"query={shown(text)} is not a string.")
    try:
        tokens = _checked(sqlglot.tokenize(text, dialect=Calcite))
        found = Calcite().parser().parse(tokens, text)
    except sqlglot.errors.TokenError:  # Its message has a part of the text.
        raise ConfigurationError(f"The query is not valid SQL: {_UNENDED}.") from None
    except sqlglot.errors.SqlglotError as error:
        raise ConfigurationError(f"The query is not valid SQL: {first_line(error)}") from None
    trees = [each for each in found if each is not None and not isinstance(each, exp.Semicolon)]
    for tree in trees:
        _check_depth(_balanced(tree))
    counts = _argument_counts(tokens)
    for part in chain.from_iterable(each.walk() for each in trees):
        if isinstance(part, exp.Func | exp.Binary) and part.meta.get("start") in counts:
            part.meta[ARGUMENTS] = counts[part.meta["start"]]
        if isinstance(part, exp.Identifier) and not part.name:
            raise ConfigurationError('The query is not valid SQL: "" is not a name.')
        if isinstance(part, exp.Select) and not part.expressions:
            raise ConfigurationError("The query is not valid SQL: SELECT has no columns.")
    return trees


ARGUMENTS = "arguments"
"""Key of the name of a call, and of the number of its arguments, both as the query has them."""


def _argument_counts(tokens: list[Token]) -> dict[int, tuple[str, int]]:
    """Return name and number of arguments of each call, by the place where it begins.

    The parser drops arguments for which its own functions have no place.
    """
    found: dict[int, tuple[str, int]] = {}
    calls: list[Token | None] = []
    for last, token, following in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        kind = token.token_type
        call = calls[-1] if calls else None
        if kind in (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE):
            is_call = kind is TokenType.L_PAREN and last is not None
            calls.append(last if is_call else None)
            if is_call and last is not None:
                is_empty = following is not None and following.token_type is TokenType.R_PAREN
                found[last.start] = last.text.upper(), 0 if is_empty else 1
        elif kind in (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE):
            calls = calls[:-1]
        elif kind in (TokenType.ORDER_BY, TokenType.LIMIT) and calls:
            calls[-1] = None  # Commas behind these divide no arguments.
        elif kind is TokenType.COMMA and call is not None:
            name, count = found[call.start]
            found[call.start] = name, count + 1
    return found


def _balanced(tree: exp.Expr) -> exp.Expr:
    """Put the parts of long chains of AND and OR into trees of small depth, in their order."""
    stack = [tree]
    while stack:
        node = stack.pop()
        kind, parts = type(node), [node]
        if kind in (exp.And, exp.Or):
            while type(parts[-1]) is kind:
                last = parts.pop()
                parts += [last.expression, last.this]
            parts.reverse()
        if len(parts) > _CHAIN:
            while len(parts) > 2:
                pairs = [parts[at : at + 2] for at in range(0, len(parts), 2)]
                parts = [
                    kind(this=pair[0], expression=pair[1]) if len(pair) == 2 else pair[0]
                    for pair in pairs
                ]
            node.set("this", parts[0])
            node.set("expression", parts[1])
            stack += node.flatten(unnest=False)
        else:
            stack += node.iter_expressions()
    return tree


def _check_depth(tree: exp.Expr) -> None:
    level, depth = [tree], 0
    while level:
        level, depth = [part for node in level for part in node.iter_expressions()], depth + 1
    if depth > _DEEPEST_TREE:
        raise ConfigurationError(
            f"The query is nested too deeply: {depth:,} nested operators or queries, more than "
            f"{_DEEPEST_TREE:,}. Split it."
        )


def _checked(tokens: list[Token]) -> list[Token]:
    """Return tokens; check for what the parser does not check.

    Raises:
        ConfigurationError: there are too many, or a comma has nothing behind it.
    """
    if len(tokens) > _MOST_TOKENS:
        raise ConfigurationError(
            f"The query has {len(tokens):,} tokens, more than {_MOST_TOKENS:,}. Split it, or "
            "join it to a table of its constants."
        )
    if tokens and tokens[0].token_type is TokenType.FROM:
        raise ConfigurationError("The query is not valid SQL: SELECT is missing before FROM.")
    depth = 0
    for token, following in zip_longest(tokens, tokens[1:]):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        where = f"at line {token.line}, column {token.col}"
        if depth > _DEEPEST:
            raise ConfigurationError(
                f"The query is nested too deeply: more than {_DEEPEST} nested parentheses "
                f"{where}. Split it."
            )
        is_last = following is None or following.token_type in _BEHIND_LISTS
        if token.token_type is TokenType.COMMA and is_last:
            raise ConfigurationError(
                f"The query is not valid SQL: nothing follows the comma {where}."
            )
    return list(_without_table(tokens))


def _without_table(tokens: list[Token]) -> Iterator[Token]:
    """Yield tokens without the word TABLE before an argument, which the parser does not have."""
    before = (TokenType.L_PAREN, TokenType.COMMA, TokenType.FARROW)
    names = (TokenType.VAR, TokenType.IDENTIFIER)
    for last, token, following in zip_longest([None, *tokens[:-1]], tokens, tokens[1:]):
        is_argument = last is not None and last.token_type in before
        is_name = following is not None and following.token_type in names
        if token is not None and not (
            token.token_type is TokenType.TABLE and is_argument and is_name
        ):
            yield token


_BEHIND_LISTS = frozenset(
    [
        *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING),
        *(TokenType.ORDER_BY, TokenType.LIMIT, TokenType.R_PAREN, TokenType.SEMICOLON),
        TokenType.COMMA,
    ]
)


def text_of(node: exp.Expr) -> str:
    """Return the text of a node for a message, shortened."""
    found = node.sql(
        Calcite, normalize_functions=False, unsupported_level=sqlglot.ErrorLevel.IGNORE
    )
    return shortened(found.replace('"', "").replace("`", ""), 60)


def place(node: exp.Expr) -> str:
    """Return the place of the first token of a node that has one, to follow its name."""
    found = [each.meta for each in node.walk() if "line" in each.meta]
    if not found:
        return ""
    first = min(found, key=lambda meta: int(meta["start"]))
    column = first["col"] - first["end"] + first["start"]
    return f" at line {first['line']}, column {column}"


def first_line(error: Exception) -> str:
    """Return the first problem that the parser tells, with its place."""
    errors = getattr(error, "errors", None)
    if not errors:
        return f"{str(error).splitlines()[0].rstrip('.')}."
    where = errors[0]
    found = _TOKEN.sub("", where["description"])
    token = where.get("highlight") or ""
    if found.startswith("Invalid expression") and token.isidentifier():
        found = f"unexpected {shown(token.upper() if token.upper() in _WORDS else token)}"
    elif found.startswith("Invalid expression"):
        found = f"unexpected {token}" if re.fullmatch(r"\W{1,2}", token) else "unexpected value"
    found = _MISSING.sub(lambda each: _lacking(each[1]), found)
    at = f" at line {where['line']}, column {where['col']}" if where.get("line") else ""
    return f"{found.rstrip('.')}{at}.{_meant(where)}"


def _lacking(kind: str) -> str:
    made: Any = getattr(exp, kind, exp.Expr)
    is_function = issubclass(made, exp.Func) and not issubclass(made, exp.Connector)
    if issubclass(made, exp.Binary) and not is_function:
        return "an operand is missing"
    return (
        f"{made.sql_name()} lacks an argument" if is_function else f"{kind.upper()} is incomplete"
    )


def _meant(where: Mapping[str, Any]) -> str:
    """Return a proposal for a word near an error that resembles one of SQL."""
    near = f"{where.get('start_context') or ''}{where.get('highlight') or ''}"
    words = re.findall(r"[A-Za-z_]+", re.sub(r"'[^']*'|\"[^\"]*\"", " ", near))
    return next(filter(None, map(meant_word, [*reversed(words[-3:]), *words[:1]])), "")


def meant_word(word: str) -> str:
    """Return a question for the word of SQL that a misspelt one resembles; empty for none."""
    names = (*_WORDS, *Calcite.Tokenizer.KEYWORDS, *exp.FUNCTION_BY_NAME)
    is_known = word.upper() in names
    meant = None if is_known else nearest(word, _WORDS)
    return f" Did you mean {meant} instead of {shown(word)}?" if meant else ""
