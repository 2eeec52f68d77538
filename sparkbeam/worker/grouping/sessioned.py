"""GroupByKey in streaming of sessions that fire once at their end, and then for late elements.

The output is that of Beam's trigger driver with the default trigger. The sessions of a key are an
ordered bag by start. As no two of them overlap, that is also the order of their ends. A micro-batch
reads and writes only the sessions that it changes, however many are open. A key has one timer and
one hold: those of the first session that waits for its end. A session contains its values while
they are few bytes. More values are in another ordered bag, within the session's time, and stay in
place when sessions merge.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain, groupby, islice, takewhile
from operator import attrgetter, itemgetter
from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import IntervalWindow, TimestampCombiner
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregator import in_session
from sparkbeam.wire.rounding import coded_hold
from sparkbeam.wire.rows import COUNT_CELL, SPANS_CELL, Row
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.grouping.session_state import (
    EARLIEST,
    StoredSession,
    StoredSessions,
    Value,
    gathered,
)
from sparkbeam.worker.grouping.session_store import SessionStore, sessions_of
from sparkbeam.worker.grouping.stored import StoredGrouping
from sparkbeam.worker.state.page import Page
from sparkbeam.worker.state.records import EVENT_TIME, Record
from sparkbeam.worker.state.stripes import SessionStripe, Stripe

_KEY, _START = itemgetter(0), attrgetter("start")
_END, _EXPIRY = b"end", b"expiry"
_AT_ONCE = 500


class SessionedGrouping(StoredGrouping):
    """A grouping with the default trigger, and sessions."""

    def _prepare(self, coder: coders.WindowedValueCoder, windowing: Windowing) -> None:
        super()._prepare(coder, windowing)
        self._is_at_end = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
        self._in_columns: SessionStore | None = None
        if self._combine is not None and self._combine.form is not None:
            self._keyed.thaw = self._to_records
            self._in_columns = SessionStore(
                self._keyed,
                self._combine,
                self._decode_key,
                self._encode,
                self._lateness,
                in_columns=self._is_at_end,
            )

    def _to_records(self, page: Page, stripe: Stripe, found: list[tuple[bytes, list[int]]]) -> None:
        """Give a page records of sessions that are in a stripe; see :data:`.Thaw`."""
        assert isinstance(stripe, SessionStripe)
        for key, rows in found:
            record = page.open(key, None)
            kept = StoredSessions(record)
            sessions = list(sessions_of(stripe, self._encoded_numbers, rows))
            kept.add(
                self._for_late_elements(session) if session.panes else session
                for session in sessions
            )
            waiting = (session for session in sessions if not session.panes)
            self._schedule(record, kept, next(waiting, None))

    def _for_late_elements(self, session: StoredSession) -> StoredSession:
        """Return of a session that has fired what late elements need."""
        if self._accumulates:
            return session
        return session._replace(accumulator=None, held=b"")

    def add(self, rows: list[Row]) -> Iterator[WindowedValue]:
        watermark = self._moment.input_watermark
        for encoded_key, arrivals in self._arrived_by_key(rows):
            record = self._keyed.record(encoded_key)
            kept = StoredSessions(record)
            groups = list(_joined(arrivals, kept))
            aside: list[Value] = []
            sessions = [self._merged(group, kept, aside) for group in groups]
            for group in groups:
                for start in group.before:
                    kept.remove(start, start + 1)
            kept.add_values(aside)
            kept.add(session for session in sessions if session.end > watermark)
            for session in sessions:
                if session.end <= watermark:
                    key = self._decode_key(encoded_key)
                    yield self._pane(key, kept, session, on_time=False)
            self._schedule(record, kept, kept.first_after(watermark))

    def _arrived_by_key(self, rows: list[Row]) -> Iterator[tuple[bytes, list["_Arrival"]]]:
        """Yield the arrivals of each key, ordered by start."""
        cells = [row[2] for row in rows if row[2][:1] == SPANS_CELL]
        if not cells:
            for key, blocks in self._arrived(rows):
                yield key, _arrivals(blocks)
            return
        assert self._in_columns is not None
        singly = [row for row in rows if row[2][:1] != SPANS_CELL]
        others = {row[0] for row in singly if row[2][:1] != COUNT_CELL}
        keys, spans = self._in_columns.add(cells, others, self._moment.input_watermark)
        of_blocks = self._arrived(singly, keys)
        arrived = ((key, _arrivals(blocks)) for key, blocks in of_blocks)
        together = (
            (key, [_Arrival(one.start, one.end, one.accumulator) for one in found])
            for key, found in spans
        )
        for key, parts in groupby(merge(arrived, together, key=_KEY), _KEY):
            yield key, sorted(chain.from_iterable(part for _, part in parts), key=_START)

    def fire_blocks(self) -> Iterator[Block]:
        if self._in_columns is not None:
            yield from self._in_columns.fire(self._moment.input_watermark)
        yield from in_blocks(self.fire())

    def fire(self) -> Iterator[WindowedValue]:
        watermark = self._moment.input_watermark
        for encoded_key in self._keyed.due_keys(EVENT_TIME, watermark):
            record = self._keyed.record(encoded_key)
            kept = StoredSessions(record)
            due = {}
            while (timer := record.pop_due(EVENT_TIME, watermark)) is not None:
                _, timer_id, first = timer
                due[timer_id] = first
            if _END in due:
                yield from self._ended(self._decode_key(encoded_key), kept, due[_END])
            if _EXPIRY in due:
                self._forget_expired(kept)
            self._schedule(record, kept, kept.first_after(watermark))

    def _merged(self, group: "_Group", kept: StoredSessions, aside: list[Value]) -> StoredSession:
        """Return the session that results from merging sessions with new elements.

        Values to keep aside are added to ``aside``.
        """
        start, end, before = group.start, group.end, group.before
        # The number of panes counts for a window; what merges is another one.
        same = before.get(start)
        panes = same.panes if same is not None and same.end == end else 0
        stamp = self._stamp_of(group, kept)
        if self._combine_fn is None:
            new = [(each.start, value) for each in group.arrived for value in each.stored()]
            holds, others = gathered(before.values(), new)
            aside += others
            return StoredSession(start, end, panes, stamp, None, holds)
        stored = [s.accumulator for s in before.values() if s.accumulator is not None]
        for arrival in group.arrived:
            stored += arrival.stored()
        return StoredSession(start, end, panes, stamp, self._combined(stored), None)

    def _stamp_of(self, group: "_Group", kept: StoredSessions) -> int | None:
        if self._is_at_end:
            # As Beam has it, whatever the elements' timestamps are; combined ones have none.
            return group.end - 1
        window = _window(group.start, group.end)
        stamps = [
            self._stamps.assign_output_time(window, block.windowing.timestamp)
            for arrival in group.arrived
            for block in arrival.blocks
        ]
        if min(stamps).micros < group.start or max(stamps).micros >= group.end:
            kept.note_outside()
        return self._stamp(window, (session.stamp for session in group.before.values()), stamps)

    def _ended(self, key: Any, kept: StoredSessions, first: int) -> Iterator[WindowedValue]:
        """Fire the sessions from one on that the watermark has passed."""
        while due := list(islice(takewhile(self._is_over, kept.between(first, None)), _AT_ONCE)):
            kept.remove(first, due[-1].start + 1)
            first = due[-1].start + 1
            for session in due:
                yield self._pane(key, kept, session, on_time=True)

    def _is_over(self, session: StoredSession) -> bool:
        return min(session.end, MAX_MICROS) <= self._moment.input_watermark

    def _pane(
        self, key: Any, kept: StoredSessions, session: StoredSession, *, on_time: bool
    ) -> WindowedValue:
        """Return the pane of a session that is not stored; store what late elements need."""
        window = _window(session.start, session.end)
        if self._combine_fn is None:
            values = self._values([kept.values(session)])
        else:
            values = [] if session.accumulator is None else [self._decode(session.accumulator)]
        over = self._is_expired(session)
        if over or not self._accumulates:
            kept.clear_values(session)
        if not over:
            kept.add(
                [self._for_late_elements(session._replace(panes=session.panes + 1, stamp=None))]
            )
        latest, stamp = window.max_timestamp(), session.stamp
        return self._new_pane(key, values, window, latest, stamp, session.panes, on_time=on_time)

    def _forget_expired(self, kept: StoredSessions) -> None:
        """Forget the sessions for which no element can come any more."""
        sessions = kept.between(EARLIEST, None)
        while over := list(islice(takewhile(self._is_expired, sessions), _AT_ONCE)):
            kept.remove(EARLIEST, over[-1].start + 1)
            for session in over:
                kept.clear_values(session)
            sessions = kept.between(EARLIEST, None)

    def _is_expired(self, session: StoredSession) -> bool:
        return self._expiry(session) <= self._moment.input_watermark

    def _expiry(self, session: StoredSession) -> int:
        # What never expires closes with the end of time.
        return min(session.end + self._lateness.allowed + 1, MAX_MICROS)

    def _schedule(
        self, record: Record, kept: StoredSessions, waiting: StoredSession | None
    ) -> None:
        """Set timers and hold by the first session that waits for its end; ends are in order."""
        first = next(kept.between(EARLIEST, None), None)
        if first is None:
            kept.forget_outside()
        _set_timer(record, _END, waiting and (min(waiting.end, MAX_MICROS), waiting.start))
        _set_timer(record, _EXPIRY, first and (self._expiry(first), None))
        held = kept.first_stamp(waiting)
        record.set_hold(_END, None if held is None else coded_hold(held))


@dataclass(slots=True)
class _Arrival:
    """New elements with the same window, or combined elements whose windows overlap.

    Attributes:
        start, end: of the window, or of all of them.
        accumulator: of combined ones, encoded.
    """

    start: int
    end: int
    accumulator: bytes | None = None
    blocks: list[Block] = field(default_factory=list)

    def stored(self) -> list[bytes]:
        """Return the values, encoded."""
        if self.accumulator is not None:
            return [self.accumulator]
        return [value for block in self.blocks for value in block.values]


@dataclass(slots=True)
class _Group:
    """New elements and stored sessions that form one session.

    Attributes:
        start, end: of them all.
    """

    start: int
    end: int
    arrived: list[_Arrival] = field(default_factory=list)
    before: dict[int, StoredSession] = field(default_factory=dict)

    def add(self, arrival: _Arrival, before: Iterable[StoredSession]) -> None:
        """Add elements, with the sessions that their window overlaps."""
        self.arrived.append(arrival)
        self.end = max(self.end, arrival.end)
        for session in before:
            self.before[session.start] = session
            self.start = min(self.start, session.start)
            self.end = max(self.end, session.end)


def _arrivals(blocks: list[Block]) -> list[_Arrival]:
    """Return the elements by window, in order of their start."""
    found: dict[tuple[int, int], _Arrival] = {}
    for block in blocks:
        for window in block.windowing.windows:
            start, end = window.start.micros, window.end.micros
            arrival = found.get((start, end))
            if arrival is None:
                arrival = found[start, end] = _Arrival(start, end)
            arrival.blocks.append(block)
    return [found[span] for span in sorted(found)]


def _joined(arrivals: list[_Arrival], kept: StoredSessions) -> Iterator[_Group]:
    """Yield elements whose windows overlap, with the sessions that they overlap.

    As no session overlaps another one, none belongs to a group but those that a window of the
    group overlaps itself.
    """
    group: _Group | None = None
    windows = [(arrival.start, arrival.end) for arrival in arrivals]
    for arrival, before in zip(arrivals, kept.overlapping(windows), strict=True):
        if group is None or not in_session(arrival.start, group.start, group.end):
            if group is not None:
                yield group
            group = _Group(arrival.start, arrival.end)
        group.add(arrival, before)
    if group is not None:
        yield group


def _window(start: int, end: int) -> IntervalWindow:
    return IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))


def _set_timer(record: Record, id: bytes, timer: tuple[int, int | None] | None) -> None:
    """Set a timer to a time with a payload, if it differs; None clears it."""
    if timer is None:
        record.clear_timer(id)
        return
    current = record.timer(id)
    if current is None or (current[0], current[3]) != timer:
        record.set_timer(id, EVENT_TIME, timer[0], None, timer[1])
