"""The map states of stateful DoFns, over ordered bags of the records of keys.

The key of an entry is the encoded key of the user, so that a range of keys is a range of the bag.
New entries wait in the state until the next read, until they are many, or until the bundle ends.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from apache_beam.coders import coder_impl

from sparkbeam.state import (
    KeyedStateSpec,
    MapRuntimeState,
    MultimapRuntimeState,
    SortedMultimapRuntimeState,
)
from sparkbeam.worker.keyed.state_cells import Cell
from sparkbeam.worker.state.bags import ITEM_BYTES

_WAITING_BYTES = 1 << 20
_REPEATS = 32


class LazyRange:
    """Entries of a state within a range, read anew by each iterator.

    Args:
        entries: the encoded entries.
        decode: makes an item of each.
    """

    def __init__(
        self,
        entries: Callable[[], Iterable[tuple[Any, Any]]],
        decode: Callable[[Any, Any], Any],
    ) -> None:
        self._entries = entries
        self._decode = decode

    def __iter__(self) -> Iterator[Any]:
        decode = self._decode
        return (decode(key, value) for key, value in self._entries())

    def read(self) -> "LazyRange":
        """Return the items; for :class:`.Later`."""
        return self


coder_impl.FastPrimitivesCoderImpl.register_iterable_like_type(LazyRange)


class EncodedMultimap:
    """Encoded entries in a cell of a record, any number for a key."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._bag = cell.ordered()
        self._waiting: list[tuple[bytes, bytes]] = []
        self._waiting_bytes = 0
        self._version = 0

    def __len__(self) -> int:
        self.write()
        return len(self._bag)

    def read_later(self, ranges: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Announce that ranges of keys are going to be read."""
        self._bag.read_later(ranges)

    def put(self, key: bytes, value: bytes) -> None:
        """Add an entry behind those of its key."""
        self._waiting.append((key, value))
        self._grown(key, value)

    def remove(self, low: bytes, end: bytes | None) -> None:
        """Remove the entries from one key up to, but without, another."""
        self.write()
        self._version += 1
        self._bag.clear(low, end)

    def range(
        self, low: bytes, end: bytes | None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries from one key up to, but without, another.

        Raises:
            RuntimeError: in the iterator, when something has been written since it began.
        """
        self.write()
        version = self._version
        for entry in self._bag.range(low, end, reverse=reverse):
            yield entry
            if self._version != version:
                raise RuntimeError("the state was changed while it was iterated over")

    def distinct(self) -> Iterator[bytes]:
        """Yield all keys, each once; of one with many entries only some are read."""
        low: bytes | None = b""
        while low is not None:
            entries, before, repeats, low = self.range(low, None), None, 0, None
            for key, _ in entries:
                if key != before:
                    before, repeats = key, 0
                    yield key
                elif (repeats := repeats + 1) > _REPEATS:
                    low = after(key)
                    break

    def write(self) -> None:
        """Write what waits into the record."""
        if self._waiting:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._bag.add(waiting)
            self._cell.remember()

    def _grown(self, key: bytes, value: bytes) -> None:
        self._version += 1
        self._waiting_bytes += len(key) + len(value) + ITEM_BYTES
        if self._waiting_bytes > _WAITING_BYTES:
            self.write()


class EncodedMap(EncodedMultimap):
    """Encoded entries in a cell of a record, one for a key."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        self._changes: dict[bytes, bytes | None] = {}

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key; None if it has none."""
        if key in self._changes:
            return self._changes[key]
        return next((value for _, value in self._bag.range(key, after(key))), None)

    def put(self, key: bytes, value: bytes) -> None:
        """Set the entry of a key."""
        self._changes[key] = value
        self._grown(key, value)

    def drop(self, key: bytes) -> None:
        """Remove the entry of a key."""
        self._changes[key] = None
        self._grown(key, b"")

    def write(self) -> None:
        if not self._changes:
            return
        changes, self._changes, self._waiting_bytes = self._changes, {}, 0
        if len(self._bag):
            for key in sorted(changes):
                self._bag.clear(key, after(key))
        self._bag.add([(key, value) for key, value in changes.items() if value is not None])
        self._cell.remember()


def after(key: bytes) -> bytes:
    """Return the first key that stands behind a key."""
    return key + b"\0"


class _OverEntries:
    """Common base of the states of all kinds."""

    entries_of: type[EncodedMultimap] = EncodedMultimap

    def __init__(self, spec: KeyedStateSpec, cell: Cell) -> None:
        self._entries = self.entries_of(cell)
        self._encode_key = spec.key_coder.encode
        self._decode_key = spec.key_coder.decode
        self._encode_value = spec.value_coder.encode
        self._decode_value = spec.value_coder.decode

    def put(self, key: Any, value: Any) -> None:
        self._entries.put(self._encode_key(key), self._encode_value(value))

    def keys(self) -> Iterable[Any]:
        entries = self._entries
        return LazyRange(lambda: ((key, b"") for key in entries.distinct()), self._key)

    def entries(self) -> Iterable[tuple[Any, Any]]:
        return LazyRange(lambda: self._entries.range(b"", None), self._entry)

    def read_later(self, *keys: Any) -> LazyRange:
        return self._later([(key, after(key)) for key in map(self._encode_key, keys)])

    def is_empty(self) -> bool:
        return not len(self._entries)

    def clear(self) -> None:
        self._entries.remove(b"", None)

    def commit(self) -> None:
        """Write the entries that a bundle has put."""
        self._entries.write()

    def _later(self, ranges: Sequence[tuple[bytes, bytes | None]]) -> LazyRange:
        """Announce a read of ranges, or of all keys without ranges; return their entries."""
        entries, ranges = self._entries, ranges or [(b"", None)]
        entries.read_later(ranges)
        return LazyRange(
            lambda: (entry for low, end in ranges for entry in entries.range(low, end)), self._entry
        )

    def _key(self, key: bytes, _: bytes) -> Any:
        return self._decode_key(key)

    def _value(self, _: bytes, value: bytes) -> Any:
        return self._decode_value(value)

    def _entry(self, key: bytes, value: bytes) -> tuple[Any, Any]:
        return self._decode_key(key), self._decode_value(value)


class MapState(_OverEntries, MapRuntimeState[Any, Any]):
    """The state of a ``MapStateSpec``."""

    entries_of = EncodedMap
    _entries: EncodedMap

    def get(self, key: Any, default: Any = None) -> Any:
        value = self._entries.get(self._encode_key(key))
        return default if value is None else self._decode_value(value)

    def put_if_absent(self, key: Any, value: Any) -> Any:
        encoded = self._encode_key(key)
        found = self._entries.get(encoded)
        if found is None:
            self._entries.put(encoded, self._encode_value(value))
        return None if found is None else self._decode_value(found)

    def remove(self, key: Any) -> None:
        self._entries.drop(self._encode_key(key))

    def values(self) -> Iterable[Any]:
        return LazyRange(lambda: self._entries.range(b"", None), self._value)


class MultimapState(_OverEntries, MultimapRuntimeState[Any, Any]):
    """The state of a ``MultimapStateSpec``."""

    def get(self, key: Any) -> Iterable[Any]:
        encoded = self._encode_key(key)
        return LazyRange(lambda: self._entries.range(encoded, after(encoded)), self._value)

    def contains_key(self, key: Any) -> bool:
        encoded = self._encode_key(key)
        return any(True for _ in self._entries.range(encoded, after(encoded)))

    def remove(self, key: Any) -> None:
        encoded = self._encode_key(key)
        self._entries.remove(encoded, after(encoded))


class SortedMultimapState(MultimapState, SortedMultimapRuntimeState[Any, Any]):
    """The state of a ``SortedMultimapStateSpec``."""

    def all_entries(self, *, reverse: bool = False) -> Iterable[tuple[Any, Any]]:
        return self._range(b"", None, reverse=reverse)

    def entries_until(self, limit: Any, *, reverse: bool = False) -> Iterable[tuple[Any, Any]]:
        return self._range(b"", self._after(limit), reverse=reverse)

    def entries_from(self, low: Any, *, reverse: bool = False) -> Iterable[tuple[Any, Any]]:
        return self._range(self._encode_key(low), None, reverse=reverse)

    def read_later(self, *keys: Any, low: Any = None, high: Any = None) -> LazyRange:
        ranges: list[tuple[bytes, bytes | None]] = []
        ranges += ((key, after(key)) for key in map(self._encode_key, keys))
        if low is not None or high is not None:
            end = None if high is None else self._after(high)
            ranges.append((b"" if low is None else self._encode_key(low), end))
        return self._later(ranges)

    def entries_between(
        self, low: Any, high: Any, *, reverse: bool = False
    ) -> Iterable[tuple[Any, Any]]:
        return self._range(self._encode_key(low), self._after(high), reverse=reverse)

    def floor(self, key: Any) -> tuple[Any, list[Any]] | None:
        return self._nearest(b"", self._after(key), reverse=True)

    def ceiling(self, key: Any) -> tuple[Any, list[Any]] | None:
        return self._nearest(self._encode_key(key), None, reverse=False)

    def first(self) -> tuple[Any, list[Any]] | None:
        return self._nearest(b"", None, reverse=False)

    def last(self) -> tuple[Any, list[Any]] | None:
        return self._nearest(b"", None, reverse=True)

    def remove_until(self, limit: Any) -> None:
        self._entries.remove(b"", self._after(limit))

    def remove_between(self, low: Any, high: Any) -> None:
        low, end = self._encode_key(low), self._after(high)
        if low < end:
            self._entries.remove(low, end)

    def _after(self, key: Any) -> bytes:
        return after(self._encode_key(key))

    def _range(self, low: bytes, end: bytes | None, *, reverse: bool) -> Iterable[tuple[Any, Any]]:
        return LazyRange(lambda: self._entries.range(low, end, reverse=reverse), self._entry)

    def _nearest(
        self, low: bytes, end: bytes | None, *, reverse: bool
    ) -> tuple[Any, list[Any]] | None:
        """Return the key with its values that a range begins with."""
        values: list[bytes] = []
        found: bytes | None = None
        for key, value in self._entries.range(low, end, reverse=reverse):
            if found not in (None, key):
                break
            found = key
            values.append(value)
        if found is None:
            return None
        return self._decode_key(found), [
            self._decode_value(value) for value in (reversed(values) if reverse else values)
        ]
