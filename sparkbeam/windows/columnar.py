"""Sessions as columns: elements wait until there are many, and all are sorted and cut at once.

The sessions of many keys may stand in the same columns, each key by a number.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from sparkbeam.columns.order import in_order
from sparkbeam.windows.aggregator import Session, Stamps, merged
from sparkbeam.windows.form import Form, Numbers
from sparkbeam.windows.forms import form_of

Micros = npt.NDArray[np.int64]
_Places = npt.NDArray[np.intp]

_WAITING = 4096
_UFUNCS: dict[Any, np.ufunc] = {min: np.minimum, max: np.maximum}


@dataclass(frozen=True)
class Columns:
    """Sessions by key and start.

    Attributes:
        keys: the number of each one's key.
        starts, ends, stamps: times in microseconds.
        totals: numbers of the vectorised form, or accumulators in an array of objects.
    """

    keys: Micros
    starts: Micros
    ends: Micros
    stamps: Micros
    totals: Numbers

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, rows: slice | npt.NDArray[np.bool_]) -> "Columns":
        """Some of the sessions."""
        times = self.starts[rows], self.ends[rows], self.stamps[rows]
        return Columns(self.keys[rows], *times, self.totals[rows])

    def with_keys(self, keys: Micros) -> "Columns":
        """The same with other numbers for the keys."""
        return Columns(keys, self.starts, self.ends, self.stamps, self.totals)


@dataclass(frozen=True)
class _Cut:
    """Where sessions begin.

    Attributes:
        order: the places of the elements by key and start.
        firsts: the first of each session, among them.
    """

    order: _Places
    firsts: _Places

    def parts(self) -> tuple[list[int], list[int]]:
        """Begin and end of each session among the elements in order."""
        firsts = self.firsts.tolist()
        return firsts, [*firsts[1:], len(self.order)]


class SessionColumns:
    """Makes columns of elements, and one of two.

    Args:
        combine_fn: of the values.
        stamps: of the timestamps, ``min`` or ``max``.

    Attributes:
        form: the vectorised form of the CombineFn; without it, it is called for each session.
    """

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._combine_fn = combine_fn
        self._stamps = _UFUNCS[stamps]
        self.form: Form | None = form_of(combine_fn)

    def reduce(
        self, keys: Micros, starts: Micros, ends: Micros, stamps: Micros, values: Any
    ) -> Columns:
        """The sessions of elements, of which there is one at least.

        Args:
            keys: the numbers of their keys.
            starts: of their windows.
            ends: the same.
            stamps: their timestamps.
            values: their values in a list, of which those of a session are added up in this order,
                or in an array, as numbers of the vectorised form.
        """
        cut = self._cut(keys, starts, ends)
        totals: Numbers | None = None
        is_array = False
        if self.form is not None:
            is_array = isinstance(values, np.ndarray)
            numbers = values if is_array else self.form.numbers(values)
            if numbers is not None:
                totals = self.form.add_up(numbers[cut.order], cut.firsts)
        if totals is None:
            if is_array:
                assert self.form is not None
                values = self.form.values(values)
            totals = self._added(cut, values)
        return self._columns(cut, keys, starts, ends, stamps, totals)

    def merge(self, *parts: Columns) -> Columns:
        """The sessions that there are when those of all parts have merged."""
        keys, starts, ends, stamps = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("keys", "starts", "ends", "stamps")
        )
        cut = self._cut(keys, starts, ends)
        totals: Numbers | None = None
        kinds = {part.totals.dtype for part in parts}
        if len(kinds) == 1 and np.dtype(object) not in kinds:
            assert self.form is not None
            numbers = np.concatenate([part.totals for part in parts])
            totals = self._added_up(numbers[cut.order], cut.firsts)
        if totals is None:
            found = [one for part in parts for one in self.accumulators(part)]
            totals = self._merged(cut, objects(found))
        return self._columns(cut, keys, starts, ends, stamps, totals)

    def accumulators(self, columns: Columns) -> list[Any]:
        """Those of the sessions."""
        if columns.totals.dtype == object:
            return columns.totals.tolist()
        assert self.form is not None
        return self.form.accumulators(columns.totals, self._combine_fn)

    def sessions(self, columns: Columns) -> Iterator[tuple[int, Session]]:
        """The numbers of the keys, and the sessions."""
        times = (column.tolist() for column in (columns.starts, columns.ends, columns.stamps))
        found = map(Session, *times, self.accumulators(columns))
        return zip(columns.keys.tolist(), found, strict=True)

    def _cut(self, keys: Micros, starts: Micros, ends: Micros) -> _Cut:
        """Where the sessions of each key begin, by the rule of ``in_session`` in aggregator.py."""
        order, _ = in_order(keys, starts)
        keys, starts, ends = keys[order], starts[order], ends[order]
        is_other_key = keys[1:] != keys[:-1]
        reach = _reach(is_other_key, ends)
        is_apart = (starts[1:] >= reach[:-1]) & (starts[1:] != starts[:-1])
        return _Cut(order, np.flatnonzero(np.concatenate([[True], is_other_key | is_apart])))

    def _added_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        assert self.form is not None
        return self.form.add_up(numbers, firsts)

    def _columns(
        self, cut: _Cut, keys: Micros, starts: Micros, ends: Micros, stamps: Micros, totals: Numbers
    ) -> Columns:
        order, firsts = cut.order, cut.firsts
        heads = order[firsts]
        return Columns(
            keys[heads],
            starts[heads],
            np.maximum.reduceat(ends[order], firsts),
            self._stamps.reduceat(stamps[order], firsts),
            totals,
        )

    def _added(self, cut: _Cut, values: list[Any]) -> Numbers:
        """Accumulators of values, in the order in which they are there."""
        session = np.zeros(len(cut.order), np.int64)
        session[cut.firsts[1:]] = 1
        of_value = np.empty_like(session)
        of_value[cut.order] = np.cumsum(session)
        arranged = [values[place] for place in np.argsort(of_value, kind="stable").tolist()]
        create, add_inputs = self._combine_fn.create_accumulator, self._combine_fn.add_inputs
        return objects(
            [
                add_inputs(create(), arranged[begin:end])
                for begin, end in zip(*cut.parts(), strict=True)
            ]
        )

    def _merged(self, cut: _Cut, accumulators: Numbers) -> Numbers:
        arranged = accumulators[cut.order]
        firsts, ends = cut.parts()
        result = arranged[cut.firsts]
        for place in np.flatnonzero(np.diff(cut.firsts, append=len(arranged)) > 1).tolist():
            some = arranged[firsts[place] : ends[place]].tolist()
            result[place] = merged(self._combine_fn, some)
        return result


class WindowColumns(SessionColumns):
    """The same of windows that do not merge: each is by itself, whatever it overlaps."""

    def _cut(self, keys: Micros, starts: Micros, ends: Micros) -> _Cut:
        lengths = ends - starts
        if (lengths == lengths[0]).all():
            return _Cut(*in_order(keys, starts))
        order = np.lexsort((ends, starts, keys))
        columns = [column[order] for column in (keys, starts, ends)]
        is_other = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
        return _Cut(order, np.flatnonzero(np.concatenate([[True], is_other])))

    def _added_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        assert self.form is not None
        return self.form.add_in_order(numbers, firsts, merges=True)


def _reach(is_other_key: npt.NDArray[np.bool_], ends: Micros) -> Micros:
    """The latest end so far, within a key."""
    if (is_other_key | (ends[1:] >= ends[:-1])).all():
        return ends
    # Ends by their rank, as they are too far apart to add anything to them.
    ranked, ranks = np.unique(ends, return_inverse=True)
    base = np.concatenate([[0], np.cumsum(is_other_key)]) * len(ranked)
    latest: Micros = ranked[np.maximum.accumulate(base + ranks) - base]
    return latest


def objects(values: list[Any]) -> Numbers:
    """An array of objects, also where they are sequences."""
    return np.fromiter(values, object, len(values))


class Runs:
    """Columns of the same keys, each more than twice as long as the next.

    So an element is in as many merges as the number of sessions doubles, whatever comes at once.

    Args:
        make: merges columns.
    """

    def __init__(self, make: SessionColumns) -> None:
        self._make = make
        self._runs: list[Columns] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def __iter__(self) -> Iterator[Columns]:
        return iter(self._runs)

    def add(self, columns: Columns) -> None:
        """Takes in some more."""
        runs = self._runs
        runs.append(columns)
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            self._join()

    def sessions(self) -> Iterator[tuple[int, Session]]:
        """The numbers of the keys, and the sessions, by both."""
        columns = self.columns()
        return iter(()) if columns is None else self._make.sessions(columns)

    def columns(self) -> Columns | None:
        """All of them, by key and start; None if there are none."""
        while len(self._runs) > 1:
            self._join()
        return self._runs[0] if self._runs else None

    def _join(self) -> None:
        last = self._runs.pop()
        self._runs[-1] = self._make.merge(self._runs[-1], last)


class Buffer:
    """The sessions of a key, and elements that are in none yet.

    Attributes:
        runs: the sessions, some of which may still be parts of one.
        waiting: of each element start, end, timestamp and value.
    """

    __slots__ = ("runs", "waiting")

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.waiting: list[tuple[int, int, int, Any]] = []

    def __len__(self) -> int:
        return len(self.runs) + len(self.waiting)


class ColumnarSessions:
    """Keeps the sessions of a key as columns.

    Its buffers are as long as the sessions that are not merged yet, and what waits.

    Args:
        combine_fn: of their values, which nobody changes while they wait.
        stamps: of their timestamps.
    """

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._make = SessionColumns(combine_fn, stamps)

    def zero(self) -> Buffer:
        return Buffer(Runs(self._make))

    def reduce(self, buffer: Buffer, start: int, end: int, stamp: int, value: Any) -> Buffer:
        buffer.waiting.append((start, end, stamp, value))
        if len(buffer.waiting) >= _WAITING:
            self._settle(buffer)
        return buffer

    def reduce_all(
        self, buffer: Buffer, starts: Micros, ends: Micros, stamps: Micros, values: list[Any]
    ) -> Buffer:
        """Takes in many elements, of which there is one at least; see :meth:`reduce`."""
        self._settle(buffer)
        keys = np.zeros(len(starts), np.int64)
        buffer.runs.add(self._make.reduce(keys, starts, ends, stamps, values))
        return buffer

    def merge(self, left: Buffer, right: Buffer) -> Buffer:
        self._settle(left)
        self._settle(right)
        for columns in right.runs:
            left.runs.add(columns)
        return left

    def finish(self, buffer: Buffer) -> Iterator[Session]:
        self._settle(buffer)
        return map(itemgetter(1), buffer.runs.sessions())

    def _settle(self, buffer: Buffer) -> None:
        """Makes sessions of what waits."""
        if not buffer.waiting:
            return
        *times, values = zip(*buffer.waiting, strict=True)
        buffer.waiting = []
        starts, ends, stamps = (np.array(column, np.int64) for column in times)
        self.reduce_all(buffer, starts, ends, stamps, list(values))
