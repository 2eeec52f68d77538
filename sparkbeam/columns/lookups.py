"""Lookups in dicts and lists that a function receives beside the elements, such as side inputs.

Each value is a vector backed by a dictionary array: an element holds the index of its table among a
few map arrays. All kernels raise FallBack if Python would raise.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.python_types import Shape
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import Value, Vector, loaded


def table_array(
    keys: pa.Array, items: pa.Array | None, counts: Sequence[int]
) -> pa.DictionaryArray:
    """Return the array of several tables, each stored once.

    Args:
        keys: the keys of all tables, concatenated.
        items: the value of each key; None if only keys are looked up.
        counts: the number of keys in each table.
    """
    offsets = np.concatenate([[0], np.cumsum(counts)])
    maps = pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), keys, pa.nulls(len(keys)) if items is None else items
    )
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(len(counts)), pa.int32()), maps)


def place(table: Value, key: Value) -> Vector:
    """Return the position of a key's item among those of all tables; -1 if missing."""
    assert isinstance(table, Vector)
    maps, which = table.data.dictionary, table.data.indices.to_numpy()
    wanted = _wanted(key, maps.keys.type, len(table))
    bounds = maps.offsets.to_numpy()
    places = np.full(len(wanted), -1, np.int64)
    numbers = np.unique(which)
    for number in numbers:
        rows = slice(None) if len(numbers) == 1 else np.flatnonzero(which == number)
        first, behind = bounds[number], bounds[number + 1]
        keys = maps.keys.slice(first, behind - first)
        some = wanted if isinstance(rows, slice) else wanted.take(pa.array(rows))
        found = np.asarray(pc.index_in(some, value_set=keys).fill_null(-1))
        places[rows] = np.where(found < 0, -1, found + first)
    return Vector(places)


def is_there(places: Value) -> Vector:
    """Compute ``key in table`` from the positions of keys."""
    assert isinstance(places, Vector)
    return Vector(places.data >= 0)


def required(places: Value) -> Vector:
    """Return the positions, or refuse the block if a key is missing."""
    assert isinstance(places, Vector)
    if np.any(places.data < 0):
        raise FallBack("a key is not in a dict")
    return places


@lru_cache(maxsize=1024)
def item(path: tuple[int, ...], shape: Shape) -> Callable[[Value, Value], Vector]:
    """Return the kernel that takes items, or a field of them, at positions."""

    def kernel(table: Value, places: Value) -> Vector:
        assert isinstance(table, Vector)
        assert isinstance(places, Vector)
        items = table.data.dictionary.items
        for position in path:
            items = items.field(position)
        return loaded(items.take(pa.array(places.data)), shape)

    return kernel


def _wanted(key: Value, kind: pa.DataType, count: int) -> pa.Array:
    if not isinstance(key, Vector):
        return pa.repeat(pa.scalar(key, kind), count)
    if key.nulls is not None:
        raise FallBack("it looks up None")
    return pa.array(key.data) if isinstance(key.data, np.ndarray) else key.data.cast(kind)
