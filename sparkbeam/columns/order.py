"""Sort order of rows by two numbers.

If both numbers together fit into three 16-bit digits, they are sorted as one number, digit by
digit, as numpy sorts these by counting. Rows already ordered by the second number, as events
usually are by time, are sorted by the first number only. If both numbers and the row position fit
into 64 bits, the three are sorted as one number: numpy sorts numbers several times faster than it
computes an argsort, and the position in the lowest bits keeps the sort stable. Otherwise the rows
are sorted by one number after the other, with ranks in place of numbers of too wide a range. A few
long sorted runs are merged by a sort that detects them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sparkbeam.common.integer_division import floored

_Numbers = npt.NDArray[np.int64]
_Places = npt.NDArray[np.intp]

_BITS = 63
_DIGIT = 16
_BITS_OF_DIGITS = 3 * _DIGIT
"""Largest number of digits for which a radix sort is faster than a comparison sort."""
_MILLISECOND = 1000
_SOME = 64
"""Number of leading rows that usually suffice to detect unsorted input."""
_FEW = 16
"""Mean run length from which summing each run is faster than prefix sums."""


@dataclass(frozen=True)
class Arranged:
    """Rows sorted stably by two numbers.

    Attributes:
        first, second: the numbers, in that order.
    """

    order: _Places
    first: _Numbers
    second: _Numbers

    def firsts(self) -> _Places:
        """Return the starts of runs of equal rows."""
        return firsts_of(self.first, self.second)


def firsts_of(*columns: _Numbers) -> _Places:
    """Return the starts of runs of rows that are equal in all columns."""
    differ = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(np.concatenate([[True], differ])[: len(columns[0])])


def lasts_of(firsts: _Places, count: int) -> _Places:
    """Return the ends of runs with these starts, among ``count`` rows."""
    return np.append(firsts[1:], count) - 1


def begins_of(counts: _Numbers) -> _Numbers:
    """Return the starts of runs of these lengths, one behind the other."""
    begins: _Numbers = np.cumsum(counts) - counts
    return begins


def ranges_of(firsts: _Numbers, counts: _Numbers) -> tuple[_Numbers, _Places]:
    """Concatenate ranges given by first number and length; return them with the start of each."""
    begins = begins_of(counts)
    return np.repeat(firsts - begins, counts) + np.arange(int(counts.sum())), begins


def sums_of(numbers: npt.NDArray[Any], firsts: _Places) -> _Numbers:
    """Return the sums of runs of integers, given the start of each run; the sums must fit 64 bits.

    Prefix sums may wrap around; their differences are correct nevertheless.
    """
    if _FEW * len(firsts) < len(numbers):
        found: _Numbers = np.add.reduceat(numbers, firsts)
        return found
    sums = np.cumsum(numbers)[lasts_of(firsts, len(numbers))]
    sums[1:] -= sums[:-1].copy()
    return sums


def arranged(first: _Numbers, second: _Numbers, *, in_runs: bool = False) -> Arranged:
    """Sort rows stably by two numbers.

    Args:
        first: numbers of the rows, at least one.
        in_runs: whether the rows are a few long sorted runs.
    """
    if _are_in_order(first[:_SOME], second[:_SOME]) and _are_in_order(first, second):
        return Arranged(np.arange(len(first)), first, second)
    low, high = _Offsets.from_numbers(first), _Offsets.from_numbers(second)
    if not in_runs and low.bits <= _BITS_OF_DIGITS and is_sorted(second):
        order = _order_by_digits(low.values, low.bits)
        return Arranged(order, first[order], second[order])
    most = _BITS if in_runs else _BITS_OF_DIGITS
    if low.bits + high.bits > most:
        low, high = low.coarse(), high.coarse()
    bits = low.bits + high.bits
    count = (len(first) - 1).bit_length()
    if bits <= most or bits + count <= _BITS:
        packed = high.values if low.bits == 0 else (low.values << high.bits) | high.values
        if bits <= most:
            order = np.argsort(packed, kind="stable") if in_runs else _order_by_digits(packed, bits)
            return Arranged(order, first if low.bits == 0 else first[order], second[order])
        packed = packed << count
        packed |= np.arange(len(first))
        packed.sort()
        order = packed & ((1 << count) - 1)
        packed >>= count
        if low.bits == 0:
            return Arranged(order, first, high.back(packed))
        return Arranged(order, low.back(packed >> high.bits), high.back(packed & high.mask))
    order = _order_of(high.narrow(count), count)
    order = order[_order_of(low.narrow(count)[order], count)]
    return Arranged(order, first[order], second[order])


def _are_in_order(first: _Numbers, second: _Numbers) -> bool:
    grows = first[1:] > first[:-1]
    grows |= (first[1:] == first[:-1]) & (second[1:] >= second[:-1])
    return bool(grows.all())


def is_sorted(numbers: _Numbers) -> bool:
    """Return whether numbers are in ascending order."""
    some = numbers[:_SOME]
    return bool((some[1:] >= some[:-1]).all() and (numbers[1:] >= numbers[:-1]).all())


def _order_by_digits(offsets: _Numbers, bits: int) -> _Places:
    """Return the stable sort order of numbers of at most ``bits`` bits."""
    order = np.argsort(offsets.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT, bits, _DIGIT):
        digits = (offsets >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _order_of(offsets: _Numbers, count: int) -> _Places:
    """Return the stable sort order of numbers that leave ``count`` bits for row positions."""
    packed = (offsets << count) | np.arange(len(offsets))
    packed.sort()
    return packed & ((1 << count) - 1)


@dataclass(frozen=True)
class _Offsets:
    """Numbers as multiples of a step above their minimum.

    Attributes:
        least: the minimum.
        bits: the bits of the largest multiple; more than 63 if the range is too wide.
    """

    values: _Numbers
    least: int
    step: int
    bits: int

    @property
    def mask(self) -> int:
        """All bits set."""
        return (1 << self.bits) - 1

    @classmethod
    def from_numbers(cls, numbers: _Numbers) -> "_Offsets":
        """Return the offsets of numbers, with step 1."""
        least, most = int(numbers.min()), int(numbers.max())
        bits = (most - least).bit_length()
        return cls(numbers - least if least and bits <= _BITS else numbers, least, 1, bits)

    def coarse(self) -> "_Offsets":
        """Return offsets in steps of a millisecond, if all are multiples of it."""
        if self.bits <= _BITS and self.mask >= _MILLISECOND:
            steps = floored(self.values, _MILLISECOND)
            if np.array_equal(steps * _MILLISECOND, self.values):
                return _Offsets(steps, self.least, _MILLISECOND, int(steps.max()).bit_length())
        return self

    def narrow(self, count: int) -> _Numbers:
        """Return the offsets, or ranks in equal order, that leave room for ``count`` bits."""
        if self.bits + count <= _BITS:
            return self.values
        order = np.argsort(self.values)
        ranked = self.values[order]
        ranks = np.empty(len(order), np.int64)
        ranks[order[0]] = 0
        ranks[order[1:]] = np.cumsum(ranked[1:] != ranked[:-1])
        return ranks

    def back(self, values: _Numbers) -> _Numbers:
        """Return the numbers of offsets."""
        if self.step > 1:
            values = values * self.step
        return values + self.least if self.least else values
