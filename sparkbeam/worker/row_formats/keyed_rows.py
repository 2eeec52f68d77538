"""Rows of windowed elements by key, in order.

``key`` is the encoded key. ``ord`` numbers the parts of a task, or is the timestamp of the only
element. ``value`` is a cell of elements without their keys
(:class:`~sparkbeam.worker.row_formats.cells.KeyCells`), or of accumulators of many keys
(:mod:`sparkbeam.worker.row_formats.aggregate_cells`).
"""

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rounding import coded_micros
from sparkbeam.wire.rows import (
    BLOCK_CELL,
    PLAIN_CELL,
    SPANS_CELL,
    STAMPED_CELL,
    TOTALS_CELL,
    Row,
    StreamingWriter,
)
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.keyed_aggregates import ExtraElements, KeyedAggregates
from sparkbeam.worker.row_formats.aggregate_cells import AggregateCell
from sparkbeam.worker.row_formats.cells import KeyCells, stored_coder, stripped_coder
from sparkbeam.worker.row_formats.encoded_keys import EncodedKeys
from sparkbeam.worker.row_formats.group_values import RunCoder
from sparkbeam.worker.row_formats.key_table import IMMUTABLE, RunTable
from sparkbeam.worker.row_formats.row_writer import Batch, Sink, WriterParameters

_SMALLEST_RUN = 16

_MOST_WINDOWS = 100

_KEY = itemgetter(0)


class KeyedSink(Sink):
    """Writer of elements without their keys; those of a block are a run of values."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        is_stored = output.port.format.stored
        self._cells = KeyCells((stored_coder if is_stored else stripped_coder)(output.coder))
        key = output.coder.wrapped_value_coder.key_coder().get_impl()
        self._tables = {
            PLAIN_CELL: RunTable(key, self._cells.elements),
            BLOCK_CELL: RunTable(key, self._cells.values),
            STAMPED_CELL: RunTable(key, self._cells.stamped),
        }
        self._kind = PLAIN_CELL
        self._windowing: Any = None
        self._heads: dict[Any, bytes] = {None: PLAIN_CELL}
        self._parts = 0

    def add(self, windowed_value: WindowedValue) -> None:
        pair = windowed_value.value
        if self._kind == BLOCK_CELL and self._windowing == _windowing(windowed_value, [pair]):
            self._add_all(BLOCK_CELL, self._windowing, windowed_value, [pair])
        elif self._table(PLAIN_CELL, None).add(None, pair[0], windowed_value.with_value(pair[1])):
            self.flush()

    def _write_block(self, block: Block) -> None:
        template, pairs = block.windowing, block.values
        windowing: Any
        if block.stamps is None:
            windowing = _windowing(template, pairs)
        else:
            windowing = (tuple(template.windows), template.pane_info)
        is_short = len(pairs) < _SMALLEST_RUN and windowing != self._windowing
        if is_short or windowing is None or len(template.windows) > _MOST_WINDOWS:
            self._write_elements(block)
        elif block.stamps is None:
            self._add_all(BLOCK_CELL, windowing, template, pairs)
        else:
            times = map(coded_micros, block.stamps)
            stamped = [(key, (at, value)) for at, (key, value) in zip(times, pairs, strict=True)]
            self._add_all(STAMPED_CELL, windowing, template, stamped)

    def _add_all(
        self, kind: bytes, windowing: Any, template: WindowedValue, pairs: list[tuple[Any, Any]]
    ) -> None:
        table = self._table(kind, windowing)
        if windowing not in self._heads:
            self._heads[windowing] = self._cells.head(kind, template)
        if table.add_all(windowing, pairs):
            self.flush()

    def _table(self, kind: bytes, windowing: Any) -> RunTable:
        """Return the table for the next elements; the elements of a key keep their order."""
        if kind != self._kind or windowing != self._windowing:
            if kind != self._kind or windowing in self._heads:
                self.flush()
            self._kind, self._windowing = kind, windowing
        return self._tables[kind]

    def flush(self) -> None:
        for windowing, keys, runs, _ in self._tables[self._kind].take():
            head = self._heads[windowing]
            cells = [head + run for run in runs]
            self._rows.extend(self._tag, keys, [self._parts] * len(keys), cells)
            self._parts += 1
        self._heads = {None: PLAIN_CELL}


def _windowing(template: WindowedValue, pairs: list[tuple[Any, Any]]) -> Any:
    """Return the common properties of the runs of a block; None to write elements one by one.

    They include the types, as a table keeps encoded values apart from others and orders values only
    within each kind.
    """
    kinds = frozenset(type(key) for key, _ in pairs)
    if len(kinds) > 1:
        return None
    is_plain = IMMUTABLE.issuperset(type(value) for _, value in pairs)
    windows = tuple(template.windows)
    return template.timestamp_micros, windows, template.pane_info, kinds, is_plain


class StoredSink(KeyedSink):
    """Writer of rows that are stored: in streaming, on the way to a GroupByKey."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        # In streaming all rows go to such a writer.
        self._writer = cast("StreamingWriter", output.rows)
        self._keys = EncodedKeys(output.coder.wrapped_value_coder.key_coder())

    def write(self, batch: Batch) -> None:
        if isinstance(batch, ExtraElements):
            # It goes to any one shard: all of them have the same watermark.
            self._rows.append(self._tag, b"", 0, self._cells.count(*batch))
        else:
            super().write(batch)

    def _write_aggregates(self, found: KeyedAggregates) -> None:
        """Write cells of many keys: of one window, or of sessions before they merge."""
        self.flush()
        rows = found.rows
        keys = self._keys.of_keys(found.keys).take(pa.array(rows.keys))
        if found.template is not None:
            cell = AggregateCell(self._cells.head(TOTALS_CELL, found.template), keys, rows.totals)
        else:
            assert rows.counts is not None
            length = int(rows.ends[0] - rows.starts[0])
            cell = AggregateCell(SPANS_CELL, keys, rows.totals, rows.starts, rows.counts, length)
        self._writer.extend_keys(self._tag, keys, lambda places: cell.take(places).packed())


class TimeSortedSink(Sink):
    """Writer as :class:`KeyedSink`, of a row for each element, by its timestamp."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        coder = output.coder
        self._encode_key = coder.wrapped_value_coder.key_coder().get_impl().encode_nested
        self._encode = stripped_coder(coder).get_impl().encode_nested

    def add(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value
        self._rows.append(
            self._tag,
            self._encode_key(key),
            windowed_value.timestamp_micros,
            PLAIN_CELL + RunCoder.join([self._encode(windowed_value.with_value(value))]),
        )

    def flush(self) -> None:
        """Hold nothing back."""


def writer(output: WriterParameters) -> Sink:
    """Return the writer of a port."""
    if output.port.format.stored:
        return StoredSink(output)
    is_sorted = output.port.format.by_time
    return TimeSortedSink(output) if is_sorted else KeyedSink(output)


def read(rows: Iterable[Row], coder: coders.WindowedValueCoder) -> Iterator[Block]:
    """Yield the elements of all keys."""
    return KeyedSource(coder).blocks(rows)


class KeyedSource:
    """Reader of the elements of one key after the other."""

    def __init__(self, coder: coders.WindowedValueCoder) -> None:
        self._decode_key = coder.wrapped_value_coder.key_coder().get_impl().decode_nested
        self._cells = KeyCells(stripped_coder(coder))

    def blocks(self, rows: Iterable[Row]) -> Iterator[Block]:
        """Yield the elements of all keys."""
        blocks = self._cells.blocks
        last: bytes | None = None
        key: Any = None
        for encoded, _, cell in rows:
            if encoded != last:
                last, key = encoded, self._decode_key(encoded)
            for block in blocks(cell):
                yield block.with_values([(key, value) for value in block.values])

    def keys(self, rows: Iterable[Row]) -> Iterator[tuple[bytes, Iterator[Block]]]:
        """Yield the elements of each key, which have to be read before the next key."""
        for key, group in groupby(rows, _KEY):
            yield key, self.blocks(group)
