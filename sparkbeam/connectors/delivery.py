"""What reaches a sink of a pipeline on its way into Spark's sink or the user's code."""

import json
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cloudpickle
from pyspark.sql.types import StructType

from sparkbeam.connectors.manifest import has_manifest
from sparkbeam.connectors.problems import problem
from sparkbeam.connectors.schemas import arrow_schema
from sparkbeam.connectors.storage import FILE_FORMATS, from_here
from sparkbeam.plan.model import Sink
from sparkbeam.plan.sparkio import WriteSpec
from sparkbeam.recovery import gave_up
from sparkbeam.wire.failure import Reports
from sparkbeam.wire.rows import Row
from sparkbeam.worker.connectors.packing import CellsAsRows, CellsToWriter

Unpack = Callable[[bytes], list[Row]]
"""Gives the rows of ports that a value of the DataFrame at hand holds."""


class SinkFailed(Exception):
    """A sink failed; the message is that of Spark."""


class Delivery:
    """One sink of a pipeline.

    Args:
        sink: the sink.
        unpack: of the values that it is given.
        reports: those of the run, of its failures.

    Attributes:
        tags: of the ports that feed it.
        spec: what it writes to.
        name: the label of its transform.
    """

    def __init__(self, sink: Sink, unpack: Unpack, reports: Reports) -> None:
        self.tags = sink.inputs
        self.spec = WriteSpec.unpack(sink.payload)
        self.name = sink.label
        self._unpack = unpack
        self._reports = reports
        self._run = uuid.uuid4().hex[:12]
        self._label_hash = zlib.crc32(sink.label.encode())

    def __call__(
        self, values: Any, batch_id: int, place: "Place | None" = None, run: str | None = None
    ) -> None:
        """Delivers a micro-batch.

        Args:
            values: a DataFrame whose only column has the values of the sink's ports.
            batch_id: of the micro-batch.
            place: where a data source writes it; None for where the options say.
            run: what tells the checkpoint of a query from all others; None in batch.

        Raises:
            WorkerFailure: it failed; see :mod:`sparkbeam.wire.failure`.
        """
        with self.reporting():
            if self.spec.writer:
                task = CellsToWriter(
                    self.name,
                    self.spec.writer,
                    batch_id,
                    f"{run or self._run}.{self._label_hash:08x}",
                    self._unpack,
                    self._reports,
                )
                values.mapInArrow(task, "nothing int").collect()
            elif self.spec.function:
                function = cloudpickle.loads(self.spec.function)
                function(self.rows(values), batch_id)
            else:
                self._write(self.rows(values), place or self._place())

    def _place(self) -> "Place":
        """Where the options say.

        Raises:
            SinkFailed: nobody would see what is written there.
        """
        place = Place(self.spec)
        is_of_files = (self.spec.format or "").lower() in FILE_FORMATS and place.mode == "append"
        if is_of_files and place.path and has_manifest(place.path):
            raise SinkFailed(
                "the folder has a _spark_metadata, the log of all files that Spark reads there, "
                "which a stream writes with layout='manifest'. Write to another folder."
            )
        return place

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Makes what fails within a failure of the sink's step, without what is secret.

        Raises:
            WorkerFailure: it failed; see :mod:`sparkbeam.wire.failure`.
        """
        try:
            yield
        except Exception as error:
            raise self._report(error) from None

    def rows(self, values: Any) -> Any:
        """The rows that are delivered, as a DataFrame.

        Args:
            values: see :meth:`__call__`.
        """
        schema = StructType.fromJson(json.loads(self.spec.schema or ""))
        return values.mapInArrow(CellsAsRows(arrow_schema(schema), self._unpack), schema)

    def _write(self, rows: Any, place: "Place") -> None:
        if place.path:
            place.path = from_here(place.path, self.spec.format, rows.sparkSession)
        writer = rows.write.format(self.spec.format).mode(place.mode)
        for name, value in place.options.items():
            writer = writer.option(name, value)
        if self.spec.partition_by:
            writer = writer.partitionBy(*self.spec.partition_by)
        writer.save()

    def _report(self, error: Exception) -> Exception:
        text = str(error)
        if self._reports.find(text) is not None:
            return error  # It says itself in which step it was.
        if gave_up(text):
            return error  # The run starts again.
        if self.spec.function:
            return self._reports.report(error, self.name)
        summary = problem(error, self.spec.format, self.spec.options)
        return self._reports.report(SinkFailed(summary), self.name)


class Place:
    """Where and how a data source writes.

    Args:
        spec: of the sink.

    Attributes:
        mode: Spark's save mode.
        options: of the data source.
    """

    def __init__(self, spec: WriteSpec) -> None:
        self.mode = spec.mode
        self.options = dict(spec.options)

    @property
    def path(self) -> str:
        """The option ``path``, whose case Spark does not mind; empty if there is none."""
        return next((self.options[name] for name in self._paths()), "")

    @path.setter
    def path(self, path: str) -> None:
        for name in self._paths():
            del self.options[name]
        self.options["path"] = path

    def _paths(self) -> list[str]:
        return [name for name in self.options if name.lower() == "path"]
