"""Side input stored in a shard: the newest firing of each key, window by window.

Elements that no grouping has fired are added to the content of their window. A pane replaces the
earlier pane of its key, which leaves the state. The content of an expired window stays while the
window is one of the last, as late elements may read it.
"""

from collections.abc import Iterable, Iterator, Mapping

from apache_beam.internal import pickler
from apache_beam.transforms.window import BoundedWindow, GlobalWindow

from sparkbeam.plan.model import Firings, SideInput
from sparkbeam.wire.firing_rows import UNKNOWN, parts_of, split_key
from sparkbeam.wire.rows import Row
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.row_formats.side_input_rows import window_key, window_part
from sparkbeam.worker.side_inputs import mapping_windows
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.records import EVENT_TIME, Record

_RUNS, _SEEN = b"runs", b"seen"
_FIRED, _COUNT, _GROUPS, _KEYS, _AT = b"fired", b"count", b"groups", b"keys", b"at"
_EXPIRY, _EXPIRED, _OVER = b"expiry", b"expired", b"over"

EXPIRED_WINDOWS = 10
"""Number of expired windows whose content is kept."""


class View:
    """A side input of a stage, in one shard.

    The record of a window has the content of all of it, or there is one for each key of a
    multimap; and one for each group says which of its firings is there.

    Args:
        number: the number of the side input in the stage.
        keyed: the records of all of them.
        lateness: the allowed lateness of the main input, in microseconds.
    """

    def __init__(self, number: int, side: SideInput, keyed: KeyedState, lateness: int) -> None:
        self._side = side
        self._keyed = keyed
        self._number = str(number).encode()
        self._label = side.label
        self._mapping, coder = pickler.loads(side.windows)
        self._encode, self._decode = coder.encode, coder.decode
        self._lateness = max(lateness, side.lateness)
        # Of all windows: which of them have expired, and when the last did that was forgotten.
        self._all = keyed.record(self._number + b"#")
        self._ends: dict[bytes, int | None] = {}
        self._cleared: set[bytes] = set()
        self._arrived: dict[bytes, int] = {}

    def add(self, rows: Mapping[int, list[Row]]) -> bool:
        """Add the arrivals of a round; return whether there were any."""
        self._cleared.clear()
        self._arrived.clear()
        found = [(tag, row) for tag in self._side.sources for row in rows.get(tag, ())]
        for tag, (key, _, run) in found:
            if self._side.firings is Firings.MANY:
                firing, own = split_key(key)
                if self._is_forgotten(window_part(own)):
                    continue
                if self._adds_up(window_part(own)):
                    self._add(own, run)
                else:
                    self._replace(tag, firing, own, run)
            elif not self._is_forgotten(window_part(key)):
                self._add(key, run)
        return bool(found)

    def target(self, window: BoundedWindow) -> tuple[bytes, BoundedWindow]:
        """Return the side-input window of a main-input window, also encoded."""
        with mapping_windows(self._label):
            target = self._mapping(window)
            return window_key(self._encode(target)), target

    def is_ready(self, window: BoundedWindow, watermarks: Mapping[int, int]) -> bool:
        """Return whether an element in a window of the main input can proceed."""
        key, target = self.target(window)
        if min(watermarks[tag] for tag in self._side.sources) > target.max_timestamp().micros:
            return True
        is_early = self._side.early and not self._adds_up(key)
        return is_early and bool(self._record(key).get(_SEEN))

    def is_forgotten(self, window: BoundedWindow) -> bool:
        """Return whether the content for a window of the main input existed and is gone."""
        return self._is_forgotten(self.target(window)[0])

    def runs(self, key: bytes) -> Iterator[bytes]:
        """Yield the runs under a key, oldest firing first."""
        record = self._record(key)
        yield from record.bag(_RUNS)
        for _, run in record.ordered(_FIRED).range(0, None):
            yield run

    def expire(self, expired: list[tuple[int, bytes]]) -> None:
        """Forget windows as others expire.

        Args:
            expired: when each of these does, in microseconds, and the key of its record.
        """
        if not expired:
            return
        found = sorted([*self._all.get(_EXPIRED, ()), *expired])
        for time, name in found[:-EXPIRED_WINDOWS]:
            window = name.split(b":", 1)[1]
            self._clear(window)
            self._record(window).clear()
            self._all.set(_OVER, max(time, self._all.get(_OVER, time)))
        self._all.set(_EXPIRED, tuple(found[-EXPIRED_WINDOWS:]))

    def _is_forgotten(self, window: bytes) -> bool:
        over, end = self._all.get(_OVER), self._end(window)
        if over is None or end is None or end + self._lateness > over:
            return False
        # Others that expired at the same time may be there.
        return not self._record(window).get(_SEEN)

    def _end(self, window: bytes) -> int | None:
        """Return the end of a window; None if it never ends."""
        if window not in self._ends:
            decoded = self._decode(window[len(window_key(b"")) :])
            endless = isinstance(decoded, GlobalWindow)
            end = None if endless else decoded.end.micros
            fits = end is not None and end + self._lateness < MAX_MICROS
            self._ends[window] = end if fits else None
        return self._ends[window]

    def _add(self, key: bytes, run: bytes) -> None:
        """Add elements, including late ones, since no grouping drops them."""
        window = window_part(key)
        self._see(window)
        bag = self._record(key).bag(_RUNS)
        if key != window and not len(bag):
            self._record(window).bag(_KEYS).append([key])
        bag.append([run])

    def _adds_up(self, window: bytes) -> bool:
        """Return whether the firings of a window that ends are its parts, as in Beam's runner."""
        is_list = not self._side.singleton
        return self._side.discards and is_list and self._end(window) is not None

    def _replace(self, tag: int, firing: bytes, key: bytes, run: bytes) -> None:
        """Replace the elements of an older firing of the same group."""
        window = window_part(key)
        if self._side.singleton and window not in self._cleared:
            self._clear(window)
            self._cleared.add(window)
        self._see(window)
        name, index = self._group_of(tag, firing, window)
        group, whole = self._group(window, name), self._record(window)
        at = group.get(_AT)
        if at is not None and at[0] > index:
            return
        if at is None or at[0] < index:
            if at is None:
                whole.bag(_GROUPS).append([name])
            self._drop(group, window)
            at = index, whole.get(_COUNT, 0)
            group.set(_AT, at)
            whole.set(_COUNT, at[1] + 1)
        content = self._record(key)
        if key != window:  # Else it may be of other keys, of a format in which nothing had any.
            content.pop(_RUNS)
        content.ordered(_FIRED).add([(at[1], run)])
        if key != window:
            group.bag(_KEYS).append([key])

    def _group_of(self, tag: int, firing: bytes, window: bytes) -> tuple[bytes, int]:
        """Return the group of a firing, and the number of the firing.

        Elements of an unknown firing count as fired together in each round.
        """
        port = str(tag).encode() + b":"
        if firing != UNKNOWN:
            key, index = parts_of(firing)
            return port + b"k" + key, index
        if window not in self._arrived:
            self._arrived[window] = self._record(window).get(_COUNT, 0)
        return port, self._arrived[window]

    def _see(self, window: bytes) -> None:
        """Record that a window has content, and when the content expires."""
        record = self._record(window)
        if not record.get(_SEEN):
            record.set(_SEEN, True)
            end = self._end(window)
            if end is not None:
                record.set_timer(_EXPIRY, EVENT_TIME, end + self._lateness, None, None)

    def _clear(self, window: bytes) -> None:
        """Remove the content of a window."""
        whole = self._record(window)
        for name in whole.bag(_GROUPS):
            group = self._group(window, name)
            self._drop(group, window)
            group.clear()
        for key in whole.bag(_KEYS):
            self._record(key).clear()
        for cell in (_RUNS, _FIRED, _GROUPS, _KEYS):
            whole.pop(cell)

    def _drop(self, group: Record, window: bytes) -> None:
        """Remove the firing of a group."""
        at = group.get(_AT)
        if at is None:
            return
        keys: Iterable[bytes] = [window]
        if self._side.format.multimap:
            keys = dict.fromkeys(group.bag(_KEYS))
            group.pop(_KEYS)
        for key in keys:
            self._record(key).ordered(_FIRED).clear(at[1], at[1] + 1)

    def _record(self, key: bytes) -> Record:
        return self._keyed.record(self._number + b":" + key)

    def _group(self, window: bytes, name: bytes) -> Record:
        return self._keyed.record(self._number + b"@" + window + name)
