"""The order of rows by two numbers."""

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.int64]
_Places = npt.NDArray[np.intp]

_MOST_TOGETHER = 1 << 62
_DIGIT = 16
_MOST_DIGITS = 2


def in_order(first: _Numbers, second: _Numbers) -> tuple[_Places, _Places]:
    """The order by a number and another one, equal ones as they come, and where runs begin in it.

    Args:
        first: numbers from 0 on.
        second: of the same rows, of which there is one at least.
    """
    least = int(second.min())
    span = int(second.max()) - least + 1
    most = (int(first.max()) + 1) * span
    if most > _MOST_TOGETHER:
        order = np.lexsort((second, first))
        columns = [first[order], second[order]]
    else:
        together = first * span + (second - least)
        order = _stable(together, most)
        columns = [together[order]]
    differ = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return order, np.flatnonzero(np.concatenate([[True], differ]))


def _stable(numbers: _Numbers, most: int) -> _Places:
    """The order of numbers below a limit; of small ones numpy sorts the digits by counting."""
    digits = range(0, max(1, (most - 1).bit_length()), _DIGIT)
    if len(digits) > _MOST_DIGITS:
        return np.argsort(numbers, kind="stable")
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    for shift in digits[1:]:
        digit = (numbers[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order
