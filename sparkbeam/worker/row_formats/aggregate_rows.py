"""Rows of aggregates: accumulators by key and window, slice of windows, or session.

``key`` is the encoded key, ``ord`` the start of the window, slice or session. ``value`` has its end
and the combined timestamp, both in microseconds, and a run of accumulators; or it has numbers of a
vectorized form (:mod:`sparkbeam.worker.row_formats.aggregate_cells`). Rows travel in packs
(:mod:`sparkbeam.wire.row_packs`), those of a window with the span of time in which it begins; only
sessions whose values have no vectorized form do not, as they may be large.
"""

from collections.abc import Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    BoundedWindow,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    TimestampCombiner,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

from sparkbeam.aggregate.aggregator import in_session
from sparkbeam.plan.row_formats import AggregateRows
from sparkbeam.wire.rounding import coded, coded_end, coded_micros, coded_span
from sparkbeam.wire.row_packs import PackedRows
from sparkbeam.wire.rows import CELL_BYTES, ManyRowsWriter, Row
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.group_timestamps import ON_TIME, ONLY_FIRING, combine_stamps
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.row_formats.aggregate_cells import END_AND_STAMP, number_cells
from sparkbeam.worker.row_formats.encoded_keys import EncodedKeys
from sparkbeam.worker.row_formats.group_rows import GroupSink
from sparkbeam.worker.row_formats.group_values import RunCoder, ValuesBuilder
from sparkbeam.worker.row_formats.key_table import OBJECT_BYTES, TABLE_BYTES
from sparkbeam.worker.row_formats.row_writer import Batch, Sink, WriterParameters
from sparkbeam.worker.slices import slices_of

_KEY, _KEY_AND_START = itemgetter(0), itemgetter(0, 1)


def writer(output: WriterParameters) -> Sink:
    """Return the writer of a port."""
    return TotalsSink(output) if output.port.format == AggregateRows() else SessionSink(output)


class TotalsSink(GroupSink):
    """Writer of totals of windows: accumulators and, in columns, numbers of a vectorized form."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        self._packs = PackedRows(output.rows)
        self._is_global = isinstance(output.windowing.windowfn, GlobalWindows)
        self._slices = slices_of(output.windowing.windowfn)
        self._keys = EncodedKeys(output.coder.wrapped_value_coder.key_coder())

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
        starts, cells = rows.starts, number_cells(rows.ends, rows.stamps, rows.totals)
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


class SessionSink(Sink):
    """Writer of sessions; those that come as elements are merged before it."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        is_packed = output.port.format.packed
        self._writer: ManyRowsWriter = PackedRows(output.rows) if is_packed else output.rows
        self._combine = combine_stamps(output.windowing) or max
        pair = output.coder.wrapped_value_coder
        self._keys = EncodedKeys(pair.key_coder())
        self._encode_key = pair.key_coder().get_impl().encode_nested
        self._encode_value = pair.value_coder().get_impl().encode_nested
        self._clear()

    def _clear(self) -> None:
        self._elements: dict[bytes, list[tuple[int, int, int, bytes]]] = {}
        self._bytes = 0

    def add(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value
        gathered = self._elements.setdefault(self._encode_key(key), [])
        encoded = self._encode_value(value)
        stamp = coded_micros(windowed_value.timestamp_micros)
        for window in windowed_value.windows:
            gathered.append((*coded_span(window), stamp, encoded))
            self._bytes += 4 * OBJECT_BYTES + len(encoded)
        if self._bytes > TABLE_BYTES:
            self.flush()

    def write(self, batch: Batch) -> None:
        if isinstance(batch, KeyedAggregates):
            self._write_aggregates(batch)
        elif isinstance(batch, Block) and batch.stamps is None:
            self._write_block(batch)
        else:
            super().write(batch)

    def _write_block(self, block: Block) -> None:
        stamp = coded_micros(block.windowing.timestamp_micros)
        spans = [(*coded_span(window), stamp) for window in block.windowing.windows]
        for key, value in block.values:
            gathered = self._elements.setdefault(self._encode_key(key), [])
            encoded = self._encode_value(value)
            for span in spans:
                gathered.append((*span, encoded))
                self._bytes += 4 * OBJECT_BYTES + len(encoded)
        if self._bytes > TABLE_BYTES:
            self.flush()

    def _write_aggregates(self, found: KeyedAggregates) -> None:
        rows = found.rows
        keys = self._keys.of_keys(found.keys).take(pa.array(rows.keys))
        if rows.are_numbers:
            cells = number_cells(rows.ends, rows.stamps, rows.totals)
            self._writer.extend_columns(self._tag, keys, rows.starts, cells)
            return
        each = zip(rows.ends.tolist(), rows.stamps.tolist(), rows.totals.tolist(), strict=True)
        encode, join = self._encode_value, RunCoder.join
        runs = [END_AND_STAMP.pack(end, stamp) + join([encode(one)]) for end, stamp, one in each]
        self._writer.extend(self._tag, keys.to_pylist(), rows.starts.tolist(), runs)

    def flush(self) -> None:
        keys: list[bytes] = []
        starts: list[int] = []
        cells: list[bytes] = []
        for key, gathered in self._elements.items():
            for start, cell in self._merged(gathered):
                keys.append(key)
                starts.append(start)
                cells.append(cell)
        self._writer.extend(self._tag, keys, starts, cells)
        self._clear()

    def _merged(self, gathered: list[tuple[int, int, int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yield the starts and the cells of the sessions of a key."""
        gathered.sort(key=itemgetter(0))
        start, end, stamp, _ = gathered[0]
        run: list[bytes] = []
        size = 0
        for next_start, next_end, next_stamp, value in gathered:
            if size >= CELL_BYTES or not in_session(next_start, start, end):
                yield start, END_AND_STAMP.pack(end, stamp) + RunCoder.join(run)
                start, end, stamp, run, size = next_start, next_end, next_stamp, [], 0
            end = max(end, next_end)
            stamp = self._combine(stamp, next_stamp)
            run.append(value)
            size += len(value)
        yield start, END_AND_STAMP.pack(end, stamp) + RunCoder.join(run)


def sessions(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[WindowedValue]:
    """Yield sessions: rows of a key come by start, so they merge in one pass."""
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_nested
    runs = RunCoder(pair.value_coder().get_impl())
    at_end = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    combine = combine_stamps(windowing) or max

    def session(key: Any, start: int, end: int, stamp: int, values: ValuesBuilder) -> WindowedValue:
        window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
        timestamp = coded_end(window) if at_end else coded(Timestamp(micros=stamp))
        return WindowedValue((key, values.values()), timestamp, (window,), ON_TIME)

    for encoded_key, group in groupby(rows, _KEY):
        key = decode_key(encoded_key)
        values: ValuesBuilder | None = None
        start = end = stamp = 0
        for _, next_start, cell in group:
            next_end, next_stamp = END_AND_STAMP.unpack_from(cell)
            if values is None or not in_session(next_start, start, end):
                if values is not None:
                    yield session(key, start, end, stamp, values)
                values = ValuesBuilder(runs)
                start, end, stamp = next_start, next_end, next_stamp
            end = max(end, next_end)
            stamp = combine(stamp, next_stamp)
            values.append(cell[END_AND_STAMP.size :])
        if values is not None:
            yield session(key, start, end, stamp, values)
