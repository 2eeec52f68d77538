"""Rows of aggregates: accumulators by key and window, slice of windows, or session.

``key`` is the encoded key, ``ord`` the start of the window, slice or session. ``value`` has its
times, and accumulators (:mod:`sparkbeam.worker.row_formats.aggregate_cells`). They travel in packs
(:mod:`sparkbeam.wire.key_packs`), those of a window by the span of time in which it begins; only
sessions whose values have no vectorized form do not, as they may be large.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    GlobalWindows,
    IntervalWindow,
    TimestampCombiner,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregator import in_session
from sparkbeam.plan.row_formats import AggregateRows
from sparkbeam.wire.binary import take_cells
from sparkbeam.wire.key_packs import CellsOfKeys, write_by_time
from sparkbeam.wire.rounding import coded, coded_end, coded_micros, coded_span
from sparkbeam.wire.rows import CELL_BYTES, Row
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.group_timestamps import ON_TIME, combine_stamps
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.row_formats.aggregate_cells import TIMES, number_cells
from sparkbeam.worker.row_formats.encoded_keys import EncodedKeys
from sparkbeam.worker.row_formats.group_rows import GroupSink
from sparkbeam.worker.row_formats.group_values import RunCoder, ValuesBuilder
from sparkbeam.worker.row_formats.key_table import OBJECT_BYTES, TABLE_BYTES
from sparkbeam.worker.row_formats.row_writer import Sink, WriterParameters
from sparkbeam.worker.slices import slices_of

_KEY = itemgetter(0)


def writer(output: WriterParameters) -> Sink:
    """Return the writer of a port."""
    return TotalsSink(output) if output.port.format == AggregateRows() else SessionSink(output)


class TotalsSink(GroupSink):
    """Writer of totals of windows: accumulators and, in columns, numbers of a vectorized form."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        self._is_global = isinstance(output.windowing.windowfn, GlobalWindows)
        self._slices = slices_of(output.windowing.windowfn)
        self._keys = EncodedKeys(output.coder.wrapped_value_coder.key_coder())

    def _write_aggregates(self, found: KeyedAggregates) -> None:
        """Write the totals of slices, once for each span in which a slice has windows."""
        rows = found.rows
        ends, spans = rows.ends, rows.starts
        if not self._is_global:
            assert self._slices is not None
            places, spans = self._slices.in_spans(rows.starts)
            if len(places) > len(rows):
                rows = rows.part(places)
            ends = spans if self._slices.count > 1 else rows.ends
        cells = number_cells(rows.starts, ends, rows.stamps, rows.totals)
        some = CellsOfKeys(take_cells(self._keys.of_keys(found.keys), rows.keys), cells)
        write_by_time(self._rows, self._tag, some, rows.starts, spans)

    def flush(self) -> None:
        keys: list[bytes] = []
        starts: list[int] = []
        cells: list[bytes] = []
        for window, of_window, runs, stamps in self._table.take():
            start, end = (0, 0) if self._is_global else coded_span(window)
            keys += of_window
            starts += [start] * len(of_window)
            cells += [
                TIMES.pack(start, end, at) + run for at, run in zip(stamps, runs, strict=True)
            ]
        times = np.array(starts, np.int64)
        spans = times if self._slices is None else self._slices.spans(times)
        write_by_time(self._rows, self._tag, _cells_of(keys, cells), times, spans)


def _cells_of(keys: list[bytes], cells: list[bytes]) -> CellsOfKeys:
    return CellsOfKeys(pa.array(keys, pa.binary()), pa.array(cells, pa.binary()))


class SessionSink(Sink):
    """Writer of sessions; those that come as elements are merged before it."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        self._is_packed = output.port.format.packed
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
        self._gather(windowed_value, [windowed_value.value])

    def _write_block(self, block: Block) -> None:
        if block.stamps is None:
            self._gather(block.windowing, block.values)
        else:
            self._write_elements(block)

    def _gather(self, template: WindowedValue, pairs: Sequence[tuple[Any, Any]]) -> None:
        """Gather pairs that share their windowing."""
        stamp = coded_micros(template.timestamp_micros)
        spans = [(*coded_span(window), stamp) for window in template.windows]
        for key, value in pairs:
            gathered = self._elements.setdefault(self._encode_key(key), [])
            encoded = self._encode_value(value)
            for span in spans:
                gathered.append((*span, encoded))
                self._bytes += 4 * OBJECT_BYTES + len(encoded)
        if self._bytes > TABLE_BYTES:
            self.flush()

    def _write_aggregates(self, found: KeyedAggregates) -> None:
        rows = found.rows
        keys = take_cells(self._keys.of_keys(found.keys), rows.keys)
        if rows.are_numbers:
            cells = number_cells(rows.starts, rows.ends, rows.stamps, rows.totals)
            write_by_time(self._rows, self._tag, CellsOfKeys(keys, cells), rows.starts)
            return
        columns = rows.starts, rows.ends, rows.stamps, rows.totals
        encode, join, pack = self._encode_value, RunCoder.join, TIMES.pack
        each = zip(*(column.tolist() for column in columns), strict=True)
        runs = [pack(*times) + join([encode(one)]) for *times, one in each]
        self._write_runs(keys.to_pylist(), rows.starts.tolist(), runs)

    def _write_runs(self, keys: list[bytes], starts: list[int], runs: list[bytes]) -> None:
        if self._is_packed:
            times = np.array(starts, np.int64)
            write_by_time(self._rows, self._tag, _cells_of(keys, runs), times)
        else:
            self._rows.extend(self._tag, keys, starts, runs)

    def flush(self) -> None:
        keys: list[bytes] = []
        starts: list[int] = []
        cells: list[bytes] = []
        for key, gathered in self._elements.items():
            for start, cell in self._merged(gathered):
                keys.append(key)
                starts.append(start)
                cells.append(cell)
        self._write_runs(keys, starts, cells)
        self._clear()

    def _merged(self, gathered: list[tuple[int, int, int, bytes]]) -> Iterator[tuple[int, bytes]]:
        """Yield the starts and the cells of the sessions of a key."""
        gathered.sort(key=itemgetter(0))
        start, end, stamp, _ = gathered[0]
        run: list[bytes] = []
        size = 0
        for next_start, next_end, next_stamp, value in gathered:
            if size >= CELL_BYTES or not in_session(next_start, start, end):
                yield start, TIMES.pack(start, end, stamp) + RunCoder.join(run)
                start, end, stamp, run, size = next_start, next_end, next_stamp, [], 0
            end = max(end, next_end)
            stamp = self._combine(stamp, next_stamp)
            run.append(value)
            size += len(value)
        yield start, TIMES.pack(start, end, stamp) + RunCoder.join(run)


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
            _, next_end, next_stamp = TIMES.unpack_from(cell)
            if values is None or not in_session(next_start, start, end):
                if values is not None:
                    yield session(key, start, end, stamp, values)
                values = ValuesBuilder(runs)
                start, end, stamp = next_start, next_end, next_stamp
            end = max(end, next_end)
            stamp = combine(stamp, next_stamp)
            values.append(cell[TIMES.size :])
        if values is not None:
            yield session(key, start, end, stamp, values)
