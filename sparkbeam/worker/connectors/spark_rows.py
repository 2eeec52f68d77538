"""Conversion of a Spark source's rows, in Arrow's columns, to elements and to cells of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from apache_beam.coders import coder_impl, coders
from apache_beam.internal import pickler
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils import windowed_value

from sparkbeam.columns.vectors import Micros
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.upstream.beam import clear
from sparkbeam.wire.failure import FailureReports, StepFailed
from sparkbeam.wire.parquet_splits import ParquetFiles
from sparkbeam.wire.rounding import coded_column, coded_micros
from sparkbeam.wire.rows import CELL_BYTES, PLAIN_CELL, RowBuffer
from sparkbeam.worker.blocks import Block, column_rows
from sparkbeam.worker.connectors.parquet_rows import batches_of
from sparkbeam.worker.connectors.row_maker import RowMaker
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.task import task_numbers

_Item = TypeVar("_Item")


class RowReader:
    """Reader that makes elements of the rows of a source.

    Args:
        partitioned: the rows come with their partitions, as texts or numbers.
        time: the timestamp of all rows, in place of theirs.

    Attributes:
        newest: the latest timestamp of each partition, in microseconds; all rows of a source
            that has none are in the partition ``""``.
    """

    def __init__(
        self, spec: ReadSpec, *, partitioned: bool = False, time: int | None = None
    ) -> None:
        self._spec = spec
        self._partitioned = partitioned
        self._time = time
        of_rows = pickler.loads(spec.coder)
        self._maker = RowMaker(of_rows)
        coder = coders.WindowedValueCoder(of_rows, coders.GlobalWindowCoder())
        self._encode = coder.get_impl().encode_to_stream
        self._encode_block = KeyCells(coder).encode
        self._windows = (GlobalWindow(),)
        self.newest: dict[str, int] = {}

    def blocks(self, batch: pa.RecordBatch) -> Iterator[Block]:
        """Yield the elements of a batch, with the timestamp of each if they differ.

        Args:
            batch: the columns of the source, the timestamps in microseconds, and the partitions
                if there are any.

        Raises:
            ValueError: a timestamp is null.
        """
        *columns, times = batch.columns[:-1] if self._partitioned else batch.columns
        if not batch.num_rows:
            return
        if self._time is not None:
            times = pa.repeat(pa.scalar(self._time, pa.int64()), batch.num_rows)
        if times.null_count:
            raise ValueError(f"the timestamp column '{self._spec.timestamp_column}' has a null")
        micros = times.to_numpy()
        least, most = coded_micros(int(micros.min())), coded_micros(int(micros.max()))
        stamps = None if least == most else coded_column(micros)
        if self._partitioned:
            self._note(batch.columns[-1], micros)
        else:
            self._note_one("", most)
        if self._spec.needed is not None:  # The others get placeholders.
            found = dict(zip(self._spec.needed, columns, strict=True))
            wanted = [found.get(name) for name in self._spec.columns]
            columns = self._maker.filled(wanted, batch.num_rows)
        rows = self._maker.column(columns)
        size = column_rows(len(rows), batch.nbytes)
        template = windowed_value.create(None, least, self._windows)
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            some = rows[part]
            values = some if self._spec.in_columns else some.values()
            yield Block(template, values, None if stamps is None else stamps[part])

    def _note(self, partitions: pa.Array, micros: Micros) -> None:
        found = partitions.dictionary_encode(null_encoding="encode")
        newest = np.full(len(found.dictionary), np.iinfo(np.int64).min)
        np.maximum.at(newest, found.indices.to_numpy(), micros)
        for partition, most in zip(found.dictionary.to_pylist(), newest.tolist(), strict=True):
            self._note_one(str(partition), coded_micros(most))

    def _note_one(self, partition: str, micros: int) -> None:
        self.newest[partition] = max(micros, self.newest.get(partition, micros))

    def cells(self, blocks: Iterable[Block]) -> Iterator[bytes]:
        """Yield elements as cells of :mod:`~sparkbeam.worker.row_formats.element_rows`."""
        encode = self._encode
        stream = coder_impl.create_OutputStream()
        for block in blocks:
            if block.stamps is None:
                yield self._encode_block(block)
                continue
            for element in block.elements():
                encode(element, stream, True)
            if stream.size() >= CELL_BYTES:
                yield PLAIN_CELL + stream.get()
                clear(stream)
        if stream.size():
            yield PLAIN_CELL + stream.get()


@dataclass(frozen=True)
class RowSource:
    """A source in batch.

    Attributes:
        files: those that tasks read themselves; None if Spark hands them the rows.
    """

    label: str
    spec: ReadSpec
    files: ParquetFiles | None = None

    def batches(self, given: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Return the columns of its rows in this task.

        Args:
            given: the input from Spark: the rows, or else the number of a share of the files.

        Raises:
            StepFailed: a file cannot be read.
        """
        files = self.files
        if files is None:
            return given
        read = (batch for share in task_numbers(given) for batch in batches_of(files, share))
        return self._named(read, "its files cannot be read")

    def blocks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
        """Yield the elements of its rows.

        Raises:
            StepFailed: there are none of them.
        """
        reader = RowReader(self.spec)
        for batch in batches:
            yield from self._named(reader.blocks(batch), "its rows cannot be read")

    def _named(self, items: Iterator[_Item], reason: str) -> Iterator[_Item]:
        """Yield some items; a failure has the label and a reason."""
        try:
            yield from items
        except Exception as error:
            raise StepFailed(self.label, reason) from error


@dataclass(frozen=True)
class SparkRowCells:
    """The function for ``mapInArrow`` over a source in batch: its elements as cells."""

    source: RowSource
    tag: int
    reports: FailureReports

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        full: list[pa.RecordBatch] = []
        rows = RowBuffer(full.append)
        try:
            blocks = self.source.blocks(self.source.batches(batches))
            cells = RowReader(self.source.spec).cells(blocks)
            for number, cell in enumerate(cells):
                rows.append(self.tag, None, number, cell)
                yield from full
                full.clear()
        except Exception as error:
            raise self.reports.report(error, self.source.label) from None
        rows.flush()
        yield from full
