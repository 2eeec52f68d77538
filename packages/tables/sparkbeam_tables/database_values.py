"""Values of rows as texts that databases convert to the types of their columns."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
from apache_beam.utils.timestamp import Timestamp
from pyspark.sql import types as st

_FINITE = frozenset(["mysql", "mariadb"])
"""Databases without NaN and infinity."""


def as_text(value: Any) -> str | None:
    """Return a value as a text; lists in the form of PostgreSQL's arrays.

    Raises:
        ValueError: databases have no such value.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Enum):
        return as_text(value.value)
    if isinstance(value, np.generic):
        return as_text(value.item())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, Timestamp):
        return as_text(value.to_utc_datetime(has_tz=True))
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, int | float | UUID):
        return str(value)
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, list | tuple | np.ndarray):
        return f"{{{','.join(map(_item, value))}}}"
    raise ValueError(f"a value of type {type(value).__name__} cannot be written to a database")


def _item(value: Any) -> str:
    text = as_text(value)
    if text is None:
        return "NULL"
    if isinstance(value, list | tuple | np.ndarray):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def as_parameter(value: Any) -> Any:
    """Return a value as a parameter of a client of Python's."""
    if isinstance(value, Timestamp):
        return value.to_utc_datetime(has_tz=True)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Enum):
        return as_parameter(value.value)
    if isinstance(value, list | tuple | np.ndarray):
        return [as_parameter(item) for item in value]
    return value


def unstorable(value: Any, scheme: str) -> str | None:
    """Return why a database cannot store a parameter; None if it may.

    Args:
        value: of :func:`as_parameter`.
    """
    if isinstance(value, list):
        return next(filter(None, (unstorable(item, scheme) for item in value)), None)
    if isinstance(value, str) and "\0" in value and scheme == "postgresql":
        return "has a string with the character NUL, which PostgreSQL cannot store"
    if isinstance(value, str) and not _is_encodable(value):
        return "has a string with half of a surrogate pair, which is not UTF-8"
    infinite = isinstance(value, float | Decimal) and not _is_finite(value)
    if infinite and scheme in _FINITE:
        return f"has the value {value}, which {scheme} cannot store"
    if isinstance(value, float) and math.isnan(value) and scheme == "sqlite":
        return "has the value nan, which SQLite stores as null"
    if isinstance(value, int) and scheme == "sqlite" and not -(1 << 63) <= value < 1 << 63:
        return "has a number of more than 64 bits, which SQLite cannot store"
    return None


def _is_finite(value: float | Decimal) -> bool:
    return value.is_finite() if isinstance(value, Decimal) else math.isfinite(value)


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def field_of(element: Any, name: str) -> Any:
    """Return a field of a row or a dictionary."""
    return element.get(name) if isinstance(element, dict) else getattr(element, name)


@dataclass(frozen=True)
class Fields:
    """Function from a row to a dictionary of its fields, some of them as texts."""

    names: tuple[str, ...]
    texts: frozenset[str]

    def __call__(self, element: Any) -> dict[str, Any]:
        values = {name: field_of(element, name) for name in self.names}
        return values | {name: as_text(values[name]) for name in self.texts}


@dataclass(frozen=True)
class ChosenFields:
    """Function from a row to a dictionary of fields, with decimals as texts.

    Attributes:
        exact: the types of those with decimals, by name.
        only: the field with the row of the fields; empty for the row itself.
        places: names of further fields, with their paths from the row itself.
    """

    names: tuple[str, ...]
    exact: Mapping[str, st.DataType]
    only: str = ""
    places: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def __call__(self, element: Any) -> dict[str, Any]:
        row = field_of(element, self.only) if self.only else element
        if row is None:
            raise ValueError(f"the field {self.only!r} with the row to write is None")
        found = {name: field_of(row, name) for name in self.names}
        found |= {name: _with_texts(found[name], kind) for name, kind in self.exact.items()}
        return found | {name: _at(element, path) for name, path in self.places}


def _at(element: Any, path: Sequence[str]) -> Any:
    """Return the field of a path, or None where one before it is None; a decimal as a text."""
    for name in path:
        element = None if element is None else field_of(element, name)
    return as_text(element) if isinstance(element, Decimal) else element


def _with_texts(value: Any, kind: st.DataType) -> Any:
    """Return a value with texts in the place of decimals."""
    if value is None:
        return None
    if isinstance(kind, st.DecimalType):
        number = value.item() if isinstance(value, np.generic) else value
        return as_text(Decimal(str(number)))
    if isinstance(kind, st.ArrayType):
        return [_with_texts(item, kind.elementType) for item in value]
    if isinstance(kind, st.MapType):
        return {
            _with_texts(key, kind.keyType): _with_texts(item, kind.valueType)
            for key, item in value.items()
        }
    if isinstance(kind, st.StructType):
        return {part.name: _with_texts(field_of(value, part.name), part.dataType) for part in kind}
    return value


def _from_text(name: str, kind: str, text: str) -> time | Decimal:
    """Return the value of a database's text.

    Args:
        kind: ``time`` or ``decimal``.

    Raises:
        ValueError: Python has no such time.
    """
    if kind != "time":
        return Decimal(text)
    try:
        return time.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"the column '{name}' has the value '{text}', which is not a time of day from 00:00:00 "
            "to 23:59:59.999999: read a query that casts the column to text"
        ) from None


@dataclass(frozen=True)
class Typed:
    """Function from a row of texts to one of values.

    Attributes:
        texts: the types of the fields that are texts, by name.
        make: makes the row of its fields; None for a row of the same class.
    """

    texts: Mapping[str, str]
    make: Callable[..., Any] | None = None

    def __call__(self, row: Any) -> Any:
        found = {
            name: _from_text(name, kind, text)
            for name, kind in self.texts.items()
            if (text := getattr(row, name)) is not None
        }
        changed = row._replace(**found) if found else row
        if self.make is None:
            return changed
        return self.make(*changed)
