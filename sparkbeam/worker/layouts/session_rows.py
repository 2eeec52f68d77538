"""``Layout.SESSIONS``: sessions of a key, merged within the scope of the writer."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    IntervalWindow,
    TimestampCombiner,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregator import in_session
from sparkbeam.wire.rounding import coded, coded_end, coded_micros, coded_span
from sparkbeam.wire.rows import CELL_BYTES, ManyRowsWriter, Row
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.group_timestamps import ON_TIME, combine_stamps
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.layouts.encoded_keys import EncodedKeys
from sparkbeam.worker.layouts.group_values import RunCoder, ValuesBuilder
from sparkbeam.worker.layouts.key_table import OBJECT_BYTES, TABLE_BYTES
from sparkbeam.worker.layouts.number_cells import END_AND_STAMP, number_cells
from sparkbeam.worker.layouts.row_writer import Batch, Sink

_KEY = itemgetter(0)


class SessionSink(Sink):
    """``Layout.SESSIONS``: sessions of a key, merged within the scope of the table."""

    def __init__(
        self, tag: int, rows: ManyRowsWriter, coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._combine = combine_stamps(windowing) or max
        self._keys = EncodedKeys(coder.wrapped_value_coder.key_coder())
        self._encode_key = coder.wrapped_value_coder.key_coder().get_impl().encode_nested
        self._encode_value = coder.wrapped_value_coder.value_coder().get_impl().encode_nested
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
            cells = number_cells((rows.ends, rows.stamps), rows.totals)
            self._rows.extend_columns(self._tag, keys, rows.starts, cells)
            return
        each = zip(rows.ends.tolist(), rows.stamps.tolist(), rows.totals.tolist(), strict=True)
        encode, join = self._encode_value, RunCoder.join
        runs = [END_AND_STAMP.pack(end, stamp) + join([encode(one)]) for end, stamp, one in each]
        self._rows.extend(self._tag, keys.to_pylist(), rows.starts.tolist(), runs)

    def flush(self) -> None:
        keys: list[bytes] = []
        starts: list[int] = []
        cells: list[bytes] = []
        for key, gathered in self._elements.items():
            for start, cell in self._merged(gathered):
                keys.append(key)
                starts.append(start)
                cells.append(cell)
        self._rows.extend(self._tag, keys, starts, cells)
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
    """Yield ``Layout.SESSIONS``: rows of a key come by start, so sessions merge in one pass."""
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
