"""Floor division of an array of integers by one divisor."""

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.int64]


def floored(numbers: _Numbers, divisor: int) -> _Numbers:
    """Return the floored quotients; unsigned division is ten times faster in numpy.

    Args:
        numbers: 64-bit integers.
        divisor: positive.
    """
    if len(numbers) and numbers.min() < 0:
        return numbers // divisor
    return (numbers.view(np.uint64) // np.uint64(divisor)).view(np.int64)
