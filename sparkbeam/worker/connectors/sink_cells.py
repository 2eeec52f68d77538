"""Conversion of elements to the cells that go to Spark's sinks, and back.

A cell holds many elements: as a record batch for what takes a DataFrame, or pickled for a
user's own writer. So a sink costs a DoFn in the pipeline and a pass over cells behind it.
"""

import pickle
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import cloudpickle
import numpy as np
import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.common.sink_ids import TakesSinkId
from sparkbeam.plan.spark_io import RowPacker
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.rows import Row
from sparkbeam.worker.connectors.sink_arrays import (
    FIRST_MICROS,
    LAST_MICROS,
    array_of_values,
    columns_of_elements,
)
from sparkbeam.worker.row_formats import element_rows
from sparkbeam.worker.task import partition_id

CELL_ROWS = 5000
"""Number of rows of a cell."""

_CELLS = coders.WindowedValueCoder(coders.BytesCoder(), coders.GlobalWindowCoder())


class PackElements(beam.DoFn):
    """DoFn that gathers the elements of a bundle into cells."""

    def start_bundle(self) -> None:
        """Start with no element."""
        self._elements: list[Any] = []

    def process(self, element: Any) -> Iterable[WindowedValue] | None:
        """Keep an element; puts out a cell when there are many."""
        self._elements.append(element)
        return self._cell() if len(self._elements) >= CELL_ROWS else None

    def finish_bundle(self) -> Iterable[WindowedValue] | None:
        """Put out the rest."""
        return self._cell() if self._elements else None

    def _cell(self) -> list[WindowedValue]:
        elements, self._elements = self._elements, []
        return [WindowedValue(self._packed(elements), MIN_TIMESTAMP, (GlobalWindow(),))]

    @abstractmethod
    def _packed(self, elements: list[Any]) -> bytes:
        """Return the elements as one cell."""


class PackPickled(PackElements):
    """Elements of any kind."""

    def _packed(self, elements: list[Any]) -> bytes:
        return bytes(cloudpickle.dumps(elements))


class PackArrow(PackElements, RowPacker):
    """Elements with named fields, as rows of a DataFrame.

    Args:
        whole: elements have no fields, and are the values of the only column.
    """

    def __init__(self, schema: pa.Schema, *, whole: bool = False) -> None:
        self.schema = schema
        self.whole = whole

    @property
    def takes_columns(self) -> bool:
        return not self.whole

    @property
    def row_schema(self) -> pa.Schema:
        """The schema of the fields of elements."""
        return self.schema

    def _packed(self, elements: list[Any]) -> bytes:
        return cell_of(pa.record_batch(self._columns(elements), schema=self.schema))

    def _columns(self, elements: list[Any]) -> list[pa.Array]:
        if self.whole:
            field = self.schema.field(0)
            return [array_of_values(elements, field, field.name)]
        return columns_of_elements(elements, self.schema)


class PackTimed(PackArrow):
    """The same with the timestamp of each element in a last column.

    That of an element is null where Python's ``datetime`` cannot say it: so it is at both ends of
    time, where elements are that have been given none.

    Args:
        whole: elements are the values of the first of two columns.
    """

    @property
    def takes_columns(self) -> bool:
        """Never: a timestamp goes with each element."""
        return False

    def process(
        self, element: Any, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterable[WindowedValue] | None:
        return super().process((element, timestamp))

    def _columns(self, elements: list[Any]) -> list[pa.Array]:
        all_micros = (time.micros for _, time in elements)
        # Of the years 1 to 9999.
        known = [at if FIRST_MICROS <= at <= LAST_MICROS else None for at in all_micros]
        times = pa.array(known, pa.int64())
        values = [element for element, _ in elements]
        rows = PackArrow(self.schema.remove(len(self.schema) - 1), whole=self.whole)
        return [*rows._columns(values), times.cast(self.schema.field(-1).type)]


class PackStamped(PackArrow):
    """The same with the timestamp of each element, in microseconds, in a last column."""

    @property
    def is_for_query(self) -> bool:
        return True

    @property
    def row_schema(self) -> pa.Schema:
        return self.schema.remove(len(self.schema) - 1)

    def process(
        self, element: Any, timestamp: Any = beam.DoFn.TimestampParam
    ) -> Iterable[WindowedValue] | None:
        return super().process((element, timestamp.micros))

    def _columns(self, elements: list[Any]) -> list[pa.Array]:
        times = pa.array([micros for _, micros in elements], pa.int64())
        return [*PackArrow(self.row_schema)._columns([element for element, _ in elements]), times]


def cell_of(batch: pa.RecordBatch) -> bytes:
    """Return the cell that a sink makes rows of."""
    return bytes(batch.serialize().to_pybytes())


@dataclass(frozen=True)
class CellsAsRows:
    """The function for ``mapInArrow`` that gives a sink its rows.

    Attributes:
        unpack: gives the rows of ports that a value of the query's DataFrame holds.
        with_positions: the rows get a last column :data:`POSITION`.
    """

    schema: pa.Schema
    unpack: Callable[[bytes], list[Row]]
    with_positions: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not self.with_positions:
            for cell in _cells(batches, self.unpack):
                yield rows_of(cell, self.schema)
            return
        for position, cell in cells_with_positions(batches, self.unpack):
            yield _with_positions(rows_of(cell, self.schema), position)


POSITION = "sparkbeam position"
"""The column with the position of a row among all: an array of numbers."""


def rows_of(cell: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of a cell; the inverse of :func:`cell_of`."""
    return pa.ipc.read_record_batch(pa.py_buffer(cell), schema)


def cells_with_positions(
    batches: Iterable[pa.RecordBatch], unpack: Callable[[bytes], list[Row]]
) -> Iterator[tuple[tuple[int, ...], bytes]]:
    """Yield cells with their positions, which sort them in the order in which they were written.

    Args:
        batches: with the numbers that tell the position of a value, and the value last.
        unpack: as that of :class:`CellsAsRows`.
    """
    for batch in batches:
        for *position, value in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            for _, order, written in unpack(value):
                cells = _values([(b"", order, written)])
                yield from (((*position, order, n), cell) for n, cell in enumerate(cells))


def _with_positions(rows: pa.RecordBatch, cell: tuple[int, ...]) -> pa.RecordBatch:
    """Append the column with the positions, which begin with that of the cell."""
    numbers = np.empty((len(rows), len(cell) + 1), np.int64)
    numbers[:, :-1], numbers[:, -1] = cell, np.arange(len(rows))
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * numbers.shape[1]
    positions = pa.ListArray.from_arrays(offsets, numbers.ravel())
    schema = rows.schema.append(pa.field(POSITION, positions.type))
    return pa.RecordBatch.from_arrays([*rows.columns, positions], schema=schema)


@dataclass(frozen=True)
class CellsToWriter:
    """The function for ``mapInArrow`` that hands elements to a user's writer; gives no rows.

    Attributes:
        writer: pickled; see :class:`sparkbeam.io.Foreach`.
        epoch: the number of the micro-batch.
        sink_id: of the sink; see :class:`.TakesSinkId`.
        unpack: as that of :class:`CellsAsRows`.
    """

    label: str
    writer: bytes
    epoch: int
    sink_id: str
    unpack: Callable[[bytes], list[Row]]
    reports: FailureReports

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            self._write(e for c in _cells(batches, self.unpack) for e in pickle.loads(c))
        except Exception as error:
            raise self.reports.report(error, self.label) from None
        yield from ()

    def _write(self, elements: Iterator[Any]) -> None:
        writer = pickle.loads(self.writer)
        if isinstance(writer, TakesSinkId):
            writer = writer.with_sink_id(self.sink_id)
        close = getattr(writer, "close", lambda error: None)
        wanted = writer.open(partition_id(), self.epoch) if hasattr(writer, "open") else True
        if wanted is None:
            raise TypeError(
                f"{type(writer).__name__}.open returned None: return True, "
                "or False to skip the elements of the partition."
            )
        try:
            if wanted:
                for element in elements:
                    writer.process(element)
        except Exception as error:
            # What failed first is what the user has to hear of.
            with suppress(Exception):
                close(error)
            raise
        close(None)


def _cells(
    batches: Iterator[pa.RecordBatch], unpack: Callable[[bytes], list[Row]]
) -> Iterator[bytes]:
    values = (value for batch in batches for value in batch.column(0).to_pylist())
    return _values(row for value in values for row in unpack(value))


def _values(rows: Iterable[Row]) -> Iterator[bytes]:
    return (cell for block in element_rows.read(iter(rows), _CELLS) for cell in block.values)


def plain_row(value: bytes) -> list[Row]:
    """Return the row of a port in batch, where each value is one cell."""
    return [(b"", 0, value)]
