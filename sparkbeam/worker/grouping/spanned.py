"""Numbers of many keys, each with the window of one moment, merged to sessions in columns.

So what a micro-batch brings is one accumulator for each session that its elements make among
themselves, before anybody looks at what is stored of a key.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.windows.columnar import Columns, Micros, SessionColumns
from sparkbeam.windows.form import Form
from sparkbeam.worker.grouping.lateness import Lateness
from sparkbeam.worker.layouts.keyspans import KeySpans
from sparkbeam.worker.totals import Combine

_AT_ONCE = 10_000
"""So many sessions have their accumulators made at once."""


class Span(NamedTuple):
    """New elements of a key whose windows overlap; times are in microseconds.

    Attributes:
        start, end: of their windows together.
        accumulator: of the elements, encoded.
    """

    start: int
    end: int
    accumulator: bytes


@dataclass(frozen=True)
class Spans:
    """What has arrived of many keys.

    Attributes:
        keys: in order.
        sessions: theirs, each key by its place, whose totals ``encoded`` makes accumulators of.
        encoded: see there.
    """

    keys: list[bytes]
    sessions: Columns
    encoded: Callable[[Columns], list[bytes]]

    def __iter__(self) -> Iterator[tuple[bytes, list[Span]]]:
        """Each key with what has arrived of it, in order of its start."""
        for place, found in groupby(self._each(), itemgetter(0)):
            yield self.keys[place], [span for _, span in found]

    def _each(self) -> Iterator[tuple[int, Span]]:
        for begin in range(0, len(self.sessions), _AT_ONCE):
            part = self.sessions.part(slice(begin, begin + _AT_ONCE))
            spans = map(Span, part.starts.tolist(), part.ends.tolist(), self.encoded(part))
            yield from zip(part.keys.tolist(), spans, strict=True)


class Spanned:
    """Merges numbers to sessions.

    Args:
        combine: how numbers are merged, by their form.
        encode: encodes an accumulator.
        lateness: drops what is too late.
    """

    def __init__(
        self, combine: Combine, encode: Callable[[Any], bytes], lateness: Lateness
    ) -> None:
        assert combine.form is not None
        self._form: Form = combine.form
        self._compact, self._encode = combine.combine_fn.compact, encode
        # Nobody asks for the timestamps.
        self._make = SessionColumns(combine.combine_fn, max)
        self._lateness = lateness

    def spans(self, cells: list[bytes], watermark: int) -> Spans:
        """What cells have that is not too late.

        Args:
            cells: of :class:`~sparkbeam.worker.layouts.keyspans.KeySpans`, one at least.
            watermark: of the input, in microseconds.
        """
        keys: list[pa.Array] = []
        parts: list[Columns] = []
        for cell in cells:
            found = KeySpans.of_cell(cell, self._form.kind)
            starts, ends = found.starts, found.starts + found.length
            rows = self._lateness.rows_in_time(ends, found.counts, watermark)
            keys.append(found.totals.keys.take(pa.array(rows)))
            # The places of keys are known when all are together.
            times = starts[rows], ends[rows], starts[rows]
            parts.append(Columns(rows, *times, found.totals.numbers[rows]))
        in_order, places = _in_order(pa.concat_arrays(keys))
        sessions = self._make.joined(parts).with_keys(places)
        if len(sessions):
            sessions = self._make.merge(sessions)
        return Spans(in_order, sessions, self._encoded)

    def _encoded(self, sessions: Columns) -> list[bytes]:
        compact, encode = self._compact, self._encode
        return [encode(compact(one)) for one in self._make.accumulators(sessions)]


def _in_order(keys: pa.Array) -> tuple[list[bytes], Micros]:
    """The keys that there are, each once and in order, and the place of each one's among them."""
    encoded = keys.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    places = np.empty(len(order), np.int64)
    places[order.to_numpy()] = np.arange(len(order))
    return encoded.dictionary.take(order).to_pylist(), places[encoded.indices.to_numpy()]
