"""Values of a block as an Arrow array: Python objects are made on demand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from sparkbeam.columns.python_types import (
    PLAIN,
    RecordShape,
    Scalar,
    Shape,
    Union,
    arrow_type_of,
    is_plain_namedtuple,
)
from sparkbeam.columns.python_values import first_member, values_of
from sparkbeam.columns.vectors import Positions, are_neighbours


@dataclass(frozen=True)
class Column:
    """Array with its Python type.

    Attributes:
        shape: the type of each.
        make: makes a list of Python's values of such an array.
    """

    array: pa.Array
    shape: Shape
    make: Callable[[pa.Array], list[Any]] = field(repr=False)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, part: slice) -> "Column":
        return Column(self.array[part], self.shape, self.make)

    def values(self) -> list[Any]:
        """Return Python's values."""
        return self.make(self.array)

    def first(self) -> Any:
        """Return the first value."""
        if isinstance(self.shape, Union):
            return first_member(self.array, self.shape)
        return self.make(self.array.slice(0, 1))[0]

    def take(self, rows: Positions) -> "Column":
        """Return the values at some positions."""
        if are_neighbours(rows):
            some = self.array.slice(rows[0], len(rows))
        else:
            some = self.array.take(pa.array(rows))
        return Column(some, self.shape, self.make)


def column_of(array: pa.Array, shape: Shape) -> Column:
    """Return a column of whose shape alone values can be made; see :func:`tells_all`."""
    return Column(array, shape, partial(values_of, shape=shape))


def column_of_values(values: list[Any]) -> Column | None:
    """Return a column of plain values: of one type, or tuples and NamedTuples of plain values.

    Some of the values, and some of the parts of tuples, may be None. None if they make no column.
    """
    made = _arranged(values)
    return None if made is None else column_of(*made)


def column_of_keys(keys: list[Any]) -> Column | None:
    """Return a column as :func:`column_of_values`; all keys may be empty tuples."""
    if set(map(type, keys)) == {tuple} and not any(keys):
        return column_of(pa.array([{}] * len(keys), pa.struct([])), RecordShape(tuple, (), ()))
    return column_of_values(keys)


def _arranged(values: list[Any]) -> tuple[pa.Array, Shape] | None:
    kinds = set(map(type, values))
    if len(kinds) > 1:
        kinds.discard(type(None))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind is tuple or is_plain_namedtuple(kind):
        there = [value for value in values if value is not None]
        made = _tuples(kind, there)
        if made is None or len(there) == len(values):
            return made
        is_there = np.array([value is not None for value in values])
        among = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
        return made[0].take(among), made[1]
    shape = Scalar(kind)
    if shape not in PLAIN:
        return None
    try:
        return pa.array(values, arrow_type_of(shape)), shape
    except (pa.ArrowInvalid, OverflowError, UnicodeEncodeError):
        # An int beyond 64 bits, or half of a pair of surrogates.
        return None


def _tuples(kind: Any, values: list[tuple[Any, ...]]) -> tuple[pa.Array, Shape] | None:
    lengths = set(map(len, values))
    if len(lengths) != 1 or lengths == {0}:
        return None
    parts = [_arranged(list(part)) for part in zip(*values, strict=True)]
    arrays = [part[0] for part in parts if part is not None]
    if len(arrays) < len(parts):
        return None
    names = tuple(map(str, range(len(parts)))) if kind is tuple else kind._fields
    shapes = tuple(part[1] for part in parts if part is not None)
    return pa.StructArray.from_arrays(arrays, names), RecordShape(kind, names, shapes)
