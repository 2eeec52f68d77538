"""The order of rows by two numbers.

Where both numbers fit into three digits of 16 bits, they are sorted as one, by one digit after the
other: numpy sorts those by counting. Of rows that are in the order of the second number already,
as events most often are in that of their times, only the first one counts. Where both numbers and
the place of a row fit into 64 bits, the three are sorted as one number: numpy sorts numbers
several times as fast as it finds their order, and the place in the lowest bits keeps equal rows as
they come. Else the rows are sorted by one number after the other, those that are too far apart by
their ranks. A few long runs that are in order are merged instead, by a sort that finds them.
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
"""By more digits numbers are not sorted faster than as a whole."""
_MILLISECOND = 1000
_SOME = 64
"""So many rows tell most often that not all are in order."""
_FEW = 16
"""Runs of fewer numbers are not worth a sum for each."""


@dataclass(frozen=True)
class Arranged:
    """Rows by a number and another one, equal ones as they come.

    Attributes:
        order: the places of the rows.
        first, second: the numbers, in that order.
    """

    order: _Places
    first: _Numbers
    second: _Numbers

    def firsts(self) -> _Places:
        """Where runs of equal rows begin."""
        return firsts_of(self.first, self.second)


def firsts_of(*columns: _Numbers) -> _Places:
    """Where runs of rows begin that are equal in all columns."""
    differ = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(np.concatenate([[True], differ])[: len(columns[0])])


def lasts_of(firsts: _Places, count: int) -> _Places:
    """Where runs end that begin at these of so many places."""
    return np.append(firsts[1:], count) - 1


def ranges_of(firsts: _Numbers, counts: _Numbers) -> tuple[_Numbers, _Places]:
    """Numbers that follow each other, so many from each first one; and where each range begins."""
    begins = np.cumsum(counts) - counts
    return np.repeat(firsts - begins, counts) + np.arange(int(counts.sum())), begins


def sums_of(numbers: npt.NDArray[Any], firsts: _Places) -> _Numbers:
    """What runs of whole numbers come to, by where each begins, where that fits into 64 bits.

    Sums of all before them may leave the 64 bits: the difference of two is right again.
    """
    if _FEW * len(firsts) < len(numbers):
        found: _Numbers = np.add.reduceat(numbers, firsts)
        return found
    sums = np.cumsum(numbers)[lasts_of(firsts, len(numbers))]
    sums[1:] -= sums[:-1].copy()
    return sums


def arranged(first: _Numbers, second: _Numbers, *, in_runs: bool = False) -> Arranged:
    """Rows in their order.

    Args:
        first: numbers of the rows, of which there is one at least.
        second: others of the same rows.
        in_runs: the rows are a few long runs, each in order.
    """
    if _are_in_order(first[:_SOME], second[:_SOME]) and _are_in_order(first, second):
        return Arranged(np.arange(len(first)), first, second)
    low, high = _Offsets.of(first), _Offsets.of(second)
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
    """Whether none is less than the one before."""
    some = numbers[:_SOME]
    return bool((some[1:] >= some[:-1]).all() and (numbers[1:] >= numbers[:-1]).all())


def _order_by_digits(offsets: _Numbers, bits: int) -> _Places:
    """The order of numbers of so many bits, equal ones as they come."""
    order = np.argsort(offsets.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT, bits, _DIGIT):
        digits = (offsets >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def _order_of(offsets: _Numbers, count: int) -> _Places:
    """The order of numbers that leave room for so many bits."""
    packed = (offsets << count) | np.arange(len(offsets))
    packed.sort()
    return packed & ((1 << count) - 1)


@dataclass(frozen=True)
class _Offsets:
    """Numbers as steps from the least of them.

    Attributes:
        values: the steps.
        least: that number.
        step: of what length they are.
        bits: as many take the largest; more than there are where they are too far apart.
    """

    values: _Numbers
    least: int
    step: int
    bits: int

    @property
    def mask(self) -> int:
        """All bits."""
        return (1 << self.bits) - 1

    @classmethod
    def of(cls, numbers: _Numbers) -> "_Offsets":
        """The steps of numbers, each of one."""
        least, most = int(numbers.min()), int(numbers.max())
        bits = (most - least).bit_length()
        return cls(numbers - least if least and bits <= _BITS else numbers, least, 1, bits)

    def coarse(self) -> "_Offsets":
        """The same in steps of whole milliseconds, where all are such."""
        if self.bits <= _BITS and self.mask >= _MILLISECOND:
            steps = floored(self.values, _MILLISECOND)
            if np.array_equal(steps * _MILLISECOND, self.values):
                return _Offsets(steps, self.least, _MILLISECOND, int(steps.max()).bit_length())
        return self

    def narrow(self, count: int) -> _Numbers:
        """The steps, or numbers in the same order, that leave room for so many bits."""
        if self.bits + count <= _BITS:
            return self.values
        order = np.argsort(self.values)
        ranked = self.values[order]
        ranks = np.empty(len(order), np.int64)
        ranks[order[0]] = 0
        ranks[order[1:]] = np.cumsum(ranked[1:] != ranked[:-1])
        return ranks

    def back(self, values: _Numbers) -> _Numbers:
        """The numbers that so many steps come to."""
        if self.step > 1:
            values = values * self.step
        return values + self.least if self.least else values
