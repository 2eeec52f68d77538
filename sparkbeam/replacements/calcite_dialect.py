"""The dialect of Beam SQL, Calcite's, and the statements of a text in it.

Only modules whose names begin with ``calcite`` import ``sqlglot``.
"""

import re
from collections.abc import Mapping
from itertools import chain

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect, NormalizationStrategy

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError

Types = Mapping[str, str]
"""Columns of a table, as Spark names their types."""

INTEGERS = exp.DataType.INTEGER_TYPES
FLOATS = exp.DataType.FLOAT_TYPES
TIMESTAMPS = (
    exp.DataType.Type.TIMESTAMP,
    exp.DataType.Type.DATETIME,
    exp.DataType.Type.TIMESTAMPTZ,
    exp.DataType.Type.TIMESTAMPLTZ,
)
TEXTS = (
    exp.DataType.Type.VARCHAR,
    exp.DataType.Type.CHAR,
    exp.DataType.Type.NCHAR,
)

_UNENDED = "a text in quotes, or a comment, does not end"
# Parts of the parser's messages that name its own classes.
_TOKEN = re.compile(r" but got <Token.*")
_MISSING = re.compile(r"Required keyword: '\w+' missing for <class '.*\b(\w+)'>")


class QueryRefused(Exception):
    """A clause that cannot be translated.

    Args:
        clause: names it.
        remedy: the user can do.
    """

    def __init__(self, clause: str, remedy: str = "") -> None:
        super().__init__(clause)
        self.clause = clause
        self.remedy = remedy or ("Write it in another way: docs/sql.md lists what is translated.")


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
        }

    class Parser(sqlglot.Parser):
        """Parser that takes units of time as names, and SESSION as a function."""

        FUNC_TOKENS = {*sqlglot.Parser.FUNC_TOKENS, sqlglot.TokenType.SESSION}  # noqa: RUF012
        FUNCTIONS = {  # noqa: RUF012
            name: parse for name, parse in sqlglot.Parser.FUNCTIONS.items() if name not in WITH_UNIT
        }

        def _parse_position(self, haystack_first: bool = False) -> exp.StrPosition:
            found = super()._parse_position(haystack_first)
            if self._match(TokenType.FROM):
                found.set("position", self._parse_bitwise())
            return found


def data_type(kind: str) -> exp.DataType:
    """Return the type that Spark gives a name; the unknown one for others."""
    try:
        return exp.DataType.build(kind, dialect="spark")
    except sqlglot.errors.SqlglotError:
        return exp.DataType.build("unknown")


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
        return list(sqlglot.tokenize(text, dialect=Calcite))
    except sqlglot.errors.SqlglotError:
        raise ConfigurationError(f"{argument} is not valid SQL: {_UNENDED}.") from None


def statements(text: str) -> list[exp.Expr]:
    """Parse the statements of a query.

    Raises:
        ConfigurationError: they are not valid.
    """
    if not isinstance(text, str):
        raise ConfigurationError(f"query={shown(text)} is not a text.")
    try:
        found = [each for each in sqlglot.parse(text, dialect=Calcite) if each is not None]
    except sqlglot.errors.TokenError:  # Its message has a part of the text.
        raise ConfigurationError(f"The query is not valid SQL: {_UNENDED}.") from None
    except sqlglot.errors.SqlglotError as error:
        raise ConfigurationError(f"The query is not valid SQL: {first_line(error)}") from None
    except RecursionError:
        raise ConfigurationError("The query is nested too deeply: divide it.") from None
    for part in chain.from_iterable(each.walk() for each in found):
        if isinstance(part, exp.Identifier) and not part.name:
            raise ConfigurationError('The query is not valid SQL: "" is no name.')
        if isinstance(part, exp.Select) and not part.expressions:
            raise ConfigurationError("The query is not valid SQL: SELECT names no columns.")
    return found


def first_line(error: Exception) -> str:
    """Return the first problem that the parser tells, with its place."""
    errors = getattr(error, "errors", None)
    if errors:
        where = errors[0]
        at = f" in line {where['line']}, column {where['col']}" if where.get("line") else ""
        what = _MISSING.sub(
            lambda found: f"{found[1].upper()} lacks something", where["description"]
        )
        return f"{_TOKEN.sub('', what).rstrip('.')}{at}."
    return f"{str(error).splitlines()[0].rstrip('.')}."
