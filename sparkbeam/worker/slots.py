"""Windows of a block, if they depend only on the timestamp."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from apache_beam.utils import windowed_value
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.accumulators.window_lengths import slots_of
from sparkbeam.columns.order import is_sorted
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.common.integer_division import floored
from sparkbeam.worker.blocks import SMALLEST_BLOCK, Assigned, Block
from sparkbeam.worker.intervals import Intervals

_FEWEST = SMALLEST_BLOCK
"""Minimum number of values per window: with fewer values blocks do not pay."""


def parts_of(block: Block) -> Iterator[Block]:
    """Return the values in blocks that share their windows."""
    return iter((block,)) if block.assigned is None else in_slots(block)


def in_slots(block: Block) -> Iterator[Block]:
    """Yield the values grouped by their assigned windows, with these windows."""
    given = block.assigned
    assert given is not None
    times = block.time_column()
    for first, rows in runs_of(_numbers(given, times)):
        template = windowed_value.create(None, *block.windowing_at(first, int(times[first])))
        yield (block if rows is None else block.take(rows)).with_windowing(template)


def single_windows(block: Block) -> tuple[list[WindowedValue], Positions] | None:
    """Return the distinct windows that the values are assigned, and each value's position in them.

    A template has the window. None if values have several windows.
    """
    given = block.assigned
    assert given is not None
    times = block.time_column()
    numbers = pa.array(_numbers(given, times)).dictionary_encode()
    places = numbers.indices.to_numpy()
    firsts = np.empty(len(numbers.dictionary), np.int64)
    # Of several values for a place the last one stays.
    firsts[places[::-1]] = np.arange(len(times))[::-1]
    found = [
        windowed_value.create(None, *block.windowing_at(first, int(times[first])))
        for first in firsts.tolist()
    ]
    return (found, places) if all(len(one.windows) == 1 for one in found) else None


def are_scattered(block: Block) -> bool:
    """Return whether values have so many windows that they are better taken one by one."""
    given = block.assigned
    return isinstance(given, Intervals) and _FEWEST * len(np.unique(given.starts)) > len(given)


def _numbers(given: Assigned, times: Micros) -> Micros:
    """Return a number for each value; values in the same windows have the same number."""
    if isinstance(given, Intervals):
        return given.numbers()
    bounds = slots_of(given)
    return times if bounds is None else slot_numbers(times, bounds)


def slot_numbers(times: Micros, bounds: tuple[int, int]) -> Micros:
    """Return the slot of each time."""
    offset, length = bounds
    numbers = floored(times, length)
    # To subtract the offset first could leave 64 bits.
    return numbers - (times - numbers * length < offset) if offset else numbers


def runs_of(numbers: Micros) -> Iterator[tuple[int, Micros | None]]:
    """Yield the positions of equal numbers, in order, by the first position of each number.

    They are None if all numbers are equal.
    """
    if not len(numbers):
        return
    if numbers.min() == numbers.max():
        yield 0, None
        return
    order = np.arange(len(numbers)) if is_sorted(numbers) else np.argsort(numbers, kind="stable")
    ends = np.flatnonzero(np.diff(numbers[order])) + 1
    for rows in sorted(np.split(order, ends), key=lambda some: int(some[0])):
        yield int(rows[0]), rows
