"""Partial aggregates of a combine, before the shuffle."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import apache_beam as beam
import numpy as np

from sparkbeam.columns.order import firsts_of
from sparkbeam.columns.vectors import Positions
from sparkbeam.windows.vectorized_form import Form, Numbers
from sparkbeam.worker.refusals import count_refused


class CombineTable:
    """Partial aggregates of one window, by the names of the keys.

    Values wait until there are many, either unchanged or as numbers of the vectorized form. They
    never wait as both at once, so that the values of each key are aggregated in order of arrival.

    Args:
        combine_fn: aggregates the values.
        form: its vectorized form, if it has one.

    Attributes:
        accumulators: the aggregates.
        stamps: the combined timestamps in microseconds, if a reader needs them.
        count: the number of all values.
    """

    __slots__ = (
        "_combine_fn",
        "_form",
        "_gathered",
        "_numbers",
        "_places",
        "_places_of",
        "accumulators",
        "count",
        "stamps",
    )

    def __init__(self, combine_fn: beam.CombineFn, form: Form | None) -> None:
        self._combine_fn = combine_fn
        self._form = form
        self.count = 0
        self.accumulators: dict[Hashable, Any] = {}
        self.stamps: dict[Hashable, int] = {}
        self._gathered: dict[Hashable, list[Any]] = {}
        self._places_of: dict[Hashable, int] = {}
        self._places: list[Positions] = []
        self._numbers: list[Numbers] = []

    def gather(self, names: Sequence[Hashable], values: Sequence[Any]) -> None:
        """Add values."""
        self._add_numbers()
        self.count += len(values)
        gathered = self._gathered
        for name, value in zip(names, values, strict=True):
            run = gathered.get(name)
            if run is None:
                gathered[name] = [value]
            else:
                run.append(value)

    def gather_numbers(
        self, names: Sequence[Hashable], places: Positions, numbers: Numbers
    ) -> None:
        """Add values as numbers.

        Args:
            names: the names of the keys.
            places: that of each value's key among them.
            numbers: of the values.
        """
        self._add_values()
        if self._numbers and self._numbers[0].dtype != numbers.dtype:
            self._add_numbers()
        self.count += len(numbers)
        known = self._places_of
        of_names = np.array([known.setdefault(name, len(known)) for name in names], np.int64)
        self._places.append(of_names[places])
        self._numbers.append(numbers)

    def combine_times(
        self, names: Sequence[Hashable], stamps: list[int], combine: Callable[[int, int], int]
    ) -> None:
        """Combine the timestamps of values with those so far."""
        known = self.stamps
        for name, micros in zip(names, stamps, strict=True):
            known[name] = combine(known.get(name, micros), micros)

    def add_up(self) -> None:
        """Aggregate the waiting values into the accumulators."""
        self._add_values()
        self._add_numbers()

    def _add_values(self) -> None:
        for name, values in self._gathered.items():
            self._add(name, values)
        self._gathered.clear()

    def _add(self, name: Hashable, values: list[Any]) -> None:
        accumulators = self.accumulators
        if name not in accumulators:
            accumulators[name] = self._combine_fn.create_accumulator()
        accumulators[name] = self._combine_fn.add_inputs(accumulators[name], values)

    def _add_numbers(self) -> None:
        if not self._numbers:
            return
        assert self._form is not None
        names = list(self._places_of)
        places, numbers = np.concatenate(self._places), np.concatenate(self._numbers)
        self._places_of, self._places, self._numbers = {}, [], []
        order = np.argsort(places, kind="stable")
        firsts = firsts_of(places[order])
        known = list(map(self.accumulators.get, names))
        found = self._form.added(known, numbers[order], firsts, self._combine_fn)
        if found is not None:
            self.accumulators.update(zip(names, found, strict=True))
            return
        count_refused(f"{self._form.name} is not exact over columns")
        values, ends = self._form.values(numbers[order]), [*firsts[1:].tolist(), len(numbers)]
        for name, first, end in zip(names, firsts.tolist(), ends, strict=True):
            self._add(name, values[first:end])
