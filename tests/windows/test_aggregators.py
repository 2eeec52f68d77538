"""All aggregators of sessions give what Beam's own merge gives."""

import sys
from collections import defaultdict
from functools import reduce
from itertools import pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.combiners import (
    CountCombineFn,
    MeanCombineFn,
    SingleInputTupleCombineFn,
    ToListCombineFn,
    TupleCombineFn,
)
from apache_beam.transforms.cy_combiners import MaxInt64Fn, SumInt64Fn
from apache_beam.transforms.window import IntervalWindow, Sessions, WindowFn
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp
from columnbuffers import ColumnSessions
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkbeam.aggregate import ordered_sessions, session_pieces
from sparkbeam.aggregate import session_runs as columnruns
from sparkbeam.aggregate.aggregator import Aggregator, Session, in_session
from sparkbeam.aggregate.canonical_sessions import CanonicalSessions
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.ordered_sessions import OrderedSessions
from sparkbeam.aggregate.session_runs import Runs
from sparkbeam.columns.order import arranged, sums_of
from sparkbeam.wire.rounding import coded_span

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import worked

KINDS: dict[str, Any] = {
    "canonical": CanonicalSessions,
    "ordered": OrderedSessions,
    "columnar": ColumnSessions,
}
MILLI = 1000

of_each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)

Element = tuple[int, Any]
Found = list[tuple[int, int, int, Any]]


def window_of(micros: int, gap: int) -> tuple[int, int]:
    time = Timestamp(micros=micros)
    return coded_span(IntervalWindow(time, time + gap / 1_000_000))


def sessions(aggregator: Aggregator[Any], parts: list[list[Element]], gap: int) -> Any:
    """The buffer of elements that were reduced in parts."""
    buffers = []
    for part in parts:
        buffer = aggregator.zero()
        for micros, value in part:
            buffer = aggregator.reduce(buffer, *window_of(micros, gap), micros, value)
        buffers.append(buffer)
    return reduce(aggregator.merge, buffers)


def finished(aggregator: Aggregator[Any], buffer: Any, fn: beam.CombineFn) -> Found:
    return [
        (start, end, stamp, shown(fn.extract_output(accumulator)))
        for start, end, stamp, accumulator in aggregator.finish(buffer)
    ]


def shown(output: Any) -> str:
    """An output without the order of a list, as that of arrival is not told."""
    return repr(sorted(output) if isinstance(output, list) else output)


class Merges(WindowFn.MergeContext):
    def __init__(self, windows: Any) -> None:
        super().__init__(windows)
        self.into: dict[Any, Any] = {}

    def merge(self, to_be_merged: Any, merge_result: Any) -> None:
        self.into |= dict.fromkeys(to_be_merged, merge_result)


def beams(elements: list[Element], gap: int, fn: beam.CombineFn, stamps: Any) -> Found:
    """One call of Beam's merge for all windows, and one of the CombineFn for each session."""
    by_window = defaultdict(list)
    for micros, value in elements:
        start, end = window_of(micros, gap)
        window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
        by_window[window].append((micros, value))
    merges = Merges(list(by_window))
    Sessions(1).merge(merges)
    merged: defaultdict[Any, list[Element]] = defaultdict(list)
    for window, members in by_window.items():
        merged[merges.into.get(window, window)] += members
    return sorted(
        (
            window.start.micros,
            window.end.micros,
            stamps(micros for micros, _ in members),
            shown(fn.apply([value for _, value in members])),
        )
        for window, members in merged.items()
    )


TIMES = st.one_of(
    st.integers(-30, 30).map(lambda number: number * MILLI),
    st.sampled_from([MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros, MAX_TIMESTAMP.micros - 7 * MILLI]),
)
WHOLE = st.one_of(st.integers(-5, 5), st.sampled_from([2**62, 2**63 - 1, -(2**63)]))
VALUES = {
    "count": (CountCombineFn(), st.none()),
    "sum": (beam.CombineFn.from_callable(sum), st.one_of(WHOLE, st.booleans(), st.just(2**70))),
    "min": (
        beam.CombineFn.from_callable(min),
        st.one_of(WHOLE, st.sampled_from([0.5, -1.5, float("inf")])),
    ),
    "max of floats": (
        beam.CombineFn.from_callable(max),
        st.floats(allow_nan=False).filter(bool),
    ),
    "max of texts": (beam.CombineFn.from_callable(max), st.text(max_size=2)),
    "sum, of Beam": (SumInt64Fn(), st.integers(-5, 5)),
    "max, of Beam": (MaxInt64Fn(), WHOLE),
    # Sums of larger numbers and floats would depend on their order.
    "mean": (MeanCombineFn(), st.one_of(st.integers(-5, 5), st.sampled_from([0.5, -1.25]))),
    "any": (beam.CombineFn.from_callable(any), st.sampled_from([0, 1, "", None, True])),
    "several": (SingleInputTupleCombineFn(sum, MeanCombineFn(), all), WHOLE),
    "tuples": (
        TupleCombineFn(max, CountCombineFn()),
        st.tuples(st.sampled_from([0.5, -1.25, 3]), st.none()),
    ),
    "list": (ToListCombineFn(), st.integers(-5, 5)),
}


@st.composite
def in_parts(draw: Any, values: Any) -> list[list[Element]]:
    elements = draw(st.lists(st.tuples(TIMES, values), min_size=1, max_size=40))
    cuts = sorted(draw(st.lists(st.integers(0, len(elements)), max_size=4)))
    bounds = [0, *cuts, len(elements)]
    return [elements[begin:end] for begin, end in pairwise(bounds)]


@pytest.mark.part(5)
@of_each_kind
@pytest.mark.parametrize(("fn", "values"), VALUES.values(), ids=VALUES)
@settings(max_examples=30)
@given(st.data())
def test_they_are_those_of_beam(kind: Any, fn: beam.CombineFn, values: Any, data: Any) -> None:
    parts = data.draw(in_parts(values))
    gap = data.draw(st.integers(1, 12)) * MILLI
    stamps = data.draw(st.sampled_from([min, max]))
    elements = [element for part in parts for element in part]
    with (
        mock.patch.object(columnruns, "_PIECE", 2),
        mock.patch.object(session_pieces, "_PIECE", 2),
    ):
        aggregator = kind(fn, stamps)
        found = finished(aggregator, sessions(aggregator, parts, gap), fn)
    assert found == beams(elements, gap, fn, stamps)


@of_each_kind
def test_sessions_that_touch_stay_apart(kind: Any) -> None:
    aggregator = kind(CountCombineFn(), max)
    buffer = aggregator.zero()
    for start in (10, 0, 20):
        buffer = aggregator.reduce(buffer, start, start + 10, start, None)
    assert [session[:2] for session in aggregator.finish(buffer)] == [(0, 10), (10, 20), (20, 30)]


@of_each_kind
def test_an_element_may_join_several_sessions(kind: Any) -> None:
    aggregator = kind(beam.CombineFn.from_callable(sum), max)
    buffer = aggregator.zero()
    for start in range(0, 100, 10):
        buffer = aggregator.reduce(buffer, start, start + 5, start, 1)
    buffer = aggregator.reduce(buffer, 12, 58, 12, 100)
    found = finished(aggregator, buffer, beam.CombineFn.from_callable(sum))
    assert found == [
        (0, 5, 0, "1"),
        (10, 58, 50, "105"),
        *((start, start + 5, start, "1") for start in range(60, 100, 10)),
    ]


@of_each_kind
def test_the_worked_example_of_the_documents(kind: Any) -> None:
    fn = beam.CombineFn.from_callable(sum)
    aggregator = kind(fn, max)
    buffer = aggregator.zero()
    for session in worked.BEFORE:
        buffer = aggregator.reduce(buffer, session.start, session.end, session.start, session.value)
    for element in worked.INPUTS:
        buffer = aggregator.reduce(buffer, element.start, element.end, element.start, element.value)
    assert [element.value for element in worked.INPUTS] == [7, 5, 4, 4, 9]
    assert [(start, end, total) for start, end, _, total in finished(aggregator, buffer, fn)] == [
        (1, 12, "33"),
        (14, 15, "2"),
    ]


@settings(max_examples=500)
@given(
    st.lists(st.tuples(st.integers(0, 150), st.integers(1, 30)), max_size=80), st.integers(0, 80)
)
def test_sessions_in_blocks_are_those_of_the_reference(
    windows: list[tuple[int, int]], second: int
) -> None:
    found = []
    with (
        mock.patch.object(ordered_sessions, "_PIECE", 2),
        mock.patch.object(ordered_sessions, "_MOST", 4),
    ):
        for kind in (OrderedSessions, CanonicalSessions):
            aggregator: Any = kind(ToListCombineFn(), max)
            buffers = [aggregator.zero(), aggregator.zero()]
            for number, (start, length) in enumerate(windows):
                buffer = buffers[number >= second]
                assert aggregator.reduce(buffer, start, start + length, number, number) is buffer
                assert len(buffer) == len(list(aggregator.finish(buffer)))
            buffer = aggregator.merge(*buffers)
            assert len(buffer) == len(list(aggregator.finish(buffer)))
            found.append(finished(aggregator, buffer, ToListCombineFn()))
    assert found[0] == found[1]


def test_a_block_of_sessions_is_parted_when_it_is_long() -> None:
    aggregator = OrderedSessions(CountCombineFn(), max)
    buffer = aggregator.zero()
    for start in np.random.default_rng(1).permutation(20_000).tolist():
        buffer = aggregator.reduce(buffer, 2 * start, 2 * start + 1, start, None)
    blocks = [len(accumulators) for _, accumulators in buffer.blocks]
    assert sum(blocks) == len(buffer) == 20_000
    assert max(blocks) <= 128
    assert min(blocks) >= 32


def test_columns_add_up_values_in_the_order_in_which_they_come() -> None:
    aggregator = ColumnSessions(ToListCombineFn(), max)
    buffer = aggregator.zero()
    for time in (3, 1, 2, 1):
        buffer = aggregator.reduce(buffer, time, time + 5, time, time)
    (session,) = aggregator.finish(buffer)
    assert session.accumulator == [3, 1, 2, 1]


class Arrays(beam.CombineFn):
    """Adds numbers up in an array."""

    def create_accumulator(self) -> Any:
        return np.zeros(2, np.int64)

    def add_input(self, accumulator: Any, element: int) -> Any:
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> Any:
        return sum(accumulators)

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


@of_each_kind
def test_an_accumulator_may_be_an_array(kind: Any) -> None:
    aggregator = kind(Arrays(), max)
    parts: list[list[Element]] = [[(0, 1), (50_000, 2)], [(2_000, 3), (70_000, 5)], [(51_000, 4)]]
    found = aggregator.finish(sessions(aggregator, parts, 10_000))
    assert [session.accumulator.tolist() for session in found] == [[4, 4], [6, 6], [5, 5]]


Window = tuple[int, int, int]
"""A key, the start and the length."""


PLACES = 16
LENGTHS = (0, 1, 5, 5, 5, 5, 30, 30)

BATCH = st.tuples(
    # A window is a byte: all that hypothesis chooses takes it time.
    st.binary(min_size=1, max_size=12),
    st.sampled_from([0, 3, 10, 10, 60]),
    st.sampled_from([0, 0, 8, None]),
    st.sampled_from([(0, 0), (0, 2), (1, 3)]),
    st.booleans(),
)
BATCHES = st.integers(1, 25).flatmap(lambda count: st.lists(BATCH, min_size=count, max_size=count))


@BATCHES.map
def batches_of_windows(batches: list[Any]) -> list[list[Window]]:
    """Batches that are behind each other, reach back, or are anywhere."""
    found = []
    begin = 0
    for batch, step, back, keys, in_order in batches:
        begin += step
        since = 0 if back is None else begin - back
        windows = []
        for byte in batch:
            length, place = divmod(byte // 2, PLACES)
            start = since + place * (begin + 9 - since) // (PLACES - 1)
            windows.append((keys[byte % 2], start, LENGTHS[length]))
        found.append(sorted(windows, key=itemgetter(1)) if in_order else windows)
    return found


def by_the_rule(elements: list[tuple[Window, int]], stamps: Any) -> list[Any]:
    """Keys and sessions with the numbers of their elements, all sorted and cut once."""
    found: list[Any] = []
    for (key, start, length), number in sorted(elements, key=lambda one: one[0][:2]):
        last = found[-1] if found else None
        if last is None or last[0] != key or not in_session(start, last[1], last[2]):
            last = [key, start, start + length, number, []]
            found.append(last)
        last[2:4] = max(last[2], start + length), stamps(last[3], number)
        last[4].append(number)
    return [(*times, sorted(numbers)) for *times, numbers in found]


def shown_session(found: tuple[int, Session]) -> Any:
    key, (start, end, stamp, accumulator) = found
    numbers = accumulator if isinstance(accumulator, list) else [accumulator]
    return key, start, end, stamp, sorted(numbers)


@settings(max_examples=300)
@given(
    batches_of_windows,
    st.sampled_from([min, max]),
    st.sampled_from([1, 4, 1024]),
    st.sampled_from([1, 2, 5, 1024]),
)
def test_runs_of_many_keys_merge_whatever_comes_when(
    batches: list[list[Window]], stamps: Any, piece: int, merged: int
) -> None:
    make = SessionColumns(ToListCombineFn(), stamps)
    runs = Runs(make)
    every: list[tuple[Window, int]] = []
    with (
        mock.patch.object(columnruns, "_PIECE", piece),
        mock.patch.object(session_pieces, "_PIECE", merged),
    ):
        for batch in batches:
            numbers = list(range(len(every), len(every) + len(batch)))
            keys, starts, lengths = (np.array(column) for column in zip(*batch, strict=True))
            times = starts, starts + lengths, np.array(numbers)
            runs.add(make.reduce(keys, *times, numbers))
            assert len(runs) == sum(map(len, runs))
            every += zip(batch, numbers, strict=True)
        columns = runs.aggregates()
    assert columns is not None
    found = list(map(shown_session, make.sessions(columns)))
    assert found == by_the_rule(every, stamps)
    assert len(runs) == len(found)


@pytest.mark.parametrize("kind", [OrderedSessions, ColumnSessions])
@settings(max_examples=300)
@given(batches_of_windows, st.sampled_from([min, max]), st.integers(1, 3), st.integers(0, 25))
def test_batches_in_one_buffer_or_two_are_cut_by_the_rule(
    kind: Any, batches: list[list[Window]], stamps: Any, piece: int, second: int
) -> None:
    aggregator = kind(ToListCombineFn(), stamps)
    buffers = [aggregator.zero(), aggregator.zero()]
    every: list[tuple[Window, int]] = []
    with (
        mock.patch.multiple(ordered_sessions, _PIECE=piece, _MOST=2 * piece),
        mock.patch.object(columnruns, "_PIECE", piece),
        mock.patch.object(session_pieces, "_PIECE", piece),
    ):
        for number, batch in enumerate(batches):
            buffer = buffers[number >= second]
            windows = [(start, start + length) for _, start, length in batch]
            numbers = list(range(len(every), len(every) + len(batch)))
            elements = [(*w, one, one) for one, w in zip(numbers, windows, strict=True)]
            if kind is ColumnSessions and number % 3:
                aggregator.reduce_all(buffer, elements)
            else:
                for element in elements:
                    aggregator.reduce(buffer, *element)
            every += (((0, *window[1:]), n) for window, n in zip(batch, numbers, strict=True))
        found = aggregator.finish(aggregator.merge(*buffers))
        assert [shown_session((0, one)) for one in found] == by_the_rule(every, stamps)


@settings(max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=300),
    st.sampled_from([1, 1000, 1 << 16, 1000 << 30, 1 << 40, 1 << 59]),
    st.sampled_from([1, 1 << 20, 1 << 50, 1 << 60]),
    st.integers(1, 20),
    st.booleans(),
)
def test_the_order_is_that_of_a_stable_sort(
    rows: list[tuple[int, int]], step: int, stride: int, repeated: int, in_time: bool
) -> None:
    first, second = np.array(rows * repeated).T.copy()
    if in_time:
        second.sort()
    first = first * stride - 2 * stride
    expected = np.lexsort((second, first))
    second = second * step - 4 * step
    found = arranged(first, second)
    assert found.order.tolist() == expected.tolist()
    assert found.first.tolist() == first[expected].tolist()
    assert found.second.tolist() == second[expected].tolist()
    rows_in_order = list(zip(found.first.tolist(), found.second.tolist(), strict=True))
    assert [rows_in_order[at] for at in found.firsts().tolist()] == sorted(set(rows_in_order))


@settings(max_examples=200)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1), min_size=1),
    st.sampled_from([1, 1000, 1 << 40, 1 << 59]),
    st.sampled_from([1, 1 << 50, 1 << 60]),
)
def test_runs_have_the_order_of_a_stable_sort(
    parts: list[list[tuple[int, int]]], step: int, stride: int
) -> None:
    first, second = np.array([row for part in parts for row in sorted(part)]).T.copy()
    first, second = first * stride - 2 * stride, second * step - 4 * step
    expected = np.lexsort((second, first))
    found = arranged(first, second, in_runs=True)
    assert found.order.tolist() == expected.tolist()
    assert found.first.tolist() == first[expected].tolist()
    assert found.second.tolist() == second[expected].tolist()


@settings(max_examples=200)
@given(
    st.lists(
        st.lists(st.integers(-(2**62), 2**62 - 1), min_size=1, max_size=2), min_size=1, max_size=99
    ),
    st.integers(0, 40),
)
def test_sums_of_runs_are_those_of_python(runs: list[list[int]], more: int) -> None:
    runs[-1] += [1] * more * len(runs)
    firsts = np.cumsum([0, *map(len, runs[:-1])])
    numbers = np.array([number for run in runs for number in run])
    wrapped = [(sum(run) + 2**63) % 2**64 - 2**63 for run in runs]
    assert sums_of(numbers, firsts).tolist() == wrapped


def test_elements_in_their_order_are_not_merged_again() -> None:
    make = SessionColumns(CountCombineFn(), max)
    runs = Runs(make)
    merged = []
    with mock.patch.object(SessionColumns, "merge", lambda _, *parts: merged.append(parts)):
        for begin in range(0, 100_000, 1000):
            column = np.arange(begin, begin + 1000) * 10
            runs.add(make.reduce(column * 0, column, column + 5, column, [None] * 1000))
    assert not merged
    assert len(list(runs)) == 50
    columns = runs.aggregates()
    assert columns is not None
    assert columns.starts.tolist() == list(range(0, 1_000_000, 10))


def test_what_one_run_has_alone_stays_as_it_is() -> None:
    make = SessionColumns(CountCombineFn(), max)
    runs = []
    for begin, step in ((0, 2), (1, 2), (9_000, 1)):
        starts = np.arange(begin, begin + 1000 * step, step) * 10
        runs.append([make.reduce(starts * 0, starts, starts + 5, starts, [None] * 1000)])
    with (
        mock.patch.object(session_pieces, "_PIECE", 100),
        mock.patch.object(
            SessionColumns, "merge", autospec=True, side_effect=SessionColumns.merge
        ) as merge,
    ):
        found = session_pieces.merged_in_pieces(make, runs)
    assert np.concatenate([piece.starts for piece in found]).tolist() == [
        *range(0, 20_000, 10),
        *range(90_000, 100_000, 10),
    ]
    assert sum(len(part) for call in merge.mock_calls for part in call.args[1:]) < 2_400


def test_columns_that_come_in_small_parts_are_merged_seldom() -> None:
    make = SessionColumns(CountCombineFn(), max)
    runs = Runs(make)
    for start in range(100):
        column = np.array([start * 10])
        runs.add(make.reduce(column * 0, column, column + 5, column, [None]))
        assert len(list(runs)) <= 8
    found = runs.aggregates()
    assert found is not None
    assert len(found) == 100
