"""Stored sessions cost what is changed of them."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import IntervalWindow, Sessions
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.wire.rows import PLAIN_CELL
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.grouping.session_state import StoredSession
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap

SECOND = 1_000_000
NUMBER, KEY = coders.VarIntCoder(), coders.StrUtf8Coder()
CODER = coders.WindowedValueCoder(coders.TupleCoder([KEY, NUMBER]), coders.IntervalWindowCoder())
STORED = coders.WindowedValueCoder(coders.BytesCoder(), CODER.window_coder)
CELLS = KeyCells(STORED)
WINDOWING = Windowing(Sessions(3))


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


@pytest.mark.parametrize("combine_fn", [None, beam.combiners.CountCombineFn()])
def test_a_round_moves_what_it_changes_however_many_sessions_are_open(combine_fn: Any) -> None:
    def run(seconds: Iterable[int], watermark: int) -> None:
        """A round over the state that the one before has left."""
        state = ShardState(entries)
        grouping = SessionedGrouping(CODER, WINDOWING, combine_fn, state.stage("s"), clock)
        list(grouping.add(list(map(row, seconds))))
        clock.input_watermark = watermark * SECOND
        list(grouping.fire())
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


@given(st.integers(), st.integers(), st.integers(0), st.none() | st.integers())
def test_a_session_is_read_as_it_was_written(start: int, end: int, panes: int, stamp: Any) -> None:
    start, end, panes = start % 2**62, end % 2**62, panes % 2**31
    for payload in [(None, None), (b"", None), (b"x", None), (None, b""), (None, b"x")]:
        kept = StoredSession(start, end, panes, stamp and stamp % 2**62, *payload)
        assert StoredSession.unpacked(start, kept.packed()) == kept
