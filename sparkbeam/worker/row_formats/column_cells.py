"""Cells that hold a block of columns: its values, timestamps and windows in Arrow's IPC format."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coder_impl, coders
from apache_beam.internal import pickler
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, WindowFn
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import FallBack
from sparkbeam.columns.python_types import Shape, tells_all
from sparkbeam.columns.vectors import Micros
from sparkbeam.plan.round_trips import round_tripped
from sparkbeam.wire.rows import COLUMN_CELL
from sparkbeam.worker.blocks import GLOBAL, Assigned, Block
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.row_formats.cells import windowing_coder
from sparkbeam.worker.slices import slices_of
from sparkbeam.worker.value_columns import Column, column_of

_LENGTHS = struct.Struct(">II")
_MILLI = 1000
_FAR = 1 << 61
_VALUES, _TIMES, _STARTS, _ENDS = "values", "times", "starts", "ends"


@dataclass(frozen=True)
class _Content:
    """Pickled description of the values of a cell.

    Attributes:
        window_fn: assigns each value its windows; None if it does not determine them.
        has_intervals: True if the windows are columns.
    """

    shape: Shape
    window_fn: WindowFn | None
    has_intervals: bool

    @property
    def is_assigned(self) -> bool:
        """True if each value has its own windows."""
        return self.has_intervals or self.window_fn is not None


class ColumnCoder:
    """Coder of column blocks, if the elements' coder would restore them exactly.

    A cell holds an empty element with the common properties of the values, the pickled
    :class:`_Content`, and a record batch. The lengths of the first two come first.
    """

    def __init__(self, coder: coders.WindowedValueCoder) -> None:
        self._value = coder.wrapped_value_coder
        self._shared = windowing_coder(coder)
        everywhere = coders.WindowedValueCoder(self._value, coders.GlobalWindowCoder())
        self._pane = windowing_coder(everywhere)
        self._pickled: dict[_Content, bytes] = {}
        self._contents: dict[bytes, _Content] = {}

    def encode(self, block: Block) -> bytes:
        """Return a block as a cell.

        Raises:
            FallBack: its elements have to be encoded.
        """
        column = block.column
        if type(column) is not Column:
            raise FallBack("its elements hold accumulators")
        if not tells_all(column.shape):
            raise FallBack("its elements hold structs in lists or maps")
        if round_tripped(self._value, column.array, column.shape) is None:
            raise FallBack(f"the coder {self._value} may decode to other values")
        given = block.assigned
        times = block.time_column() if block.is_stamped else None
        if not _are_coded(times, given):
            raise FallBack("its timestamps are not whole milliseconds")
        columns = {_VALUES: column.array}
        if times is not None:
            columns[_TIMES] = pa.array(times)
        if isinstance(given, Intervals):
            columns |= {_STARTS: pa.array(given.starts), _ENDS: pa.array(given.ends)}
            content = _Content(column.shape, None, has_intervals=True)
        else:
            content = _Content(column.shape, given, has_intervals=False)
        head = self._windowing(content).encode(_template(content, block.windowing))
        described = self._pickled.get(content)
        if described is None:
            described = self._pickled[content] = pickler.dumps(content)
        lengths = _LENGTHS.pack(len(head), len(described))
        return _packed((COLUMN_CELL, lengths, head, described), columns)

    def decode(self, cell: bytes) -> Block:
        """Return the block of a cell."""
        head, described = _LENGTHS.unpack_from(cell, 1)
        head += 1 + _LENGTHS.size
        described += head
        content = self._contents.get(cell[head:described])
        if content is None:
            content = pickler.loads(cell[head:described])
            self._contents[cell[head:described]] = content
        template = self._windowing(content).decode(cell[1 + _LENGTHS.size : head])
        with pa.ipc.open_stream(pa.py_buffer(cell).slice(described)) as stream:
            batch = stream.read_next_batch()
        array = batch.column(_VALUES)
        shape = round_tripped(self._value, array, content.shape)
        assert shape is not None
        times = _micros(batch, _TIMES) if _TIMES in batch.schema.names else None
        assigned: Assigned | None = content.window_fn
        if content.has_intervals:
            assigned = Intervals(_micros(batch, _STARTS), _micros(batch, _ENDS))
        return Block(template, column_of(array, shape), times, assigned)

    def _windowing(self, content: _Content) -> coder_impl.CoderImpl:
        return self._pane if content.is_assigned else self._shared


def _template(content: _Content, windowing: WindowedValue) -> WindowedValue:
    """Return an empty element with the common windowing of all."""
    if not content.is_assigned:
        return windowing.with_value(b"")
    return WindowedValue(b"", GLOBAL.timestamp, GLOBAL.windows, windowing.pane_info)


def _are_coded(times: Micros | None, assigned: Assigned | None) -> bool:
    """Return whether times and windows are in milliseconds, as coders would leave them."""
    if assigned is None:
        return times is None or _in_millis(times)
    if times is None or not _in_millis(times):
        return False
    match assigned:
        case Intervals():
            return _in_millis(assigned.starts) and _in_millis(assigned.ends)
        case Sessions():
            return assigned.gap_size.micros % _MILLI == 0 and assigned.gap_size.micros < _FAR
        case FixedWindows() | SlidingWindows():
            slices = slices_of(assigned)
            return slices is not None and slices.size < _FAR
    return False


def _in_millis(times: Micros) -> bool:
    """Return whether times are whole milliseconds, and far from the ends of time."""
    return not np.any(times % _MILLI) and bool(np.all(np.abs(times) < _FAR))


def _packed(heads: Sequence[bytes], columns: dict[str, Any]) -> bytes:
    batch = pa.RecordBatch.from_pydict(columns)
    # A stream that grows would be copied each time.
    measure = pa.MockOutputStream()
    _write(measure, heads, batch)
    room = pa.allocate_buffer(measure.size())
    _write(pa.FixedSizeBufferWriter(room), heads, batch)
    packed: bytes = room.to_pybytes()
    return packed


def _write(sink: Any, heads: Sequence[bytes], batch: pa.RecordBatch) -> None:
    for head in heads:
        sink.write(head)
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)


def _micros(batch: pa.RecordBatch, name: str) -> Micros:
    found: Micros = batch.column(name).to_numpy()
    return found
