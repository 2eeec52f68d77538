"""Kernels over lists.

Each value is a vector backed by a list array. All kernels raise FallBack if Python would raise, or
if a result exceeds 64 bits.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.order import begins_of, ranges_of
from sparkbeam.columns.python_types import FLOAT, INT, RecordShape, shape_of
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import (
    Positions,
    Value,
    Vector,
    bare,
    loaded,
    nulls_or_none,
    numpy_of,
)

_HALF = 32


def flattened(value: Value) -> tuple[pa.Array, Positions]:
    """Return the flattened items of all lists, and the length of each list."""
    array = bare(value)
    bounds = array.offsets.to_numpy().astype(np.int64)
    return array.values.slice(bounds[0], bounds[-1] - bounds[0]), np.diff(bounds)


def lengths(value: Value) -> Vector:
    """Compute ``len(value)``."""
    return Vector(flattened(value)[1])


def are_filled(value: Value) -> Vector:
    """Compute ``bool(value)``, where None is false."""
    assert isinstance(value, Vector)
    filled = pc.greater(pc.list_value_length(value.data), 0)
    return Vector(numpy_of(pc.fill_null(filled, False)))


def lists_of(items: pa.Array, counts: Positions) -> Vector:
    """Return lists of these lengths, given the items of all of them."""
    bounds = np.concatenate([[0], np.cumsum(counts)])
    return Vector(pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), items))


@lru_cache(maxsize=1024)
def sliced(start: int | None, stop: int | None) -> Callable[[Value], Vector]:
    """Return the kernel of ``value[start:stop]``."""

    def kernel(value: Value) -> Vector:
        items, counts = flattened(value)
        first = _bound(0 if start is None else start, counts)
        last = counts if stop is None else _bound(stop, counts)
        kept = np.maximum(last - first, 0)
        rows, _ = ranges_of(begins_of(counts) + first, kept)
        return lists_of(items.take(pa.array(rows)), kept)

    return kernel


def _bound(position: int, counts: Positions) -> Positions:
    """Resolve a slice bound for lists of the given lengths."""
    if position < 0:
        return np.maximum(counts + position, 0)
    return np.minimum(counts, position)


@lru_cache(maxsize=1024)
def place(position: int, of: int | None = None) -> Callable[[Value], Vector]:
    """Return the kernel of the place of ``value[position]`` in each list.

    Args:
        of: the required length of the lists; any if None.
    """

    def kernel(value: Value) -> Vector:
        _, counts = flattened(value)
        if of is not None and np.any(counts != of):
            raise FallBack("it unpacks a list of a different length")
        at = counts + position if position < 0 else np.full(len(counts), position)
        if np.any((at < 0) | (at >= counts)):
            raise FallBack("it takes an item beyond the end of a list")
        return Vector(at)

    return kernel


def items_at(value: Value, places: Value) -> pa.Array:
    """Return the item of each list at its place; None where the place is None."""
    assert isinstance(places, Vector)
    items, counts = flattened(value)
    starts = begins_of(counts)
    return items.take(pa.array(starts + places.data, mask=places.nulls))


def items(value: Value, places: Value) -> Vector:
    """Return the plain item of each list at its place; None where the place is None."""
    found = items_at(value, places)
    return loaded(found, shape_of(found.type))


def required(places: Value) -> Vector:
    """Refuse the block if a list has no item to take."""
    assert isinstance(places, Vector)
    if places.nulls is not None:
        raise FallBack("a list has no items")
    return places


def sums(value: Value) -> Vector:
    """Compute ``sum(value)`` of ints."""
    items, counts = flattened(value)
    numbers: Positions = bare(loaded(items, INT))
    found = np.zeros(len(counts), np.int64)
    filled = counts > 0
    starts = begins_of(counts)[filled]
    if len(starts):
        # The halves of numbers are added apart: they have room for that.
        high = np.add.reduceat(numbers >> _HALF, starts)
        low = np.add.reduceat(numbers & ((1 << _HALF) - 1), starts)
        high += low >> _HALF
        if np.any((high < -(1 << _HALF - 1)) | (high >= 1 << _HALF - 1)):
            raise FallBack("an int exceeds 64 bits")
        found[filled] = (high << _HALF) + (low & ((1 << _HALF) - 1))
    return Vector(found)


def _extreme_place(choose: np.ufunc) -> Callable[[Value], Vector]:
    """Return the kernel of the place of each list's first extreme key; None if it is empty."""

    def extreme_place(keys: Value) -> Vector:
        items, counts = flattened(keys)
        empty = counts == 0
        found = np.zeros(len(counts), np.int64)
        left = counts[~empty]
        if len(left):
            first = begins_of(left)
            rows, starts = np.arange(len(items)), first
            for numbers in _numbers_of_keys(items):
                some = numbers[rows]
                is_best = some == np.repeat(choose.reduceat(some, starts), left)
                rows, left = rows[is_best], np.add.reduceat(is_best, starts, dtype=np.int64)
                starts = begins_of(left)
            found[~empty] = rows[starts] - first
        return Vector(found, nulls_or_none(empty))

    return extreme_place


least_place, greatest_place = _extreme_place(np.minimum), _extreme_place(np.maximum)


@lru_cache(maxsize=2)
def in_order(reverse: bool) -> Callable[[Value, Value], Vector]:
    """Return the kernel that sorts lists by the keys of their items."""

    def kernel(value: Value, keys: Value) -> Vector:
        items, counts = flattened(value)
        numbers = list(_numbers_of_keys(flattened(keys)[0]))
        if reverse:  # Items with equal keys keep their order.
            numbers = [~one if one.dtype == np.int64 else -one for one in numbers]
        lists = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((*reversed(numbers), lists))
        return lists_of(items.take(pa.array(order)), counts)

    return kernel


def _numbers_of_keys(keys: pa.Array) -> Iterator[Any]:
    """Yield the columns of keys, from the first to compare to the last, as numbers."""
    shape = shape_of(keys.type)
    if isinstance(shape, RecordShape):
        if keys.null_count:
            raise FallBack("a value is None")
        for at in range(keys.type.num_fields):
            yield from _numbers_of_keys(keys.field(at))
        return
    values = bare(loaded(keys, shape))
    if not isinstance(values, np.ndarray):
        values = numpy_of(pc.rank(values, tiebreaker="dense"))
    if shape == FLOAT and np.isnan(values).any():
        raise FallBack("it orders by a NaN")
    yield values if shape == FLOAT else values.astype(np.int64, copy=False)
