"""Aggregates of sessions and of windows, made from columns of elements and merged in columns."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from sparkbeam.accumulators.vectorized_accumulator import Numbers, VectorizedAccumulator
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.aggregate.aggregates import Aggregates, objects
from sparkbeam.aggregate.aggregator import Session, Stamps, merged
from sparkbeam.columns.order import arranged, firsts_of, lasts_of, sums_of
from sparkbeam.columns.vectors import Micros

_Places = npt.NDArray[np.intp]

_AT_ONCE = 10_000
_MOST_TOGETHER = 1 << 62
_UFUNCS: dict[Any, np.ufunc] = {min: np.minimum, max: np.maximum}


@dataclass(frozen=True)
class Cut:
    """Division of elements into sessions.

    Attributes:
        order: the positions of the elements by key and start.
        firsts: the position of each session's first element, in this order.
    """

    order: _Places
    firsts: _Places
    keys: Micros
    starts: Micros
    ends: Micros

    def counts(self) -> npt.NDArray[np.int64]:
        """Return the number of elements of each session."""
        return np.diff(self.firsts, append=len(self.order))

    def of_value(self) -> _Places:
        """Return the position of each element's session, in the order of the elements."""
        session = np.zeros(len(self.order), np.int64)
        session[self.firsts[1:]] = 1
        found = np.empty_like(session)
        found[self.order] = np.cumsum(session)
        return found

    def parts(self) -> tuple[list[int], list[int]]:
        """Return the start and end of each session among the elements in order."""
        firsts = self.firsts.tolist()
        return firsts, [*firsts[1:], len(self.order)]


def cut_sessions(keys: Micros, starts: Micros, ends: Micros, *, in_runs: bool = False) -> Cut:
    """Find the start of each key's sessions, by the rule of ``in_session`` in aggregator.py.

    Windows in runs are sorted in a few parts; otherwise windows are in any order.
    """
    length = None if in_runs else _length_of_all(starts, ends)
    rows = arranged(keys, starts, in_runs=in_runs)
    order, keys, starts = rows.order, rows.first, rows.second
    is_other_key = keys[1:] != keys[:-1] if keys[0] != keys[-1] else None
    # Windows of one length end in the order in which they begin.
    reach = starts + length if length is not None else _reach(is_other_key, ends[order])
    is_first = np.ones(len(order), np.bool_)
    np.greater_equal(starts[1:], reach[:-1], out=is_first[1:])
    if not length:
        is_first[1:] &= starts[1:] != starts[:-1]
    if is_other_key is not None:
        is_first[1:] |= is_other_key
    firsts = np.flatnonzero(is_first)
    ends = reach[lasts_of(firsts, len(order))]
    return Cut(order, firsts, keys[firsts], starts[firsts], ends)


class SessionColumns:
    """Columns of sessions: made of elements, or merged from two.

    Args:
        stamps: of the timestamps, ``min`` or ``max``.

    Attributes:
        form: the vectorized form of the CombineFn; without it, it is called for each session.
    """

    counts_elements = False
    """True if aggregates that are made of elements have their counts."""

    def __init__(self, combine_fn: beam.CombineFn, stamps: Stamps) -> None:
        self._combine_fn = combine_fn
        self.stamps = _UFUNCS[stamps]
        self.form: VectorizedAccumulator | None = form_of(combine_fn)

    def reduce(
        self, keys: Micros, starts: Micros, ends: Micros, stamps: Micros, values: Any
    ) -> Aggregates:
        """Return the sessions of elements, of which there is one at least.

        Args:
            values: their values in a list, of which those of a session are added up in this order,
                or in an array, as numbers of the vectorized form.
        """
        cut = self._cut(keys, starts, ends)
        totals: Numbers | None = None
        is_array = False
        if self.form is not None:
            is_array = isinstance(values, np.ndarray)
            totals = self.form.of_counts(cut.counts())
            if totals is None:
                numbers = values if is_array else self.form.numbers(values)
                if numbers is not None:
                    totals = self._reduced(cut, numbers)
        if totals is None:
            if is_array:
                assert self.form is not None
                values = self.form.values(values)
            totals = self._added(cut, values)
        found = self._columns(cut, starts, ends, stamps, totals)
        return replace(found, counts=cut.counts()) if self.counts_elements else found

    def merge(self, *parts: Aggregates, in_runs: bool = True) -> Aggregates:
        """Merge the sessions of all parts.

        Args:
            parts: parts sorted by key and start, or unsorted.
            in_runs: the parts are sorted by key and start.
        """
        every = self.joined(parts)
        cut = self._cut(every.keys, every.starts, every.ends, in_runs=in_runs)
        totals: Numbers | None = None
        if every.totals.dtype != object:
            totals = self._added_up(every.totals[cut.order], cut.firsts)
        if totals is None:
            totals = self._merged(cut, objects(self.accumulators(every)))
        found = self._columns(cut, every.starts, every.ends, every.stamps, totals)
        if every.counts is None:
            return found
        return replace(found, counts=sums_of(every.counts[cut.order], cut.firsts))

    def joined(self, parts: Sequence[Aggregates]) -> Aggregates:
        """Concatenate the sessions of all parts, unchanged."""
        if len(parts) == 1:
            return parts[0]
        keys, starts, ends, stamps = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("keys", "starts", "ends", "stamps")
        )
        totals = [part.totals for part in parts]
        if len({some.dtype for some in totals}) > 1:
            totals = [objects(self.accumulators(part)) for part in parts]
        return Aggregates(keys, starts, ends, stamps, np.concatenate(totals))

    def accumulators(self, columns: Aggregates) -> list[Any]:
        """Return the accumulators of the sessions."""
        if columns.totals.dtype == object:
            return columns.totals.tolist()
        assert self.form is not None
        return self.form.accumulators(columns.totals, self._combine_fn)

    def sessions(self, columns: Aggregates) -> Iterator[tuple[int, Session]]:
        """Yield the numbers of the keys, and the sessions."""
        for begin in range(0, len(columns), _AT_ONCE):
            part = columns.part(slice(begin, begin + _AT_ONCE))
            times = (column.tolist() for column in (part.starts, part.ends, part.stamps))
            found = map(Session, *times, self.accumulators(part))
            yield from zip(part.keys.tolist(), found, strict=True)

    def _cut(self, keys: Micros, starts: Micros, ends: Micros, *, in_runs: bool = False) -> Cut:
        return cut_sessions(keys, starts, ends, in_runs=in_runs)

    def _added_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        assert self.form is not None
        return self.form.add_up(numbers, firsts)

    def _columns(
        self, cut: Cut, starts: Micros, ends: Micros, stamps: Micros, totals: Numbers
    ) -> Aggregates:
        # Most often a timestamp is where its window begins, and the earliest stays there; the
        # latest is as far before the end as all are.
        is_latest = self.stamps is np.maximum
        offsets = stamps - (ends if is_latest else starts)
        if (offsets == offsets[0]).all():
            combined = (cut.ends if is_latest else cut.starts) + offsets[0]
        else:
            combined = self.stamps.reduceat(stamps[cut.order], cut.firsts)
        return Aggregates(cut.keys, cut.starts, cut.ends, combined, totals)

    def _reduced(self, cut: Cut, numbers: Numbers) -> Numbers | None:
        """Return the aggregates of the numbers of values."""
        assert self.form is not None
        if self.form.is_ordered:
            return self.form.add_apart(numbers, cut.of_value(), cut.counts())
        return self.form.add_up(numbers[cut.order], cut.firsts)

    def _added(self, cut: Cut, values: list[Any]) -> Numbers:
        """Return accumulators of values, in the order in which they are there."""
        order = np.argsort(cut.of_value(), kind="stable")
        arranged = [values[place] for place in order.tolist()]
        create, add_inputs = self._combine_fn.create_accumulator, self._combine_fn.add_inputs
        return objects(
            [
                add_inputs(create(), arranged[begin:end])
                for begin, end in zip(*cut.parts(), strict=True)
            ]
        )

    def _merged(self, cut: Cut, accumulators: Numbers) -> Numbers:
        arranged = accumulators[cut.order]
        firsts, ends = cut.parts()
        result = arranged[cut.firsts]
        for place in np.flatnonzero(np.diff(cut.firsts, append=len(arranged)) > 1).tolist():
            some = arranged[firsts[place] : ends[place]].tolist()
            result[place] = merged(self._combine_fn, some)
        return result


class WindowColumns(SessionColumns):
    """Columns of windows that do not merge: each stays separate, whatever it overlaps."""

    counts_elements = True

    def _cut(self, keys: Micros, starts: Micros, ends: Micros, *, in_runs: bool = False) -> Cut:
        if _length_of_all(starts, ends) is not None:
            rows = arranged(keys, starts, in_runs=in_runs)
            order, firsts = rows.order, rows.firsts()
        else:
            order = np.lexsort((ends, starts, keys))
            firsts = firsts_of(*(column[order] for column in (keys, starts, ends)))
        heads = order[firsts]
        return Cut(order, firsts, keys[heads], starts[heads], ends[heads])

    def of_runs(
        self, parts: Aggregates, rows: _Places, firsts: _Places, windows: Aggregates
    ) -> Aggregates:
        """Return windows that are made of parts.

        Args:
            rows: the parts of each window, one window after the other.
            firsts: the start of the parts of each.

        Returns:
            The windows; one for each of the rows where these do not add up exactly.
        """
        totals = self._added_up(parts.totals[rows], firsts)
        if totals is None:
            each = np.repeat(np.arange(len(windows)), np.diff(firsts, append=len(rows)))
            times = windows.starts[each], windows.ends[each], parts.stamps[rows]
            return Aggregates(windows.keys[each], *times, parts.totals[rows])
        stamps = np.full(len(windows), parts.stamps[0])
        if (parts.stamps != parts.stamps[0]).any():
            stamps = self.stamps.reduceat(parts.stamps[rows], firsts)
        return Aggregates(windows.keys, windows.starts, windows.ends, stamps, totals)

    def _added_up(self, numbers: Numbers, firsts: _Places) -> Numbers | None:
        assert self.form is not None
        return self.form.add_in_order(numbers, firsts, merges=True)


def _length_of_all(starts: Micros, ends: Micros) -> int | None:
    """Return the length of all windows; None if lengths differ."""
    lengths = ends - starts
    return int(lengths[0]) if (lengths == lengths[0]).all() else None


def _reach(is_other_key: npt.NDArray[np.bool_] | None, ends: Micros) -> Micros:
    """Return the latest end so far, within a key.

    Of one key where it is not said where others begin.
    """
    if is_other_key is None:
        return np.maximum.accumulate(ends)
    if (is_other_key | (ends[1:] >= ends[:-1])).all():
        return ends
    keys = np.concatenate([[0], np.cumsum(is_other_key)])
    least = int(ends.min())
    span = int(ends.max()) - least + 1
    if span * (int(keys[-1]) + 1) <= _MOST_TOGETHER:
        base = keys * span - least
        return np.maximum.accumulate(ends + base) - base
    # Ends by their rank, as they are too far apart to add anything to them.
    ranked, ranks = np.unique(ends, return_inverse=True)
    base = keys * len(ranked)
    latest: Micros = ranked[np.maximum.accumulate(base + ranks) - base]
    return latest
