"""Rows of external tables as records: lines of CSV, objects in JSON, and dictionaries.

Its functions run in workers, which need no parser of SQL.
"""

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.common.arguments import shown
from sparkbeam.replacements.sql_records import Csv, Kind, ListOf, MapOf, RowOf, Scalar

_TINYINT = Scalar("TINYINT")
"""Type of columns whose rows have a wider one."""


@dataclass(frozen=True)
class RowWriter:
    """Function of the record of a row.

    Attributes:
        table: the name of the table.
        columns: its columns.
        of_values: the function of the record of the values by the name of their column; it raises a
            ``ValueError`` for values that have no record.
        maps: the function of a map in values, of pairs.
    """

    table: str
    columns: RowOf
    of_values: Callable[[Mapping[str, Any]], Any]
    maps: Callable[[Iterable[tuple[Any, Any]]], Any] = dict

    def __call__(self, row: Any) -> Any:
        try:
            return self.of_values(self._values(self.columns, row))
        except ValueError as error:
            raise ValueError(
                f"A row cannot be written to the table {shown(self.table)}: {error}."
            ) from None

    def _values(self, columns: RowOf, row: Any) -> dict[str, Any]:
        found = {}
        for field in columns.fields:
            value = getattr(row, field.name)
            if value is None and not field.nullable:
                raise ValueError(f"column {shown(field.name)}: null, which is NOT NULL")
            found[field.name] = self._plain(field.kind, value)
        return found

    def _plain(self, kind: Kind, value: Any) -> Any:
        """Return a value as Avro and Arrow take it."""
        if value is None:
            return None
        if isinstance(kind, ListOf):
            return [self._plain(kind.element, each) for each in value]
        if isinstance(kind, MapOf):
            return self.maps(
                (self._plain(kind.key, key), self._plain(kind.item, item))
                for key, item in value.items()
            )
        if isinstance(kind, RowOf):
            return self._values(kind, value)
        if kind == _TINYINT:
            return kind.value(int(value))
        if isinstance(value, Timestamp):
            return value.to_utc_datetime(has_tz=True)
        return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class RowCheck:
    """Function of a row that a table can have, which is the row itself.

    Attributes:
        writer: raises an error for another one.
    """

    writer: RowWriter

    def __call__(self, row: Any) -> Any:
        self.writer(row)
        return row


@dataclass(frozen=True)
class CsvLine:
    """Function of the line of some values.

    Attributes:
        form: of the line.
    """

    form: Csv

    def __call__(self, values: Mapping[str, Any]) -> str:
        texts = {name: _text(name, value) for name, value in values.items()}
        if self.form.escape is not None:
            escaped = (_escaped(text, self.form.escape) for text in texts.values())
            return self.form.delimiter.join(escaped)
        for name, text in texts.items():
            if text and ("\n" in text or "\r" in text):
                raise ValueError(f"column {shown(name)}: a text of several lines")
        line = io.StringIO()
        writer = csv.writer(
            line, delimiter=self.form.delimiter, quotechar=self.form.quote, lineterminator=""
        )
        writer.writerow(["" if text is None else text for text in texts.values()])
        return line.getvalue()


def _escaped(text: str | None, escape: str) -> str:
    if text is None:
        return f"{escape}N"
    marks = {escape: escape, "\t": "t", "\n": "n", "\r": "r"}
    return "".join(f"{escape}{marks[each]}" if each in marks else each for each in text)


def _text(name: str, value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise ValueError(f"column {shown(name)}: bytes that are no text") from None
        case float() if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        case float():
            return "NaN" if math.isnan(value) else repr(value)
    return _exact(value)


def _exact(value: Any) -> str:
    """Return the text of a number, a day or a time in UTC."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ")
    return value.isoformat() if isinstance(value, date) else str(value)


def json_object(values: Mapping[str, Any]) -> str:
    """Return the object in JSON of some values, with all digits of decimals."""
    fields = (f"{json.dumps(name)}: {_json(name, value)}" for name, value in values.items())
    return f"{{{', '.join(fields)}}}"


def _json(name: str, value: Any) -> str:
    match value:
        case dict():
            parts = (f"{json.dumps(str(key))}: {_json(name, each)}" for key, each in value.items())
            return f"{{{', '.join(parts)}}}"
        case list():
            return f"[{', '.join(_json(name, each) for each in value)}]"
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case float() if not math.isfinite(value):
            raise ValueError(f"column {shown(name)}: {value}, which JSON does not have")
        case float():
            return repr(value)
        case bytes():
            raise ValueError(f"column {shown(name)}: bytes, which JSON does not have")
    found = _exact(value)
    return json.dumps(found) if isinstance(value, date) else found


def line_of(values: Mapping[str, Any]) -> str:
    """Return the only value, which is a line.

    Raises:
        ValueError: it has several lines, or is None.
    """
    ((name, text),) = values.items()
    if text is None or "\n" in text:
        raise ValueError(f"column {shown(name)}: null, or a text of several lines")
    return str(text)
