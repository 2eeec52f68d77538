"""Stored sessions put out what Beam's trigger driver does, and cost what is changed of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import IntervalWindow, Sessions, TimestampCombiner
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkbeam.wire.rows import PLAIN_CELL
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.grouping import session_state
from sparkbeam.worker.grouping.session_state import StoredSession
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.triggered import SessionGrouping, StreamGrouping
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.state import ordered_bag
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap

SECOND = 1_000_000
NUMBER, KEY = coders.VarIntCoder(), coders.StrUtf8Coder()
CODER = coders.WindowedValueCoder(coders.TupleCoder([KEY, NUMBER]), coders.IntervalWindowCoder())
STORED = coders.WindowedValueCoder(coders.BytesCoder(), CODER.window_coder)
CELLS = KeyCells(STORED)

Element = tuple[str, int, int, int]
"""Key; start and length of the window and distance of the timestamp from its start, in seconds."""


@dataclass
class Run:
    """A grouping over state that is written after each round."""

    grouping_class: type[StreamGrouping]
    windowing: Windowing
    combine_fn: beam.CombineFn | None
    entries: MemoryMap = field(default_factory=MemoryMap)
    moment: ShardClock = field(default_factory=lambda: ShardClock(-MAX_MICROS, -MAX_MICROS))
    panes: list[Any] = field(default_factory=list)

    def round(self, elements: list[Element], watermark: int) -> int | None:
        """Takes elements and then a watermark; where that is held."""
        state = ShardState(self.entries)
        stage = state.stage("s")
        grouping = self.grouping_class(CODER, self.windowing, self.combine_fn, stage, self.moment)
        panes = list(grouping.add([row(element) for element in elements]))
        self.moment.input_watermark = watermark
        panes += grouping.fire()
        self.panes += sorted(map(self._shown, panes))
        state.save()
        return stage.hold()

    def _shown(self, pane: WindowedValue) -> Any:
        key, values = pane.value
        shown = sum(values) if self.combine_fn else sorted(values)
        return key, pane.windows[0].start, repr(pane.with_value(shown))


def row(element: Element) -> Any:
    """An element as it comes."""
    key, at, length, behind = element
    window = IntervalWindow(Timestamp(at), Timestamp(at + length))
    value = WindowedValue(NUMBER.encode(at + 1), Timestamp(at + behind), (window,))
    return KEY.get_impl().encode_nested(key), 0, PLAIN_CELL + CELLS.elements.encode([value])


def both(
    windowing: Windowing,
    rounds: list[tuple[list[Element], int]],
    combine_fn: Any,
) -> Iterator[Run]:
    """The same rounds with what is tested and with the trigger driver.

    Args:
        windowing: of the elements.
        rounds: elements, and the watermark after them in seconds.
        combine_fn: combines their values.
    """
    classes = (SessionedGrouping, SessionGrouping)
    runs = [Run(grouping, windowing, combine_fn) for grouping in classes]
    watermark = -MAX_MICROS
    for elements, advance in [*rounds, ([], None)]:
        watermark = MAX_MICROS if advance is None else max(watermark, advance * SECOND)
        holds = [run.round(elements, watermark) for run in runs]
        ours, drivers = holds
        if ours is None or drivers is None:
            assert ours is drivers
        else:
            assert ours >= drivers, "no earlier hold than the driver's"
        output = min([watermark, *(hold for hold in holds if hold is not None)])
        for run in runs:
            run.moment.output_watermark = max(run.moment.output_watermark, output)
    return iter(runs)


elements = st.tuples(
    st.sampled_from("ab"), st.integers(-5, 40), st.sampled_from([3, 3, 3, 8]), st.integers(0, 2)
)
rounds = st.lists(st.tuples(st.lists(elements, max_size=6), st.integers(-10, 60)), max_size=8)
modes = st.sampled_from([AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])
combiners = st.sampled_from(
    [
        TimestampCombiner.OUTPUT_AT_EOW,
        TimestampCombiner.OUTPUT_AT_EARLIEST,
        TimestampCombiner.OUTPUT_AT_LATEST,
    ]
)


def windowing(mode: Any, combiner: Any, lateness: int) -> Windowing:
    return Windowing(
        Sessions(3), accumulation_mode=mode, timestamp_combiner=combiner, allowed_lateness=lateness
    )


@settings(max_examples=400)
@given(rounds, modes, combiners, st.sampled_from([0, 5, 100]), st.booleans())
def test_panes_are_those_of_beams_trigger_driver(
    given_rounds: Any, mode: Any, combiner: Any, lateness: int, combines: bool
) -> None:
    combine_fn = beam.combiners.CountCombineFn() if combines else None
    stored, driven = both(windowing(mode, combiner, lateness), given_rounds, combine_fn)
    assert stored.panes == driven.panes


@settings(max_examples=100)
@given(
    rounds,
    modes,
    combiners,
    st.sampled_from([0, 5, 100]),
    st.booleans(),
    st.sampled_from([-1, 0, 30, 256]),
)
def test_so_they_are_however_little_a_session_and_a_bucket_may_hold(
    given_rounds: Any, mode: Any, combiner: Any, lateness: int, combines: bool, most: int
) -> None:
    combine_fn = beam.combiners.CountCombineFn() if combines else None
    asked = windowing(mode, combiner, lateness)
    with (
        mock.patch.object(session_state, "_MOST_HELD", most),
        mock.patch.object(session_state, "_BUCKET_BYTES", 150),
        mock.patch.object(ordered_bag, "SMALL_BYTES", 60),
    ):
        stored, driven = both(asked, given_rounds, combine_fn)
        assert stored.panes == driven.panes


@settings(max_examples=100)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.just("a"), st.integers(0, 20), st.just(3), st.integers(-9, 9))),
            st.integers(-10, 30),
        ),
        max_size=6,
    ),
    combiners,
)
def test_so_they_are_where_timestamps_lie_outside_of_their_windows(
    given_rounds: Any, combiner: Any
) -> None:
    asked = windowing(AccumulationMode.DISCARDING, combiner, 5)
    stored, driven = both(asked, given_rounds, None)
    assert stored.panes == driven.panes


def test_nothing_is_left_when_all_is_over() -> None:
    asked = windowing(AccumulationMode.ACCUMULATING, TimestampCombiner.OUTPUT_AT_EOW, 5)
    rounds = [([("a", at, 3, 0)], at) for at in range(0, 100, 5)]
    stored, _ = both(asked, [*rounds, ([], 200)], None)
    stage = ShardState(stored.entries).stage("s")
    record = stage.record(KEY.get_impl().encode_nested("a"))
    assert record.content() is None
    assert len(stored.panes) == 20


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


@pytest.mark.parametrize("combine_fn", [None, beam.combiners.CountCombineFn()])
def test_a_round_moves_what_it_changes_however_many_sessions_are_open(combine_fn: Any) -> None:
    asked = windowing(AccumulationMode.DISCARDING, TimestampCombiner.OUTPUT_AT_EOW, 0)
    moved = []
    for count in (10_000, 100_000):
        run = Run(SessionedGrouping, asked, combine_fn, Counting())
        run.round([("a", 10 * n, 3, 0) for n in range(count)], 0)
        counting = run.entries
        assert isinstance(counting, Counting)
        before = counting.moved
        for n in range(10):
            run.round([("a", 10 * (n * count // 10) + 4, 3, 0)], 10 * n)
        moved.append(counting.moved - before)
    assert moved[1] < 1.5 * moved[0]


@given(st.integers(), st.integers(), st.integers(0), st.none() | st.integers())
def test_a_session_is_read_as_it_was_written(start: int, end: int, panes: int, stamp: Any) -> None:
    start, end, panes = start % 2**62, end % 2**62, panes % 2**31
    for payload in [(None, None), (b"", None), (b"x", None), (None, b""), (None, b"x")]:
        kept = StoredSession(start, end, panes, stamp and stamp % 2**62, *payload)
        assert StoredSession.unpacked(start, kept.packed()) == kept
