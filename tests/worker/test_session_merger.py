"""Sums of many keys with a window each become the sessions that accumulators make key by key."""

from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.combiners import MeanCombineFn
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import IntervalWindow, Sessions
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored_rows import Rows, coder_of
from writer_outputs import output

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.columns.python_types import INT, RecordShape
from sparkbeam.plan.combine_columns import CombinePlan
from sparkbeam.plan.row_formats import KeyedRows
from sparkbeam.wire.rounding import coded_end
from sparkbeam.wire.rows import SPANS_CELL, Row
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.keyed_aggregates import ExtraElements
from sparkbeam.worker.row_formats.aggregate_cells import AggregateCell
from sparkbeam.worker.row_formats.keyed_rows import StoredSink
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME
from sparkbeam.worker.state.store import MemoryMap
from sparkbeam.worker.steps.combine_columns import ColumnCombine
from sparkbeam.worker.value_columns import column_of

COMBINES = {
    "sum": beam.CombineFn.from_callable(sum),
    "mean": MeanCombineFn(),
    "max": beam.CombineFn.from_callable(max),
}
PAIR = RecordShape(tuple, ("0", "1"), (INT, INT))
LONG_AGO = -(1 << 62)


class Some(NamedTuple):
    """What comes together: keys, times in microseconds and numbers, and whether as columns."""

    elements: list[tuple[int, int, int]]
    as_columns: bool


class Round(NamedTuple):
    """What a round brings, by how much the watermark rises then, and whether a micro-batch ends."""

    arrived: list[Some]
    rise: int
    saves: bool


TIMES = st.one_of(
    st.integers(-4, 30).map(lambda half: half * 500_000),
    st.integers(-5_000_000, 5_000_000),
    st.sampled_from([LONG_AGO, LONG_AGO + 999_999]),
)
NUMBERS = st.one_of(st.integers(-9, 9), st.sampled_from([1 << 61, -(1 << 61), (1 << 63) - 1]))
ELEMENTS = st.lists(st.tuples(st.integers(0, 4), TIMES, NUMBERS), min_size=1, max_size=30)
ARRIVED = st.lists(st.builds(Some, ELEMENTS, st.sampled_from([True, True, False])), max_size=4)
RISES = st.sampled_from([0, 0, 500_000, 1_000_001, 4_000_000])
ROUNDS = st.lists(st.builds(Round, ARRIVED, RISES, st.booleans()), max_size=6)


def written(
    arrived: list[Some], windowing: Windowing, combine_fn: Any, *, in_columns: bool
) -> list[Row]:
    """The rows of what has arrived, summed up in columns, or an accumulator for each element."""
    form, rows = form_of(combine_fn), Rows()
    assert form is not None
    sink = StoredSink(output(rows, KeyedRows(stored=True), coder_of(windowing), windowing))
    sessions = windowing.windowfn
    assert isinstance(sessions, Sessions)
    gap = sessions.gap_size.micros
    for elements, as_columns in arrived:
        keys, times, numbers = zip(*elements, strict=True)
        if in_columns and as_columns:
            array = pa.StructArray.from_arrays([pa.array(keys), pa.array(numbers)], ["0", "1"])
            combine = ColumnCombine(combine_fn, form, windowing, CombinePlan(take_slices=True))
            block = Block(GLOBAL, column_of(array, PAIR), np.array(times), windowing.windowfn)
            assert combine.take(block) is None
            combine.flush_pending()
            for ready in combine.ready():
                batch = ready.batch
                if isinstance(batch, Block):
                    pairs = [(key, combine_fn.compact(one)) for key, one in batch.values]
                    sink.write(ExtraElements(batch.windowing, ready.count - len(pairs)))
                    batch = batch.with_values(pairs)
                sink.write(batch)
            sink.flush()
            continue
        for key, time, number in elements:
            window = IntervalWindow(Timestamp(micros=time), Timestamp(micros=time + gap))
            accumulator = combine_fn.add_input(combine_fn.create_accumulator(), number)
            template = WindowedValue(None, coded_end(window), (window,))
            sink.write(Block(template, [(key, accumulator)]))
        sink.flush()
    return rows.rows


def left(entries: MemoryMap) -> Any:
    """All that is kept, and the times that are known of it."""
    stage = ShardState(entries).stage("stage")
    times = stage.hold(), stage.next_due(EVENT_TIME), stage.next_due(PROCESSING_TIME)
    return times, {key: stage.record(key).content() for key in sorted(stage.keys())}


def run(rounds: list[Round], windowing: Windowing, combine_fn: Any, *, in_columns: bool) -> Any:
    """The panes of rounds, how many elements were too late, and what is kept in the end."""
    coder = coder_of(windowing)
    entries, moment = MemoryMap(), ShardClock(0, 0)
    state, panes, dropped = ShardState(entries), [], 0
    for arrived, rise, saves in rounds:
        grouping = SessionedGrouping(coder, windowing, combine_fn, state.stage("stage"), moment)
        rows = written(arrived, windowing, combine_fn, in_columns=in_columns)
        panes.append(list(map(repr, grouping.add(rows))))
        moment.input_watermark += rise
        panes.append(list(map(repr, grouping.fire())))
        hold = state.stage("stage").hold()
        held = moment.input_watermark if hold is None else min(hold, moment.input_watermark)
        moment.output_watermark = max(moment.output_watermark, held)
        dropped += grouping.dropped
        if saves:
            state.save()
            state = ShardState(entries)
    state.save()
    return panes, dropped, left(entries)


@pytest.mark.part(5)
@pytest.mark.parametrize("lateness", [0, 3])
@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])
@pytest.mark.parametrize("combine_fn", COMBINES.values(), ids=COMBINES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=ROUNDS, gap=st.sampled_from([1, 0.001, 2.5]))
def test_it_is_as_element_by_element(
    combine_fn: Any, mode: Any, lateness: int, rounds: list[Round], gap: float
) -> None:
    windowing = Windowing(Sessions(gap), accumulation_mode=mode, allowed_lateness=lateness)
    found = run(rounds, windowing, combine_fn, in_columns=True)
    assert found == run(rounds, windowing, combine_fn, in_columns=False)


def test_what_a_key_gets_is_an_accumulator_for_each_session() -> None:
    windowing, combine_fn = Windowing(Sessions(2)), COMBINES["sum"]
    elements = [(key, at * 1_000_000, 1) for at in range(3) for key in range(100)]
    rows = written([Some(elements, as_columns=True)], windowing, combine_fn, in_columns=True)
    assert [row[2][:1] for row in rows] == [SPANS_CELL]
    state = ShardState(MemoryMap()).stage("stage")
    grouping = SessionedGrouping(
        coder_of(windowing), windowing, combine_fn, state, ShardClock(0, 0)
    )
    arrivals = dict(grouping._arrived_by_key(rows))
    assert len(arrivals) == 100
    spans = {(one.start, one.end) for found in arrivals.values() for one in found}
    assert spans == {(0, 4_000_000)}


def test_a_cell_is_read_as_it_was_written() -> None:
    kind = np.dtype([("0", np.float64), ("1", np.int64)])
    keys = pa.array([b"a", b"", b"bcd"], pa.binary())
    numbers = np.array([(0.5, 1), (2.0, 3), (-1.0, 4)], kind)
    starts, counts = np.array([-5000, 0, 1 << 60]), np.array([1, 7, 1])
    spans = AggregateCell(SPANS_CELL, keys, numbers, starts, counts, 2_000_000)
    like = np.dtype([("0", np.int64), ("1", np.int64)])
    found = AggregateCell.unpacked(spans.take(np.array([2, 0])).packed(), SPANS_CELL, like)
    assert found.keys == pa.array([b"bcd", b"a"], pa.binary())
    assert found.numbers.tolist() == [(-1.0, 4), (0.5, 1)]
    assert found.starts.tolist() == [1 << 60, -5000]
    assert (found.counts.tolist(), found.length) == ([1, 1], 2_000_000)
