"""CombineFns that numpy can do: their *vectorised forms*.

A form has one number for each session, from which the accumulator is made in the end. It gives
what the CombineFn gives, or nothing: what it cannot promise that of is left to the CombineFn.
"""

from abc import ABC, abstractmethod
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from apache_beam.transforms import cy_combiners
from apache_beam.transforms.combiners import CountCombineFn

from sparkbeam.upstream.beam import function_of_combine

Numbers = npt.NDArray[Any]
_LARGEST = np.iinfo(np.int64).max


class Form(ABC):
    """How numbers add up.

    Attributes:
        name: for people.
        takes_values: the values count, not only how many there are.
    """

    name: str
    takes_values = True

    @abstractmethod
    def numbers(self, values: list[Any]) -> Numbers | None:
        """A number for each value; None if they are not what the form is for."""

    @abstractmethod
    def numbers_of(self, column: pa.Array) -> Numbers | None:
        """The same of values in a column; None likewise."""

    @abstractmethod
    def add_up(self, numbers: Numbers, firsts: npt.NDArray[np.intp]) -> Numbers | None:
        """What runs of numbers come to, by where each run begins; None if that is not exact."""

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        """The accumulators that numbers stand for."""
        create, add_input = combine_fn.create_accumulator, combine_fn.add_input
        return [add_input(create(), number) for number in numbers.tolist()]


class _Count(Form):
    name = "count"
    takes_values = False

    def numbers(self, values: list[Any]) -> Numbers:
        return np.ones(len(values), np.int64)

    def numbers_of(self, column: pa.Array) -> Numbers:
        return np.ones(len(column), np.int64)

    def add_up(self, numbers: Numbers, firsts: npt.NDArray[np.intp]) -> Numbers:
        return np.add.reduceat(numbers, firsts)

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        return numbers.tolist()


class _Sum(Form):
    """Of whole numbers: a float's place in a sum makes a difference."""

    name = "sum"

    def numbers(self, values: list[Any]) -> Numbers | None:
        return _whole(values) if set(map(type, values)) == {int} else None

    def numbers_of(self, column: pa.Array) -> Numbers | None:
        return _whole_of(column)

    def add_up(self, numbers: Numbers, firsts: npt.NDArray[np.intp]) -> Numbers | None:
        largest = max(int(numbers.max()), -int(numbers.min()))
        if largest * len(numbers) > _LARGEST:
            return None
        return np.add.reduceat(numbers, firsts)


class _Extreme(Form):
    """Of whole numbers, or of floats that are neither zero nor NaN."""

    def __init__(self, name: str, ufunc: np.ufunc) -> None:
        self.name = name
        self._ufunc = ufunc

    def numbers(self, values: list[Any]) -> Numbers | None:
        kinds = set(map(type, values))
        if kinds == {int}:
            return _whole(values)
        if kinds != {float}:
            return None
        return _in_order(np.array(values, np.float64))

    def numbers_of(self, column: pa.Array) -> Numbers | None:
        if pa.types.is_float64(column.type) and not column.null_count:
            return _in_order(column.to_numpy())
        return _whole_of(column)

    def add_up(self, numbers: Numbers, firsts: npt.NDArray[np.intp]) -> Numbers:
        found: Numbers = self._ufunc.reduceat(numbers, firsts)
        return found


def _in_order(numbers: Numbers) -> Numbers | None:
    # The two zeros are equal, and nothing is in order with NaN.
    return None if np.isnan(numbers).any() or not numbers.all() else numbers


def _whole_of(column: pa.Array) -> Numbers | None:
    if not pa.types.is_integer(column.type) or pa.types.is_uint64(column.type) or column.null_count:
        return None
    return column.to_numpy().astype(np.int64, copy=False)


def _whole(values: list[int]) -> Numbers | None:
    try:
        return np.array(values, np.int64)
    except OverflowError:
        return None


_SUM, _MIN, _MAX = _Sum(), _Extreme("min", np.minimum), _Extreme("max", np.maximum)
_OF_FUNCTIONS: tuple[tuple[Any, Form], ...] = ((sum, _SUM), (min, _MIN), (max, _MAX))
_OF_CLASSES: dict[type, Form] = {
    CountCombineFn: _Count(),
    cy_combiners.SumInt64Fn: _SUM,
    cy_combiners.MinInt64Fn: _MIN,
    cy_combiners.MaxInt64Fn: _MAX,
    cy_combiners.MinFloatFn: _MIN,
    cy_combiners.MaxFloatFn: _MAX,
}


def form_of(combine_fn: beam.CombineFn) -> Form | None:
    """The vectorised form of a CombineFn; None if it has none."""
    function = function_of_combine(combine_fn)
    if function is not None:
        # Not every function can be looked up.
        return next((form for known, form in _OF_FUNCTIONS if function is known), None)
    return _OF_CLASSES.get(type(combine_fn))
