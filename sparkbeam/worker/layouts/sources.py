"""What a stage reads: from rows to blocks of values, one function for each layout.

Rows of an exchange by key come sorted, so a group is a run of rows with equal
keys, and every function here is one linear pass that holds one group at a time.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    TimestampCombiner,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rounding import coded, coded_end
from sparkbeam.wire.rows import BLOCK_CELL, Row
from sparkbeam.worker.blocks import BLOCK_BYTES, Block, in_blocks
from sparkbeam.worker.grouping.merging import ON_TIME, MergingGroups
from sparkbeam.worker.grouping.panes import Panes
from sparkbeam.worker.layouts.cells import BlockCoder, KeyCells, stripped_coder
from sparkbeam.worker.layouts.sinks import SESSION_HEADER, combine_stamps, in_session
from sparkbeam.worker.layouts.values import RunCoder, ValuesBuilder

_BLOCK_SIZE = 1000
_KEY = itemgetter(0)

ONLY_FIRING = trigger.BatchGlobalTriggerDriver.ONLY_FIRING


def chunks(rows: Iterator[Row], coder: coders.WindowedValueCoder) -> Iterator[Block]:
    """``Layout.CHUNKS``."""
    decode_all = coder.get_impl().decode_all
    decode_block = BlockCoder(coder).decode
    for _, _, cell in rows:
        if cell[:1] == BLOCK_CELL:
            yield decode_block(cell)
        else:
            yield from in_blocks(decode_all(cell[1:]))


def groups(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[Block]:
    """``Layout.GROUPS``: one pane for each key and window."""
    combine = combine_stamps(windowing)
    if combine is not None:
        stamped = _stamped_groups(rows, coder, windowing, combine)
        return (Block(pane, [pane.value]) for pane in stamped)
    if isinstance(windowing.windowfn, GlobalWindows):
        return _global_groups(rows, coder)
    return _windowed_groups(rows, coder, windowing)


def _global_groups(rows: Iterator[Row], coder: coders.WindowedValueCoder) -> Iterator[Block]:
    """Groups of the global window, with small ones in blocks."""
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
    """Gathers the rows of each key; a plain loop, as it runs for every row."""
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


def _windowed_groups(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[Block]:
    """Groups at the end of their windows, with small ones of a window in blocks."""
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_from_stream
    decode_window = windowing.windowfn.get_window_coder().decode
    runs = RunCoder(pair.value_coder().get_impl())
    held: dict[bytes, Block] = {}
    count = size = 0
    for composite, values in _by_key(rows, runs):
        stream = coder_impl.create_InputStream(composite)
        key = decode_key(stream, True)
        suffix = stream.read_all(False)
        block = held.get(suffix)
        if block is None:
            window = decode_window(suffix)
            template = WindowedValue(None, coded_end(window), (window,), ON_TIME)
            block = held[suffix] = Block(template, [])
        block.values.append((key, values.values()))
        count += 1
        size += values.bytes
        if size > BLOCK_BYTES or count >= _BLOCK_SIZE:
            yield from held.values()
            held = {}
            count = size = 0
    yield from held.values()


def _stamped_groups(
    rows: Iterator[Row],
    coder: coders.WindowedValueCoder,
    windowing: Windowing,
    combine: Callable[[int, int], int],
) -> Iterator[WindowedValue]:
    """Groups with timestamps of their own."""
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
        yield WindowedValue((key, values.values()), timestamp, (window,), ON_TIME)


def sessions(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[WindowedValue]:
    """``Layout.SESSIONS``: rows of a key come by start, so sessions merge in one pass."""
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
            next_end, next_stamp = SESSION_HEADER.unpack_from(cell)
            if values is None or not in_session(next_start, start, end):
                if values is not None:
                    yield session(key, start, end, stamp, values)
                values = ValuesBuilder(runs)
                start, end, stamp = next_start, next_end, next_stamp
            end = max(end, next_end)
            stamp = combine(stamp, next_stamp)
            values.append(cell[SESSION_HEADER.size :])
        if values is not None:
            yield session(key, start, end, stamp, values)


def triggered(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[WindowedValue]:
    """``Layout.TRIGGERED``: the windowing decides which panes there are, key by key."""
    decode_key = coder.wrapped_value_coder.key_coder().get_impl().decode_nested
    cells = KeyCells(stripped_coder(coder))
    is_default = isinstance(windowing.triggerfn, trigger.DefaultTrigger)
    panes = MergingGroups(windowing) if is_default else Panes(windowing)
    for encoded_key, group in groupby(rows, _KEY):
        elements = [
            element
            for _, _, cell in group
            for block in cells.blocks(cell)
            for element in block.elements()
        ]
        key = decode_key(encoded_key)
        for pane in panes.of(elements):
            yield pane.with_value((key, pane.value))


class KeyedSource:
    """``Layout.KEYED`` and ``Layout.TIME_SORTED``: the elements of one key after the other.

    Args:
        coder: of the elements.
    """

    def __init__(self, coder: coders.WindowedValueCoder) -> None:
        self._decode_key = coder.wrapped_value_coder.key_coder().get_impl().decode_nested
        self._cells = KeyCells(stripped_coder(coder))

    def blocks(self, rows: Iterable[Row]) -> Iterator[Block]:
        """The elements of all keys."""
        blocks = self._cells.blocks
        last: bytes | None = None
        key: Any = None
        for encoded, _, cell in rows:
            if encoded != last:
                last, key = encoded, self._decode_key(encoded)
            for block in blocks(cell):
                yield block.with_values([(key, value) for value in block.values])

    def keys(self, rows: Iterable[Row]) -> Iterator[tuple[bytes, Iterator[Block]]]:
        """The elements of each key, which have to be read before the next key."""
        for key, group in groupby(rows, _KEY):
            yield key, self.blocks(group)
