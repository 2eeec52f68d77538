"""Stripes: content of a page for one open window of many keys, in columns.

If the state of keys is only accumulators of open windows that are numbers of a vectorized form,
their records differ only in key and numbers. A stripe has these as two columns, and the common part
of the records once. A key is in stripes or has a record, never both.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.wire.binary import binary, bytes_of, offsets_of
from sparkbeam.worker.state.records import EVENT_TIME, Hold

Numbers = npt.NDArray[Any]
"""Array of ``int64`` or ``float64``, or of possibly nested records of these; one per key."""

Places = npt.NDArray[np.intp]

AddUp = Callable[[Numbers, Places], Numbers | None]
"""Sums of runs of numbers, given the start of each run; None if a sum is not exact."""

_KEY_BYTES = 4
"""Size of a key besides its bytes and its numbers."""


@dataclass(frozen=True)
class OpenWindow:
    """An open window, as it is stored for a key.

    Attributes:
        fires: when it does, in microseconds.
        stamp: the combined timestamp, whatever elements have come, in microseconds.
    """

    cell: bytes
    fires: int
    stamp: int
    hold: int


class Stripe:
    """Keys, each once, with their numbers.

    Args:
        keys: binary.
        numbers: of the keys, not to be changed by others.
        fresh: marks keys that have changed since the page was last written as a whole.
    """

    __slots__ = ("_fresh", "_gone", "_keys", "_numbers", "_rows", "window")

    def __init__(
        self, window: OpenWindow, keys: pa.Array, numbers: Numbers, *, fresh: bool
    ) -> None:
        self.window = window
        self._keys = keys
        self._numbers = numbers
        self._fresh = np.full(len(keys), fresh)
        self._rows: dict[bytes, int] | None = None
        self._gone: list[int] = []

    def __len__(self) -> int:
        return len(self._keys) - len(self._gone)

    @property
    def keys(self) -> pa.Array:
        """The keys, in the order of the numbers."""
        self._drop_removed()
        return self._keys

    @property
    def numbers(self) -> Numbers:
        """The numbers; not to be changed."""
        self._drop_removed()
        return self._numbers

    @property
    def fresh_count(self) -> int:
        """Number of fresh keys."""
        self._drop_removed()
        return int(np.count_nonzero(self._fresh))

    def add(self, keys: pa.Array, numbers: Numbers, firsts: Places, add_up: AddUp) -> int | None:
        """Add runs of numbers to those of keys.

        Args:
            keys: each once.
            numbers: in runs, one for each key.
            firsts: the start of each run.

        Returns:
            The approximate growth in bytes; None if the numbers cannot be added, with nothing
            changed.
        """
        self._drop_removed()
        if numbers.dtype != self._numbers.dtype:
            return None
        rows = pc.index_in(keys, value_set=self._keys).fill_null(-1).to_numpy()
        known = rows >= 0
        rows = rows[known]
        together = np.insert(numbers, firsts[known], self._numbers[rows])
        totals = add_up(together, firsts + np.cumsum(known) - known)
        if totals is None or totals.dtype != self._numbers.dtype:
            return None
        self._numbers[rows] = totals[known]
        self._fresh[rows] = True
        if known.all():
            return 0
        added = keys.filter(pa.array(~known))
        self._extend(added, totals[~known], np.full(len(added), True))
        return _size(added, totals.dtype)

    def extend(self, other: "Stripe") -> bool:
        """Add the keys of another stripe, none of which is here; return False if unsupported."""
        if other.window != self.window or other.numbers.dtype != self.numbers.dtype:
            return False
        self._extend(other.keys, other.numbers, other._fresh)
        return True

    def replace(self, other: "Stripe") -> bool:
        """Replace the keys that are here by those of another stripe, like :meth:`extend`."""
        self.pop(other.keys.to_pylist())
        return self.extend(other)

    def pop(self, keys: Iterable[bytes]) -> list[tuple[bytes, int]]:
        """Remove keys; return those found, and their positions in :attr:`all_numbers`."""
        if self._rows is None:
            self._rows = {key: row for row, key in enumerate(self._keys.to_pylist())}
        rows = self._rows
        found = [(key, rows.pop(key)) for key in keys if key in rows]
        self._gone += [row for _, row in found]
        return found

    @property
    def all_numbers(self) -> Numbers:
        """The numbers with those of keys that were removed last."""
        return self._numbers

    def spread(self, numbers: "npt.NDArray[np.int64]") -> Iterator[tuple[int, "Stripe"]]:
        """Yield parts of the stripe, by a number for each key."""
        self._drop_removed()
        for number in np.unique(numbers).tolist():
            yield number, self._filtered(numbers == number)

    def oldest(self) -> Hold:
        """Hold of the stripe on the watermark."""
        return Hold(self.window.hold, min(self.keys.to_pylist()), False, self.window.fires)

    def fresh(self) -> "Stripe":
        """Return the fresh keys."""
        self._drop_removed()
        return self._filtered(self._fresh)

    def mark_written(self) -> None:
        """Mark all keys as not fresh: the page has been written as a whole."""
        self._drop_removed()
        self._fresh[:] = False

    def stored(self) -> tuple[Any, ...]:
        """Return the stripe as plain data."""
        window, keys, numbers = self.window, self.keys, self.numbers
        offsets = offsets_of(keys)
        return (
            (window.cell, window.fires, window.stamp, window.hold),
            _plain(numbers.dtype),
            (offsets - offsets[0]).astype(np.int32).tobytes(),
            bytes_of(keys).tobytes(),
            numbers.tobytes(),
        )

    @classmethod
    def of_stored(cls, stored: tuple[Any, ...], *, fresh: bool) -> "Stripe":
        """Return the inverse of :meth:`stored`."""
        window, kind, offsets, data, numbers = stored
        keys = binary(np.frombuffer(offsets, np.int32), np.frombuffer(data, np.uint8))
        found = np.frombuffer(numbers, _kind_of(kind)).copy()
        return cls(OpenWindow(*window), keys, found, fresh=fresh)

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        return _size(self.keys, self._numbers.dtype)

    def _filtered(self, chosen: "npt.NDArray[np.bool_]") -> "Stripe":
        part = Stripe(
            self.window, self._keys.filter(pa.array(chosen)), self._numbers[chosen], fresh=True
        )
        part._fresh = self._fresh[chosen]
        return part

    def _extend(self, keys: pa.Array, numbers: Numbers, fresh: "npt.NDArray[np.bool_]") -> None:
        self._drop_removed()
        self._keys = pa.concat_arrays([self._keys, keys])
        self._numbers = np.concatenate([self._numbers, numbers])
        self._fresh = np.concatenate([self._fresh, fresh])
        self._rows = None

    def _drop_removed(self) -> None:
        """Release the keys that have been removed."""
        if not self._gone:
            return
        kept = np.full(len(self._keys), True)
        kept[self._gone] = False
        self._keys = self._keys.filter(pa.array(kept))
        self._numbers, self._fresh = self._numbers[kept], self._fresh[kept]
        self._rows, self._gone = None, []


def timer_of(window: OpenWindow) -> tuple[int, int, None, None]:
    """Return the timer that a record has for an open window."""
    return window.fires, EVENT_TIME, None, None


def _size(keys: pa.Array, kind: "np.dtype[Any]") -> int:
    return len(bytes_of(keys)) + len(keys) * (_KEY_BYTES + kind.itemsize)


def _plain(kind: "np.dtype[Any]") -> Any:
    """Return a type of numbers as plain data: its name, or a tuple of a record's parts."""
    return kind.str if kind.names is None else tuple(_plain(kind[name]) for name in kind.names)


def _kind_of(plain: Any) -> "np.dtype[Any]":
    if type(plain) is str:
        return np.dtype(plain)
    return np.dtype([(str(at), _kind_of(part)) for at, part in enumerate(plain)])
