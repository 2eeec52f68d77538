"""One key's state for Beam's trigger driver.

The driver looks through all visible windows for each element and for each timer. Therefore it sees
only the windows that matter: the window of the timer, or those that new elements may belong to.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from apache_beam.transforms import trigger
from apache_beam.transforms.core import CombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.upstream.beam import CombiningTag, HoldTag, ListTag
from sparkbeam.wire.rounding import coded_hold
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.grouping.triggers import DelayTag
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME, Record

EXPIRY = b"expiry"
"""Id of the timer that fires when a window expires."""

STATE = b"state"
"""Cell with all content but collections and timers."""

COUNT = trigger.AfterCount.COUNT_TAG.tag
"""Suffix of the name of the state that counts elements; no other trigger needs a count."""

_HELD = "watermark"
_PUT_OUT = "sparkbeam/put out"
"""Mark of values that are kept for the next pane and were in the one before."""
_WAITING = "sparkbeam/waiting"
"""State of the number of elements since the last pane, if some may never be in a pane."""
_DELAYED = trigger.AfterProcessingTime.STATE_TAG.tag
_CLOSED = trigger.GeneralTriggerDriver.TOMBSTONE.tag

_DOMAINS = {TimeDomain.WATERMARK: EVENT_TIME, TimeDomain.REAL_TIME: PROCESSING_TIME}

DOMAIN_NAMES = {number: name for name, number in _DOMAINS.items()}
"""Beam's names of the domains of timers."""


Value = tuple[int, bytes]
"""Number of elements that a value stands for, and the encoded value."""


def single(value: bytes) -> Value:
    """Return a value that stands for itself."""
    return 1, value


def counted(value: bytes) -> Value:
    """Return the element count before an encoded accumulator, and the accumulator."""
    count = shift = at = 0
    while True:
        byte = value[at]
        count |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return count, value[at:]


@dataclass(frozen=True)
class RecordCodec:
    """Encoding of the content of a record.

    Attributes:
        values, windows: the coders of these.
        combine_fn: merges values, which are its accumulators; None keeps all values.
        counts: True if the number of elements that wait for a pane is needed.
    """

    values: Any
    windows: Any
    combine_fn: CombineFn | None
    counts: bool = False


class StoredWindow(NamedTuple):
    """State that the trigger driver keeps of a window.

    Attributes:
        ids: the numbers of the window; several if windows have merged.
        stamps: the timestamps that hold the watermark, in microseconds.
        values: the kept values, encoded.
    """

    ids: list[int]
    panes: int
    stamps: list[int]
    values: list[bytes]


class _Seen(dict[BoundedWindow, list[int]]):
    """The windows that the driver sees, which also give the next number of a window."""

    last_id = 0

    def __bool__(self) -> bool:
        return True

    def values(self) -> Any:
        return [*super().values(), [self.last_id]]


class TriggerState(trigger.UnmergedState):
    """One key's state for Beam's trigger driver, over a record.

    Args:
        watermark: that of the input. Event-time timers up to it are not set, as a trigger that sets
            one is asked anyway.
    """

    def __init__(self, record: Record, parts: RecordCodec, watermark: int = MIN_MICROS) -> None:
        self.record = record
        self._watermark = watermark
        self._parts = parts
        windows, values = record.get(STATE) or ((), ())
        self._window_ids: dict[BoundedWindow, list[int]] = {}
        self._encoded: dict[BoundedWindow, bytes] = {}
        for encoded, ids in windows:
            window = parts.windows.decode_nested(encoded)
            self._window_ids[window] = list(ids)
            self._encoded[window] = encoded
        self._by_id = {id: window for window, ids in self._window_ids.items() for id in ids}
        self._values: dict[int, dict[str, Any]] = {}
        for (window_id, tag), value in values:
            self._values.setdefault(window_id, {})[tag] = value
        self._seen = _Seen()
        self._expiries: list[tuple[int, int]] | None = None
        self._changed = False
        self._count = 1

    def save(self, expires: Callable[[BoundedWindow], int]) -> None:
        """Write the changes into the record; set the timer of the next expiry."""
        if not self._changed:
            return
        if not self._values and not self._window_ids:
            self.record.pop(STATE)
            self.record.clear_timer(EXPIRY)
            return
        encode = self._parts.windows.encode_nested
        windows = tuple(
            (self._encoded.get(window) or encode(window), tuple(ids))
            for window, ids in self._window_ids.items()
        )
        values = tuple(
            ((window_id, tag), value)
            for window_id, by_tag in self._values.items()
            for tag, value in by_tag.items()
        )
        self.record.set(STATE, (windows, values))
        if self._window_ids:
            self._set_expiry(min(map(expires, self._window_ids)))

    def _set_expiry(self, expiry: int) -> None:
        # A window that never expires closes with the end of time.
        fire = min(expiry, MAX_MICROS)
        current = self.record.timer(EXPIRY)
        if current is None or current[0] != fire:
            self.record.set_timer(EXPIRY, EVENT_TIME, fire, None, None)

    def windows(self) -> list[BoundedWindow]:
        """Return all windows but those whose trigger has finished."""
        return [window for window in self._window_ids if not self.is_closed(window)]

    def window_state(self, window: BoundedWindow) -> "StoredWindow":
        """Return the kept state of a window."""
        ids = self._window_ids[window]
        values = [self._values.get(id, {}) for id in ids]
        index, held = trigger.GeneralTriggerDriver.INDEX.tag, _HELD
        return StoredWindow(
            ids,
            sum(tags.get(index, 0) for tags in values),
            [tags[held] for tags in values if held in tags],
            [value for id in ids for value in self.record.bag(_cell(id))],
        )

    def window_of(self, window_id: int) -> BoundedWindow | None:
        """Return the window of a timer, if it is still there."""
        return self._by_id.get(window_id)

    def overlapping(self, windows: Iterable[BoundedWindow]) -> set[BoundedWindow]:
        """Return the sessions of :meth:`windows` that overlap some; no two overlap."""
        sessions = sorted(
            ((window.start.micros, window.end.micros, window) for window in self.windows()),
            key=itemgetter(0),
        )
        starts = [start for start, _, _ in sessions]
        found = set()
        for window in windows:
            first, until = window.start.micros, window.end.micros
            for at in range(bisect_left(starts, until) - 1, -1, -1):
                _, end, session = sessions[at]
                if end <= first:
                    break
                found.add(session)
        return found

    @contextmanager
    def seeing(self, windows: Iterable[BoundedWindow]) -> Iterator[None]:
        """Show the driver only some windows, as it looks through all that it sees."""
        seen = {
            window: self._window_ids[window] for window in windows if window in self._window_ids
        }
        self._seen = _Seen(seen)
        self._seen.last_id = max(self._by_id, default=0)
        yield
        for window in seen:
            if window not in self._seen:
                self._drop(window)
        for window, ids in self._seen.items():
            if window in self._window_ids and window not in seen:
                self._forget(window)
            self._window_ids[window] = ids
            self._by_id.update(dict.fromkeys(ids, window))

    def _forget(self, window: BoundedWindow) -> None:
        for window_id in self._drop(window):
            self.clear_state(window_id, None)

    def _drop(self, window: BoundedWindow) -> list[int]:
        ids = self._window_ids.pop(window)
        for window_id in ids:
            self._by_id.pop(window_id, None)
        return ids

    def expired(
        self, expires: Callable[[BoundedWindow], int], watermark: int
    ) -> Iterator[BoundedWindow]:
        """Yield the expired windows; each is forgotten afterwards.

        Sets the timer of the next ones.
        """
        if self._expiries is None:
            # Timers make no windows, and an event-time timer is all that comes here.
            self._expiries = sorted(
                (min(expires(w), MAX_MICROS), ids[0]) for w, ids in self._window_ids.items()
            )[::-1]
        while self._expiries and self._expiries[-1][0] <= watermark:
            window = self._by_id.get(self._expiries.pop()[1])
            if window is not None:
                yield window
                self._forget(window)
        if self._expiries:
            self._set_expiry(self._expiries[-1][0])
        self._changed = True

    def is_waiting(self, window: BoundedWindow) -> bool:
        """Return whether some values of a window have been in no pane."""
        return any(
            len(self.record.bag(_cell(id))) and not self._is_put_out(id)
            for id in self._window_ids[window]
        )

    def waiting(self, window: BoundedWindow) -> int:
        """Return the number of elements of a window that have been in no pane, if counted."""
        return sum(self._values.get(id, {}).get(_WAITING, 0) for id in self._window_ids[window])

    def is_closed(self, window: BoundedWindow) -> bool:
        """Return whether the trigger of a window has finished and takes no more elements."""
        ids = self._window_ids.get(window, ())
        return any(_CLOSED in self._values.get(id, ()) for id in ids)

    def waits_for_the_clock(self, window: BoundedWindow) -> bool:
        """Return whether a trigger has set a processing-time timer for a window."""
        ids = self._window_ids[window]
        return any(
            domain == PROCESSING_TIME and payload[0] in ids
            for _, (_, domain, _, payload) in self.record.timers()
        )

    def has_put_out(self, window: BoundedWindow) -> None:
        """Record that all values of a window have been in a pane."""
        for id in self._seen[window]:
            if len(self.record.bag(_cell(id))):
                values = self._values.setdefault(id, {})
                values[_PUT_OUT] = True
                values.pop(_WAITING, None)

    def hold_end(self, window: BoundedWindow) -> None:
        """Hold the watermark at the end of a window that waits for a pane, unless held already."""
        ids = self._seen[window]
        cells = [_cell(id) for id in ids]
        if any(self.record.hold(cell) is not None for cell in cells):
            return
        if any(len(self.record.bag(_cell(id))) and not self._is_put_out(id) for id in ids):
            self.record.set_hold(cells[0], coded_hold(window.max_timestamp().micros))

    def _is_put_out(self, id: int) -> bool:
        return _PUT_OUT in self._values.get(id, ())

    # What the trigger driver asks for.

    def set_global_state(self, tag: Any, value: Any) -> None:
        self._changed = True

    def get_global_state(self, tag: Any, default: Any = None) -> Any:
        return self._seen

    def get_window(self, window_id: int) -> int:
        return window_id

    def set_timer(
        self, window: int, name: str, time_domain: str, timestamp: Any, dynamic_timer_tag: str = ""
    ) -> None:
        fire = min(Timestamp.of(timestamp).micros, MAX_MICROS)
        if time_domain == TimeDomain.WATERMARK:
            if fire <= self._watermark:
                return
            # All triggers set one for the end of the window, which only wakes the driver.
            name = ""
        self.record.set_timer(
            _timer_id(window, name, time_domain, dynamic_timer_tag),
            _DOMAINS[time_domain],
            fire,
            None,
            (window, name, dynamic_timer_tag),
        )
        self._changed = True

    def clear_timer(
        self, window: int, name: str, time_domain: str, dynamic_timer_tag: str = ""
    ) -> None:
        # The end of a window may concern other triggers than the one that no longer waits for it.
        if time_domain != TimeDomain.WATERMARK:
            self.record.clear_timer(_timer_id(window, name, time_domain, dynamic_timer_tag))

    def add_state(self, window: int, tag: Any, value: Any) -> None:
        self._changed = True
        if isinstance(tag, ListTag):
            # The trigger sees an element after that.
            self._count, stored = value
            self._values.get(window, {}).pop(_PUT_OUT, None)
            self._add_value(window, stored)
            if self._parts.counts:
                values = self._values.setdefault(window, {})
                values[_WAITING] = values.get(_WAITING, 0) + self._count
            return
        values = self._values.setdefault(window, {})
        name = tag.tag
        match tag:
            case CombiningTag():
                if name not in values:
                    values[name] = tag.combine_fn.create_accumulator()
                if name.endswith(COUNT):
                    values[name] += self._count
                else:
                    values[name] = tag.combine_fn.add_input(values[name], value)
            case HoldTag():
                # Merged windows have one hold, at the timestamp of their next pane.
                for id in self._merged_with(window):
                    held = self._values.get(id, {}).pop(name, None)
                    if held is not None:
                        value = tag.timestamp_combiner_impl.combine(Timestamp(micros=held), value)
                        self.record.set_hold(_cell(id), None)
                values[name] = value.micros
                self.record.set_hold(_cell(window), coded_hold(value.micros))
            case _:
                values[name] = [*values.get(name, ()), value]

    def get_state(self, window: int, tag: Any) -> Any:
        values = self._values.get(window, {})
        match tag:
            case DelayTag():
                return self._delays(window, tag.tag) if values.get(tag.tag) else []
            case ListTag():
                # One item: what the driver joins for a pane are the bags of its windows.
                return [list(self.record.bag(_cell(window)))]
            case CombiningTag():
                if tag.tag not in values:
                    return tag.combine_fn.extract_output(tag.combine_fn.create_accumulator())
                return tag.combine_fn.extract_output(values[tag.tag])
            case HoldTag():
                held = values.get(tag.tag)
                return None if held is None else Timestamp(micros=held)
            case _:
                return values.get(tag.tag, [])

    def _merged_with(self, id: int) -> list[int]:
        """Return the ids of the window with an id; several if windows have merged."""
        before = self._by_id.get(id)
        if before is None:  # A new window.
            return [id]
        return self._seen.get(before) or next(ids for ids in self._seen.values() if id in ids)

    def _delays(self, window: int, name: str) -> list[int]:
        """Return the ends of the delay of the trigger with this state; see :class:`DelayTag`."""
        id = _timer_id(window, name.removesuffix(_DELAYED), TimeDomain.REAL_TIME, "")
        timer = self.record.timer(id)
        return [0 if timer is None else timer[0]]

    def clear_state(self, window: int, tag: Any) -> None:
        """Clear a tag of a window; None clears all tags."""
        self._changed = True
        if tag is None or isinstance(tag, ListTag):
            self.record.bag(_cell(window)).clear()
            self._values.get(window, {}).pop(_WAITING, None)
        if tag is None or isinstance(tag, HoldTag):
            self.record.set_hold(_cell(window), None)
        if tag is None:
            self._values.pop(window, None)
        elif window in self._values:
            self._values[window].pop(tag.tag, None)

    def _add_value(self, window: int, value: bytes) -> None:
        bag = self.record.bag(_cell(window))
        combine_fn = self._parts.combine_fn
        if combine_fn is None:
            bag.append([value])
            return
        accumulators = [self._parts.values.decode(item) for item in (*bag, value)]
        merged = combine_fn.compact(combine_fn.merge_accumulators(accumulators))
        bag.replace([self._parts.values.encode(merged)])


def _cell(window_id: int) -> bytes:
    return b"values" + window_id.to_bytes(8, "big")


def _timer_id(window: int, name: str, time_domain: str, dynamic_tag: str) -> bytes:
    return repr((window, name, time_domain, dynamic_tag)).encode()
