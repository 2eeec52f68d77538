"""What a stage writes: from windowed values to rows, one class for each layout.

A sink that groups collects a table of runs before it writes: one row then
stands for many elements of the same key, so that the shuffle moves and sorts
far fewer rows than there are elements.
"""

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import GlobalWindows, TimestampCombiner
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import Layout
from sparkbeam.wire.rounding import coded_micros, coded_span
from sparkbeam.wire.rows import BLOCK_CELL, CELL_BYTES, PLAIN_CELL, STAMPED_CELL, RowWriter
from sparkbeam.worker.blocks import SMALLEST_BLOCK, Block
from sparkbeam.worker.layouts.cells import BlockCoder, KeyCells, stored_coder, stripped_coder
from sparkbeam.worker.layouts.tables import IMMUTABLE, OBJECT_BYTES, TABLE_BYTES, RunTable
from sparkbeam.worker.layouts.values import RunCoder

SESSION_HEADER = struct.Struct(">qq")
"""The end of a session and its combined timestamp, both in microseconds."""


_SMALLEST_RUN = 16
_MOST_WINDOWS = 100


class Sink(ABC):
    """Turns the elements of one port into rows.

    The bundle calls ``write`` for each element and ``flush`` once at its end;
    rows may leave at any time between.
    """

    @abstractmethod
    def write(self, windowed_value: WindowedValue) -> None:
        """Writes an element."""

    def write_block(self, block: Block) -> None:
        """Writes many elements."""
        for element in block.elements():
            self.write(element)

    def write_count(self, template: WindowedValue, number: int) -> None:  # noqa: B027
        """Tells that accumulators stand for more elements than there are of them.

        Nobody asks for that where no element can be late.

        Args:
            template: a windowed value with their window.
            number: how many more.
        """

    @abstractmethod
    def flush(self) -> None:
        """Turns what is held back into rows."""


class ChunkSink(Sink):
    """``Layout.CHUNKS``: elements one after the other, in growing cells.

    The first cells are small, so that few but heavy elements spread over all
    partitions of a rebalancing exchange.
    """

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, seed: int
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._encode = coder.get_impl().encode_to_stream
        self._encode_block = BlockCoder(coder).encode
        self._stream = coder_impl.create_OutputStream()
        self._seed = seed
        self._cells = 0
        self._limit = 1

    def write(self, windowed_value: WindowedValue) -> None:
        self._encode(windowed_value, self._stream, True)
        if self._stream.size() >= self._limit:
            self.flush()

    def write_block(self, block: Block) -> None:
        is_small = self._limit < CELL_BYTES or len(block) < SMALLEST_BLOCK
        if is_small or block.stamps is not None:
            super().write_block(block)
        else:
            self._append(self._encode_block(block))

    def flush(self) -> None:
        if self._stream.size():
            self._append(PLAIN_CELL + self._stream.get())
            self._stream._clear()

    def _append(self, cell: bytes) -> None:
        self._rows.append(self._tag, None, self._seed + self._cells, cell)
        self._cells += 1
        if self._cells % 64 == 0:
            self._limit = min(self._limit * 8, CELL_BYTES)


class GroupSink(Sink):
    """``Layout.GROUPS``: the window is part of the key, ``ord`` is the combined timestamp."""

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._combine = combine_stamps(windowing)
        self._table = RunTable(
            coder.wrapped_value_coder.key_coder().get_impl(),
            RunCoder(coder.wrapped_value_coder.value_coder().get_impl()),
            self._combine,
        )
        self._add = self._table.add
        self._encode_window = window_suffix_coder(windowing)

    def write(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value
        stamp = 0 if self._combine is None else coded_micros(windowed_value.timestamp_micros)
        for window in windowed_value.windows:
            if self._add(window, key, value, stamp):
                self.flush()

    def write_block(self, block: Block) -> None:
        if self._combine is not None and block.stamps is not None:
            super().write_block(block)
            return
        micros = block.windowing.timestamp_micros
        stamp = 0 if self._combine is None else coded_micros(micros)
        for window in block.windowing.windows:
            if self._table.add_all(window, block.values, stamp):
                self.flush()

    def flush(self) -> None:
        for window, keys, runs, stamps in self._table.take():
            suffix = self._encode_window(window)
            if suffix:
                keys = [key + suffix for key in keys]
            self._rows.extend(self._tag, keys, stamps, runs)


def combine_stamps(windowing: Windowing) -> Callable[[int, int], int] | None:
    """How the timestamps of a group combine, in microseconds; None for the window's end."""
    return {TimestampCombiner.OUTPUT_AT_EARLIEST: min, TimestampCombiner.OUTPUT_AT_LATEST: max}.get(
        windowing.timestamp_combiner
    )


def window_suffix_coder(windowing: Windowing) -> Callable[[Any], bytes]:
    """Encodes a window behind a key; the global window takes no bytes."""
    if isinstance(windowing.windowfn, GlobalWindows):
        return lambda window: b""
    return windowing.windowfn.get_window_coder().encode


def in_session(next_start: int, start: int, end: int) -> bool:
    """Whether a session takes in the next one by start: one that touches it stays apart.

    Where rounding leaves a session no length, it nevertheless is one with those of its start.
    """
    return next_start < end or next_start == start


class SessionSink(Sink):
    """``Layout.SESSIONS``: sessions of a key, merged as far as the table reaches."""

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._combine = combine_stamps(windowing) or max
        self._encode_key = coder.wrapped_value_coder.key_coder().get_impl().encode_nested
        self._encode_value = coder.wrapped_value_coder.value_coder().get_impl().encode_nested
        self._clear()

    def _clear(self) -> None:
        self._elements: dict[bytes, list[tuple[int, int, int, bytes]]] = {}
        self._bytes = 0

    def write(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value
        gathered = self._elements.setdefault(self._encode_key(key), [])
        encoded = self._encode_value(value)
        stamp = coded_micros(windowed_value.timestamp_micros)
        for window in windowed_value.windows:
            gathered.append((*coded_span(window), stamp, encoded))
            self._bytes += 4 * OBJECT_BYTES + len(encoded)
        if self._bytes > TABLE_BYTES:
            self.flush()

    def write_block(self, block: Block) -> None:
        if block.stamps is not None:
            super().write_block(block)
            return
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

    def flush(self) -> None:
        for key, gathered in self._elements.items():
            gathered.sort(key=itemgetter(0))
            start, end, stamp, _ = gathered[0]
            run: list[bytes] = []
            size = 0
            for next_start, next_end, next_stamp, value in gathered:
                if size >= CELL_BYTES or not in_session(next_start, start, end):
                    self._append(key, start, end, stamp, run)
                    start, end, stamp, run, size = next_start, next_end, next_stamp, [], 0
                end = max(end, next_end)
                stamp = self._combine(stamp, next_stamp)
                run.append(value)
                size += len(value)
            self._append(key, start, end, stamp, run)
        self._clear()

    def _append(self, key: bytes, start: int, end: int, stamp: int, run: list[bytes]) -> None:
        self._rows.append(
            self._tag, key, start, SESSION_HEADER.pack(end, stamp) + RunCoder.join(run)
        )


class KeyedSink(Sink):
    """Windowed elements by key, in order, without the key; those of a block as a run of values.

    Args:
        tag: of the port.
        rows: takes the rows.
        coder: of the elements.
        written: of the elements as they are written, without their keys.
    """

    def __init__(
        self,
        tag: int,
        rows: RowWriter,
        coder: coders.WindowedValueCoder,
        written: coders.WindowedValueCoder,
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._cells = KeyCells(written)
        key = coder.wrapped_value_coder.key_coder().get_impl()
        self._tables = {
            PLAIN_CELL: RunTable(key, self._cells.elements),
            BLOCK_CELL: RunTable(key, self._cells.values),
            STAMPED_CELL: RunTable(key, self._cells.stamped),
        }
        self._kind = PLAIN_CELL
        self._windowing: Any = None
        self._heads: dict[Any, bytes] = {None: PLAIN_CELL}
        self._parts = 0

    def write(self, windowed_value: WindowedValue) -> None:
        pair = windowed_value.value
        if self._kind == BLOCK_CELL and self._windowing == _windowing(windowed_value, [pair]):
            self._add_all(BLOCK_CELL, self._windowing, windowed_value, [pair])
        elif self._table(PLAIN_CELL, None).add(None, pair[0], windowed_value.with_value(pair[1])):
            self.flush()

    def write_block(self, block: Block) -> None:
        template, pairs = block.windowing, block.values
        windowing: Any
        if block.stamps is None:
            windowing = _windowing(template, pairs)
        else:
            windowing = (tuple(template.windows), template.pane_info)
        is_short = len(pairs) < _SMALLEST_RUN and windowing != self._windowing
        if is_short or windowing is None or len(template.windows) > _MOST_WINDOWS:
            super().write_block(block)
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
        """Where what comes next goes; the elements of a key keep their order."""
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
    """What runs of a block have in common; None where its elements are written one by one.

    The types are a part of it, as a table keeps encoded values apart from others, and in order
    only among themselves.
    """
    kinds = frozenset(type(key) for key, _ in pairs)
    if len(kinds) > 1:
        return None
    is_plain = IMMUTABLE.issuperset(type(value) for _, value in pairs)
    windows = tuple(template.windows)
    return template.timestamp_micros, windows, template.pane_info, kinds, is_plain


class StoredSink(KeyedSink):
    """``Layout.STORED``: in streaming, on the way to a GroupByKey."""

    def write_count(self, template: WindowedValue, number: int) -> None:
        # It goes to any one shard: all of them have the same watermark.
        self._rows.append(self._tag, b"", 0, self._cells.count(template, number))


class TimeSortedSink(Sink):
    """``Layout.TIME_SORTED``: as of :class:`KeyedSink`, but a row for each, by its timestamp."""

    def __init__(self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder) -> None:
        self._tag = tag
        self._rows = rows
        self._encode_key = coder.wrapped_value_coder.key_coder().get_impl().encode_nested
        self._encode = stripped_coder(coder).get_impl().encode_nested

    def write(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value
        self._rows.append(
            self._tag,
            self._encode_key(key),
            windowed_value.timestamp_micros,
            PLAIN_CELL + RunCoder.join([self._encode(windowed_value.with_value(value))]),
        )

    def flush(self) -> None:
        """Nothing is held back."""


class SideSink(Sink):
    """``Layout.SIDE_ITERABLE``: runs of values by window; ``SIDE_MULTIMAP``: by key, too.

    Args:
        tag: of the port.
        rows: takes the rows.
        coder: of the elements.
        multimap: the elements are pairs of keys and values.
    """

    def __init__(
        self, tag: int, rows: RowWriter, coder: coders.WindowedValueCoder, *, multimap: bool
    ) -> None:
        self._tag = tag
        self._rows = rows
        self._multimap = multimap
        element = coder.wrapped_value_coder
        no_key = coder_impl.SingletonCoderImpl(None)
        self._table = RunTable(
            element.key_coder().get_impl() if multimap else no_key,
            RunCoder((element.value_coder() if multimap else element).get_impl()),
        )
        self._encode_window = coder.window_coder.encode
        self._parts = 0

    def write(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value if self._multimap else (b"", windowed_value.value)
        for window in windowed_value.windows:
            if self._table.add(window, key, value):
                self.flush()

    def flush(self) -> None:
        for window, keys, runs, _ in self._table.take():
            prefix = window_key(self._encode_window(window))
            full_keys = [prefix + key for key in keys]
            self._rows.extend(self._tag, full_keys, [self._parts] * len(keys), runs)
            self._parts += 1


def window_key(window: bytes, key: bytes = b"") -> bytes:
    """A window, or a key in it, as bytes; those of the keys start with those of the window."""
    return _LENGTH.pack(len(window)) + window + key


def window_part(key: bytes) -> bytes:
    """The part of a :func:`window_key` that stands for the window."""
    (length,) = _LENGTH.unpack_from(key)
    return key[: _LENGTH.size + length]


_LENGTH = struct.Struct(">I")


def sink_for(
    layout: Layout,
    tag: int,
    rows: RowWriter,
    coder: coders.WindowedValueCoder,
    windowing: Windowing,
    partition: int,
) -> Sink:
    """The sink that writes ``layout``."""
    match layout:
        case Layout.CHUNKS:
            return ChunkSink(tag, rows, coder, partition)
        case Layout.GROUPS:
            return GroupSink(tag, rows, coder, windowing)
        case Layout.SESSIONS:
            return SessionSink(tag, rows, coder, windowing)
        case Layout.KEYED | Layout.TRIGGERED:
            return KeyedSink(tag, rows, coder, stripped_coder(coder))
        case Layout.STORED:
            return StoredSink(tag, rows, coder, stored_coder(coder))
        case Layout.TIME_SORTED:
            return TimeSortedSink(tag, rows, coder)
        case Layout.SIDE_ITERABLE:
            return SideSink(tag, rows, coder, multimap=False)
        case Layout.SIDE_MULTIMAP:
            return SideSink(tag, rows, coder, multimap=True)
