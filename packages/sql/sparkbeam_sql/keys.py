"""Keys of groups and joins, which are equal exactly if their encodings are."""

import dataclasses
import math
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.utils.timestamp import Timestamp

from sparkbeam_sql.functions import without_zeros


def normal(value: Any) -> Any:
    """Return a value in the form that equal ones share, with the same type.

    NaN is one value, 0.0 equals -0.0, and maps do not depend on the order of their entries.
    """
    match value:
        case float() | np.floating():
            return value + 0.0 if value == value else math.nan
        case Decimal():
            return without_zeros(value)
        case tuple() if hasattr(value, "_fields"):
            return type(value)(*map(normal, value))
        case list() | tuple():
            return [normal(each) for each in value]
        case Mapping():
            return {key: normal(value[key]) for key in sorted(value, key=hashable)}
        case beam.Row():
            return beam.Row(**{name: normal(each) for name, each in value.as_dict().items()})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{name: normal(each) for name, each in _parts(value)})
    return value


def hashable(value: Any) -> Any:
    """Return a value as one that is hashable and has a deterministic encoding.

    Two values are equal exactly if those that this returns for them are. NaN equals itself.
    """
    match value:
        case float() | np.floating():
            return float(value) + 0.0 if value == value else "NaN"
        case Decimal():
            return str(without_zeros(value))
        case np.generic():
            return value.item()
        case Timestamp():
            return value.micros
        case date():
            return value.toordinal()
        case Mapping():
            pairs = ((hashable(key), hashable(each)) for key, each in value.items())
            return tuple(sorted(pairs, key=lambda pair: pair[0]))
        case list() | tuple() | beam.Row():
            return tuple(map(hashable, value))
    if dataclasses.is_dataclass(value):
        return tuple(hashable(each) for _, each in _parts(value))
    return value


def ordered(value: Any) -> Any:
    """Return a value by which nested values are ordered.

    NaN is greater than all other numbers, and null is less than all values.
    """
    if value is None:
        return (0,)
    if isinstance(value, list | tuple | beam.Row):
        return 1, tuple(map(ordered, value))
    if dataclasses.is_dataclass(value):
        return 1, tuple(ordered(each) for _, each in _parts(value))
    return (1, value) if value == value else (2,)


def _parts(value: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
