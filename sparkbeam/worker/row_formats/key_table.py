"""Elements gathered by key in a worker's memory, before they leave it.

This is the hot path of every grouping, run once for each element. Keys are distinguished by their
encoded form, as Beam demands. For types whose equality is that of their encoding, the key itself
stands for it. Values of immutable types stay objects, and a run of them is encoded in one call.
Other values are encoded at once, as the user's code may change them later.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from apache_beam.coders import coder_impl

from sparkbeam.wire.rows import CELL_BYTES
from sparkbeam.worker.row_formats.group_values import RunCoder

TABLE_BYTES = 96 << 20
"""Approximate memory of a table's elements at which it is written."""

OBJECT_BYTES = 40
"""Memory of a small object and its place in a list, in bytes."""

_KEYS_PER_PART = 1000
_ENTRY_BYTES = 5 * OBJECT_BYTES
_WINDOW_BYTES = 1500

IMMUTABLE = frozenset([int, float, str, bytes, bool, type(None)])
"""Types of values that may be kept unchanged."""

HASHED_AS_ENCODED = frozenset([int, str, bytes])
"""Types of keys that are equal when, and only when, their encodings are."""

_SIZED = frozenset([str, bytes])
_FIXED = IMMUTABLE - _SIZED
_NO_WINDOW = object()


def immutable_size(value: Any) -> int:
    """Return the approximate size of a deeply immutable value in bytes; 0 for others."""
    kind = type(value)
    if kind in _FIXED:
        return OBJECT_BYTES
    if kind in _SIZED:
        return OBJECT_BYTES + len(value)
    if not issubclass(kind, tuple) or kind.__dictoffset__:
        return 0
    total = OBJECT_BYTES
    for part in value:
        size = OBJECT_BYTES if type(part) in _FIXED else immutable_size(part)
        if not size:
            return 0
        total += size
    return total


def all_immutable(values: Sequence[Any]) -> bool:
    """Return whether the values and all their parts are immutable."""
    kinds = set(map(type, values))
    are_tuples = all(issubclass(kind, tuple) and not kind.__dictoffset__ for kind in kinds)
    if are_tuples and IMMUTABLE.issuperset(map(type, itertools.chain.from_iterable(values))):
        return True
    return kinds <= IMMUTABLE or all(map(immutable_size, values))


class _WindowTable:
    """The runs of one window by key.

    Attributes:
        objects, encodings: by keys that stand for their encodings.
        by_encoding: encodings by encoded keys.
    """

    def __init__(self) -> None:
        self.objects: defaultdict[Any, list[Any]] = defaultdict(list)
        self.encodings: defaultdict[Any, list[Any]] = defaultdict(list)
        self.by_encoding: defaultdict[Any, list[Any]] = defaultdict(list)
        self.stamps: dict[bytes, int] = {}

    def count(self) -> int:
        """Return the number of values."""
        tables = self.objects, self.encodings, self.by_encoding
        return sum(sum(map(len, by_key.values())) for by_key in tables)


class RunTable:
    """Runs of values by window and key.

    Args:
        combine_stamps: merges the timestamps of a key; None if no reader needs them.
    """

    def __init__(
        self,
        key: coder_impl.CoderImpl,
        value: RunCoder,
        combine_stamps: Callable[[int, int], int] | None = None,
    ) -> None:
        self._encode_key = key.encode_nested
        self._runs = value
        self._encode_value = value.element.encode_nested
        self._combine = combine_stamps
        self._clear()

    def _clear(self) -> None:
        self._windows: dict[Any, _WindowTable] = {}
        self._last_window: Any = _NO_WINDOW
        self._last: Any = None
        self._bytes = 0

    def add_all(self, window: Any, pairs: list[tuple[Any, Any]], stamp: int = 0) -> bool:
        """Add many elements of a window; return True when the table is full."""
        keys, values = zip(*pairs, strict=True)
        key_kinds, value_kinds = set(map(type, keys)), set(map(type, values))
        kind = key_kinds.pop()
        if self._combine is not None or key_kinds or kind not in HASHED_AS_ENCODED:
            for key, value in pairs:
                self.add(window, key, value, stamp)
            return self._bytes > TABLE_BYTES
        self._select(window)
        if value_kinds <= IMMUTABLE:
            by_key = self._last.objects
            sized = not value_kinds.isdisjoint(_SIZED)
        else:
            by_key = self._last.encodings
            sized = True
            pairs = list(zip(keys, map(self._encode_value, values), strict=True))
        before = len(by_key)
        for key, value in pairs:
            by_key[key].append(value)
        new = len(by_key) - before
        self._bytes += OBJECT_BYTES * len(pairs) + _ENTRY_BYTES * new
        if new and kind in _SIZED:
            self._bytes += new * sum(map(len, keys)) // len(keys)
        if sized:
            self._bytes += sum(len(value) for _, value in pairs if type(value) in _SIZED)
        return self._bytes > TABLE_BYTES

    def _select(self, window: Any) -> None:
        if window is not self._last_window:
            table = self._windows.get(window)
            if table is None:
                table = self._windows[window] = _WindowTable()
                self._bytes += _WINDOW_BYTES
            self._last_window, self._last = window, table

    def add(self, window: Any, key: Any, value: Any, stamp: int = 0) -> bool:
        """Add an element; return True when the table is full."""
        self._select(window)
        if self._combine is not None:
            self._stamp(key, stamp)
        kind = type(value)
        is_plain = type(key) in HASHED_AS_ENCODED
        if is_plain and kind in IMMUTABLE:
            return self._append(self._last.objects, key, value, sized=kind in _SIZED)
        encoded = self._encode_value(value)
        if is_plain:
            return self._append(self._last.encodings, key, encoded, sized=True)
        return self._append(self._last.by_encoding, self._encode_key(key), encoded, sized=True)

    def _append(
        self, by_key: defaultdict[Any, list[Any]], key: Any, value: Any, *, sized: bool
    ) -> bool:
        run = by_key[key]
        if not run:
            self._bytes += _ENTRY_BYTES + len(key) if type(key) in _SIZED else _ENTRY_BYTES
        run.append(value)
        self._bytes += OBJECT_BYTES + len(value) if sized else OBJECT_BYTES
        return self._bytes > TABLE_BYTES

    def _stamp(self, key: Any, stamp: int) -> None:
        assert self._combine is not None
        encoded = self._encode_key(key)
        stamps = self._last.stamps
        stamps[encoded] = self._combine(stamps.get(encoded, stamp), stamp)

    def take(self) -> Iterator[tuple[Any, list[bytes], list[bytes], list[int]]]:
        """Yield all runs, as columns: window, encoded keys, encoded runs, timestamps.

        They come in parts of a few megabytes. A key with many values comes in
        several parts, in order. The table is empty afterwards.
        """
        windows = self._windows
        average = max(1, self._bytes) / max(1, sum(table.count() for table in windows.values()))
        self._clear()
        for window, table in windows.items():
            for by_key, encode in (
                (table.objects, self._runs.encode),
                (table.encodings, self._runs.join),
                (table.by_encoding, self._runs.join),
            ):
                for keys, runs in _parts(by_key, encode, average):
                    if by_key is not table.by_encoding:
                        keys = list(map(self._encode_key, keys))
                    yield window, keys, runs, self._stamps(table, keys)

    def _stamps(self, table: _WindowTable, keys: list[bytes]) -> list[int]:
        if self._combine is None:
            return [0] * len(keys)
        return [table.stamps[key] for key in keys]


def _parts(
    by_key: dict[Any, list[Any]], encode: Callable[[list[Any]], bytes], average: float
) -> Iterator[tuple[list[Any], list[bytes]]]:
    """Take the runs out of a table, encoded, some keys at a time.

    Args:
        by_key: the values by key; it is empty in the end.
        average: the bytes that a value takes.
    """
    values_per_cell = max(1, int(CELL_BYTES / average))
    while by_key:
        keys: list[Any] = []
        runs: list[list[Any]] = []
        room = 4 * values_per_cell
        for key, run in itertools.islice(by_key.items(), _KEYS_PER_PART):
            room -= len(run)
            if room < 0:
                break
            keys.append(key)
            runs.append(run)
        for key in keys:
            del by_key[key]
        if keys:
            yield keys, list(map(encode, runs))
        else:
            key = next(iter(by_key))
            run = by_key.pop(key)
            for start in range(0, len(run), values_per_cell):
                yield [key], [encode(run[start : start + values_per_cell])]
