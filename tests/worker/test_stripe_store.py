"""Numbers of many keys, kept in stripes, leave and put out what accumulators do key by key."""

from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.combiners import MeanCombineFn
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import FixedWindows, GlobalWindows, SlidingWindows, WindowFn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from stored_rows import Rows, coder_of
from writer_outputs import output

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.plan.row_formats import KeyedRows
from sparkbeam.wire.rounding import coded_end
from sparkbeam.wire.rows import TOTALS_CELL, Row
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.column_accumulators import Totals
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.windowed import WindowGrouping
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.row_formats.keyed_rows import StoredSink
from sparkbeam.worker.state import page
from sparkbeam.worker.state.entries import CACHE_BYTES
from sparkbeam.worker.state.page import Page
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME
from sparkbeam.worker.state.store import MemoryMap
from sparkbeam.worker.state.stripes import OpenWindow, Stripe
from sparkbeam.worker.value_columns import column_of_values

SUM = beam.CombineFn.from_callable(sum)
COMBINES = {"sum": SUM, "mean": MeanCombineFn(), "max": beam.CombineFn.from_callable(max)}
CACHES = st.sampled_from([3000, CACHE_BYTES])


class Some(NamedTuple):
    """What comes together: its time, the key and number of each, and whether as numbers."""

    second: int
    pairs: dict[int, Any]
    as_numbers: bool


class Round(NamedTuple):
    """What a round brings: numbers, by how much the watermark rises, and what ends then."""

    arrived: list[Some]
    rise: int
    saves: bool


KEYS = st.integers(0, 60)
SMALL = st.dictionaries(KEYS, st.integers(-9, 9), max_size=60)
LARGE = st.dictionaries(KEYS, st.sampled_from([1 << 61, -(1 << 61), 7]), max_size=60)
NONZERO = st.dictionaries(KEYS, st.integers(1, 9) | st.integers(-9, -1), max_size=60)
"""Beside -0.0, as which of both zeros is the greatest depends on an order that nothing promises."""

REAL = st.dictionaries(KEYS, st.sampled_from([0.5, 2.5, -0.0, 1e6]), max_size=60)


def rounds_of(numbers: Any) -> Any:
    """Rounds with some numbers. The sums of these are the same in whatever order they are made."""
    as_numbers = st.sampled_from([True, True, True, False])
    arrived = st.lists(st.builds(Some, st.integers(0, 30), numbers, as_numbers), max_size=4)
    rise = st.sampled_from([0, 0, 1, 4, 9])
    return st.lists(st.builds(Round, arrived, rise, st.booleans()), max_size=8)


ROUNDS = st.one_of(rounds_of(SMALL), rounds_of(SMALL | LARGE), rounds_of(NONZERO | REAL))


def written(
    arrived: list[Some], coder: Any, window_fn: WindowFn, combine_fn: Any, *, in_columns: bool
) -> list[Row]:
    """The rows of numbers, or of the accumulators that they stand for."""
    form = form_of(combine_fn)
    assert form is not None
    rows = Rows()
    sink = StoredSink(output(rows, KeyedRows(stored=True), coder, Windowing(window_fn)))
    for second, pairs, as_numbers in arrived:
        numbers = form.numbers(list(pairs.values())) if pairs else None
        if numbers is not None:
            numbers = form.add_in_order(numbers, np.arange(len(pairs)), merges=False)
        if numbers is None:
            continue
        for window in window_fn.assign(WindowFn.AssignContext(Timestamp(second))):
            template = WindowedValue(None, coded_end(window), (window,))
            if in_columns and as_numbers:
                keys = column_of_values(list(pairs))
                assert keys is not None
                zeros = np.zeros(len(pairs), np.int64)
                places = np.arange(len(pairs))
                rows_of = Aggregates(places, zeros, zeros, zeros, numbers)
                sink.write(KeyedAggregates(keys, rows_of, template))
                continue
            found = form.accumulators(numbers, combine_fn)
            sink.write(Block(template, list(zip(pairs, found, strict=True))))
            sink.flush()
    sink.flush()
    return rows.rows


def left(entries: MemoryMap, grouping: WindowGrouping) -> Any:
    """All that is kept, and the times that are known of it."""
    stage = ShardState(entries).stage("stage")
    stage.accumulators = grouping._keyed.accumulators
    times = stage.hold(), stage.next_due(EVENT_TIME), stage.next_due(PROCESSING_TIME)
    oldest = stage.oldest_hold(1 << 30)
    if oldest is not None:
        # Of several keys it is one in the first page.
        assert oldest.key in set(stage.keys())
        oldest = oldest._replace(key=b"")
    count = stage.size[0]
    records = {key: stage.record(key).content() for key in sorted(stage.keys())}
    return times, oldest, count, records


def run(
    rounds: list[Round],
    windowing: Windowing,
    combine_fn: Any,
    *,
    in_columns: bool,
    cache_bytes: int = CACHE_BYTES,
) -> Any:
    """The panes of rounds, and what is kept in the end."""
    coder = coder_of(windowing)
    entries, moment = MemoryMap(), ShardClock(0, 0)
    state, panes = ShardState(entries, cache_bytes), []
    grouping = WindowGrouping(coder, windowing, combine_fn, state.stage("stage"), moment)
    for arrived, rise, saves in rounds:
        grouping = WindowGrouping(coder, windowing, combine_fn, state.stage("stage"), moment)
        rows = written(arrived, coder, windowing.windowfn, combine_fn, in_columns=in_columns)
        panes.append(sorted(map(repr, grouping.add(rows))))
        moment.input_watermark += rise * 1_000_000
        fired = [pane for block in grouping.fire_blocks() for pane in block.elements()]
        panes.append(sorted(map(repr, fired)))
        hold = state.stage("stage").hold()
        held = moment.input_watermark if hold is None else min(hold, moment.input_watermark)
        moment.output_watermark = max(moment.output_watermark, held)
        panes.append([repr(grouping.dropped)])
        if saves:
            state.save()
            state = ShardState(entries, cache_bytes)
    state.save()
    return panes, left(entries, grouping)


@pytest.mark.part(5)
@pytest.mark.parametrize("lateness", [0, 7])
@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])
@pytest.mark.parametrize("combine_fn", COMBINES.values(), ids=COMBINES)
@pytest.mark.parametrize(
    "window_fn",
    [FixedWindows(5), SlidingWindows(6, 3), GlobalWindows()],
    ids=["fixed", "sliding", "global"],
)
@settings(
    max_examples=15,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rounds=ROUNDS, cache_bytes=CACHES, page_bytes=st.sampled_from([300, page.PAGE_BYTES]))
def test_it_is_as_key_by_key(
    window_fn: Any,
    combine_fn: Any,
    mode: Any,
    lateness: int,
    rounds: list[Round],
    cache_bytes: int,
    page_bytes: int,
) -> None:
    windowing = Windowing(window_fn, accumulation_mode=mode, allowed_lateness=lateness)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "PAGE_BYTES", page_bytes)
        found = run(rounds, windowing, combine_fn, in_columns=True, cache_bytes=cache_bytes)
    assert found == run(rounds, windowing, combine_fn, in_columns=False)


def keys_of(count: int, seconds: list[int], rise: int = 0) -> list[Round]:
    """The same keys again and again."""
    pairs: dict[int, Any] = dict.fromkeys(range(count), 1)
    return [Round([Some(second, pairs, as_numbers=True)], rise, saves=True) for second in seconds]


def test_no_key_of_a_plain_window_has_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def to_records(self: Page, keys: Any) -> None:
        raise AssertionError

    rounds, windowing = keys_of(5000, [1, 2, 8]), Windowing(FixedWindows(5))
    with monkeypatch.context() as patch:
        patch.setattr(Page, "to_records", to_records)
        coder, entries, moment = coder_of(windowing), MemoryMap(), ShardClock(0, 0)
        for arrived, _, _ in rounds:
            state = ShardState(entries)
            grouping = WindowGrouping(coder, windowing, SUM, state.stage("stage"), moment)
            rows = written(arrived, coder, windowing.windowfn, SUM, in_columns=True)
            assert [row[2][:1] for row in rows] == [TOTALS_CELL]
            assert list(grouping.add(rows)) == []
            state.save()
        assert state.stage("stage").size[0] == 5000
        moment.input_watermark = 6_000_000
        grouping = WindowGrouping(coder, windowing, SUM, ShardState(entries).stage("stage"), moment)
        (block,) = grouping.fire_blocks()
    assert isinstance(block.column, Totals)
    assert sorted(block.values) == [(key, [[2]]) for key in range(5000)]


def test_few_keys_of_many_are_written_alone() -> None:
    windowing = Windowing(FixedWindows(5))
    coder, entries = coder_of(windowing), MemoryMap()
    # The first of them changes what the directory says, too.
    for count in (20_000, 1, 1):
        entries.put_bytes = 0
        state = ShardState(entries)
        grouping = WindowGrouping(coder, windowing, SUM, state.stage("stage"), ShardClock(0, 0))
        ((arrived, _, _),) = keys_of(count, [1])
        list(grouping.add(written(arrived, coder, windowing.windowfn, SUM, in_columns=True)))
        state.save()
    assert entries.put_bytes < 1000
    stage = ShardState(entries).stage("stage")
    stage.accumulators = grouping._keyed.accumulators
    key = coders.VarIntCoder().get_impl().encode_nested(0)
    ((_, _, accumulator),) = stage.record(key).content()[0].values()
    assert coders.FastPrimitivesCoder().decode(accumulator) == [3]


def test_one_late_key_leaves_the_others_in_columns() -> None:
    windowing = Windowing(FixedWindows(5))
    coder, moment = coder_of(windowing), ShardClock(0, 0)
    state = ShardState(MemoryMap())
    stage = state.stage("stage")
    grouping = WindowGrouping(coder, windowing, SUM, stage, moment)
    ((arrived, _, _),) = keys_of(100, [1])
    list(grouping.add(written(arrived, coder, windowing.windowfn, SUM, in_columns=True)))
    one = [Some(2, {7: 5}, as_numbers=False)]
    list(grouping.add(written(one, coder, windowing.windowfn, SUM, in_columns=True)))
    (stored,) = stage._pages.values()
    assert (len(stored.records), len(stored)) == (1, 100)
    moment.input_watermark = 5_000_000
    blocks = list(grouping.fire_blocks())
    assert sorted(len(block) for block in blocks) == [1, 99]


def test_a_stripe_is_read_as_it_was_stored_first() -> None:
    kind = np.dtype([("0", np.float64), ("1", np.int64)])
    keys = pa.array([b"a", b"", b"bcd"], pa.binary())
    numbers = np.array([(0.5, 1), (2.0, 3), (-1.0, 4)], kind)
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
    assert Stripe(window, keys, numbers, fresh=False).stored() == stored
    found = Stripe.of_stored(stored, fresh=False)
    assert found.window == window
    assert found.keys == keys
    assert found.numbers.tolist() == numbers.tolist()
