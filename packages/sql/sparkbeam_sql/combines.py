"""Aggregates of lowered queries, and the orders of their rows, which run in workers."""

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam import coders

from sparkbeam_sql.functions import decimal_total


class Best(beam.CombineFn):
    """The least or greatest value that is not None.

    Args:
        choose: a function of values that are not None, such as ``min`` or ``max``.
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
    """Another CombineFn over the values that are not None."""

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
            values.add(value if value == value else None)  # NaN is one value.
        return values

    def merge_accumulators(self, accumulators: Any) -> set[Any]:
        return set().union(*accumulators)

    def extract_output(self, values: set[Any]) -> int:
        return len(values)


class SumDistinct(CountDistinct):
    """Sum of different values that are not None; None if there is none."""

    def extract_output(self, values: set[Any]) -> Any:
        present: list[Any] = [math.nan if value is None else value for value in values]
        if not present:
            return None
        if isinstance(present[0], Decimal):
            return decimal_total(sorted(present))
        is_whole = all(isinstance(value, int | np.integer) for value in present)
        return sum(map(int, present)) if is_whole else sum(sorted(present))


class Spread(beam.CombineFn):
    """Variance or standard deviation of the values that are not None.

    None without values, and of a sample without two. A parallel algorithm: T. F. Chan, G. H. Golub,
    R. J. LeVeque, Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.

    Args:
        is_sample: of the whole of which the values are a sample.
    """

    def __init__(self, *, is_sample: bool, is_root: bool) -> None:
        super().__init__()
        self._is_sample = is_sample
        self._is_root = is_root

    def create_accumulator(self) -> tuple[Any, ...]:
        return 0, 0.0, 0.0

    def add_input(self, accumulator: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        return accumulator if value is None else self._merge(accumulator, (1, float(value), 0.0))

    def merge_accumulators(self, accumulators: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        return functools.reduce(self._merge, accumulators, self.create_accumulator())

    @staticmethod
    def _merge(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        """Merge counts, means, and sums of squared differences from the mean."""
        count = left[0] + right[0]
        if not left[0] or not right[0]:
            return left if left[0] else right
        distance = right[1] - left[1]
        mean = left[1] + distance * right[0] / count
        return count, mean, left[2] + right[2] + distance * distance * left[0] * right[0] / count

    def extract_output(self, accumulator: tuple[Any, ...]) -> Any:
        count, _, squares = accumulator
        degrees = count - self._is_sample
        if degrees <= 0:
            return None
        return math.sqrt(squares / degrees) if self._is_root else squares / degrees


class WholeSpread(Spread):
    """That of integers, which is truncated."""

    def create_accumulator(self) -> tuple[Any, ...]:
        return 0, 0, 0

    def add_input(self, accumulator: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        if value is None:
            return accumulator
        return self._merge(accumulator, (1, int(value), int(value) ** 2))

    @staticmethod
    def _merge(left: tuple[Any, ...], right: tuple[Any, ...]) -> tuple[Any, ...]:
        """Merge counts, sums, and sums of squares."""
        return tuple(one + other for one, other in zip(left, right, strict=True))

    def extract_output(self, accumulator: tuple[Any, ...]) -> Any:
        count, total, squares = accumulator
        degrees = count - self._is_sample
        if degrees <= 0:
            return None
        variance = (count * squares - total * total) // (count * degrees)
        return math.isqrt(variance) if self._is_root else variance


SPREADS: dict[str, Spread] = {
    f"{prefix}{name}_{whole}": kind(is_sample=whole == "samp", is_root=name == "stddev")
    for prefix, kind in (("", Spread), ("whole_", WholeSpread))
    for name in ("var", "stddev")
    for whole in ("pop", "samp")
}
"""Variances and standard deviations, by name."""


@dataclass(frozen=True)
class Order:
    """Order of rows by a column; NaN is greater than all other numbers.

    Attributes:
        descending: the greatest value comes first.
        nulls_first: None comes before all values, or else behind them.
    """

    column: str
    descending: bool
    nulls_first: bool

    def sort(self, rows: list[Any]) -> None:
        """Sort rows; those with equal values keep their order."""
        rows.sort(key=self._key, reverse=self.descending)

    def _key(self, row: Any) -> tuple[Any, ...]:
        value = getattr(row, self.column)
        if value is None:
            return (2,) if self.nulls_first == self.descending else (-1,)
        return (0, value) if value == value else (1,)


class First(beam.CombineFn):
    """The first rows in an order, as a list.

    Args:
        orders: the order; the first one counts most.
        skipped: the number of rows before these.
    """

    def __init__(
        self, orders: tuple[Order, ...], count: int, skipped: int, coder: coders.Coder
    ) -> None:
        super().__init__()
        self._orders = orders
        self._skipped = skipped
        self._end = skipped + count if count else 0
        self._coder = coder

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, rows: list[Any], row: Any) -> list[Any]:
        rows.append(row)
        return rows if len(rows) < 2 * self._end + 100 else self.compact(rows)

    def merge_accumulators(self, accumulators: Any) -> list[Any]:
        return self.compact([row for rows in accumulators for row in rows])

    def compact(self, rows: list[Any]) -> list[Any]:
        for order in reversed(self._orders):
            order.sort(rows)
        return rows[: self._end]

    def extract_output(self, rows: list[Any]) -> list[Any]:
        return self.compact(rows)[self._skipped :]

    def get_accumulator_coder(self) -> coders.Coder:
        return coders.ListCoder(self._coder)
