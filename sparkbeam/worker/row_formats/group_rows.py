"""Rows of runs of values by key and window.

``key`` is the encoded key, then the window; ``ord`` is the combined timestamp, if groups have it;
``value`` is a run of values. In packs, a row has many keys
(:mod:`sparkbeam.worker.row_formats.group_packs`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from apache_beam.coders import coder_impl, coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    GlobalWindow,
    GlobalWindows,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregator import Stamps
from sparkbeam.wire.rounding import coded, coded_end, coded_micros
from sparkbeam.wire.rows import Row
from sparkbeam.worker.blocks import BLOCK_BYTES, Block
from sparkbeam.worker.group_timestamps import combine_stamps, pane_of
from sparkbeam.worker.row_formats.group_packs import PackedGroupSink
from sparkbeam.worker.row_formats.group_values import RunCoder, ValuesBuilder
from sparkbeam.worker.row_formats.key_table import RunTable
from sparkbeam.worker.row_formats.row_writer import Sink, WriterParameters

_BLOCK_SIZE = 1000
_GROUP_BYTES = 200
"""Memory of a group besides its values, in bytes."""

_Place = TypeVar("_Place")


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

    def _write_block(self, block: Block) -> None:
        if self._combine is not None and block.stamps is not None:
            self._write_elements(block)
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
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_from_stream
    is_global = isinstance(windowing.windowfn, GlobalWindows)
    decode_window = windowing.windowfn.get_window_coder().decode
    combine, pane = combine_stamps(windowing), pane_of(windowing)

    def found() -> Iterator[tuple[tuple[bytes, int], Any, ValuesBuilder]]:
        by_key = _by_key(rows, RunCoder(pair.value_coder().get_impl()), combine)
        for composite, stamp, values in by_key:
            stream = coder_impl.create_InputStream(composite)
            key = decode_key(stream, True)
            yield (stream.read_all(False), stamp), key, values

    def template(place: tuple[bytes, int]) -> WindowedValue:
        suffix, stamp = place
        window = GlobalWindow() if is_global else decode_window(suffix)
        time = coded_end(window) if combine is None else coded(Timestamp(micros=stamp))
        return WindowedValue(None, time, (window,), pane)

    return by_window(found(), template)


def _by_key(
    rows: Iterator[Row], runs: RunCoder, combine: Stamps | None
) -> Iterator[tuple[bytes, int, ValuesBuilder]]:
    """Gather the rows of each key; a plain loop, as it runs for every row."""
    current: bytes | None = None
    stamp, values = 0, ValuesBuilder(runs)
    for key, order, run in rows:
        if key != current:
            if current is not None:
                yield current, stamp, values
                values = ValuesBuilder(runs)
            current, stamp = key, order
        elif combine is not None:
            stamp = combine(stamp, order)
        values.append(run)
    if current is not None:
        yield current, stamp, values


def by_window(
    groups: Iterable[tuple[_Place, Any, ValuesBuilder]], template: Callable[[_Place], WindowedValue]
) -> Iterator[Block]:
    """Yield groups in blocks, with small ones of a window in one.

    Args:
        groups: the encoded window of each, possibly with its timestamp, the key and the values.
        template: makes the common windowing of the elements of a window.
    """
    held: dict[_Place, Block] = {}
    size = 0
    for place, key, values in groups:
        block = held.get(place)
        if block is None:
            block = held[place] = Block(template(place), [])
        block.values.append((key, values.values()))
        size += _GROUP_BYTES + values.bytes
        if size > BLOCK_BYTES or len(block) >= _BLOCK_SIZE:
            yield from held.values()
            held = {}
            size = 0
    yield from held.values()
