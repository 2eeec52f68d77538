"""Functions and aggregates of lowered queries, which run in workers: they need no parser of SQL."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam


def quotient(left: int, right: int) -> int:
    """Divide integers; the result is truncated."""
    return left // right if (left < 0) == (right < 0) else -(-left // right)


def modulo(left: int, right: int) -> int:
    """Return the remainder of a truncated division; it has the sign of ``left``."""
    return left % abs(right) if left >= 0 else -(-left % abs(right))


class Best(beam.CombineFn):
    """The least or greatest value that is not None.

    Args:
        choose: ``min`` or ``max``.
    """

    def __init__(self, choose: Callable[[Any], Any]) -> None:
        super().__init__()
        self._choose = choose

    def create_accumulator(self) -> Any:
        return None

    def add_input(self, best: Any, value: Any) -> Any:
        return self._of((best, value))

    def merge_accumulators(self, accumulators: Any) -> Any:
        return self._of(accumulators)

    def extract_output(self, best: Any) -> Any:
        return best

    def _of(self, values: Any) -> Any:
        present = [value for value in values if value is not None]
        return self._choose(present) if present else None


class Present(beam.CombineFn):
    """Another CombineFn over the values that are not None.

    Args:
        combine: the other one.
    """

    def __init__(self, combine: beam.CombineFn) -> None:
        super().__init__()
        self._combine = combine

    def setup(self) -> None:
        self._combine.setup()

    def create_accumulator(self) -> Any:
        return self._combine.create_accumulator()

    def add_input(self, accumulator: Any, value: Any) -> Any:
        return accumulator if value is None else self._combine.add_input(accumulator, value)

    def merge_accumulators(self, accumulators: Any) -> Any:
        return self._combine.merge_accumulators(accumulators)

    def compact(self, accumulator: Any) -> Any:
        return self._combine.compact(accumulator)

    def extract_output(self, accumulator: Any) -> Any:
        return self._combine.extract_output(accumulator)

    def teardown(self) -> None:
        self._combine.teardown()


class CountDistinct(beam.CombineFn):
    """Number of different values that are not None."""

    def create_accumulator(self) -> set[Any]:
        return set()

    def add_input(self, values: set[Any], value: Any) -> set[Any]:
        if value is not None:
            values.add(value)
        return values

    def merge_accumulators(self, accumulators: Any) -> set[Any]:
        return set().union(*accumulators)

    def extract_output(self, values: set[Any]) -> int:
        return len(values)
