"""Stripes: content of a page for one open window of many keys, in columns.

If the state of keys is only accumulators of open windows that are numbers of a vectorized form,
their records differ only in key and numbers. A stripe has these as two columns, and the common part
of the records once. A key is in stripes or has a record, never both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.accumulators.vectorized_accumulator import unit_of
from sparkbeam.wire.binary import binary, bytes_of, offsets_of
from sparkbeam.wire.rounding import coded_hold
from sparkbeam.worker.state.directory import NEVER
from sparkbeam.worker.state.records import EVENT_TIME, Hold

Numbers = npt.NDArray[Any]
"""Array of ``int64`` or ``float64``, or of possibly nested records of these; one per key."""

Places = npt.NDArray[np.intp]

AddUp = Callable[[Numbers, Places], Numbers | None]
"""Sums of runs of numbers, given the start of each run; None if a sum is not exact."""

SESSIONS = b"sessions"
"""Name of the stripe of sessions in a page."""

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


class Stripe(ABC):
    """Rows of keys in columns, the first of which has the numbers.

    Args:
        keys: binary.
        columns: of the keys, not to be changed by others.
        fresh: marks rows that have changed since the page was last written as a whole; if one row
            of a key is fresh, all are.
    """

    __slots__ = ("_columns", "_fresh", "_gone", "_keys", "_rows")

    def __init__(
        self, keys: pa.Array, columns: Sequence[Numbers], fresh: "npt.NDArray[np.bool_] | bool"
    ) -> None:
        self._keys = keys
        self._columns = tuple(columns)
        self._fresh = np.full(len(keys), fresh)
        self._rows: dict[bytes, list[int]] | None = None
        self._gone: list[int] = []

    @property
    @abstractmethod
    def cell(self) -> bytes:
        """Name of the stripe in its page."""

    @property
    @abstractmethod
    def fires(self) -> int:
        """Time of the first timer, in microseconds."""

    @property
    @abstractmethod
    def hold(self) -> int:
        """Oldest hold on the watermark, in microseconds; NEVER if there is none."""

    @abstractmethod
    def oldest(self) -> Hold | None:
        """Return the oldest hold on the watermark with its key; None if there is none."""

    @abstractmethod
    def _head(self) -> tuple[int | bytes, ...]:
        """Return what all rows share, as plain data."""

    def __len__(self) -> int:
        return len(self._keys) - len(self._gone)

    @property
    def keys(self) -> pa.Array:
        """The key of each row."""
        self._drop_removed()
        return self._keys

    @property
    def columns(self) -> tuple[Numbers, ...]:
        """The columns; not to be changed."""
        self._drop_removed()
        return self._columns

    @property
    def numbers(self) -> Numbers:
        """The numbers; not to be changed."""
        return self.columns[0]

    @property
    def is_fresh(self) -> "npt.NDArray[np.bool_]":
        """True for each row that is fresh; not to be changed."""
        self._drop_removed()
        return self._fresh

    def extend(self, *others: "Stripe") -> bool:
        """Add the keys of other stripes, none of which is here; return False if unsupported."""
        kind = self._head(), self.numbers.dtype
        if any((other._head(), other.numbers.dtype) != kind for other in others):
            return False
        every = self, *others
        self._keys = pa.concat_arrays([each.keys for each in every])
        columns = zip(*(each.columns for each in every), strict=True)
        self._fresh = np.concatenate([each.is_fresh for each in every])
        self._columns = tuple(map(np.concatenate, columns))
        self._rows = None
        return True

    def replace(self, other: "Stripe") -> bool:
        """Replace the keys that are here by those of another stripe, like :meth:`extend`."""
        self.pop(other.keys.to_pylist())
        return self.extend(other)

    def pop(self, keys: Iterable[bytes]) -> list[tuple[bytes, list[int]]]:
        """Remove keys; return those found, and their positions in :attr:`all_columns`."""
        if self._rows is None:
            self._rows = {}
            for row, key in enumerate(self._keys.to_pylist()):
                self._rows.setdefault(key, []).append(row)
        rows = self._rows
        found = [(key, rows.pop(key)) for key in keys if key in rows]
        for _, of_key in found:
            self._gone += of_key
        return found

    @property
    def all_columns(self) -> tuple[Numbers, ...]:
        """The columns with the rows of keys that were removed last."""
        return self._columns

    def spread(self, numbers: "npt.NDArray[np.integer[Any]]") -> Iterator[tuple[int, Self]]:
        """Yield parts of the stripe in order of a number that each row has."""
        order = np.argsort(numbers, kind="stable")
        keys, columns = self.keys.take(pa.array(order)), [each[order] for each in self.columns]
        is_fresh = self.is_fresh[order]
        found, firsts = np.unique(numbers[order], return_index=True)
        bounds = np.append(firsts, len(order)).tolist()
        for number, low, high in zip(found.tolist(), bounds, bounds[1:], strict=False):
            part = [column[low:high] for column in columns]
            yield number, self._like(keys.slice(low, high - low), part, is_fresh[low:high])

    def part(self, chosen: "npt.NDArray[np.bool_]") -> Self:
        """Return some of the rows."""
        columns = [column[chosen] for column in self.columns]
        return self._like(self.keys.filter(pa.array(chosen)), columns, self.is_fresh[chosen])

    def mark_written(self) -> None:
        """Mark all keys as not fresh: the page has been written as a whole."""
        self._drop_removed()
        self._fresh[:] = False

    def stored(self) -> tuple[Any, ...]:
        """Return the stripe as plain data."""
        keys = self.keys
        offsets = offsets_of(keys)
        return (
            self._head(),
            _plain(self.numbers.dtype),
            (offsets - offsets[0]).astype(np.int32).tobytes(),
            bytes_of(keys).tobytes(),
            *(column.tobytes() for column in self.columns),
        )

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        each = _KEY_BYTES + sum(column.itemsize for column in self.columns)
        return len(bytes_of(self.keys)) + len(self) * each

    def _like(
        self, keys: pa.Array, columns: Sequence[Numbers], fresh: "npt.NDArray[np.bool_] | bool"
    ) -> Self:
        """Return a stripe of this kind."""
        found = copy(self)
        Stripe.__init__(found, keys, columns, fresh)
        return found

    def _drop_removed(self) -> None:
        """Release the keys that have been removed."""
        if not self._gone:
            return
        kept = np.full(len(self._keys), True)
        kept[self._gone] = False
        self._keys = self._keys.filter(pa.array(kept))
        self._columns = tuple(column[kept] for column in self._columns)
        self._fresh = self._fresh[kept]
        self._rows, self._gone = None, []


class WindowStripe(Stripe):
    """The numbers of one open window, one for each key."""

    __slots__ = ("window",)

    def __init__(
        self,
        window: OpenWindow,
        keys: pa.Array,
        columns: Sequence[Numbers],
        fresh: "npt.NDArray[np.bool_] | bool",
    ) -> None:
        super().__init__(keys, columns, fresh)
        self.window = window

    @property
    def cell(self) -> bytes:
        return self.window.cell

    @property
    def fires(self) -> int:
        return self.window.fires

    @property
    def hold(self) -> int:
        return self.window.hold

    def oldest(self) -> Hold:
        return Hold(self.window.hold, min(self.keys.to_pylist()), False, self.window.fires)

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
        (own,) = self.columns
        if numbers.dtype != own.dtype:
            return None
        rows = pc.index_in(keys, value_set=self._keys).fill_null(-1).to_numpy()
        known = rows >= 0
        rows = rows[known]
        together = np.insert(numbers, firsts[known], own[rows])
        totals = add_up(together, firsts + np.cumsum(known) - known)
        if totals is None or totals.dtype != own.dtype:
            return None
        own[rows] = totals[known]
        self._fresh[rows] = True
        if known.all():
            return 0
        added = self._like(keys.filter(pa.array(~known)), [totals[~known]], True)
        self.extend(added)
        return added.nbytes

    def _head(self) -> tuple[int | bytes, ...]:
        window = self.window
        return window.cell, window.fires, window.stamp, window.hold


class SessionStripe(Stripe):
    """The numbers of sessions, none of which overlaps another one of its key.

    The columns beside the numbers are the start, the end and the next time of each, in
    microseconds. The next time is the end of a session that waits for it, and of one that has fired
    its expiry, which is later. A key with many sessions has a record instead.
    """

    __slots__ = ()

    @property
    def cell(self) -> bytes:
        return SESSIONS

    @property
    def fires(self) -> int:
        return int(self.columns[3].min())

    @property
    def hold(self) -> int:
        ends = self.columns[2][are_waiting(self.columns)]
        return coded_hold(int(ends.min()) - 1) if len(ends) else NEVER

    def oldest(self) -> Hold | None:
        hold = self.hold
        if hold == NEVER:
            return None
        ends = np.where(are_waiting(self.columns), self.columns[2], NEVER)
        first = ends == ends.min()
        keys = self.keys.filter(pa.array(first)).to_pylist()
        return Hold(hold, min(keys), False, int(self.columns[3][first][0]))

    def _head(self) -> tuple[int | bytes, ...]:
        return ()


def are_waiting(columns: Sequence[Numbers]) -> "npt.NDArray[np.bool_]":
    """Return for each session of a stripe that it has not fired."""
    _, _, ends, times = columns
    waiting: npt.NDArray[np.bool_] = times <= ends
    return waiting


def stripe_of(stored: tuple[Any, ...], *, fresh: bool) -> Stripe:
    """Return the inverse of :meth:`Stripe.stored`."""
    head, kind, offsets, data, numbers, *times = stored
    keys = binary(np.frombuffer(offsets, np.int32), np.frombuffer(data, np.uint8))
    columns = [np.frombuffer(numbers, _kind_of(kind)).copy()]
    columns += [np.frombuffer(column, np.int64) for column in times]
    if head:
        return WindowStripe(OpenWindow(*head), keys, columns, fresh)
    return SessionStripe(keys, columns, fresh)


def timer_of(window: OpenWindow) -> tuple[int, int, None, None]:
    """Return the timer that a record has for an open window."""
    return window.fires, EVENT_TIME, None, None


def _plain(kind: "np.dtype[Any]") -> Any:
    """Return a type of numbers as plain data: its name or unit, or a tuple of a record's parts."""
    if kind.names is None:
        return kind.str
    return unit_of(kind) or tuple(_plain(kind[name]) for name in kind.names)


def _kind_of(plain: Any) -> "np.dtype[Any]":
    if type(plain) is str:
        return np.dtype(plain if plain.startswith("<") else [(plain, np.int64)])
    return np.dtype([(str(at), _kind_of(part)) for at, part in enumerate(plain)])
