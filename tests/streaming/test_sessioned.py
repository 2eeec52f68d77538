"""Sessions cost what is changed of them."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import IntervalWindow, Sessions, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from in_process import streaming_pipeline
from noting import found, note
from random_aggregations import Aggregations, Arrival
from random_pipelines import Window
from random_runs import How, Trial

from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.wire.rows import PLAIN_CELL, SPANS_CELL
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.strategies import STREAMING
from sparkbeam.worker.grouping.triggered import TriggerGrouping
from sparkbeam.worker.row_formats.aggregate_cells import AggregateCell
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap

SECOND = 1_000_000
NUMBER, KEY = coders.VarIntCoder(), coders.StrUtf8Coder()
CODER = coders.WindowedValueCoder(coders.TupleCoder([KEY, NUMBER]), coders.IntervalWindowCoder())
STORED = coders.WindowedValueCoder(coders.BytesCoder(), CODER.window_coder)
CELLS = KeyCells(STORED)
WINDOWING = Windowing(Sessions(3))
COUNT = beam.combiners.CountCombineFn()


def row_of_many(at: int) -> Any:
    """The same in a cell of many keys."""
    key = pa.array([KEY.get_impl().encode_nested("a")], pa.binary())
    number, start = np.array([at + 1]), np.array([at * SECOND])
    return (
        b"",
        0,
        AggregateCell(SPANS_CELL, key, number, start, np.ones(1, int), 3 * SECOND).packed(),
    )


def row(at: int) -> Any:
    """An element that comes, with a window of 3 s."""
    window = IntervalWindow(Timestamp(at), Timestamp(at + 3))
    value = WindowedValue(NUMBER.encode(at + 1), Timestamp(at), (window,))
    return KEY.get_impl().encode_nested("a"), 0, PLAIN_CELL + CELLS.elements.encode([value])


class Counting(MemoryMap):
    """Counts the bytes that are read and written."""

    moved = 0

    def get(self, keys: Any) -> list[bytes | None]:
        found = super().get(keys)
        self.moved += sum(len(value) for value in found if value is not None)
        return found

    def put(self, entries: Any) -> None:
        super().put(entries)
        self.moved += sum(len(value) for value in entries.values() if value is not None)


@pytest.mark.parametrize(("combine_fn", "row"), [(None, row), (COUNT, row), (COUNT, row_of_many)])
def test_a_round_moves_what_it_changes_however_many_sessions_are_open(
    combine_fn: Any, row: Any
) -> None:
    def run(seconds: Iterable[int], watermark: int) -> None:
        """A round over the state that the one before has left."""
        state = ShardState(entries)
        grouping = SessionedGrouping(CODER, WINDOWING, combine_fn, state.stage("s"), clock)
        list(grouping.add(list(map(row, seconds))))
        clock.input_watermark = watermark * SECOND
        list(grouping.fire_blocks())
        state.save()

    moved = []
    for count in (10_000, 100_000):
        entries, clock = Counting(), ShardClock(-MAX_MICROS, -MAX_MICROS)
        run((10 * n for n in range(count)), 0)
        before = entries.moved
        for n in range(10):
            run([10 * (n * count // 10) + 4], 10 * n)
        moved.append(entries.moved - before)
    assert moved[1] < 1.5 * moved[0]


@pytest.mark.parametrize("lateness", [0, 5])
def test_the_end_of_a_session_and_the_lateness_is_too_late(lateness: int) -> None:
    """Of numbers that travel as columns, as of single elements by Beam's trigger driver."""
    arrivals = (
        Arrival(((("b", 1000, 1),),), 9 + lateness),
        Arrival(((("a", 1000, 2),),), 10 + lateness),
        Arrival(((("a", 1000, 4), ("a", 11_000 + 1000 * lateness, 8)),), 40),
    )
    sessions = Window("sessions", 9)
    made = Aggregations(arrivals, "text", "small", sessions, lateness=lateness)
    trial = Trial(made, How())
    assert not trial.problem(), trial


def test_new_elements_are_merged_with_the_sessions_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also by Beam's trigger driver."""
    monkeypatch.setitem(STREAMING, GroupStrategy.SESSIONS, TriggerGrouping)
    merged: list[int] = []
    merge = Sessions.merge

    def noted(self: Sessions, context: Any) -> None:
        merged.append(len(context.windows))
        merge(self, context)

    monkeypatch.setattr(Sessions, "merge", noted)
    events = TestStream(coder=coders.VarIntCoder()).advance_watermark_to(-1000)
    for low in range(40):
        numbers = range(low, 400, 40)
        events = events.add_elements([TimestampedValue(n, 10 * n) for n in numbers])
        events = events.advance_watermark_to(low - 999)
    found.clear()
    with streaming_pipeline() as p:
        sessions = (
            p
            | events.advance_watermark_to_infinity()
            | beam.WindowInto(Sessions(5))
            | beam.Map(lambda n: ("key", n))
            | beam.GroupByKey()
        )
        sessions | "note" >> beam.Map(note)
    assert len(found) == 400
    assert max(merged) <= 20
