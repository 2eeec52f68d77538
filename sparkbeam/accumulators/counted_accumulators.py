"""Accumulators with the number of their elements."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam

Counted = tuple[int, Any]
"""Number of elements of an accumulator, and the accumulator."""


class CountingCombineFn(beam.CombineFn):
    """CombineFn that combines as another one does, and counts the elements."""

    def __init__(self, combine_fn: beam.CombineFn) -> None:
        self.combine_fn = combine_fn

    def setup(self) -> None:
        self.combine_fn.setup()

    def create_accumulator(self) -> Counted:
        return 0, self.combine_fn.create_accumulator()

    def add_input(self, mutable_accumulator: Counted, element: Any) -> Counted:
        count, accumulator = mutable_accumulator
        return count + 1, self.combine_fn.add_input(accumulator, element)

    def add_inputs(self, mutable_accumulator: Counted, elements: Iterable[Any]) -> Counted:
        count, accumulator = mutable_accumulator
        values = list(elements)
        return count + len(values), self.combine_fn.add_inputs(accumulator, values)

    def merge_accumulators(self, accumulators: Iterable[Counted]) -> Counted:
        total, alone = 0, []
        for count, accumulator in accumulators:
            total += count
            alone.append(accumulator)
        return total, self.combine_fn.merge_accumulators(alone)

    def compact(self, accumulator: Counted) -> Counted:
        count, compacted = accumulator
        return count, self.combine_fn.compact(compacted)

    def extract_output(self, accumulator: Counted) -> tuple[int, Any]:
        count, extracted = accumulator
        return count, self.combine_fn.extract_output(extracted)

    def teardown(self) -> None:
        self.combine_fn.teardown()


def uncounted(combine_fn: beam.CombineFn) -> beam.CombineFn:
    """Return the CombineFn itself, without the count."""
    return combine_fn.combine_fn if isinstance(combine_fn, CountingCombineFn) else combine_fn
