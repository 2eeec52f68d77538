"""Statements of Beam SQL that declare tables and catalogs, and those that set options.

Grammar: https://beam.apache.org/documentation/dsls/sql/extensions/create-external-table/ and
https://beam.apache.org/documentation/dsls/sql/ddl/
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from keyword import iskeyword
from typing import Any

from sqlglot import Token, TokenType

from sparkbeam.common.arguments import listed, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.replacements.calcite_dialect import QueryRefused, tokens
from sparkbeam.replacements.sql_records import SCALARS, Field, Kind, ListOf, MapOf, RowOf, Scalar


@dataclass(frozen=True)
class Catalog:
    """A catalog that ``CREATE CATALOG`` declares.

    Attributes:
        name: its name.
        type: its type, such as ``iceberg``, in lower case.
        properties: its properties, which may be secrets.
    """

    name: str
    type: str
    properties: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True)
class ExternalTable:
    """A table that ``CREATE EXTERNAL TABLE`` declares.

    Attributes:
        name: its name.
        columns: its columns.
        type: of what holds it, such as ``text``, in lower case.
        location: of it; empty for none.
        properties: further ones, which may be secrets.
        partitions: by which it is partitioned.
        catalog: the catalog in use where it was declared; None for none.
        database: likewise.
    """

    name: str
    columns: RowOf
    type: str
    location: str = field(repr=False)
    properties: Mapping[str, Any] = field(repr=False)
    partitions: tuple[str, ...] = ()
    catalog: Catalog | None = None
    database: str = ""

    def required_location(self) -> str:
        """Return the location.

        Raises:
            ConfigurationError: there is none.
        """
        if not self.location:
            raise ConfigurationError(f"The table {shown(self.name)} of ddl needs a LOCATION.")
        return self.location


@dataclass
class _Declared:
    """Tables and catalogs so far, and the catalog and the database in use."""

    tables: dict[str, ExternalTable] = field(default_factory=dict)
    catalogs: dict[str, Catalog] = field(default_factory=dict)
    catalog: Catalog | None = None
    database: str = ""


def declared(ddl: str) -> dict[str, ExternalTable]:
    """Return the tables that statements declare, by name; options that they set are ignored.

    Raises:
        ConfigurationError: it is not DDL, or declares a table twice.
        QueryRefused: it has another statement.
    """
    found = _Declared()
    for statement in _statements(tokens(ddl, "ddl")):
        _Statement(statement).apply(found)
    return found.tables


def _statements(found: list[Token]) -> list[list[Token]]:
    parts: list[list[Token]] = [[]]
    for token in found:
        if token.token_type is TokenType.SEMICOLON:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


_OF_CATALOGS = (
    "Declare the catalog with CREATE CATALOG and USE CATALOG, and its tables with CREATE EXTERNAL "
    "TABLE … TYPE iceberg."
)
_REMEDIES = {
    "INSERT": "Make it the query, which has a ddl that declares its table.",
    "CATALOG": _OF_CATALOGS,
    "DATABASE": _OF_CATALOGS,
    "ALTER": "Declare the table as it is, with CREATE EXTERNAL TABLE.",
}
"""Remedies for statements with a word."""

_SYNONYMS = {"INT": "INTEGER", "NUMERIC": "DECIMAL", "DEC": "DECIMAL", "CHARACTER": "CHAR"}


class _Statement:
    """Parser of a statement.

    Args:
        found: its tokens.
    """

    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._at = 0

    def apply(self, found: _Declared) -> None:
        """Add the declaration of the statement to others, or remove it from them."""
        if self._takes("SET") or self._takes("RESET"):
            return
        if self._takes("CREATE", "EXTERNAL", "TABLE") or self._takes("CREATE", "TABLE"):
            self._create(found)
        elif self._takes("DROP", "TABLE"):
            self._drop(found.tables, "table")
        elif self._takes("CREATE", "CATALOG"):
            self._create_catalog(found.catalogs)
        elif self._takes("USE", "CATALOG"):
            self._use_catalog(found)
        elif self._takes("DROP", "CATALOG"):
            self._drop(found.catalogs, "catalog")
        elif self._takes("CREATE", "DATABASE"):
            # Its catalog has it as soon as it has a table.
            self._takes("IF", "NOT", "EXISTS")
            self._path()
        elif self._takes("USE", "DATABASE"):
            found.database = self._path()
        else:
            words = self._first_words()
            remedy = next((text for word, text in _REMEDIES.items() if word in words.split()), "")
            raise QueryRefused(f"the statement {words} in ddl", remedy)
        if self._at < len(self._tokens):
            raise self._wrong("the end of the statement")

    def _first_words(self) -> str:
        words = [each for each in self._tokens[:2] if each.token_type not in _VALUES]
        return " ".join(each.text.upper()[:20] for each in words)

    def _create(self, found: _Declared) -> None:
        tables = found.tables
        keeps = self._takes("IF", "NOT", "EXISTS")
        name = self._name()
        columns = self._fields("(", ")")
        partitions = self._texts() if self._takes("PARTITIONED BY") else ()
        if self._takes("COMMENT"):
            self._text()
        self._need("TYPE")
        kind = self._text_or_name()
        if partitions and kind.lower() != "iceberg":
            raise QueryRefused(f"PARTITIONED BY of the table {shown(name)}")
        location = self._text() if self._takes("LOCATION") else ""
        properties = self._properties(name) if self._takes("TBLPROPERTIES") else {}
        if name in tables and keeps:
            return
        if name in tables:
            raise ConfigurationError(f"ddl declares the table {shown(name)} twice.")
        tables[name] = ExternalTable(
            name,
            columns,
            kind.lower(),
            location,
            properties,
            partitions,
            found.catalog,
            found.database,
        )

    def _drop(self, declared: dict[str, Any], what: str) -> None:
        may_miss = self._takes("IF", "EXISTS")
        name = self._name()
        if name not in declared and not may_miss:
            raise ConfigurationError(
                f"ddl drops the {what} {shown(name)}, which it has not declared."
            )
        declared.pop(name, None)

    def _create_catalog(self, catalogs: dict[str, Catalog]) -> None:
        keeps = self._takes("IF", "NOT", "EXISTS")
        name = self._text_or_name()
        self._need("TYPE")
        kind = self._text_or_name().lower()
        properties = self._pairs() if self._takes("PROPERTIES") else {}
        if name in catalogs and keeps:
            return
        if name in catalogs:
            raise ConfigurationError(f"ddl declares the catalog {shown(name)} twice.")
        if kind != "iceberg":
            raise ConfigurationError(
                f"The catalog {shown(name)} of ddl is of the type {shown(kind)}; known is iceberg."
            )
        catalogs[name] = Catalog(name, kind, properties)

    def _use_catalog(self, found: _Declared) -> None:
        name = self._text_or_name()
        if name not in found.catalogs and name != "default":
            raise ConfigurationError(
                f"ddl uses the catalog {shown(name)}, which it has not declared: declare it with "
                "CREATE CATALOG."
            )
        found.catalog, found.database = found.catalogs.get(name), ""

    def _pairs(self) -> dict[str, str]:
        """Return texts by text, as ``('a' = 'b', …)``."""
        found: dict[str, str] = {}
        self._need("(")
        while not self._takes(")"):
            if found:
                self._need(",")
            key = self._text()
            self._need("=")
            found[key] = self._text()
        return found

    def _texts(self) -> tuple[str, ...]:
        self._need("(")
        found = [self._text()]
        while self._takes(","):
            found.append(self._text())
        self._need(")")
        return tuple(found)

    def _path(self) -> str:
        names = [self._name()]
        while self._takes("."):
            names.append(self._name())
        return ".".join(names)

    def _text_or_name(self) -> str:
        return self._text() if self._next_is(TokenType.STRING) else self._name()

    def _properties(self, table: str) -> Mapping[str, Any]:
        try:
            found = json.loads(self._text())
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ConfigurationError(
                f"TBLPROPERTIES of the table {shown(table)} must be an object in JSON, "
                """for example '{"format": "json"}'."""
            )
        return found

    def _fields(self, begin: str, end: str) -> RowOf:
        self._need(begin)
        fields = [self._field()]
        while self._takes(","):
            fields.append(self._field())
        self._need(end)
        names = [each.name for each in fields]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ConfigurationError(f"ddl declares the column {shown(twice[0])} twice.")
        for name in names:
            if not name.isidentifier() or iskeyword(name) or name.startswith("_"):
                raise ConfigurationError(
                    f"ddl declares the column {shown(name)}, which cannot be an attribute of a row "
                    "in Python: read the records in a step of the pipeline that renames it."
                )
        return RowOf(tuple(fields))

    def _field(self) -> Field:
        name, kind = self._name(), self._kind()
        nullable = not self._takes("NOT", "NULL")
        self._takes("NULL")
        if self._takes("COMMENT"):
            self._text()
        return Field(name, kind, nullable)

    def _kind(self) -> Kind:
        if self._takes("ARRAY"):
            self._need("<")
            element = self._kind()
            self._need(">")
            return ListOf(element)
        if self._takes("MAP"):
            self._need("<")
            key = self._kind()
            self._need(",")
            item = self._kind()
            self._need(">")
            return MapOf(key, item)
        if self._takes("ROW"):
            return self._fields("<", ">")
        return self._scalar()

    def _scalar(self) -> Scalar:
        name = self._name().upper()
        name = _SYNONYMS.get(name, name)
        if name not in SCALARS:
            raise ConfigurationError(
                f"ddl has a column of the type {shown(name)}; known are "
                f"{listed([*SCALARS, 'ARRAY', 'MAP', 'ROW'])}."
            )
        self._takes("PRECISION")
        if self._takes("("):
            while not self._takes(")"):
                self._taken("')'")
        return Scalar(name)

    def _name(self) -> str:
        token = self._taken("a name")
        is_word = token.text.replace("_", "a").replace("$", "a").isalnum()
        if token.token_type is TokenType.IDENTIFIER:
            return token.text
        if token.token_type in _VALUES or not is_word:
            self._at -= 1
            raise self._wrong("a name")
        return token.text

    def _text(self) -> str:
        if not self._next_is(TokenType.STRING):
            raise self._wrong("a text in single quotes")
        return self._taken("a text").text

    def _next_is(self, kind: TokenType) -> bool:
        return self._at < len(self._tokens) and self._tokens[self._at].token_type is kind

    def _takes(self, *words: str) -> bool:
        """Go on behind some words, and return whether they are there."""
        following = self._tokens[self._at : self._at + len(words)]
        found = [each.text.upper() for each in following if each.token_type not in _QUOTED]
        if found != list(words):
            return False
        self._at += len(words)
        return True

    def _need(self, word: str) -> None:
        if not self._takes(word):
            raise self._wrong(word)

    def _taken(self, wanted: str) -> Token:
        if self._at >= len(self._tokens):
            raise self._wrong(wanted)
        self._at += 1
        return self._tokens[self._at - 1]

    def _wrong(self, wanted: str) -> ConfigurationError:
        """Return the error of a statement that ends, or has something else, at this place."""
        at = min(self._at, len(self._tokens) - 1)
        token = self._tokens[at]
        ends = "ends" if self._at > at else "has something else"
        return ConfigurationError(
            f"ddl needs {wanted} in line {token.line}, column {token.col}, and {ends} there."
        )


_QUOTED = frozenset([TokenType.STRING, TokenType.IDENTIFIER])
_VALUES = frozenset([TokenType.STRING, TokenType.NUMBER])
