"""External tables of SQL that are collections of MongoDB."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal, DecimalException
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.io import ReadFromMongoDB, WriteToMongoDB
from apache_beam.pvalue import PBegin, PCollection

from sparkbeam.common.arguments import shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.replacements.managed_config import ManagedConfig
from sparkbeam.replacements.sql_records import RecordRows

if TYPE_CHECKING:  # Workers need no parser of SQL.
    from sparkbeam.replacements.calcite_ddl import ExternalTable

_PLACE = re.compile(r"(mongodb(?:\+srv)?://[^/]+)/([^/]+)/([^/]+)")
_ALL_DIGITS = Context(prec=100)


def read_documents(table: "ExternalTable", config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a read of the documents of a collection."""
    config.finish()
    return _Documents(table, _place(table))


def write_documents(table: "ExternalTable", config: ManagedConfig) -> "beam.PTransform[Any, Any]":
    """Return a write of documents to a collection."""
    config.finish()
    return WriteToMongoDB(*_place(table))


def _place(table: "ExternalTable") -> tuple[str, str, str]:
    """Return the address of a server, and the names of a database and a collection."""
    found = _PLACE.fullmatch(table.location)
    if found is None:
        raise ConfigurationError(
            f"The table {shown(table.name)} of ddl needs a LOCATION such as "
            "'mongodb://host:27017/database/collection'."
        )
    uri, database, collection = found.groups()
    return uri, database, collection


class _Documents(beam.PTransform[PBegin, PCollection[Any]]):
    def __init__(self, table: "ExternalTable", place: tuple[str, str, str]) -> None:
        super().__init__()
        self._place = place
        rows = DocumentRows(RecordRows(table.name, table.columns))
        self._rows = beam.FlatMap(rows).with_output_types(table.columns.type)

    def expand(self, pbegin: PBegin) -> PCollection[Any]:
        read = ReadFromMongoDB(*self._place)
        found: PCollection[Any] = pbegin | "Records" >> read | "Rows" >> self._rows
        return found


@dataclass(frozen=True)
class DocumentRows:
    """Function of the row of a document.

    Attributes:
        rows: the function of the row of a dictionary.
    """

    rows: RecordRows

    def __call__(self, document: Mapping[str, Any]) -> list[Any]:
        return self.rows(_changed(document, _from_bson))


def document(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of some values: days are times, and decimals those of BSON."""
    found: dict[str, Any] = _changed(values, _to_bson)
    return found


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Mapping):
        return {key: _changed(each, change) for key, each in value.items()}
    if isinstance(value, list):
        return [_changed(each, change) for each in value]
    return change(value)


def _from_bson(value: Any) -> Any:
    from bson import Decimal128

    return value.to_decimal() if isinstance(value, Decimal128) else value


def _to_bson(value: Any) -> Any:
    from bson import Decimal128

    if isinstance(value, Decimal):
        try:
            return Decimal128(value.normalize(_ALL_DIGITS))
        except DecimalException:
            raise ValueError("a decimal of more than 34 digits") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value
