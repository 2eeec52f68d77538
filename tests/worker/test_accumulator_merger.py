"""Accumulators of many keys, added at once, leave what they leave key by key."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from writer_outputs import output

from sparkbeam.plan.row_formats import KeyedRows
from sparkbeam.wire.rows import Row
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.grouping.accumulator_merger import AccumulatorMerger
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.windowed import WindowGrouping
from sparkbeam.worker.row_formats.keyed_rows import KeyedSink
from sparkbeam.worker.state.entries import CACHE_BYTES
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME
from sparkbeam.worker.state.store import MemoryMap


class Join(beam.CombineFn):
    """Keeps the order, and becomes long."""

    def create_accumulator(self) -> str:
        return ""

    def add_input(self, accumulator: str, element: str) -> str:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[str]) -> str:
        return "".join(accumulators)

    def extract_output(self, accumulator: str) -> str:
        return accumulator


class Some(NamedTuple):
    """Accumulators that come together: their time, and the key and length of each."""

    second: int
    pairs: list[tuple[int, int]]


class Round(NamedTuple):
    """What a round brings: accumulators, by how much the watermark rises, and what ends then."""

    arrived: list[Some]
    rise: int
    saves: bool


class Rows:
    """Takes what a sink writes."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def extend(self, tag: int, keys: list[bytes], orders: list[int], values: list[bytes]) -> None:
        self.rows += zip(keys, orders, values, strict=True)


PAIRS = st.lists(st.tuples(st.integers(0, 40), st.sampled_from([1, 3, 200])), max_size=40)
ROUNDS = st.lists(
    st.builds(
        Round,
        st.lists(st.builds(Some, st.integers(0, 30), PAIRS), max_size=4),
        st.sampled_from([0, 0, 1, 4, 9]),
        st.booleans(),
    ),
    max_size=8,
)


def written(
    arrived: list[Some], coder: coders.WindowedValueCoder, window_fn: WindowFn, mark: str
) -> list[Row]:
    """The rows of accumulators."""
    rows = Rows()
    sink = KeyedSink(output(rows, KeyedRows(stored=True), coder, Windowing(window_fn)))
    for second, pairs in arrived:
        at = Timestamp(second)
        windows = tuple(window_fn.assign(WindowFn.AssignContext(at)))
        values = [(key, length * mark) for key, length in pairs]
        if values:
            sink.write(Block(WindowedValue(None, at, windows), values))
    sink.flush()
    return rows.rows


def left(entries: MemoryMap) -> Any:
    """All that is kept, and the times that are known of it."""
    stage = ShardState(entries).stage("stage")
    times = stage.hold(), stage.next_due(EVENT_TIME), stage.next_due(PROCESSING_TIME)
    records = {key: stage.record(key).content() for key in sorted(stage.keys())}
    return times, stage.size[0], records


def run(rounds: list[Round], windowing: Windowing, cache_bytes: int = CACHE_BYTES) -> Any:
    """The panes of rounds, and what is kept in the end."""
    pair = coders.TupleCoder([coders.VarIntCoder(), coders.StrUtf8Coder()])
    coder = coders.WindowedValueCoder(pair, windowing.windowfn.get_window_coder())
    entries, moment = MemoryMap(), ShardClock(0, 0)
    state, panes = ShardState(entries, cache_bytes), []
    for number, (arrived, rise, saves) in enumerate(rounds):
        grouping = WindowGrouping(coder, windowing, Join(), state.stage("stage"), moment)
        rows = written(arrived, coder, windowing.windowfn, "abcdefgh"[number])
        panes.append(sorted(map(repr, grouping.add(rows))))
        moment.input_watermark += rise * 1_000_000
        panes.append(sorted(map(repr, grouping.fire())))
        hold = state.stage("stage").hold()
        held = moment.input_watermark if hold is None else min(hold, moment.input_watermark)
        moment.output_watermark = max(moment.output_watermark, held)
        panes.append([repr(grouping.dropped)])
        if saves:
            state.save()
            state = ShardState(entries, cache_bytes)
    state.save()
    return panes, left(entries)


@pytest.mark.part(5)
@pytest.mark.parametrize("lateness", [0, 7])
@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])
@pytest.mark.parametrize(
    "combiner", [TimestampCombiner.OUTPUT_AT_EOW, TimestampCombiner.OUTPUT_AT_EARLIEST]
)
@pytest.mark.parametrize(
    "window_fn",
    [FixedWindows(5), SlidingWindows(6, 3), GlobalWindows()],
    ids=["fixed", "sliding", "global"],
)
@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rounds=ROUNDS, cache_bytes=st.sampled_from([2000, CACHE_BYTES]))
def test_it_is_as_key_by_key(
    window_fn: Any, combiner: Any, mode: Any, lateness: int, rounds: list[Round], cache_bytes: int
) -> None:
    windowing = Windowing(
        window_fn, accumulation_mode=mode, timestamp_combiner=combiner, allowed_lateness=lateness
    )
    at_once = run(rounds, windowing, cache_bytes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AccumulatorMerger, "add", lambda self, rows: rows)
        assert at_once == run(rounds, windowing)


def test_most_accumulators_are_added_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one: list[bytes] = []
    arrived = WindowGrouping._arrived

    def noted(self: WindowGrouping, rows: list[Row]) -> Any:
        one_by_one.extend(key for key, _, _ in rows)
        return arrived(self, rows)

    monkeypatch.setattr(WindowGrouping, "_arrived", noted)
    keys = [(key, 3) for key in range(5000)]
    rounds = [Round([Some(second, keys)], 0, saves=True) for second in (1, 2, 8)]
    panes, (_, records, _) = run(rounds, Windowing(FixedWindows(5)))
    assert one_by_one == []
    assert records == 5000
    assert [len(some) for some in panes[1::3]] == [0, 0, 0]
