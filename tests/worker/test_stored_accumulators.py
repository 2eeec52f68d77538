"""Accumulators of many keys become state without work for each key."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    FixedWindows,
    IntervalWindow,
    Sessions,
    TimestampCombiner,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from counted_map import CountedMap
from random_pipelines import Longest
from writer_outputs import output

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.plan.combine_columns import CombinePlan
from sparkbeam.plan.row_formats import KeyedRows
from sparkbeam.wire.rows import SPANS_CELL, TOTALS_CELL, Row
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.column_accumulators import Totals
from sparkbeam.worker.grouping import stripe_store
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.windowed import WindowGrouping
from sparkbeam.worker.row_formats.aggregate_cells import AggregateCell
from sparkbeam.worker.row_formats.keyed_rows import StoredSink
from sparkbeam.worker.state.page import Page
from sparkbeam.worker.state.pages import KeyedState, ShardState
from sparkbeam.worker.state.stripes import OpenWindow, SessionStripe, WindowStripe, stripe_of
from sparkbeam.worker.steps.combine_columns import ColumnCombine
from sparkbeam.worker.streaming.router import Router
from sparkbeam.worker.value_columns import column_of_values

SUM = beam.CombineFn.from_callable(sum)
FIXED = Windowing(FixedWindows(5))
SESSIONS = Windowing(Sessions(2))
SECOND = 1_000_000
RECORDS = np.dtype([("0", np.float64), ("1", np.int64)])


class Rows(Router):
    """Takes what a sink writes."""

    def __init__(self) -> None:
        super().__init__((0,), None, 0, {}, lambda *_: None, lambda *_: None)
        self.rows: list[Row] = []

    def take(self, tag: int, rows: list[Row]) -> None:
        self.rows += rows


def coder_of(windowing: Windowing) -> coders.WindowedValueCoder:
    pair = coders.TupleCoder([coders.VarIntCoder(), coders.FastPrimitivesCoder()])
    return coders.WindowedValueCoder(pair, windowing.windowfn.get_window_coder())


def written(windowing: Windowing, batches: Iterable[Any]) -> list[Row]:
    rows = Rows()
    sink = StoredSink(output(rows, KeyedRows(stored=True), coder_of(windowing), windowing))
    for batch in batches:
        sink.write(batch)
    sink.flush()
    return rows.rows


def in_columns(windowing: Windowing, count: int, *seconds: int, number: float = 1) -> list[Row]:
    """The rows of so many keys, each with a number at some seconds."""
    form = form_of(SUM)
    assert form is not None
    plan = CombinePlan(take_slices=windowing is SESSIONS, take_windows=True)
    combine = ColumnCombine(SUM, form, windowing, plan)
    column = column_of_values([(key, number) for _ in seconds for key in range(count)])
    assert column is not None
    times = np.repeat(np.array(seconds) * SECOND, count)
    assert combine.take(Block(GLOBAL, column, times, windowing.windowfn)) is None
    combine.flush_pending()
    return written(windowing, (ready.batch for ready in combine.ready()))


def one_by_one(accumulators: dict[int, Any], second: int = 5, of: Windowing = FIXED) -> list[Row]:
    """The rows of accumulators by key, in the first window."""
    template = WindowedValue(None, Timestamp(second), (IntervalWindow(0, 5),))
    return written(of, [Block(template, list(accumulators.items()))])


def grouping_of(
    stage: KeyedState, watermark: int = 0, fn: beam.CombineFn = SUM, of: Windowing = FIXED
) -> WindowGrouping:
    return WindowGrouping(coder_of(of), of, fn, stage, ShardClock(watermark, 0))


def test_accumulators_are_added_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    singly: list[Row] = []
    arrived = WindowGrouping._arrived

    def noted(self: WindowGrouping, rows: list[Row]) -> Any:
        singly.extend(rows)
        return arrived(self, rows)

    monkeypatch.setattr(WindowGrouping, "_arrived", noted)
    stage = ShardState(CountedMap()).stage("stage")
    for _ in range(2):
        rows = one_by_one({key: [1, 2, 3] for key in range(5000)})
        assert list(grouping_of(stage, fn=Longest()).add(rows)) == []
    assert singly == []
    assert stage.size[0] == 5000


def test_a_key_is_added_by_itself_if_its_timestamp_changes() -> None:
    of = Windowing(FixedWindows(5), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
    stage = ShardState(CountedMap()).stage("stage")
    for second, keys in ((2, range(20)), (1, range(10, 40)), (3, range(20))):
        rows = one_by_one({key: [second] for key in keys}, second, of)
        assert list(grouping_of(stage, fn=Longest(), of=of).add(rows)) == []
    panes = grouping_of(stage, 5 * SECOND, Longest(), of).fire()
    found = {pane.value[0]: (sorted(*pane.value[1]), int(pane.timestamp)) for pane in panes}
    assert found == {
        **dict.fromkeys(range(10), ([2, 3], 2)),
        **dict.fromkeys(range(10, 20), ([1, 2, 3], 1)),
        **dict.fromkeys(range(20, 40), ([1], 1)),
    }


def test_whole_numbers_that_arrive_with_floats_stay_whole() -> None:
    stage = ShardState(CountedMap()).stage("stage")
    rows = in_columns(FIXED, 10, 1) + in_columns(FIXED, 5, 1, number=0.5)
    assert list(grouping_of(stage).add(rows)) == []
    blocks = grouping_of(stage, 5 * SECOND).fire_blocks()
    found = sorted(
        (key, repr(SUM.extract_output(of[0]))) for block in blocks for key, of in block.values
    )
    assert found == [(key, "1.5" if key < 5 else "1") for key in range(10)]


def test_no_key_of_a_plain_window_has_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Page, "to_records", lambda *_: pytest.fail("records"))
    entries = CountedMap()
    for second in (1, 2, 8):
        state = ShardState(entries)
        rows = in_columns(FIXED, 5000, second)
        assert [row[2][:1] for row in rows] == [TOTALS_CELL]
        assert list(grouping_of(state.stage("stage")).add(rows)) == []
        state.save()
    assert state.stage("stage").size[0] == 5000
    (block,) = grouping_of(ShardState(entries).stage("stage"), 6 * SECOND).fire_blocks()
    assert isinstance(block.column, Totals)
    assert sorted(block.values) == [(key, [[2]]) for key in range(5000)]


def test_few_keys_of_many_are_written_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stripe_store, "COLUMN_ROWS", 1000)
    entries = CountedMap()
    # The first of them changes what the directory says, too.
    for count in (20_000, 1, 1):
        entries.put_bytes = 0
        state = ShardState(entries)
        assert list(grouping_of(state.stage("stage")).add(in_columns(FIXED, count, 1))) == []
        state.save()
    assert entries.put_bytes < 1000
    blocks = grouping_of(ShardState(entries).stage("stage"), 6 * SECOND).fire_blocks()
    found = sorted(pair for block in blocks for pair in block.values)
    assert found == [(0, [[3]]), *((key, [[1]]) for key in range(1, 20_000))]


def test_late_keys_leave_the_others_in_columns() -> None:
    stage = ShardState(CountedMap()).stage("stage")
    for rows in (in_columns(FIXED, 100, 1), one_by_one({7: [5], 9: [5]})):
        assert list(grouping_of(stage).add(rows)) == []
    (stored,) = stage._pages.values()
    assert (len(stored.records), len(stored)) == (2, 100)
    blocks = list(grouping_of(stage, 5 * SECOND).fire_blocks())
    assert sum(len(block) for block in blocks if block.column is not None) == 98
    found = sorted((key, SUM.extract_output(of[0])) for block in blocks for key, of in block.values)
    assert found == [(key, 6 if key in (7, 9) else 1) for key in range(100)]


def test_sessions_are_columns_from_their_cells_to_their_panes() -> None:
    rows = in_columns(SESSIONS, 100, 0, 1, 2)
    assert [row[2][:1] for row in rows] == [SPANS_CELL]
    state, clock = ShardState(CountedMap()), ShardClock(0, 0)
    stage = state.stage("stage")
    grouping = SessionedGrouping(coder_of(SESSIONS), SESSIONS, SUM, stage, clock)
    assert list(grouping.add(rows)) == []
    state.save()
    assert stage.size[0] == 100
    clock.input_watermark = 4 * SECOND
    (block,) = grouping.fire_blocks()
    assert block.column is not None
    assert len(block) == 100
    assert {element.windows for element in block.elements()} == {(IntervalWindow(0, 4),)}


def test_a_cell_is_read_as_it_was_written() -> None:
    keys = pa.array([b"a", b"", b"bcd"], pa.binary())
    numbers = np.array([(0.5, 1), (2.0, 3), (-1.0, 4)], RECORDS)
    starts, counts = np.array([-5000, 0, 1 << 60]), np.array([1, 7, 1])
    spans = AggregateCell(SPANS_CELL, keys, numbers, starts, counts, 2_000_000)
    like = np.dtype([("0", np.int64), ("1", np.int64)])
    found = AggregateCell.unpacked(spans.take(np.array([2, 0])).packed(), SPANS_CELL, like)
    assert found.keys == pa.array([b"bcd", b"a"], pa.binary())
    assert found.numbers.tolist() == [(-1.0, 4), (0.5, 1)]
    assert found.starts.tolist() == [1 << 60, -5000]
    assert (found.counts.tolist(), found.length) == ([1, 1], 2_000_000)


def test_a_stripe_is_read_as_it_was_stored_first() -> None:
    keys = pa.array([b"a", b"", b"bcd"], pa.binary())
    numbers = np.array([(0.5, 1), (2.0, 3), (-1.0, 4)], RECORDS)
    stored = (
        (b"window:1", 5_000_000, 4_999_999, 4_999_000),
        ("<f8", "<i8"),
        bytes.fromhex("00000000010000000100000004000000"),
        b"abcd",
        bytes.fromhex(
            "000000000000e03f01000000000000000000000000000040030000000000000000000000"
            "0000f0bf0400000000000000"
        ),
    )
    window = OpenWindow(b"window:1", 5_000_000, 4_999_999, 4_999_000)
    assert WindowStripe(window, keys, [numbers], False).stored() == stored
    found = stripe_of(stored, fresh=False)
    assert isinstance(found, WindowStripe)
    assert found.window == window
    assert found.keys == keys
    assert found.numbers.tolist() == numbers.tolist()
    times = [np.array([at, -at, 0]) for at in (1, 2, 3)]
    sessions = ((), *stored[1:], *(time.tobytes() for time in times))
    assert SessionStripe(keys, [numbers, *times], False).stored() == sessions
    assert stripe_of(sessions, fresh=False).stored() == sessions
