"""Values of rows as texts that databases convert to the types of their columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
from apache_beam.utils.timestamp import Timestamp


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


def field_of(element: Any, name: str) -> Any:
    """Return a field of a row or a dictionary."""
    return element.get(name) if isinstance(element, dict) else getattr(element, name)


@dataclass(frozen=True)
class Fields:
    """Function from a row to a dictionary of its fields, some of them as texts.

    Attributes:
        names: of the fields.
        texts: names of those that become texts.
    """

    names: tuple[str, ...]
    texts: frozenset[str]

    def __call__(self, element: Any) -> dict[str, Any]:
        values = {name: field_of(element, name) for name in self.names}
        return values | {name: as_text(values[name]) for name in self.texts}


def from_text(kind: str) -> Callable[[str], Any]:
    """Return the function from a database's text to a value: of a time, or a decimal."""
    return _time if kind == "time" else Decimal


def _time(text: str) -> time:
    try:
        return time.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"'{text}' is not a time of day from 00:00:00 to 23:59:59.999999: cast the column in a "
            "query, for example to a text"
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
            name: from_text(kind)(text)
            for name, kind in self.texts.items()
            if (text := getattr(row, name)) is not None
        }
        changed = row._replace(**found) if found else row
        if self.make is None:
            return changed
        return self.make(*changed)
