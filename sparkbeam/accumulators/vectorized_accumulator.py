"""Vectorized form of a CombineFn, and its numbers.

A form has *numbers* for each session or key, from which the accumulator is made in the end: one
of 64 bits, or a record of several. It gives the result of the CombineFn, or none: values for which
it cannot promise that are left to the CombineFn.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.columns.python_types import FLOAT, INT, TIMESTAMP, Opaque, Shape
from sparkbeam.columns.python_values import values_of

Numbers: TypeAlias = npt.NDArray[Any]
"""Type of numbers: ``int64``, with a unit or not, or ``float64``, or records of them."""

Kind: TypeAlias = np.dtype[Any]
"""The type of numbers."""

INTS: Kind = np.dtype(np.int64)
FLOATS: Kind = np.dtype(np.float64)
MICROS: Kind = np.dtype([("us", INTS)])
"""Timestamps. Whole numbers with a unit are a record of one field, with the unit for a name."""

MOST_SCALE = 38
"""The most digits that Arrow's decimals of 128 bits have behind the point."""

MOST_LEAVES = 24
"""A record has no more numbers than this."""


class VectorizedAccumulator(ABC):
    """Addition of numbers.

    Attributes:
        name: a name for people.
        takes_values: the values count, not only their number.
        tells_values: the values can be told from its numbers.
        is_ordered: values are added up in the order in which they come.
        kind: the kind of its numbers; they may have a float where the kind has an int.
    """

    name: str
    takes_values = True
    tells_values = True
    is_ordered = False
    kind: Kind = INTS

    @abstractmethod
    def numbers(self, values: list[Any]) -> Numbers | None:
        """Return the numbers of each value; None if the form does not support them."""

    @abstractmethod
    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers | None:
        """Return the numbers of values in a column of a shape; None likewise.

        They are copies: a part of a column would keep the whole batch of rows in memory.
        """

    def kind_of(self, column: pa.Array, shape: Shape) -> Kind | None:
        """Return the kind of the numbers of a shape's values, without any values in a column.

        Called at planning time. None if the values have no numbers.
        """
        numbers = self.numbers_of(column, shape)
        return None if numbers is None else numbers.dtype

    def needs_order(self, kind: Kind) -> bool:
        """Return whether numbers of a kind add up only in their order."""
        return self.is_ordered

    def of_counts(self, counts: npt.NDArray[np.int64]) -> Numbers | None:
        """Return the numbers of some counts of values; None if they depend on the values."""
        return None

    @abstractmethod
    def add_up(self, numbers: Numbers, firsts: npt.NDArray[np.intp]) -> Numbers | None:
        """Add up runs of numbers, given the start of each run; None if the result is not exact.

        It is not exact if the order within a run makes a difference.
        """

    def add_in_order(
        self, numbers: Numbers, firsts: npt.NDArray[np.intp], *, merges: bool
    ) -> Numbers | None:
        """Add up runs as :meth:`add_up`, in the order in which the CombineFn takes in their values.

        Args:
            numbers: the numbers of the runs.
            firsts: the start of each run.
            merges: they are of accumulators, and not of values behind the first, which may be one.
        """
        return self.add_up(numbers, firsts)

    @abstractmethod
    def add_apart(
        self, numbers: Numbers, places: npt.NDArray[np.intp], counts: npt.NDArray[np.int64]
    ) -> Numbers | None:
        """Add up values as :meth:`add_in_order`, though the numbers of a run are not adjacent.

        Args:
            numbers: the numbers of all runs; those of each run in their order.
            places: the position of the run of each number.
            counts: the count of numbers of each run. The result of an empty run is not read.
        """

    def values(self, numbers: Numbers) -> list[Any]:
        """Return one value per number that aggregates to it."""
        is_plain = unit_of(numbers.dtype) is None
        found: list[Any] = numbers.tolist() if is_plain else values_of(*column_of_numbers(numbers))
        return found

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        """Return the accumulators that numbers stand for."""
        create, add_input = combine_fn.create_accumulator, combine_fn.add_input
        return [add_input(create(), value) for value in VectorizedAccumulator.values(self, numbers)]

    def outputs(self, numbers: Numbers) -> tuple[pa.Array, Shape]:
        """Return the CombineFn's results for accumulators, as a column, and their shape."""
        return column_of_numbers(numbers)


def combined_apart(
    ufunc: np.ufunc, numbers: Numbers, places: npt.NDArray[np.intp], count: int
) -> Numbers:
    """Return the aggregates of runs by ``add``, ``minimum`` or ``maximum``; see ``add_apart``."""
    if ufunc is np.add:
        found = np.zeros(count, numbers.dtype)
    else:
        # Whichever of all numbers gives way to any other one.
        found = np.full(count, numbers.max() if ufunc is np.minimum else numbers.min())
    ufunc.at(found, places, numbers)
    return found


def record_of(*parts: Numbers) -> Numbers:
    """Return records of the numbers at the same position; the fields are named by position."""
    kind = [(str(at), part.dtype) for at, part in enumerate(parts)]
    found = np.empty(len(parts[0]), kind)
    for at, part in enumerate(parts):
        found[str(at)] = part
    return found


def parts_of(numbers: Numbers) -> list[Numbers]:
    """Return the inverse of :func:`record_of`."""
    assert numbers.dtype.names is not None
    return [numbers[name] for name in numbers.dtype.names]


def decimals_of(scale: int) -> Kind:
    """Return the type of decimals with this many digits behind the point."""
    return np.dtype([(f"e-{scale}", INTS)])


def unit_of(kind: Kind) -> str | None:
    """Return the unit of whole numbers; None for other numbers."""
    name = kind.names[0] if kind.names else "0"
    return None if name.isdigit() else name


def column_of_numbers(numbers: Numbers) -> tuple[pa.Array, Shape]:
    """Return the column of the values that single numbers stand for, and their shape."""
    unit = unit_of(numbers.dtype)
    if unit is None:
        return pa.array(numbers), INT if numbers.dtype == INTS else FLOAT
    whole = numbers.view(INTS)
    if numbers.dtype == MICROS:
        return pa.array(whole).cast(TIMESTAMP.arrow_type), TIMESTAMP
    kind = pa.decimal128(38, int(unit.removeprefix("e-")))
    words = pa.py_buffer(np.stack([whole, whole >> 63], axis=1))
    return pa.Array.from_buffers(kind, len(whole), [None, words]), Opaque(kind)


def leaves_of(kind: Kind) -> Iterator[Kind]:
    """Yield the types of the single numbers."""
    if kind.names is None or unit_of(kind) is not None:
        yield kind
        return
    for name in kind.names:
        yield from leaves_of(kind[name])


def kind_of_leaves(like: Kind, leaves: Iterable[Kind]) -> Kind:
    """Return a type as another one, with other types of the single numbers."""
    remaining = iter(leaves)

    def typed_like(kind: Kind) -> Kind:
        if kind.names is None:
            return next(remaining)
        return np.dtype([(name, typed_like(kind[name])) for name in kind.names])

    return typed_like(like)


def as_column(numbers: Numbers) -> pa.Array:
    """Return numbers as an array of Arrow; records become structs."""
    if numbers.dtype.names is None:
        return pa.array(numbers)
    return pa.StructArray.from_arrays(
        [as_column(part) for part in parts_of(numbers)], list(numbers.dtype.names)
    )


def from_column(column: pa.Array) -> Numbers:
    """Return the inverse of :func:`as_column`."""
    if pa.types.is_struct(column.type):
        parts = [from_column(column.field(at)) for at in range(column.type.num_fields)]
        if len(parts) == 1:  # Its name may be a unit.
            return parts[0].view([(column.type.field(0).name, parts[0].dtype)])
        return record_of(*parts)
    found: Numbers = column.to_numpy()
    return found
