"""The order of rows by two numbers.

Where both numbers and the place of a row fit into 64 bits, the three are sorted as one number:
numpy sorts numbers several times as fast as it finds their order, and the place in the lowest bits
keeps equal rows as they come. Else the rows are sorted by one number after the other, those that
are too far apart by their ranks.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.int64]
_Places = npt.NDArray[np.intp]

_BITS = 63
_MILLISECOND = 1000


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


def arranged(first: _Numbers, second: _Numbers) -> Arranged:
    """Rows in their order.

    Args:
        first: numbers of the rows, of which there is one at least.
        second: others of the same rows.
    """
    if _are_in_order(first, second):
        return Arranged(np.arange(len(first)), first, second)
    count = (len(first) - 1).bit_length()
    low, high = _Offsets.of(first), _Offsets.of(second)
    if low.bits + high.bits + count <= _BITS:
        order = np.arange(len(first))
        packed = (low.values << (high.bits + count)) | (high.values << count) | order
        packed.sort()
        order = packed & ((1 << count) - 1)
        packed >>= count
        return Arranged(order, low.back(packed >> high.bits), high.back(packed & high.mask))
    order = _order_of(high.narrow(count), count)
    order = order[_order_of(low.narrow(count)[order], count)]
    return Arranged(order, first[order], second[order])


def _are_in_order(first: _Numbers, second: _Numbers) -> bool:
    grows = first[1:] > first[:-1]
    grows |= (first[1:] == first[:-1]) & (second[1:] >= second[:-1])
    return bool(grows.all())


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
        """The steps of numbers; of whole milliseconds, where these are microseconds."""
        least, most = int(numbers.min()), int(numbers.max())
        bits = (most - least).bit_length()
        if bits > _BITS:
            return cls(numbers, least, 1, bits)
        values = numbers - least if least else numbers
        if most - least >= _MILLISECOND:
            steps = values // _MILLISECOND
            if np.array_equal(steps * _MILLISECOND, values):
                return cls(steps, least, _MILLISECOND, int(steps.max()).bit_length())
        return cls(values, least, 1, bits)

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
