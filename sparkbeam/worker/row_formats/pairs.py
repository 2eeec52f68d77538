"""Pairs of key and value in columns: the distinct keys, and the key of each pair."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sparkbeam.accumulators.vectorized_accumulator import Kind, Numbers
from sparkbeam.columns.python_types import INT, NONE, RecordShape, Shape
from sparkbeam.columns.vectors import Positions
from sparkbeam.plan.combine_columns import is_key, pair_of
from sparkbeam.worker.value_columns import Column, column_of

_MOST_PLACES = 1 << 62
_NEAR = 4
"""Maximum ratio of range to count for numbers to be near each other."""


Half = tuple[pa.Array, Shape]
"""Keys or values, and their shape."""


def halves_of(column: Column) -> tuple[Half, Half] | None:
    """Return the keys and values of a column of pairs without None; None for other columns."""
    shape, array = column.shape, column.array
    pair = pair_of(shape)
    if pair is None or array.null_count:
        return None
    of_keys, of_values = pair
    return (array.field(0), of_keys), (array.field(1), of_values)


class PlainPairs(NamedTuple):
    """Pairs in columns, whose keys :func:`distinct` may find together with other keys.

    Attributes:
        keys: in the batch of rows that they are of.
    """

    keys: pa.Array
    shape: Shape
    numbers: Numbers

    @property
    def kind(self) -> tuple[Shape, pa.DataType, Kind]:
        """Kind of the pairs; pairs of one kind go together."""
        return self.shape, self.keys.type, self.numbers.dtype

    def copied_keys(self) -> pa.Array:
        """Return the keys alone: a part would keep the whole batch of rows in memory."""
        return pa.concat_arrays([self.keys, self.keys.slice(0, 0)])


def are_told_apart(keys: pa.Array, shape: Shape) -> bool:
    """Return whether :func:`distinct` supports these keys, joined to others."""
    if not is_key(shape) or pa.types.is_dictionary(keys.type):
        return False
    if not isinstance(shape, RecordShape):
        return True
    if keys.null_count:
        return False
    return all(are_told_apart(keys.field(at), part) for at, part in enumerate(shape.fields))


def are_numbers(keys: pa.Array, shape: Shape) -> bool:
    """Return whether keys are whole numbers in 64 bits."""
    is_number = shape == INT and pa.types.is_integer(keys.type) and keys.type != pa.uint64()
    return is_number and not keys.null_count


def distinct(keys: pa.Array, shape: Shape) -> tuple[Column, Positions] | None:
    """Return the distinct keys, and the position of each one's among them.

    None unless they are plain. Floats are distinguished by their bits, like their encodings.

    Args:
        keys: the keys, at least one.
    """
    if not is_key(shape):
        return None
    if shape == NONE or (isinstance(shape, RecordShape) and not shape.fields):
        if shape != NONE and keys.null_count:
            return None
        return column_of(keys.slice(0, 1), shape), np.zeros(len(keys), np.int64)
    near = _near(keys) if shape == INT else None
    if near is not None:
        return column_of(near[0], shape), near[1]
    if not isinstance(shape, RecordShape):
        found, places = _found(keys)
        return column_of(found, shape), places
    if keys.null_count:
        return None
    parts = [distinct(keys.field(at), part) for at, part in enumerate(shape.fields)]
    places, count = np.zeros(len(keys), np.int64), 1
    for part in parts:
        if part is None:
            return None
        count *= max(1, len(part[0]))
        if count > _MOST_PLACES:
            return None
        places = places * len(part[0]) + part[1]
    _, firsts, places = np.unique(places, return_index=True, return_inverse=True)
    return column_of(keys.take(pa.array(firsts)), shape), places


def _found(keys: pa.Array) -> tuple[pa.Array, Positions]:
    """Return the distinct plain keys and the positions of all; None is one of the keys."""
    if pa.types.is_dictionary(keys.type):
        if keys.null_count:
            return _found(keys.dictionary_decode())
        return _found_in_dictionary(keys.dictionary, keys.indices.to_numpy())
    is_float = pa.types.is_floating(keys.type)
    bits = keys.view(f"int{keys.type.bit_width}") if is_float else keys
    bits = bits.dictionary_encode(null_encoding="encode")
    places = bits.indices.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    found = bits.dictionary
    return found.view(keys.type) if is_float else found, places


def _found_in_dictionary(values: pa.Array, numbers: Positions) -> tuple[pa.Array, Positions]:
    """Return the same for a dictionary, which may have unused and duplicate values."""
    is_used = np.zeros(len(values), np.bool_)
    is_used[numbers] = True
    found, among = _found(values.filter(pa.array(is_used)))
    places = np.zeros(len(values), np.int64)
    places[is_used] = among
    return found, places[numbers]


def _near(keys: pa.Array) -> tuple[pa.Array, Positions] | None:
    """Return :func:`distinct` for whole numbers near each other; None for others.

    To note which of a range there are is faster than to look each up.
    """
    if not are_numbers(keys, INT):
        return None
    numbers = keys.cast(pa.int64()).to_numpy()
    least, most = int(numbers.min()), int(numbers.max())
    if most - least > _NEAR * len(numbers):
        return None
    offsets = numbers - least
    is_there = np.zeros(most - least + 1, np.bool_)
    is_there[offsets] = True
    found = np.flatnonzero(is_there)
    places = np.empty(len(is_there), np.int64)
    places[found] = np.arange(len(found))
    return pa.array(found + least).cast(keys.type), places[offsets]
