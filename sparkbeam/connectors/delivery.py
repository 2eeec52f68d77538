"""Delivery of a pipeline's output to a Spark sink or the user's code."""

import json
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import cloudpickle
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, LongType, StructType

from sparkbeam.common.sink_ids import TakesSinkId
from sparkbeam.connectors import console
from sparkbeam.connectors.assignments import checked_rows
from sparkbeam.connectors.catalog_tables import CatalogTable, found_table
from sparkbeam.connectors.latest import latest, latest_rows, quoted
from sparkbeam.connectors.manifest import has_manifest
from sparkbeam.connectors.problems import problem
from sparkbeam.connectors.schemas import arrow_schema
from sparkbeam.connectors.source_tables import table_columns
from sparkbeam.connectors.storage import from_here
from sparkbeam.connectors.upserts import into_table, upserts_of
from sparkbeam.connectors.write_targets import WriteTarget
from sparkbeam.plan.model import SparkSink
from sparkbeam.plan.spark_io import UPDATE
from sparkbeam.spark.collect import collected
from sparkbeam.spark.recovery import gave_up
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.rows import Row
from sparkbeam.worker.connectors.sink_cells import (
    POSITION,
    CellsAsRows,
    CellsToWriter,
    cells_with_positions,
    plain_row,
    rows_of,
)

Unpack = Callable[[bytes], list[Row]]
"""Extracts the rows of ports from a value of a DataFrame."""


class SinkFailed(Exception):
    """A sink failed; the message is Spark's."""


class Delivery:
    """Writes of the rows of one sink: once in batch, for each micro-batch in streaming.

    In streaming, a :class:`.Committer` calls it, so that a micro-batch counts once.

    Args:
        checkpoint: the id of the query's checkpoint; None in batch.

    Attributes:
        run: the id of the checkpoint, or in batch one of the run.
    """

    def __init__(
        self,
        sink: SparkSink,
        unpack: Unpack,
        reports: FailureReports,
        checkpoint: str | None = None,
    ) -> None:
        self.spec = sink.write
        self.label = sink.label
        self.name = sink.name
        self._unpack = unpack
        self._reports = reports
        self.run = checkpoint or uuid.uuid4().hex[:12]
        self._is_stream = checkpoint is not None
        self._columns: StructType | None = None
        self._sink_id = f"{self.run}.{zlib.crc32(sink.name.encode()):08x}"

    def __call__(self, values: Any, batch_id: int, target: WriteTarget | None = None) -> None:
        """Write the rows of a run or a micro-batch.

        Args:
            values: a DataFrame whose last column has the values of the sink's ports; the columns
                before it give their order, if the latest row of a key is wanted.
            batch_id: of the micro-batch; 0 in batch.
            target: of a data source; None for the one in the options.

        Raises:
            WorkerFailure: it failed; see :mod:`sparkbeam.wire.failure`.
        """
        with self.reporting():
            if self.spec.writer:
                task = CellsToWriter(
                    self.label,
                    self.spec.writer,
                    batch_id,
                    self._sink_id,
                    self._unpack,
                    self._reports,
                )
                if self.spec.in_one_task:
                    values = values.repartition(1)
                values.mapInArrow(task, "nothing int").collect()
            else:
                self.give(self.rows(values), batch_id, target)

    def give(self, rows: Any, batch_id: int, target: WriteTarget | None = None) -> None:
        """Write rows, sorted if requested.

        Args:
            batch_id: see :meth:`__call__`.
        """
        if self.spec.order_by:
            names, ascending = zip(*self.spec.order_by, strict=True)
            rows = rows.orderBy(*map(quoted, names), ascending=list(ascending))
        if self.spec.function:
            function = cloudpickle.loads(self.spec.function)
            if self._is_stream and isinstance(function, TakesSinkId):
                function = function.with_sink_id(self._sink_id)
            function(rows, batch_id)
        elif self.spec.source == console.FORMAT:
            console.write_table(rows, batch_id, self.label, self.spec.options)
        else:
            self._write(rows, target or WriteTarget(self.spec))

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Convert errors to a failure of the sink's step, without secrets.

        Raises:
            WorkerFailure: it failed; see :mod:`sparkbeam.wire.failure`.
        """
        try:
            yield
        except Exception as error:
            raise self._report(error) from None

    @cached_property
    def schema(self) -> StructType:
        """Schema of the rows."""
        return StructType.fromJson(json.loads(self.spec.schema or ""))

    def rows(self, values: Any) -> Any:
        """Return the rows to deliver, as a DataFrame.

        Args:
            values: see :meth:`__call__`.
        """
        has_key = bool(self.spec.key)
        task = CellsAsRows(arrow_schema(self.schema), self._unpack, with_positions=has_key)
        if not has_key:
            return values.mapInArrow(task, self.schema)
        schema = StructType([*self.schema.fields]).add(POSITION, ArrayType(LongType()))
        return latest_rows(values.mapInArrow(task, schema), self.spec.key, POSITION)

    def table(self, values: Any) -> pa.Table:
        """Collect the rows on the driver, in the order of writing.

        Args:
            values: see :meth:`__call__`; with the columns of the order.
        """
        schema = arrow_schema(self.schema)
        cells = sorted(
            cells_with_positions(collected(values).to_batches(), self._unpack), key=itemgetter(0)
        )
        table = pa.Table.from_batches([rows_of(cell, schema) for _, cell in cells], schema)
        return latest(table, self.spec.key) if self.spec.key else table

    def catalog_table(self, session: Any) -> CatalogTable | None:
        """Return the target table; create it if missing."""
        name = self.spec.table
        found = found_table(session, name)
        if found is not None:
            return found
        ignored = WriteTarget(replace(self.spec, mode="ignore"))
        self._save(session.createDataFrame([], self.schema), ignored)
        return found_table(session, name)

    def _write(self, rows: Any, target: WriteTarget) -> None:
        session, table = rows.sparkSession, target.spec.table
        if table:
            target = target.in_table(found_table(session, table))
        if target.commit is not None:
            has_snapshots = target.found is not None and target.spec.source == "iceberg"
            if has_snapshots and target.commit.is_in(session, table):
                return
            target = target.with_options(**target.commit.options(target.spec.source))
        path = target.spec.option("path")
        if path:
            target = target.with_options(path=from_here(path, target.spec.format, session))
        if not table and self._columns is None:
            self._columns = table_columns(session, target.spec)
        if not table and self._columns is not None:
            place = target.spec.option("dbtable") or target.spec.option("path")
            rows = checked_rows(rows, self._columns, place)
        if self.spec.output_mode == UPDATE:
            self._update(rows, target)
        else:
            self._save(rows, target)

    def _update(self, rows: Any, target: WriteTarget) -> None:
        if not target.spec.table:
            upserts = upserts_of(self.spec.source)
            assert upserts is not None
            assert upserts.write is not None
            upserts.write(rows, target.spec)
            return
        found = target.found or self.catalog_table(rows.sparkSession)
        given = {name.lower() for name in rows.columns}
        fitted = replace(target, found=found).fitted(rows)
        names = [quoted(name) for name in fitted.columns if name.lower() in given]
        into_table(fitted.select(*names), target.spec)

    def _save(self, rows: Any, target: WriteTarget) -> None:
        if target.folder and has_manifest(target.folder):
            raise SinkFailed(
                "the folder has a _spark_metadata, the log of all files that Spark reads there, "
                "which a stream writes with layout='manifest'. Write to another folder or table."
            )
        spec = target.spec
        # A catalog without formats is one of JDBC, for example.
        is_of_catalog = spec.source in ("iceberg", "")
        if target.found is not None and spec.mode == "overwrite" and is_of_catalog:
            # Spark's writer would replace the table, with its partitions and properties.
            replaced = target.found.fitted(rows).writeTo(spec.table).options(**dict(spec.options))
            replaced.overwrite(sf.lit(True))
            return
        writer = target.fitted(rows).write.mode(spec.mode)
        if spec.format is not None:
            writer = writer.format(spec.format)
        for name, value in spec.options:
            writer = writer.option(name, value)
        if spec.partition_by:
            writer = writer.partitionBy(*spec.partition_by)
        writer.saveAsTable(spec.table) if spec.table else writer.save()

    def _report(self, error: Exception) -> Exception:
        text = str(error)
        if self._reports.find(text) is not None or gave_up(text):
            return error  # It already names its step, or the run is restarted.
        if self.spec.function and self.spec.format is None:
            return self._reports.report(error, self.label)
        summary = problem(error, self.spec.format, self.spec.options)
        return self._reports.report(SinkFailed(summary), self.label)


def table_of_cells(values: Any, schema: str) -> Any:
    """Return the rows of cells in batch as a DataFrame.

    Args:
        schema: of the rows, as Spark's JSON.
    """
    kind = StructType.fromJson(json.loads(schema))
    return values.mapInArrow(CellsAsRows(arrow_schema(kind), plain_row), kind)
