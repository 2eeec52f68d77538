"""Records of external tables as rows: types of columns, and lines of text, JSON and dictionaries.

Its functions run in workers, which need no parser of SQL.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Optional, Protocol

import apache_beam as beam
import numpy as np
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.common.arguments import shown


class Kind(Protocol):
    """A type of columns."""

    @property
    def type(self) -> Any:
        """The type of the values that are not None."""

    def value(self, given: Any) -> Any:
        """Return a value of JSON, Avro or Parquet as one of a row.

        Raises:
            ValueError: it has another type, or is out of range.
        """


@dataclass(frozen=True)
class Scalar:
    """A simple type.

    Attributes:
        name: in SQL, one of :data:`SCALARS`.
    """

    name: str

    @property
    def type(self) -> Any:
        """The type of the values."""
        return SCALARS[self.name].type

    def value(self, given: Any) -> Any:
        """Return a value of JSON, Avro or Parquet as one of a row; see :class:`Kind`."""
        return self._checked(SCALARS[self.name].of_value, given)

    def of_text(self, text: str) -> Any:
        """Return a field of a line; an empty one is None unless it is a text.

        Raises:
            ValueError: it is no value of this type.
        """
        if self.type is str:
            return text
        return self._checked(SCALARS[self.name].of_text, text.strip()) if text.strip() else None

    def _checked(self, read: Callable[[Any], Any], given: Any) -> Any:
        try:
            return read(given)
        except (ArithmeticError, TypeError, ValueError):
            raise ValueError(f"{shown(given)} is no {self.name}") from None


@dataclass(frozen=True)
class ListOf:
    """An array, whose elements may be None."""

    element: Kind

    @property
    def type(self) -> Any:
        """The type of the values."""
        return Sequence[Optional[self.element.type]]  # type: ignore[name-defined]  # noqa: UP045

    def value(self, given: Any) -> Any:
        """Return a value of JSON, Avro or Parquet as one of a row; see :class:`Kind`."""
        if not isinstance(given, list):
            raise ValueError(f"{shown(given)} is no ARRAY")
        return [None if each is None else self.element.value(each) for each in given]


@dataclass(frozen=True)
class MapOf:
    """A map, whose values may be None."""

    key: Kind
    item: Kind

    @property
    def type(self) -> Any:
        """The type of the values."""
        return Mapping[self.key.type, Optional[self.item.type]]  # type: ignore[name-defined]  # noqa: UP045

    def value(self, given: Any) -> Any:
        """Return a value of JSON, Avro or Parquet as one of a row; see :class:`Kind`."""
        pairs = given.items() if isinstance(given, Mapping) else _pairs(given)
        return {
            self.key.value(key): None if item is None else self.item.value(item)
            for key, item in pairs
        }


def _pairs(given: Any) -> list[tuple[Any, Any]]:
    """Return the pairs of a map as Arrow has it."""
    if not isinstance(given, list) or not all(isinstance(each, tuple) for each in given):
        raise ValueError(f"{shown(given)} is no MAP")
    return given


@dataclass(frozen=True)
class Field:
    """A column.

    Attributes:
        name: its name.
        kind: its type.
        nullable: it may be None.
    """

    name: str
    kind: Kind
    nullable: bool = True

    @property
    def type(self) -> Any:
        """The type of the values."""
        return Optional[self.kind.type] if self.nullable else self.kind.type  # noqa: UP045


@dataclass(frozen=True)
class RowOf:
    """A row, and the columns of a table."""

    fields: tuple[Field, ...]

    @property
    def type(self) -> RowTypeConstraint:
        """The type of the values."""
        return RowTypeConstraint.from_fields([(field.name, field.type) for field in self.fields])

    def value(self, given: Any) -> Any:
        """Return the row of a dictionary; a field that it does not have is None.

        Raises:
            ValueError: a value does not fit its column, which is named.
        """
        if not isinstance(given, Mapping):
            raise ValueError(f"{shown(given)} is no ROW")
        return self._row([given.get(field.name) for field in self.fields], _value)

    def of_texts(self, texts: list[str | None]) -> Any:
        """Return the row of the fields of a line.

        Raises:
            ValueError: their number is another one, or a value does not fit its column.
        """
        if len(texts) != len(self.fields):
            raise ValueError(f"{len(texts)} fields instead of {len(self.fields)}")
        return self._row(texts, _of_text)

    def _row(self, values: list[Any], read: Callable[[Kind, Any], Any]) -> Any:
        found = {}
        for field, value in zip(self.fields, values, strict=True):
            try:
                found[field.name] = None if value is None else read(field.kind, value)
            except ValueError as error:
                raise ValueError(f"column {shown(field.name)}: {error}") from None
            if found[field.name] is None and not field.nullable:
                raise ValueError(f"column {shown(field.name)}: null, which is NOT NULL")
        return beam.Row(**found)


def _value(kind: Kind, value: Any) -> Any:
    return kind.value(value)


def _of_text(kind: Kind, text: str) -> Any:
    assert isinstance(kind, Scalar)
    return kind.of_text(text)


@dataclass(frozen=True)
class Csv:
    """Form of lines with fields.

    Attributes:
        delimiter: between fields.
        quote: around fields; None for none.
        escape: before a character that stands for another one, or before ``N`` for null; None for
            none. Lines with it have no quotes.
        skips_empty: empty lines are no rows.
        strips: spaces around fields are no part of them.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    skips_empty: bool = True
    strips: bool = False

    def fields(self, line: str) -> list[str | None] | None:
        """Return the fields of a line; None for a line that is to be skipped.

        Raises:
            ValueError: its quotes do not match.
        """
        if not line:
            return None if self.skips_empty else [""]
        if self.escape is not None:
            return _escaped(line, self.delimiter, self.escape)
        try:
            (found,) = csv.reader(
                [line],
                delimiter=self.delimiter,
                quotechar=self.quote,
                skipinitialspace=self.strips,
                strict=True,
            )
        except (csv.Error, ValueError) as error:
            raise ValueError(f"{error} in {shown(line)}") from None
        return [each.strip() if self.strips else each for each in found]


def _escaped(line: str, delimiter: str, escape: str) -> list[str | None]:
    mark = re.escape(escape)
    field = rf"(?:^|{re.escape(delimiter)})((?:{mark}.?|[^{mark}{re.escape(delimiter)}])*)"
    escapes = re.compile(rf"{mark}(.)", re.DOTALL)
    return [
        None if text == f"{escape}N" else escapes.sub(lambda m: _ESCAPED.get(m[1], m[1]), text)
        for text in re.findall(field, line, re.DOTALL)
    ]


_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}

FORMS: Mapping[str, Csv] = {
    "default": Csv(),
    "excel": Csv(skips_empty=False),
    "rfc4180": Csv(skips_empty=False),
    "tdf": Csv("\t", strips=True),
    "mysql": Csv("\t", None, "\\", skips_empty=False),
}
"""Forms of lines by their names in Beam SQL, in lower case."""


@dataclass(frozen=True)
class CsvRows:
    """Function of the row of a line.

    Attributes:
        table: the name of the table.
        columns: its columns.
        form: of the lines.
    """

    table: str
    columns: RowOf
    form: Csv

    def __call__(self, line: str | bytes | None) -> list[Any]:
        with _told(self.table):
            fields = None if line is None else self.form.fields(_text(line))
            return [] if fields is None else [self.columns.of_texts(fields)]


@dataclass(frozen=True)
class JsonRows:
    """Function of the row of an object in JSON."""

    table: str
    columns: RowOf

    def __call__(self, text: str | bytes | None) -> list[Any]:
        with _told(self.table):
            return [] if text is None else [self.columns.value(_parsed(_text(text)))]


@dataclass(frozen=True)
class LineRows:
    """Function of the row of a line, which is its only column."""

    table: str
    columns: RowOf

    def __call__(self, line: str) -> list[Any]:
        return [self.columns.of_texts([line])]


@dataclass(frozen=True)
class RecordRows:
    """Function of the row of a dictionary."""

    table: str
    columns: RowOf

    def __call__(self, record: Mapping[str, Any]) -> list[Any]:
        with _told(self.table):
            return [self.columns.value(record)]


@contextmanager
def _told(table: str) -> Iterator[None]:
    """Name the table in errors."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"A record is no row of the table {shown(table)}: {error}.") from None


def _text(given: str | bytes) -> str:
    return given if isinstance(given, str) else given.decode()


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise ValueError(f"{shown(text)} is no JSON") from None


# Simple types.


@dataclass(frozen=True)
class _Reading:
    """Type of values, and the functions that read them."""

    type: Any
    of_text: Callable[[str], Any]
    of_value: Callable[[Any], Any]


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(NaN|Infinity)", re.ASCII)


def _integer(kind: Any, bits: int) -> _Reading:
    def of_value(given: Any) -> int:
        if not isinstance(given, int) or isinstance(given, bool):
            raise TypeError
        if not -(1 << bits - 1) <= given < 1 << bits - 1:
            raise ValueError
        return given

    def of_text(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise ValueError
        return of_value(int(text))

    return _Reading(kind, of_text, of_value)


def _number(kind: Any, convert: Callable[[Any], Any]) -> _Reading:
    def of_value(given: Any) -> Any:
        if not isinstance(given, int | float | Decimal) or isinstance(given, bool):
            raise TypeError
        return convert(given)

    def of_text(text: str) -> Any:
        if not _NUMBER.fullmatch(text):
            raise ValueError
        return convert(text)

    return _Reading(kind, of_text, of_value)


def _is(kind: type) -> Callable[[Any], Any]:
    def of_value(given: Any) -> Any:
        if not isinstance(given, kind):
            raise TypeError
        return given

    return of_value


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def _day(given: Any) -> date:
    if isinstance(given, datetime) and given.time() == time.min:
        return given.date()
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    return date.fromisoformat(given)


def _moment(given: Any) -> Timestamp:
    if isinstance(given, Timestamp):
        return given
    found = given if isinstance(given, datetime) else datetime.fromisoformat(given)
    return Timestamp.from_utc_datetime(
        found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    )


_STRING = _Reading(str, str, _is(str))
_BYTES = _Reading(bytes, str.encode, _is(bytes))

SCALARS: Mapping[str, _Reading] = {
    "TINYINT": _integer(np.int16, 8),  # Beam's coder of int8 has no negative numbers.
    "SMALLINT": _integer(np.int16, 16),
    "INTEGER": _integer(np.int32, 32),
    "BIGINT": _integer(int, 64),
    "FLOAT": _number(np.float32, float),
    "DOUBLE": _number(float, float),
    "DECIMAL": _number(Decimal, Decimal),
    "BOOLEAN": _Reading(bool, _truth, _is(bool)),
    "DATE": _Reading(date, date.fromisoformat, _day),
    "TIMESTAMP": _Reading(Timestamp, _moment, _moment),
    "CHAR": _STRING,
    "VARCHAR": _STRING,
    "BINARY": _BYTES,
    "VARBINARY": _BYTES,
}
"""Simple types by their names in SQL."""
