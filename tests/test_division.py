"""Quotients are those of Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.common.integer_division import floored

LARGEST = 2**63 - 1


@given(
    st.lists(st.integers(0, LARGEST)) | st.lists(st.integers(-(2**63), LARGEST)),
    st.integers(1, 10_000) | st.integers(1, LARGEST),
)
def test_quotients_are_those_of_python(numbers: list[int], divisor: int) -> None:
    column = np.array(numbers, np.int64)
    assert floored(column, divisor).tolist() == [number // divisor for number in numbers]
    assert floored(column[::2], divisor).tolist() == [number // divisor for number in numbers[::2]]
    assert column.tolist() == numbers
