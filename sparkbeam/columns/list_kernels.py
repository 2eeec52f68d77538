"""Kernels over lists.

Each value is a vector backed by a list array. All kernels raise FallBack if Python would raise, or
if a result exceeds 64 bits.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pyarrow as pa

from sparkbeam.columns.python_types import INT, shape_of
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import Bools, Positions, Value, Vector, bare, loaded

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
    if value.nulls is None:
        return Vector(flattened(value)[1] > 0)
    filled = np.zeros(len(value), np.bool_)
    there = np.flatnonzero(~value.nulls)
    filled[there] = flattened(value.take(there))[1] > 0
    return Vector(filled)


@lru_cache(maxsize=1024)
def sliced(start: int | None, stop: int | None) -> Callable[[Value], Vector]:
    """Return the kernel of ``value[start:stop]``."""

    def kernel(value: Value) -> Vector:
        items, counts = flattened(value)
        first = _bound(0 if start is None else start, counts)
        last = counts if stop is None else _bound(stop, counts)
        kept = np.maximum(last - first, 0)
        ends = np.concatenate([[0], np.cumsum(kept)])
        begins = np.cumsum(counts) - counts + first
        rows = np.arange(ends[-1]) + np.repeat(begins - ends[:-1], kept)
        bounds = pa.array(ends, pa.int32())
        return Vector(pa.ListArray.from_arrays(bounds, items.take(pa.array(rows))))

    return kernel


def _bound(position: int, counts: Positions) -> Positions:
    """Resolve a slice bound for lists of the given lengths."""
    if position < 0:
        return np.maximum(counts + position, 0)
    return np.minimum(counts, position)


@lru_cache(maxsize=1024)
def item(position: int, of: int | None = None) -> Callable[[Value], Vector]:
    """Return the kernel of ``value[position]``.

    Args:
        of: the required length of the lists; any if None.
    """

    def kernel(value: Value) -> Vector:
        items, counts = flattened(value)
        if of is not None and np.any(counts != of):
            raise FallBack("it unpacks a list of a different length")
        ends = np.cumsum(counts)
        at = counts + position if position < 0 else np.full(len(counts), position)
        if np.any((at < 0) | (at >= counts)):
            raise FallBack("it takes an item beyond the end of a list")
        found = items.take(pa.array(ends - counts + at))
        return loaded(found, shape_of(found.type))

    return kernel


def sums(value: Value) -> Vector:
    """Compute ``sum(value)`` of ints."""
    numbers, starts, filled, count = _numbers(value)
    found = np.zeros(count, np.int64)
    if len(starts):
        # The halves of numbers are added apart: they have room for that.
        high = np.add.reduceat(numbers >> _HALF, starts)
        low = np.add.reduceat(numbers & ((1 << _HALF) - 1), starts)
        high += low >> _HALF
        if np.any((high < -(1 << _HALF - 1)) | (high >= 1 << _HALF - 1)):
            raise FallBack("an int exceeds 64 bits")
        found[filled] = (high << _HALF) + (low & ((1 << _HALF) - 1))
    return Vector(found)


def least(value: Value) -> Vector:
    """Compute ``min(value)`` of ints."""
    return _extreme(value, np.minimum)


def greatest(value: Value) -> Vector:
    """Compute ``max(value)`` of ints."""
    return _extreme(value, np.maximum)


def _extreme(value: Value, choose: np.ufunc) -> Vector:
    numbers, starts, filled, _ = _numbers(value)
    if not filled.all():
        raise FallBack("a list has no items")
    return Vector(choose.reduceat(numbers, starts))


def _numbers(value: Value) -> tuple[Positions, Positions, Bools, int]:
    """Return the ints in lists, the starts of non-empty lists, their mask, and the row count."""
    items, counts = flattened(value)
    numbers: Positions = bare(loaded(items, INT))
    filled: Bools = counts > 0
    starts: Positions = np.cumsum(counts) - counts
    return numbers, starts[filled], filled, len(counts)
