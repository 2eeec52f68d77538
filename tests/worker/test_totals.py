"""Slices of time, and combines over columns by window."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.combiners import MeanCombineFn
from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.window import (
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.plan.combine_columns import CombinePlan
from sparkbeam.worker.blocks import GLOBAL, Block, windows_at
from sparkbeam.worker.slices import slices_of
from sparkbeam.worker.steps.combine_columns import ColumnCombine
from sparkbeam.worker.value_columns import column_of_values

WINDOWS: list[WindowFn] = [
    FixedWindows(5),
    FixedWindows(7, 3),
    SlidingWindows(12, 3),
    SlidingWindows(6, 2, 1),
    SlidingWindows(6, 6),
    SlidingWindows(7, 3),
]
FNS: dict[str, CombineFn] = {
    "sum": CombineFn.from_callable(sum),
    "mean": MeanCombineFn(),
}
SECOND = 1_000_000
Element = tuple[Any, int, Any]
"""A key, a second, and a number."""


def gathering(fn: CombineFn, window_fn: WindowFn) -> ColumnCombine:
    form = form_of(fn)
    assert form is not None
    return ColumnCombine(fn, form, Windowing(window_fn), CombinePlan())


def blocks_of(columns: ColumnCombine) -> Iterator[tuple[Block, int]]:
    """All that is ready, in blocks of accumulators, with the number of elements."""
    columns.flush_pending()
    for ready in columns.ready():
        assert isinstance(ready.batch, Block)
        yield ready.batch, ready.count


def block_of(elements: list[Element], window_fn: WindowFn) -> Block:
    """The elements in columns where they make one, with the windows that they are assigned."""
    pairs = [(key, value) for key, _, value in elements]
    stamps = np.array([second * SECOND for _, second, _ in elements])
    block = Block(GLOBAL, column_of_values(pairs) or pairs, stamps)
    return block if isinstance(window_fn, GlobalWindows) else block.with_assigned(window_fn)


@pytest.mark.parametrize("window_fn", WINDOWS)
def test_slices_are_in_the_windows_that_beam_assigns(window_fn: WindowFn) -> None:
    slices = slices_of(window_fn)
    if slices is None:
        assert window_fn == SlidingWindows(7, 3)
        return
    times = np.arange(-40, 40, dtype=np.int64) * SECOND
    numbers = slices.numbers(times)
    assert numbers is not None
    for micros, number in zip(times.tolist(), numbers.tolist(), strict=True):
        windows = windows_at(window_fn, micros)
        assert set(windows) == set(slices.windows(number))
        shared = slices.shared(windows, 2)
        assert shared is not None
        assert shared.tolist() == [number, number]
    places, first = slices.in_windows(numbers)
    for place, at in zip(places.tolist(), first.tolist(), strict=True):
        assert slices.window(at) in windows_at(window_fn, int(times[place]))


def test_a_slice_goes_to_each_span_in_which_one_of_its_windows_begins() -> None:
    slices = slices_of(SlidingWindows(12, 3))
    assert slices is not None
    starts = slices.starts(np.arange(-50, 50))
    places, spans = slices.in_spans(starts)
    found = set(zip(places.tolist(), spans.tolist(), strict=True))
    assert len(found) == len(places) < 1.25 * len(starts)
    for place, start in enumerate(starts.tolist()):
        begins = np.array([start - back * slices.length for back in range(slices.count)])
        assert {span for at, span in found if at == place} == set(slices.spans(begins).tolist())


def test_times_whose_windows_leave_the_bounds_of_time_have_no_slices() -> None:
    slices = slices_of(FixedWindows(10))
    assert slices is not None
    for time in (MIN_TIMESTAMP, MAX_TIMESTAMP):
        assert slices.numbers(np.array([0, time.micros])) is None
        assert slices.shared(windows_at(FixedWindows(10), time.micros), 2) is None
    assert slices.numbers(np.array([], np.int64)) is not None


def test_windows_that_leave_the_bounds_of_time_are_none_of_a_slice() -> None:
    window_fn = SlidingWindows(12, 3)
    slices = slices_of(window_fn)
    assert slices is not None
    for micros in (MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros - SECOND):
        assert slices.shared(windows_at(window_fn, micros), 2) is None


def test_windows_that_are_a_part_of_a_slice_s_have_none() -> None:
    window_fn = SlidingWindows(12, 3)
    slices = slices_of(window_fn)
    assert slices is not None
    windows = windows_at(window_fn, 0)
    assert slices.shared(windows[:1], 1) is None
    assert slices.shared((*windows[:3], windows[0]), 1) is None


def test_groups_for_others_are_by_window_and_tell_their_elements() -> None:
    fn, window_fn = FNS["sum"], SlidingWindows(6, 2)
    columns = gathering(fn, window_fn)
    assert (
        columns.take(block_of([("a", 0, 1), ("a", 1, 2), ("b", 3, 4), ("a", 3, 8)], window_fn))
        is None
    )
    groups = [
        (int(block.windowing.windows[0].start), fn.extract_output(total), key, count)
        for block, count in blocks_of(columns)
        for key, total in block.values
    ]
    assert sorted(groups) == [
        (-4, 3, "a", 2),
        (-2, 4, "b", 4),
        (-2, 11, "a", 4),
        (0, 4, "b", 4),
        (0, 11, "a", 4),
        (2, 4, "b", 2),
        (2, 8, "a", 2),
    ]


@pytest.mark.parametrize("window_fn", [FixedWindows(100), SlidingWindows(100, 20)])
@pytest.mark.parametrize("name", ["sum", "mean"])
def test_floats_are_added_one_after_the_other(name: str, window_fn: WindowFn) -> None:
    fn = FNS[name]
    values = [0.1 * number for number in range(50)]
    expected = fn.create_accumulator()
    for value in values:
        expected = fn.add_input(expected, value)
    columns = gathering(fn, window_fn)
    for part in (values[:20], values[20:]):
        # All in the window that begins at 0, and in several slices of it.
        seconds = (number * 7 % 100 for number in range(len(part)))
        elements = [("a", second, value) for second, value in zip(seconds, part, strict=True)]
        block = block_of(elements, window_fn)
        if columns.take(block) is not None:
            assert name == "sum"
            assert sys.version_info >= (3, 12)
            return
        columns.flush_pending()
    ((block, count),) = (
        (block, count)
        for block, count in blocks_of(columns)
        if block.windowing.windows == (IntervalWindow(0, 100),)
    )
    assert count == 50
    assert fn.extract_output(block.values[0][1]) == fn.extract_output(expected)


class Parity(NonMergingWindowFn):
    """Windows that are no intervals of time, of which an element is in several."""

    def assign(self, context: Any) -> list[BoundedWindow]:
        second = int(context.timestamp)
        return [IntervalWindow(0, 1 + second % 2), IntervalWindow(0, 10), GlobalWindow()]

    def get_window_coder(self) -> coders.Coder:
        return coders.IntervalWindowCoder()


def test_windows_of_ones_own_add_up_over_columns() -> None:
    fn = FNS["sum"]
    columns = gathering(fn, Parity())
    for second, value in enumerate([1, 2, 4, 8]):
        template = WindowedValue(None, second, windows_at(Parity(), second * SECOND))
        column = column_of_values([("a", value), ("b", 1)])
        assert column is not None
        assert columns.take(Block(template, column)) is None
    columns.flush_pending()
    found = {
        (*block.windowing.windows, key): (fn.extract_output(total), count)
        for block, count in blocks_of(columns)
        for key, total in block.values
    }
    assert found == {
        (IntervalWindow(0, 1), "a"): (5, 4),
        (IntervalWindow(0, 1), "b"): (2, 4),
        (IntervalWindow(0, 2), "a"): (10, 4),
        (IntervalWindow(0, 2), "b"): (2, 4),
        (IntervalWindow(0, 10), "a"): (15, 8),
        (IntervalWindow(0, 10), "b"): (4, 8),
        (GlobalWindow(), "a"): (15, 8),
        (GlobalWindow(), "b"): (4, 8),
    }
