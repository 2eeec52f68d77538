"""Rows of runs of values by key and window.

``key`` is the encoded key, then the window; ``ord`` is the combined timestamp, if groups have it;
``value`` is a run of values. In packs, a row has many keys
(:mod:`sparkbeam.worker.row_formats.group_packs`).
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    GlobalWindow,
    GlobalWindows,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rounding import coded, coded_end, coded_micros
from sparkbeam.wire.rows import Row
from sparkbeam.worker.blocks import BLOCK_BYTES, Block
from sparkbeam.worker.group_timestamps import ON_TIME, ONLY_FIRING, combine_stamps
from sparkbeam.worker.row_formats.group_packs import PackedGroupSink
from sparkbeam.worker.row_formats.group_values import RunCoder, ValuesBuilder
from sparkbeam.worker.row_formats.key_table import RunTable
from sparkbeam.worker.row_formats.row_writer import Batch, Sink, WriterParameters

_BLOCK_SIZE = 1000
_GROUP_BYTES = 200
"""Memory of a group besides its values, in bytes."""

_KEY = itemgetter(0)


class GroupSink(Sink):
    """Writer of runs of values by key and window."""

    def __init__(self, output: WriterParameters) -> None:
        super().__init__(output)
        coder, windowing = output.coder, output.windowing
        self._combine = combine_stamps(windowing)
        self._table = RunTable(
            coder.wrapped_value_coder.key_coder().get_impl(),
            RunCoder(coder.wrapped_value_coder.value_coder().get_impl()),
            self._combine,
        )
        self._add = self._table.add
        self._encode_window = window_suffix_coder(windowing)

    def add(self, windowed_value: WindowedValue) -> None:
        key, value = windowed_value.value
        stamp = 0 if self._combine is None else coded_micros(windowed_value.timestamp_micros)
        for window in windowed_value.windows:
            if self._add(window, key, value, stamp):
                self.flush()

    def write(self, batch: Batch) -> None:
        if not isinstance(batch, Block) or (self._combine is not None and batch.stamps is not None):
            super().write(batch)
            return
        micros = batch.windowing.timestamp_micros
        stamp = 0 if self._combine is None else coded_micros(micros)
        for window in batch.windowing.windows:
            if self._table.add_all(window, batch.values, stamp):
                self.flush()

    def flush(self) -> None:
        for window, keys, runs, stamps in self._table.take():
            suffix = self._encode_window(window)
            if suffix:
                keys = [key + suffix for key in keys]
            self._rows.extend(self._tag, keys, stamps, runs)


def writer(output: WriterParameters) -> Sink:
    """Return the writer of a port."""
    packed = output.port.format.packed
    return PackedGroupSink(output) if packed else GroupSink(output)


def window_suffix_coder(windowing: Windowing) -> Callable[[Any], bytes]:
    """Return the coder of a window behind a key; the global window takes no bytes."""
    if isinstance(windowing.windowfn, GlobalWindows):
        return lambda window: b""
    return windowing.windowfn.get_window_coder().encode


def groups(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[Block]:
    """Yield the groups of rows that are sorted by key."""
    if combine_stamps(windowing) is not None:
        return stamped_groups(rows, coder, windowing)
    is_global = isinstance(windowing.windowfn, GlobalWindows)
    return (global_groups if is_global else windowed_groups)(rows, coder, windowing)


def global_groups(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[Block]:
    """Yield groups of the global window at its end, with small ones in blocks."""
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_nested
    runs = RunCoder(pair.value_coder().get_impl())
    window = GlobalWindow()
    template = WindowedValue(None, coded_end(window), (window,), ONLY_FIRING)
    block: list[Any] = []
    size = 0
    for key, values in _by_key(rows, runs):
        block.append((decode_key(key), values.values()))
        size += values.bytes
        if size > BLOCK_BYTES or len(block) >= _BLOCK_SIZE:
            yield Block(template, block)
            block, size = [], 0
    if block:
        yield Block(template, block)


def _by_key(rows: Iterator[Row], runs: RunCoder) -> Iterator[tuple[bytes, ValuesBuilder]]:
    """Gather the rows of each key; a plain loop, as it runs for every row."""
    current: bytes | None = None
    values = ValuesBuilder(runs)
    for key, _, run in rows:
        if key != current:
            if current is not None:
                yield current, values
                values = ValuesBuilder(runs)
            current = key
        values.append(run)
    if current is not None:
        yield current, values


def windowed_groups(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[Block]:
    """Yield groups at the end of their windows, with small ones of a window in blocks."""
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_from_stream
    decode_window = windowing.windowfn.get_window_coder().decode
    runs = RunCoder(pair.value_coder().get_impl())

    def groups() -> Iterator[tuple[bytes, Any, ValuesBuilder]]:
        for composite, values in _by_key(rows, runs):
            stream = coder_impl.create_InputStream(composite)
            key = decode_key(stream, True)
            yield stream.read_all(False), key, values

    def template(suffix: bytes) -> WindowedValue:
        window = decode_window(suffix)
        return WindowedValue(None, coded_end(window), (window,), ON_TIME)

    return by_window(groups(), template)


def by_window(
    groups: Iterable[tuple[bytes, Any, ValuesBuilder]], template: Callable[[bytes], WindowedValue]
) -> Iterator[Block]:
    """Yield groups in blocks, with small ones of a window in one.

    Args:
        groups: the encoded window of each, the key and the values.
        template: makes the common windowing of the elements of a window.
    """
    held: dict[bytes, Block] = {}
    size = 0
    for suffix, key, values in groups:
        block = held.get(suffix)
        if block is None:
            block = held[suffix] = Block(template(suffix), [])
        block.values.append((key, values.values()))
        size += _GROUP_BYTES + values.bytes
        if size > BLOCK_BYTES or len(block) >= _BLOCK_SIZE:
            yield from held.values()
            held = {}
            size = 0
    yield from held.values()


def stamped_groups(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[Block]:
    """Yield groups with timestamps that come from those of their values."""
    combine = combine_stamps(windowing)
    assert combine is not None
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_from_stream
    decode_window = windowing.windowfn.get_window_coder().decode
    runs = RunCoder(pair.value_coder().get_impl())
    for composite, group in groupby(rows, _KEY):
        values = ValuesBuilder(runs)
        stamps = []
        for _, order, run in group:
            values.append(run)
            stamps.append(order)
        stream = coder_impl.create_InputStream(composite)
        key = decode_key(stream, True)
        window = decode_window(stream.read_all(False))
        timestamp = coded(Timestamp(micros=reduce(combine, stamps)))
        template = WindowedValue(None, timestamp, (window,), ON_TIME)
        yield Block(template, [(key, values.values())])
