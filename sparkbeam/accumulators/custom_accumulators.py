"""Vectorized form of a user's vectorized CombineFn."""

from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.accumulators.inputs import input_of, input_of_values
from sparkbeam.accumulators.vectorized import VectorizedCombineFn, extracted, merged, reduced
from sparkbeam.accumulators.vectorized_accumulator import (
    FLOATS,
    INTS,
    MOST_LEAVES,
    Kind,
    Numbers,
    VectorizedAccumulator,
    from_column,
    leaves_of,
    parts_of,
)
from sparkbeam.columns.python_types import Shape, shape_of
from sparkbeam.errors import ConfigurationError

_Places = npt.NDArray[np.intp]
_Counts = npt.NDArray[np.int64]


class UserAccumulatorForm(VectorizedAccumulator):
    """Numbers of accumulators, which merge exactly and hide the inputs.

    Raises:
        ConfigurationError: its accumulators are not of a type that there may be.
    """

    tells_values = False

    def __init__(self, combine_fn: VectorizedCombineFn) -> None:
        self.name = type(combine_fn).__name__
        self.is_ordered = bool(combine_fn.is_ordered)
        self._combine_fn = combine_fn
        self._type = getattr(combine_fn, "accumulator_type", None)
        kind = _kind_of(self._type)
        if kind is None or len(list(leaves_of(kind))) > MOST_LEAVES:
            raise ConfigurationError(
                f"The accumulator_type of {self.name} is {self._type}, but must be int64, float64, "
                f"or a struct of these with up to {MOST_LEAVES} numbers in all."
            )
        self.kind = kind

    def numbers(self, values: list[Any]) -> Numbers | None:
        return self._each(input_of_values(values))

    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers | None:
        return self._each(input_of(column, shape))

    def kind_of(self, column: pa.Array, shape: Shape) -> Kind | None:
        try:
            return super().kind_of(column, shape)
        except Exception:  # It may need its ``setup``, or a value; it tells when it runs.
            return self.kind

    def _each(self, values: pa.Array | None) -> Numbers | None:
        """Return the accumulator of each value."""
        if values is None:
            return None
        found = reduced(self._combine_fn, np.arange(len(values)), values, len(values))
        return None if found is None else self._numbers(found)

    def add_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        if self.is_ordered:
            return None
        return self.add_in_order(numbers, firsts, merges=True)

    def add_in_order(self, numbers: Numbers, firsts: _Places, *, merges: bool) -> Numbers:
        counts = np.diff(firsts, append=len(numbers))
        if len(firsts) == len(numbers):
            return numbers
        return self.add_apart(numbers, np.repeat(np.arange(len(firsts)), counts), counts)

    def add_apart(self, numbers: Numbers, places: _Places, counts: _Counts) -> Numbers:
        rows = _column(numbers, self._type)
        return self._numbers(merged(self._combine_fn, places, rows, len(counts)))

    def values(self, numbers: Numbers) -> list[Any]:
        raise AssertionError("its numbers always add up")

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        return numbers.tolist()

    def outputs(self, numbers: Numbers) -> tuple[pa.Array, Shape]:
        found = extracted(self._combine_fn, _column(numbers, self._type))
        return found, shape_of(found.type)

    def _numbers(self, column: pa.Array) -> Numbers:
        # A copy, as it may be a part of something large.
        return np.array(from_column(column), self.kind)


def _kind_of(accumulators: pa.DataType | None) -> Kind | None:
    """Return the numbers of accumulators; None if they are of another type."""
    if accumulators == pa.int64():
        return INTS
    if accumulators == pa.float64():
        return FLOATS
    if accumulators is None or not pa.types.is_struct(accumulators) or not accumulators.num_fields:
        return None
    parts = [_kind_of(field.type) for field in accumulators]
    # A dtype of floats equals None.
    if any(part is None for part in parts):
        return None
    return np.dtype([(str(at), part) for at, part in enumerate(parts)])


def _column(numbers: Numbers, kind: pa.DataType) -> pa.Array:
    """Return numbers as accumulators of a type."""
    if not pa.types.is_struct(kind):
        return pa.array(np.ascontiguousarray(numbers), kind)
    pairs = zip(parts_of(numbers), kind, strict=True)
    return pa.StructArray.from_arrays(
        [_column(part, field.type) for part, field in pairs], fields=list(kind)
    )
