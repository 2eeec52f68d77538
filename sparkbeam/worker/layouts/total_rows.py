"""``Layout.TOTALS``: accumulators by key and window, or by key and slice of windows.

A row has a span of time in which its windows begin, and the start of the window or slice. Its cell
has the end and the combined timestamp of a window, both in microseconds, and a run of accumulators;
or it has the numbers of a slice in a vectorized form
(:mod:`sparkbeam.worker.layouts.number_cells`). Rows travel in packs
(:mod:`sparkbeam.wire.row_packs`).
"""

from collections.abc import Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, GlobalWindow, GlobalWindows, IntervalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

from sparkbeam.wire.rounding import coded, coded_end, coded_span
from sparkbeam.wire.row_packs import PackedRows
from sparkbeam.wire.rows import Row, RowWriter
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.group_timestamps import ON_TIME, ONLY_FIRING, combine_stamps
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.layouts.encoded_keys import EncodedKeys
from sparkbeam.worker.layouts.group_values import RunCoder, ValuesBuilder
from sparkbeam.worker.layouts.groups import GroupSink
from sparkbeam.worker.layouts.number_cells import END_AND_STAMP, number_cells
from sparkbeam.worker.layouts.row_writer import Batch
from sparkbeam.worker.slices import slices_of

_KEY_AND_START = itemgetter(0, 1)


class TotalsSink(GroupSink):
    """``Layout.TOTALS``: of accumulators and, in columns, of numbers of a vectorized form."""

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> None:
        super().__init__(tag, rows, coder, windowing)
        self._packs = PackedRows(rows)
        self._is_global = isinstance(windowing.windowfn, GlobalWindows)
        self._slices = slices_of(windowing.windowfn)
        self._keys = EncodedKeys(coder.wrapped_value_coder.key_coder())

    def write(self, batch: Batch) -> None:
        if isinstance(batch, KeyedAggregates):
            self._write_aggregates(batch)
        else:
            super().write(batch)

    def _write_aggregates(self, found: KeyedAggregates) -> None:
        """Write the totals of slices, once for each span in which a slice has windows."""
        rows = found.rows
        places, spans = np.arange(len(rows)), rows.starts
        if not self._is_global:
            assert self._slices is not None
            places, spans = self._slices.in_spans(rows.starts)
        starts, cells = rows.starts, number_cells((rows.ends, rows.stamps), rows.totals)
        if len(places) > len(rows):
            starts, cells = starts[places], cells.take(pa.array(places))
        keys = self._keys.of_keys(found.keys).take(pa.array(rows.keys[places]))
        self._packs.extend_columns(self._tag, keys, starts, cells, spans)

    def flush(self) -> None:
        keys: list[bytes] = []
        starts: list[int] = []
        spans: list[int] = []
        cells: list[bytes] = []
        for window, of_window, runs, stamps in self._table.take():
            start, end = (0, 0) if self._is_global else coded_span(window)
            keys += of_window
            starts += [start] * len(of_window)
            spans += [self._span(start)] * len(of_window)
            cells += [
                END_AND_STAMP.pack(end, at) + run for at, run in zip(stamps, runs, strict=True)
            ]
        self._packs.extend(self._tag, keys, starts, cells, spans)

    def _span(self, start: int) -> int:
        if self._slices is None:
            return start
        return int(self._slices.spans(np.array([start]))[0])


def totals_groups(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[Block]:
    """Yield the groups of rows without numbers, one by one."""
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_nested
    runs = RunCoder(pair.value_coder().get_impl())
    combine = combine_stamps(windowing)
    is_global = isinstance(windowing.windowfn, GlobalWindows)
    for (encoded, start), group in groupby(rows, _KEY_AND_START):
        found: dict[int, tuple[ValuesBuilder, list[int]]] = {}
        for _, _, cell in group:
            end, stamp = END_AND_STAMP.unpack_from(cell)
            values, stamps = found.setdefault(end, (ValuesBuilder(runs), []))
            values.append(cell[END_AND_STAMP.size :])
            stamps.append(stamp)
        key = decode_key(encoded)
        for end, (values, stamps) in found.items():
            window: BoundedWindow = GlobalWindow()
            if not is_global:
                window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
            time = coded_end(window)
            if combine is not None:
                time = coded(Timestamp(micros=reduce(combine, stamps)))
            template = WindowedValue(None, time, (window,), pane_of(windowing))
            yield Block(template, [(key, values.values())])


def pane_of(windowing: Windowing) -> PaneInfo:
    """Return the pane of a group."""
    is_at_end = combine_stamps(windowing) is None
    is_global = isinstance(windowing.windowfn, GlobalWindows)
    return ONLY_FIRING if is_global and is_at_end else ON_TIME
