"""Numbers of many keys, each with the window of one moment, merged to sessions in columns.

The input of a micro-batch becomes one accumulator for each session that its elements form among
themselves, before the stored state of a key is read.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.aggregator import Session
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.columns.vectors import Micros
from sparkbeam.wire.rows import SPANS_CELL
from sparkbeam.worker.grouping.lateness import Lateness
from sparkbeam.worker.row_formats.aggregate_cells import AggregateCell


class SessionArrivals(NamedTuple):
    """Arrivals of many keys.

    Attributes:
        keys: the keys, in order.
        each: each key with the sessions of its new elements, in order; their accumulators are
            encoded.
    """

    keys: list[bytes]
    each: Iterator[tuple[bytes, list[Session]]]


class SessionMerger:
    """Merger of numbers into sessions."""

    def __init__(
        self, combine_fn: beam.CombineFn, encode: Callable[[Any], bytes], lateness: Lateness
    ) -> None:
        self._compact, self._encode = combine_fn.compact, encode
        # Nobody asks for the timestamps.
        self._make = SessionColumns(combine_fn, max)
        self._lateness = lateness

    def spans(self, cells: list[bytes], watermark: int) -> SessionArrivals:
        """Return the arrivals in cells that are not too late.

        Args:
            cells: those of :mod:`~sparkbeam.worker.row_formats.aggregate_cells`, at least one.
            watermark: the input watermark, in microseconds.
        """
        assert self._make.form is not None
        keys: list[pa.Array] = []
        parts: list[Aggregates] = []
        for cell in cells:
            found = AggregateCell.unpacked(cell, SPANS_CELL, self._make.form.kind)
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
        return SessionArrivals(in_order, self._each(in_order, sessions))

    def _each(self, keys: list[bytes], found: Aggregates) -> Iterator[tuple[bytes, list[Session]]]:
        for place, sessions in groupby(self._make.sessions(found), itemgetter(0)):
            yield keys[place], [self._encoded(session) for _, session in sessions]

    def _encoded(self, session: Session) -> Session:
        return session._replace(accumulator=self._encode(self._compact(session.accumulator)))


def _in_order(keys: pa.Array) -> tuple[list[bytes], Micros]:
    """Return the distinct keys in order, and the position of each one's among them."""
    encoded = keys.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    places = np.empty(len(order), np.int64)
    places[order.to_numpy()] = np.arange(len(order))
    return encoded.dictionary.take(order).to_pylist(), places[encoded.indices.to_numpy()]
