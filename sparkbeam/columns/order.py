"""The order of rows by two numbers."""

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.int64]
_Places = npt.NDArray[np.intp]

_MOST_TOGETHER = 1 << 62
_DIGIT = 16
_FEW_RUNS = 8
_LONG_RUN = 1024


def order_of(first: _Numbers, second: _Numbers) -> _Places:
    """The order by a number and another one, equal ones as they come.

    Args:
        first: numbers from 0 on.
        second: of the same rows, of which there is one at least.
    """
    together = _together(first, second)
    return np.lexsort((second, first)) if together is None else _stable(*together)


def in_order(first: _Numbers, second: _Numbers) -> tuple[_Places, _Places]:
    """As :func:`order_of`, and where runs of equal ones begin in it."""
    together = _together(first, second)
    if together is None:
        order = np.lexsort((second, first))
        columns = [first[order], second[order]]
    else:
        order = _stable(*together)
        columns = [together[0][order]]
    differ = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return order, np.flatnonzero(np.concatenate([[True], differ]))


def _together(first: _Numbers, second: _Numbers) -> tuple[_Numbers, int] | None:
    """Both as one number, and what all are below; None where they are too far apart."""
    least = int(second.min())
    span = int(second.max()) - least + 1
    most = (int(first.max()) + 1) * span
    if most > _MOST_TOGETHER:
        return None
    return (second - least if most == span else first * span + (second - least)), most


def _stable(numbers: _Numbers, most: int) -> _Places:
    """The order of numbers below a limit.

    Long runs that are in order are merged; else the digits are sorted one after the other, which
    numpy does by counting.
    """
    runs = 1 + np.count_nonzero(numbers[1:] < numbers[:-1])
    if runs <= max(_FEW_RUNS, len(numbers) // _LONG_RUN):
        return np.argsort(numbers, kind="stable")
    order = np.argsort(numbers.astype(np.uint16), kind="stable")
    for shift in range(_DIGIT, (most - 1).bit_length(), _DIGIT):
        digit = (numbers[order] >> shift).astype(np.uint16)
        order = order[np.argsort(digit, kind="stable")]
    return order
