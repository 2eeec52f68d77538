"""Rows that contain the firing of a grouping that they belong to."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pyarrow as pa
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.firing_rows import UNKNOWN, with_firing
from sparkbeam.wire.rows import Orders, RowWriter, StreamingWriter
from sparkbeam.worker.row_formats.row_writer import Batch, Sink, WriterParameters


class FiringTaggedSink(Sink):
    """Writer of another format, with no row of two firings.

    Args:
        output: the parameters of the port, whose rows give the firing of the elements.
    """

    def __init__(self, made: Callable[[WriterParameters], Sink], output: WriterParameters) -> None:
        super().__init__(output)
        # Such ports are of streaming queries, where all rows go to such a writer.
        self._firings = cast("StreamingWriter", output.rows)
        self._telling = _TellingWriter(output.rows)
        self._sink = made(replace(output, rows=self._telling))

    def add(self, windowed_value: WindowedValue) -> None:
        self._turn()
        self._sink.add(windowed_value)

    def write(self, batch: Batch) -> None:
        self._turn()
        self._sink.write(batch)

    def flush(self) -> None:
        self._sink.flush()

    def _turn(self) -> None:
        """End the rows of the firing before."""
        if self._telling.firing != self._firings.firing:
            self._sink.flush()
            self._telling.firing = self._firings.firing


class _TellingWriter:
    """Writer that puts the firing before the keys of rows."""

    def __init__(self, rows: RowWriter) -> None:
        self._rows = rows
        self.firing = UNKNOWN

    def append(self, tag: int, key: bytes | None, order: int, value: bytes) -> None:
        self._rows.append(tag, with_firing(self.firing, key or b""), order, value)

    def extend(self, tag: int, keys: list[bytes], orders: list[int], values: list[bytes]) -> None:
        told = [with_firing(self.firing, key) for key in keys]
        self._rows.extend(tag, told, orders, values)

    def extend_columns(self, tag: int, keys: pa.Array, orders: Orders, values: pa.Array) -> None:
        self.extend(tag, keys.to_pylist(), orders.tolist(), values.to_pylist())
