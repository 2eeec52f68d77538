"""Aggregators of sessions."""

import random
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.combiners import CountCombineFn, ToListCombineFn
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkbeam.aggregate import ordered_sessions, session_pieces, session_runs
from sparkbeam.aggregate.aggregator import Session, Stamps, in_session
from sparkbeam.aggregate.canonical_sessions import CanonicalSessions
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.ordered_sessions import OrderedSessions
from sparkbeam.aggregate.session_runs import Runs
from sparkbeam.columns.order import arranged, sums_of

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import worked


class ColumnSessions:
    """The sessions of one key in columns, as an aggregator."""

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._make = SessionColumns(combine_fn, stamps)

    def zero(self) -> Runs:
        return Runs(self._make)

    def reduce(self, buffer: Runs, start: int, end: int, stamp: int, value: Any) -> Runs:
        starts, ends, stamps = (np.array([number]) for number in (start, end, stamp))
        buffer.add(self._make.reduce(starts * 0, starts, ends, stamps, [value]))
        return buffer

    def finish(self, buffer: Runs) -> Iterator[Session]:
        found = buffer.aggregates()
        return iter(()) if found is None else map(itemgetter(1), self._make.sessions(found))


KINDS: dict[str, Any] = {
    "canonical": CanonicalSessions,
    "ordered": OrderedSessions,
    "columnar": ColumnSessions,
}

of_each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@of_each_kind
def test_sessions_that_touch_stay_apart(kind: Any) -> None:
    aggregator = kind(CountCombineFn(), max)
    buffer = aggregator.zero()
    for start in (10, 0, 20):
        buffer = aggregator.reduce(buffer, start, start + 10, start, None)
    assert [session[:2] for session in aggregator.finish(buffer)] == [(0, 10), (10, 20), (20, 30)]


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
    found = [(*one[:2], fn.extract_output(one.accumulator)) for one in aggregator.finish(buffer)]
    assert found == [(1, 12, 33), (14, 15, 2)]


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
    make, times = SessionColumns(ToListCombineFn(), max), np.array([3, 1, 2, 1])
    found = make.reduce(times * 0, times, times + 5, times, times.tolist())
    assert make.accumulators(found) == [[3, 1, 2, 1]]


Window = tuple[int, int, int]
"""A key, the start and the length."""


def batches_of_windows(chance: random.Random, *lengths: int) -> list[list[Window]]:
    """Batches that are behind each other, reach back, or are anywhere."""
    found, begin = [], 0
    for _ in range(chance.randint(1, 25)):
        begin += chance.choice([0, 3, 10, 10, 60])
        since = begin - chance.choice([0, 0, 8, begin])
        keys = chance.choice([(0, 0), (0, 2), (1, 3)])
        starts = [chance.randint(since, begin + 9) for _ in range(chance.randint(1, 12))]
        if chance.random() < 0.5:
            starts.sort()
        found.append([(chance.choice(keys), start, chance.choice(lengths)) for start in starts])
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


def shown(key: int, session: Session) -> Any:
    return key, *session[:3], sorted(session.accumulator)


@pytest.mark.parametrize("seed", range(40))
def test_sessions_are_cut_by_the_rule_whatever_comes_when(seed: int) -> None:
    chance = random.Random(seed)
    # Beam's merge takes no windows without length.
    batches = batches_of_windows(chance, seed % 2, 1, 5, 5, 5, 5, 30, 30)
    kinds = [OrderedSessions, CanonicalSessions] if seed % 2 else [OrderedSessions]
    stamps, piece = chance.choice([min, max]), chance.choice([1, 2, 5, 1024])
    make = SessionColumns(ToListCombineFn(), stamps)
    aggregators: list[Any] = [kind(ToListCombineFn(), stamps) for kind in kinds]
    runs, buffers = Runs(make), [each.zero() for each in aggregators]
    every: list[tuple[Window, int]] = []
    with (
        mock.patch.multiple(ordered_sessions, _PIECE=piece, _MOST=2 * piece),
        mock.patch.object(session_runs, "_PIECE", piece),
        mock.patch.object(session_pieces, "_PIECE", piece),
    ):
        for batch in batches:
            numbers = list(range(len(every), len(every) + len(batch)))
            keys, starts, lengths = (np.array(column) for column in zip(*batch, strict=True))
            runs.add(make.reduce(keys, starts, starts + lengths, np.array(numbers), numbers))
            assert len(runs) == sum(map(len, runs))
            for each, buffer in zip(aggregators, buffers, strict=True):
                for (_, start, length), number in zip(batch, numbers, strict=True):
                    each.reduce(buffer, start, start + length, number, number)
            every += zip(batch, numbers, strict=True)
        columns = runs.aggregates()
        of_one_key = [
            list(each.finish(buffer)) for each, buffer in zip(aggregators, buffers, strict=True)
        ]
    assert columns is not None
    assert [shown(*one) for one in make.sessions(columns)] == by_the_rule(every, stamps)
    assert len(runs) == len(columns)
    one_key = [((0, *window[1:]), number) for window, number in every]
    for found in of_one_key:
        assert [shown(0, session) for session in found] == by_the_rule(one_key, stamps)


def check_order(found: Any, first: Any, second: Any, expected: Any) -> None:
    assert found.order.tolist() == expected.tolist()
    assert found.first.tolist() == first[expected].tolist()
    assert found.second.tolist() == second[expected].tolist()


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
    check_order(found, first, second, expected)
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
    check_order(arranged(first, second, in_runs=True), first, second, expected)


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
