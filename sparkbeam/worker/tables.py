"""Elements gathered by key in a worker's memory, before they leave it.

The hot path of every grouping: it runs once for each element. Keys are told
apart by their encoded form, as Beam demands; for types whose equality is the
same as that of their encoding, the key itself stands for it. Values of
immutable types stay objects, and a run of them is encoded in one call; other
values are encoded at once, as the user's code may change them later.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from apache_beam.coders import coder_impl

from sparkbeam.worker.rows import CELL_BYTES
from sparkbeam.worker.values import RunCoder

TABLE_BYTES = 96 << 20
"""A table is written when its elements take about this many bytes of memory."""

OBJECT_BYTES = 40
"""What a small object and its place in a list take."""

_KEYS_PER_PART = 1000
_ENTRY_BYTES = 5 * OBJECT_BYTES

IMMUTABLE = frozenset([int, float, str, bytes, bool, type(None)])
"""Types of values that may be kept as they are."""

HASHED_AS_ENCODED = frozenset([int, str, bytes])
"""Types of keys that are equal when, and only when, their encodings are."""

_SIZED = frozenset([str, bytes])
_NO_WINDOW = object()

Run = tuple[bytes, bytes, int]
"""Encoded key, encoded run of values, combined timestamp in microseconds."""


class _WindowTable:
    """The runs of one window: lists of objects, and lists of encodings, by key."""

    def __init__(self) -> None:
        self.objects: dict[type, defaultdict[Any, list[Any]]] = {
            kind: defaultdict(list) for kind in HASHED_AS_ENCODED
        }
        self.encodings: dict[bytes, list[bytes]] = {}
        self.stamps: dict[bytes, int] = {}

    def count(self) -> int:
        """The number of values."""
        tables = (*self.objects.values(), self.encodings)
        return sum(sum(map(len, by_key.values())) for by_key in tables)


class RunTable:
    """Runs of values by window and key.

    Args:
        key: encodes keys.
        value: encodes runs of values.
        combine_stamps: merges the timestamps of a key, or None where nobody asks.
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
        """Adds many elements of a window; True when the table is full."""
        keys, values = zip(*pairs, strict=True)
        key_kinds, value_kinds = set(map(type, keys)), set(map(type, values))
        if (
            self._combine is None
            and len(key_kinds) == 1
            and key_kinds <= HASHED_AS_ENCODED
            and value_kinds <= IMMUTABLE
        ):
            self._select(window)
            by_key = self._last.objects[key_kinds.pop()]
            before = len(by_key)
            for key, value in pairs:
                by_key[key].append(value)
            self._bytes += OBJECT_BYTES * len(pairs) + _ENTRY_BYTES * (len(by_key) - before)
            if value_kinds & _SIZED:
                self._bytes += sum(len(value) for value in values if type(value) in _SIZED)
        else:
            for key, value in pairs:
                self.add(window, key, value, stamp)
        return self._bytes > TABLE_BYTES

    def _select(self, window: Any) -> None:
        if window is not self._last_window:
            table = self._windows.get(window)
            if table is None:
                table = self._windows[window] = _WindowTable()
            self._last_window, self._last = window, table

    def add(self, window: Any, key: Any, value: Any, stamp: int = 0) -> bool:
        """Adds an element; True when the table is full."""
        self._select(window)
        if self._combine is not None:
            self._stamp(key, stamp)
        kind = type(value)
        if kind in IMMUTABLE:
            by_key = self._last.objects.get(type(key))
            if by_key is not None:
                run = by_key[key]
                if not run:
                    self._bytes += _ENTRY_BYTES
                run.append(value)
                self._bytes += OBJECT_BYTES + len(value) if kind in _SIZED else OBJECT_BYTES
                return self._bytes > TABLE_BYTES
        return self._add_encoded(self._encode_key(key), self._encode_value(value))

    def _add_encoded(self, key: bytes, value: bytes) -> bool:
        run = self._last.encodings.get(key)
        if run is None:
            self._last.encodings[key] = [value]
            self._bytes += _ENTRY_BYTES + len(key)
        else:
            run.append(value)
        self._bytes += OBJECT_BYTES + len(value)
        return self._bytes > TABLE_BYTES

    def _stamp(self, key: Any, stamp: int) -> None:
        assert self._combine is not None
        encoded = self._encode_key(key)
        stamps = self._last.stamps
        stamps[encoded] = self._combine(stamps.get(encoded, stamp), stamp)

    def take(self) -> Iterator[tuple[Any, list[bytes], list[bytes], list[int]]]:
        """All runs, as columns: window, encoded keys, encoded runs, timestamps.

        They come in parts of a few megabytes. A key with many values comes in
        several parts, in order. The table is empty afterwards.
        """
        windows = self._windows
        average = max(1, self._bytes) / max(1, sum(table.count() for table in windows.values()))
        self._clear()
        for window, table in windows.items():
            for by_key in table.objects.values():
                for keys, runs in _parts(by_key, self._runs.encode, average):
                    encoded = list(map(self._encode_key, keys))
                    yield window, encoded, runs, self._stamps(table, encoded)
            for keys, runs in _parts(table.encodings, self._runs.join, average):
                yield window, keys, runs, self._stamps(table, keys)

    def _stamps(self, table: _WindowTable, keys: list[bytes]) -> list[int]:
        if self._combine is None:
            return [0] * len(keys)
        return [table.stamps[key] for key in keys]


def _parts(
    by_key: dict[Any, list[Any]], encode: Callable[[list[Any]], bytes], average: float
) -> Iterator[tuple[list[Any], list[bytes]]]:
    """Takes the runs out of a table, encoded, some keys at a time.

    Args:
        by_key: the values by key; it is empty in the end.
        encode: makes a run of values.
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
