"""``java.util.Random`` over many sources at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Rows = slice | NDArray[np.intp]

ALL = slice(None)

# The state has 48 bits. It is kept in the upper ones of 64, where arithmetic wraps by itself.
_SHIFT = np.uint64(16)
_MULTIPLIER = np.uint64(0x5DEECE66D)
_ADDEND = np.uint64(0xB << 16)
_MAX_INT = 2**31 - 1


class Random:
    """One random source per row; a method draws once from each of the ``rows`` and no others.

    The algorithms are those of the documentation of ``java.util.Random``.

    Args:
        seeds: the seed of each row's source.
    """

    def __init__(self, seeds: Ints) -> None:
        self._state = (seeds.astype(np.uint64) ^ _MULTIPLIER) << _SHIFT

    def __len__(self) -> int:
        return len(self._state)

    def next_int(self, bound: int | Ints, rows: Rows = ALL) -> Ints:
        """Draw ``nextInt(bound)``; one bound for all, or one per row, below 2^31."""
        bits = self._next(31, rows)
        if not isinstance(bound, np.ndarray):
            return self._below(bits, bound, rows)
        if not len(bound):
            return bits.astype(np.int64)
        if bound.min() == bound.max():
            return self._below(bits, int(bound[0]), rows)
        return self._below_each(bits, bound, rows)

    def next_signed(self, rows: Rows = ALL) -> NDArray[np.int32]:
        """Draw ``nextInt()``: all 32 bits."""
        return self._next(32, rows).view(np.int32)

    def next_long(self, bound: Ints) -> Ints:
        """Draw a number below each row's bound, by Nexmark's method for bounds beyond an int."""
        if not len(bound) or bound.max() < _MAX_INT:
            return self.next_int(bound)
        small = np.flatnonzero(bound < _MAX_INT)
        large = np.flatnonzero(bound >= _MAX_INT)
        value = np.empty(len(bound), np.int64)
        value[small] = self.next_int(bound[small], small)
        high = self.next_signed(large).astype(np.int64) << 32
        value[large] = np.abs(np.fmod(high + self.next_signed(large), bound[large]))
        return value

    def next_double(self) -> NDArray[np.float64]:
        """Draw ``nextDouble()``: at least 0, below 1."""
        high = self._next(26, ALL).astype(np.int64) << 27
        return np.float64(2.0**-53) * (high + self._next(27, ALL))

    def _next(self, bits: int, rows: Rows) -> NDArray[np.uint32]:
        if rows is ALL:
            state = self._state
            state *= _MULTIPLIER
            state += _ADDEND
        else:
            state = self._state[rows] * _MULTIPLIER
            state += _ADDEND
            self._state[rows] = state
        return (state >> np.uint64(64 - bits)).astype(np.uint32)

    def _below(self, bits: NDArray[np.uint32], bound: int, rows: Rows) -> Ints:
        if bound & -bound == bound:
            return (bits >> np.uint32(32 - bound.bit_length())).astype(np.int64)
        # A quotient and a product are faster than the remainder.
        value = (bits - bits // np.uint32(bound) * np.uint32(bound)).astype(np.int64)
        limit = (_MAX_INT + 1) // bound * bound
        return self._redrawn(value, bits >= np.uint32(limit), bound, rows)

    def _below_each(self, bits: NDArray[np.uint32], bound: Ints, rows: Rows) -> Ints:
        wide = bits.astype(np.int64)
        powers = bound & -bound == bound
        value = np.where(powers, wide * bound >> 31, wide % bound)
        rejected = (wide - wide % bound + bound > _MAX_INT + 1) & ~powers
        return self._redrawn(value, rejected, bound, rows)

    def _redrawn(
        self, value: Ints, rejected: NDArray[np.bool_], bound: int | Ints, rows: Rows
    ) -> Ints:
        """Draw again where a value would be more likely than others."""
        if rejected.any():
            again: Any = np.arange(len(self))[rows][rejected]
            value[rejected] = self.next_int(
                bound[rejected] if isinstance(bound, np.ndarray) else bound, again
            )
        return value
