"""Sessions of many keys, merged and stored in columns.

The input of a micro-batch becomes one accumulator for each session that its elements form among
themselves, before the stored state of a key is read. These sessions merge with those in the stripes
of pages, page by page, and leave them as columns, too, once the watermark has passed their ends.
Other state of keys is in records, and is left to the code that processes single keys.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.accumulators.vectorized_accumulator import Numbers
from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.aggregator import Session
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.columns.order import firsts_of, ranges_of
from sparkbeam.columns.vectors import Micros
from sparkbeam.wire.rounding import coded_column
from sparkbeam.wire.rows import SPANS_CELL
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.blocks import COLUMN_ROWS, GLOBAL, Block
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.group_timestamps import ON_TIME
from sparkbeam.worker.grouping.lateness import Lateness
from sparkbeam.worker.grouping.session_state import StoredSession
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.row_formats.aggregate_cells import AggregateCell
from sparkbeam.worker.state.page import Page
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.stripes import SESSIONS, Places, SessionStripe, Stripe, are_waiting

_MOST_OF_KEY = 32
"""Number of sessions above which a key has a record, of which few are read and written."""

_TEMPLATE = WindowedValue(None, MIN_TIMESTAMP, GLOBAL.windows, ON_TIME)

_Chosen = npt.NDArray[np.bool_]


class SessionStore:
    """Numbers of sessions in the stripes of pages.

    Args:
        encoded: encodes an accumulator.
        in_columns: sessions are stored in stripes, as their panes are stamped at their end.
    """

    def __init__(
        self,
        keyed: KeyedState,
        combine: Combine,
        decode_key: Callable[[bytes], Any],
        encoded: Callable[[Any], bytes],
        lateness: Lateness,
        *,
        in_columns: bool,
    ) -> None:
        self._keyed = keyed
        self._combine = combine
        self._decode_key = decode_key
        self._encoded = encoded
        self._lateness = lateness
        self._in_columns = in_columns
        # Nobody asks for the timestamps.
        self._make = SessionColumns(combine.combine_fn, max)

    def add(
        self, cells: list[bytes], others: Collection[bytes], watermark: int
    ) -> tuple[list[bytes], Iterator[tuple[bytes, list[Session]]]]:
        """Add the supported sessions; return the others, of all keys that have one.

        Args:
            cells: those of :mod:`~sparkbeam.worker.row_formats.aggregate_cells`, at least one.
            others: keys that have other new elements.
            watermark: the input watermark, in microseconds.

        Returns:
            The keys, in order, and each key with the sessions of its new elements, in order; their
            accumulators are encoded.
        """
        keys, sessions = self._merged(cells, watermark)
        in_order = keys.to_pylist()
        if not len(sessions):
            return [], iter(())
        is_left = np.ones(len(in_order), np.bool_)
        if self._in_columns and sessions.are_numbers:
            is_left[:] = False
            # They fire at once.
            is_left[sessions.keys[sessions.ends <= watermark]] = True
            if others:
                is_left[[at for at, key in enumerate(in_order) if key in others]] = True
            self._store(keys, in_order, sessions, is_left)
        left = sessions.part(is_left[sessions.keys])
        keys_left = [key for key, left in zip(in_order, is_left.tolist(), strict=True) if left]
        return keys_left, self._each(in_order, left)

    def _merged(self, cells: list[bytes], watermark: int) -> tuple[pa.Array, Aggregates]:
        """Return the distinct keys in order, and the sessions of elements that are in time."""
        assert self._combine.form is not None
        keys: list[pa.Array] = []
        parts: list[Aggregates] = []
        for cell in cells:
            found = AggregateCell.unpacked(cell, SPANS_CELL, self._combine.form.kind)
            starts, ends = found.starts, found.starts + found.length
            rows = self._lateness.rows_in_time(ends, found.counts, watermark)
            keys.append(found.keys.take(pa.array(rows)))
            # The places of keys are known when all are together.
            times = starts[rows], ends[rows], starts[rows]
            parts.append(Aggregates(rows, *times, found.numbers[rows]))
        in_order, places = _in_order(pa.concat_arrays(keys))
        sessions = self._make.joined(parts).with_keys(places)
        if len(sessions):
            sessions = self._make.merge(sessions, in_runs=False)
        return in_order, sessions

    def _store(
        self, keys: pa.Array, in_order: list[bytes], sessions: Aggregates, is_left: _Chosen
    ) -> None:
        """Store the sessions of keys in columns, and mark those that are left."""
        firsts = firsts_of(sessions.keys)
        lengths = np.diff(firsts, append=len(sessions))
        chosen = np.flatnonzero(~is_left)
        for group in self._keyed.places_by_page([in_order[at] for at in chosen.tolist()]):
            pages, each = zip(*group, strict=True)
            places = chosen[np.concatenate(each)]
            of_page = np.repeat(np.arange(len(pages)), list(map(len, each)))
            with_records = {at for at, page in enumerate(pages) if page.records}
            if with_records:
                both = zip(of_page.tolist(), places.tolist(), strict=True)
                is_left[places] = [
                    at in with_records and in_order[place] in pages[at].records
                    for at, place in both
                ]
            while len(left := np.flatnonzero(~is_left[places])):
                places, of_page = places[left], of_page[left]
                rows, _ = ranges_of(firsts[places], lengths[places])
                numbers = np.repeat(np.arange(len(places)), lengths[places])
                new = sessions.part(rows).with_keys(numbers)
                refused = self._store_in(pages, of_page, keys.take(pa.array(places)), new)
                if not refused.any():
                    break
                is_left[places] = refused

    def _store_in(
        self, pages: Sequence[Page], of_page: Places, keys: pa.Array, new: Aggregates
    ) -> _Chosen:
        """Merge sessions with those in pages; return the keys that are not supported.

        Nothing is changed if there is such a key.

        Args:
            of_page: the position of each key's page.
            keys: the keys without a record, each once, page by page.
            new: the sessions of each.
        """
        kind = new.totals.dtype
        has_kind = np.array(
            [
                page.stripes[SESSIONS].numbers.dtype == kind if page.stripes else True
                for page in pages
            ]
        )
        refused = ~has_kind[of_page]
        if refused.any():
            return refused
        stored, of_row = _joined([page.stripes.get(SESSIONS) for page in pages], kind)
        places = pc.index_in(stored.keys, value_set=keys).fill_null(-1).to_numpy()
        is_of_key = places >= 0
        merges = is_of_key & are_waiting(stored.columns)
        numbers, starts, ends, _ = stored.columns
        known = Aggregates(places, starts, ends, starts, numbers)
        new = self._make.merge(new, known.part(merges), in_runs=False)
        if new.totals.dtype != kind:
            return ~refused
        fired = known.part(is_of_key & ~merges)
        if len(fired):
            refused[_keys_that_touch(new, fired)] = True
        of_key = np.concatenate([new.keys, fired.keys])
        refused |= np.bincount(of_key, minlength=len(keys)) > _MOST_OF_KEY
        if refused.any():
            return refused
        columns = new.totals, new.starts, new.ends, np.minimum(new.ends, MAX_MICROS)
        rows = SessionStripe(stored.keys, stored.columns, stored.is_fresh | is_of_key).part(~merges)
        rows.extend(SessionStripe(keys.take(pa.array(new.keys)), columns, True))
        has_keys = set(of_page.tolist())
        for at, stripe in rows.spread(np.concatenate([of_row[~merges], of_page[new.keys]])):
            if at in has_keys:
                pages[at].replace(stripe, ())
        return refused

    def _each(self, keys: list[bytes], found: Aggregates) -> Iterator[tuple[bytes, list[Session]]]:
        compact, encoded = self._combine.combine_fn.compact, self._encoded
        for place, sessions in groupby(self._make.sessions(found), itemgetter(0)):
            accumulators = ((one, encoded(compact(one.accumulator))) for _, one in sessions)
            yield keys[place], [one._replace(accumulator=each) for one, each in accumulators]

    def fire(self, watermark: int) -> Iterator[Block]:
        """Emit the sessions that are due, and forget those that have expired."""
        waiting: list[SessionStripe] = []
        count = 0
        for group in self._keyed.due_stripes(watermark):
            by_kind: dict[Any, list[tuple[Page, Stripe]]] = {}
            for page, stripe in group:
                by_kind.setdefault(stripe.numbers.dtype, []).append((page, stripe))
            for some in by_kind.values():
                pages, stripes = zip(*some, strict=True)
                waiting.append(self._due(pages, stripes, watermark))
                count += len(waiting[-1])
            if count >= COLUMN_ROWS:
                yield from self._blocks(waiting)
                waiting, count = [], 0
        yield from self._blocks(waiting)

    def _due(
        self, pages: Sequence[Page], stripes: Sequence[Stripe], watermark: int
    ) -> SessionStripe:
        """Return the sessions in pages that fire, all of one kind of numbers.

        Of them the pages keep what late elements need, and nothing of what has expired.
        """
        rows, of_row = _joined(stripes, stripes[0].numbers.dtype)
        numbers, starts, ends, times = rows.columns
        waiting = are_waiting(rows.columns)
        is_due = waiting & (np.minimum(ends, MAX_MICROS) <= watermark)
        allowed = self._lateness.allowed
        is_over = np.full(len(ends), watermark >= MAX_MICROS)
        if watermark < MAX_MICROS:
            is_over = ends <= max(watermark - allowed - 1, MIN_MICROS - 1)
        gone = is_over & (is_due | ~waiting)
        never = ends >= max(MAX_MICROS - allowed - 1, MIN_MICROS)
        expiries = np.where(never, MAX_MICROS, ends + min(allowed, MAX_MICROS) + 1)
        times = np.where(is_due, expiries, times)
        changed = rows.part(gone | is_due)
        is_fresh = rows.is_fresh | pc.is_in(rows.keys, value_set=changed.keys).to_numpy(False)
        left = SessionStripe(rows.keys, (numbers, starts, ends, times), is_fresh).part(~gone)
        none, by_page = left.part(np.zeros(len(left), np.bool_)), dict(left.spread(of_row[~gone]))
        for at, some in changed.spread(of_row[gone | is_due]):
            pages[at].replace(by_page.get(at, none), some.keys.to_pylist())
        return rows.part(is_due)

    def _blocks(self, waiting: list[SessionStripe]) -> Iterator[Block]:
        """Yield blocks of sessions."""
        for kind in dict.fromkeys(rows.numbers.dtype for rows in waiting):
            every, _ = _joined([rows for rows in waiting if rows.numbers.dtype == kind], kind)
            order = np.argsort(every.columns[2], kind="stable")
            numbers, starts, ends, _ = (column[order] for column in every.columns)
            if len(order):
                encoded = every.keys.take(pa.array(order)).to_pylist()
                values = self._combine.groups(list(map(self._decode_key, encoded)), numbers)
                yield Block(_TEMPLATE, values, coded_column(ends - 1), Intervals(starts, ends))


def sessions_of(
    stripe: SessionStripe, accumulators: Callable[[Numbers], Sequence[Any]], rows: list[int]
) -> Iterator[StoredSession]:
    """Yield sessions of a key that has been removed from a stripe, in order.

    Args:
        accumulators: makes encoded accumulators of numbers.
        rows: their positions in :attr:`.Stripe.all_columns`.
    """
    numbers, *times = stripe.all_columns
    in_order = sorted(rows, key=times[0].__getitem__)
    each = zip(*(column[in_order].tolist() for column in times), strict=True)
    for (start, end, time), one in zip(each, accumulators(numbers[in_order]), strict=True):
        has_fired = time > end
        yield StoredSession(start, end, int(has_fired), None if has_fired else end - 1, one, None)


def _joined(stripes: Sequence[Stripe | None], kind: Any) -> tuple[SessionStripe, Places]:
    """Return the rows of stripes, whose numbers have a type, and the position of their stripe."""
    found = [(at, stripe) for at, stripe in enumerate(stripes) if stripe is not None]
    rows = SessionStripe(
        pa.array([], pa.binary()), [np.empty(0, kind), *([np.empty(0, np.int64)] * 3)], True
    )
    rows.extend(*(stripe for _, stripe in found))
    lengths = [len(stripe) for _, stripe in found]
    return rows, np.repeat(np.array([at for at, _ in found], np.intp), lengths)


def _keys_that_touch(sessions: Aggregates, others: Aggregates) -> Places:
    """Return the keys of which a session overlaps another one, by the rule of ``in_session``."""
    keys, starts, ends = (
        np.concatenate([getattr(part, name) for part in (sessions, others)])
        for name in ("keys", "starts", "ends")
    )
    order = np.lexsort((starts, keys))
    keys, starts, ends = keys[order], starts[order], ends[order]
    # Those of each kind do not overlap, so that one which does overlaps a neighbour.
    touches = (starts[1:] < ends[:-1]) | (starts[1:] == starts[:-1])
    found: Places = keys[1:][touches & (keys[1:] == keys[:-1])]
    return found


def _in_order(keys: pa.Array) -> tuple[pa.Array, Micros]:
    """Return the distinct keys in order, and the position of each one's among them."""
    encoded = keys.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    places = np.empty(len(order), np.int64)
    places[order.to_numpy()] = np.arange(len(order))
    return encoded.dictionary.take(order), places[encoded.indices.to_numpy()]
