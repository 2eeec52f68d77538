"""Aggregates with their keys, as the map side of a combine hands them to a sink."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from apache_beam.transforms.window import IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.worker.value_columns import Column


@dataclass(frozen=True)
class KeyedAggregates:
    """Aggregates with unique pairs of key and window, or slice.

    Attributes:
        keys: each once, by their numbers.
        template: a windowed value with the window of all rows; None if each has its own.
    """

    keys: list[Any] | Column
    rows: Aggregates
    template: WindowedValue | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def count(self) -> int:
        """Return the number of elements in the aggregates."""
        assert self.rows.counts is not None
        return int(self.rows.counts.sum())

    def first_key(self) -> Any:
        """Return the key of the first row."""
        place = int(self.rows.keys[0])
        keys = self.keys[place : place + 1]
        return keys.first() if isinstance(keys, Column) else keys[0]

    def elements(self) -> Iterator[WindowedValue]:
        """Yield accumulators that are objects, each as an element of its window."""
        assert not self.rows.are_numbers
        keys = self.keys.values() if isinstance(self.keys, Column) else self.keys
        rows = self.rows
        times = (column.tolist() for column in (rows.keys, rows.starts, rows.ends, rows.stamps))
        for place, start, end, stamp, total in zip(*times, rows.totals.tolist(), strict=True):
            window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
            yield WindowedValue((keys[place], total), Timestamp(micros=stamp), (window,))


class ExtraElements(NamedTuple):
    """Number of elements of a window beyond its number of accumulators.

    Sinks need this where elements can be late.
    """

    template: WindowedValue
    number: int

    def elements(self) -> Iterator[WindowedValue]:
        """Yield nothing: the content is not an element."""
        return iter(())
