"""Numbers of many keys, each with the window of one moment, merged to sessions in columns.

So what a micro-batch brings is one accumulator for each session that its elements make among
themselves, before anybody looks at what is stored of a key.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sparkbeam.windows.columnar import Columns, SessionColumns
from sparkbeam.windows.form import Form
from sparkbeam.worker.grouping.lateness import Lateness
from sparkbeam.worker.layouts.keyspans import KeySpans
from sparkbeam.worker.totals import Combine


class Span(NamedTuple):
    """New elements of a key whose windows overlap; times are in microseconds.

    Attributes:
        start, end: of their windows together.
        accumulator: of the elements, encoded.
    """

    start: int
    end: int
    accumulator: bytes


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

    def of_keys(self, cells: list[bytes], watermark: int) -> Iterator[tuple[bytes, list[Span]]]:
        """What cells have of each key that is not too late, in order of its start.

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
            # The numbers of keys are known when all are together.
            times = starts[rows], ends[rows], starts[rows]
            parts.append(Columns(rows, *times, found.totals.numbers[rows]))
        encoded = pa.concat_arrays(keys).dictionary_encode()
        if not len(encoded):
            return
        places = encoded.indices.to_numpy().astype(np.int64)
        sessions = self._make.merge(self._make.joined(parts).with_keys(places))
        yield from self._each(encoded.dictionary.to_pylist(), sessions)

    def _each(self, keys: list[bytes], sessions: Columns) -> Iterator[tuple[bytes, list[Span]]]:
        compact, encode = self._compact, self._encode
        stored = [encode(compact(one)) for one in self._make.accumulators(sessions)]
        spans = list(map(Span, sessions.starts.tolist(), sessions.ends.tolist(), stored))
        firsts = sessions.firsts()
        bounds = pairwise([*firsts.tolist(), len(sessions)])
        for number, (begin, end) in zip(sessions.keys[firsts].tolist(), bounds, strict=True):
            yield keys[number], spans[begin:end]
