"""Aggregators of sessions merge little; what they make is in ``test_random_aggregations.py``."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.combiners import CountCombineFn
from apache_beam.transforms.window import Sessions, TimestampedValue
from noting import values

from sparkbeam.aggregate import session_pieces
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.ordered_sessions import OrderedSessions
from sparkbeam.aggregate.session_runs import Runs

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import worked


@pytest.mark.parametrize("aggregator", ["canonical", "ordered", "columnar"])
def test_the_worked_example_of_the_documents(aggregator: str) -> None:
    def build(p: beam.Pipeline) -> Any:
        parts = []
        for length in (1, 3):
            some = [
                element
                for element in (*worked.BEFORE, *worked.INPUTS)
                if element.end - element.start == length
            ]
            made = p | f"of {length}" >> beam.Create(some) | f"at {length}" >> beam.Map(stamped)
            parts.append(made | f"windows of {length}" >> beam.WindowInto(Sessions(length)))
        sums = parts | beam.Flatten() | beam.CombinePerKey(sum)
        return sums | beam.ParDo(Spanned())

    assert [element.value for element in worked.INPUTS] == [7, 5, 4, 4, 9]
    found = values(build, f"--session_aggregator={aggregator}")
    assert sorted(found) == [(1, 12, 33), (14, 15, 2)]


def stamped(element: worked.Element) -> TimestampedValue:
    return TimestampedValue(("key", element.value), element.start)


class Spanned(beam.DoFn):
    def process(
        self, total: tuple[str, int], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[tuple[int, int, int]]:
        yield int(window.start), int(window.end), total[1]


def test_a_block_of_sessions_is_parted_when_it_is_long() -> None:
    aggregator = OrderedSessions(CountCombineFn(), max)
    buffer = aggregator.zero()
    for start in np.random.default_rng(1).permutation(20_000).tolist():
        buffer = aggregator.reduce(buffer, 2 * start, 2 * start + 1, start, None)
    blocks = [len(accumulators) for _, accumulators in buffer.blocks]
    assert sum(blocks) == len(buffer) == 20_000
    assert max(blocks) <= 128
    assert min(blocks) >= 32


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
