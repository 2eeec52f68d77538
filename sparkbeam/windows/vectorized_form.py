"""What a vectorised form of a CombineFn is, and the numbers that it has.

A form has *numbers* for each session or key, from which the accumulator is made in the end: one
of 64 bits, or a record of several. It gives what the CombineFn gives, or nothing: what it cannot
promise that of is left to the CombineFn.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.columns.python_types import Shape

Numbers: TypeAlias = npt.NDArray[Any]
"""Of ``int64`` or ``float64``, or records of such, or of records."""

Kind: TypeAlias = np.dtype[Any]
"""The type of numbers."""

INTS: Kind = np.dtype(np.int64)
FLOATS: Kind = np.dtype(np.float64)

MOST_LEAVES = 24
"""A record has no more numbers than this."""


class Form(ABC):
    """How numbers add up.

    Attributes:
        name: for people.
        takes_values: the values count, not only how many there are.
        tells_values: its numbers tell the values.
        is_ordered: values are added up in the order in which they come.
        kind: of its numbers; where an int is here, they may have a float.
    """

    name: str
    takes_values = True
    tells_values = True
    is_ordered = False
    kind: Kind = INTS

    @abstractmethod
    def numbers(self, values: list[Any]) -> Numbers | None:
        """The numbers of each value; None if they are not what the form is for."""

    @abstractmethod
    def numbers_of(self, column: pa.Array, shape: Shape) -> Numbers | None:
        """The same of values in a column, which are of a shape; None likewise.

        They are copies: a part of a column would keep the whole batch of rows in memory.
        """

    def kind_of(self, column: pa.Array, shape: Shape) -> Kind | None:
        """The kind of the numbers of values of a shape, of which there are none in a column.

        That is asked before the pipeline runs. It is None if there are no numbers of them.
        """
        numbers = self.numbers_of(column, shape)
        return None if numbers is None else numbers.dtype

    def needs_order(self, kind: Kind) -> bool:
        """Whether numbers of a kind add up in their order alone."""
        return self.is_ordered

    def of_counts(self, counts: npt.NDArray[np.int64]) -> Numbers | None:
        """What so many values each come to; None where that depends on the values."""
        return None

    @abstractmethod
    def add_up(self, numbers: Numbers, firsts: npt.NDArray[np.intp]) -> Numbers | None:
        """What runs of numbers come to, by where each run begins; None if that is not exact.

        It is not where the order within a run makes a difference.
        """

    def add_in_order(
        self, numbers: Numbers, firsts: npt.NDArray[np.intp], *, merges: bool
    ) -> Numbers | None:
        """As :meth:`add_up`, of runs whose order is that in which the CombineFn takes them in.

        Args:
            numbers: of the runs.
            firsts: where each run begins.
            merges: they are of accumulators, and not of values behind the first, which may be one.
        """
        return self.add_up(numbers, firsts)

    @abstractmethod
    def add_apart(
        self, numbers: Numbers, places: npt.NDArray[np.intp], counts: npt.NDArray[np.int64]
    ) -> Numbers | None:
        """As :meth:`add_in_order` of values, where the numbers of a run do not follow each other.

        Args:
            numbers: of all runs; those of each one in their order.
            places: that of the run of each number.
            counts: how many numbers each run has. Nobody looks at what one without any comes to.
        """

    def values(self, numbers: Numbers) -> list[Any]:
        """Values that come to the same as those of which the numbers are, one for each."""
        found: list[Any] = numbers.tolist()
        return found

    def accumulators(self, numbers: Numbers, combine_fn: beam.CombineFn) -> list[Any]:
        """The accumulators that numbers stand for."""
        create, add_input = combine_fn.create_accumulator, combine_fn.add_input
        return [add_input(create(), number) for number in numbers.tolist()]

    def added(
        self,
        known: list[Any],
        numbers: Numbers,
        firsts: npt.NDArray[np.intp],
        combine_fn: beam.CombineFn,
    ) -> list[Any] | None:
        """The accumulators of runs of numbers that come after what is known.

        Args:
            known: the accumulator so far for each run; None where there is none.
            numbers: of the runs, in the order of their values.
            firsts: where each run begins.
            combine_fn: has made those that are known.

        Returns:
            None if that is not exact; then the CombineFn may take in the values all the same.
        """
        totals = self.add_up(numbers, firsts)
        if totals is None:
            return None
        merge = combine_fn.merge_accumulators
        found = self.accumulators(totals, combine_fn)
        return [
            new if old is None else merge([old, new]) for old, new in zip(known, found, strict=True)
        ]

    @abstractmethod
    def outputs(self, numbers: Numbers) -> tuple[pa.Array, Shape]:
        """What the CombineFn makes of accumulators in the end, in a column, and of what shape."""


def combined_apart(
    ufunc: np.ufunc, numbers: Numbers, places: npt.NDArray[np.intp], count: int
) -> Numbers:
    """What as many runs come to by ``add``, ``minimum`` or ``maximum``; see ``add_apart``."""
    if ufunc is np.add:
        found = np.zeros(count, numbers.dtype)
    else:
        # Whichever of all numbers gives way to any other one.
        found = np.full(count, numbers.max() if ufunc is np.minimum else numbers.min())
    ufunc.at(found, places, numbers)
    return found


def record_of(*parts: Numbers) -> Numbers:
    """Records of what stands at the same place; their fields are called by their numbers."""
    kind = [(str(at), part.dtype) for at, part in enumerate(parts)]
    found = np.empty(len(parts[0]), kind)
    for at, part in enumerate(parts):
        found[str(at)] = part
    return found


def parts_of(numbers: Numbers) -> list[Numbers]:
    """The inverse of :func:`record_of`."""
    assert numbers.dtype.names is not None
    return [numbers[name] for name in numbers.dtype.names]


def leaves_of(kind: Kind) -> Iterator[Kind]:
    """The types of the single numbers."""
    if kind.names is None:
        yield kind
        return
    for name in kind.names:
        yield from leaves_of(kind[name])


def kind_of_leaves(like: Kind, leaves: Iterable[Kind]) -> Kind:
    """A type as another one, with other types of the single numbers."""
    remaining = iter(leaves)

    def made(kind: Kind) -> Kind:
        if kind.names is None:
            return next(remaining)
        return np.dtype([(name, made(kind[name])) for name in kind.names])

    return made(like)


def as_column(numbers: Numbers) -> pa.Array:
    """Numbers as an array of Arrow; records become structs."""
    if numbers.dtype.names is None:
        return pa.array(numbers)
    return pa.StructArray.from_arrays(
        [as_column(part) for part in parts_of(numbers)], list(numbers.dtype.names)
    )


def from_column(column: pa.Array) -> Numbers:
    """The inverse of :func:`as_column`."""
    if pa.types.is_struct(column.type):
        return record_of(*(from_column(column.field(at)) for at in range(column.type.num_fields)))
    found: Numbers = column.to_numpy()
    return found
