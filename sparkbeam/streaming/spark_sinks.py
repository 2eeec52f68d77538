"""Spark's sinks behind a streaming query: each micro-batch once, as far as the sink allows.

A micro-batch that failed, or that Spark did not commit, is repeated with its number. So files are
moved into their folder by :class:`.file_sink.FileSink`, and a Delta table skips known transactions.
Writers and functions get the number, and recognize a repetition themselves, as those of Kafka's
transactions and of Iceberg do. For all others a note under the checkpoint records the last written
micro-batch. Complete results are stored under the checkpoint as well; see :mod:`.complete_results`.
Before each of these a driver checks for a newer one over its checkpoint.
"""

import hashlib
from functools import cached_property
from typing import Any

from sparkbeam.connectors import console
from sparkbeam.connectors.catalog_tables import CatalogTable
from sparkbeam.connectors.commits import Commit
from sparkbeam.connectors.delivery import Delivery, WriteTarget
from sparkbeam.plan.model import SparkSink
from sparkbeam.plan.spark_io import WriteSpec
from sparkbeam.streaming.checkpoint_files import checkpoint_id, damaged
from sparkbeam.streaming.complete_results import CompleteResults
from sparkbeam.streaming.file_sink import FileSink
from sparkbeam.streaming.generation import OwnFiles
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.messages import unpack

_NOTES = "written"
_PLACE = ("round", "tag", "sender")
"""Columns that order messages, together with the numbers of the rows."""


class SparkSinks:
    """Sinks of a plan.

    Args:
        sinks: of the plan.
        files: the driver's own under the query's checkpoint.
        reports: failures of the run.
    """

    def __init__(
        self, sinks: tuple[SparkSink, ...], files: OwnFiles, reports: FailureReports
    ) -> None:
        self._deliveries = [Delivery(sink, unpack, reports) for sink in sinks]
        self._files = files
        self._results = CompleteResults(files)
        self._file_sinks: dict[str, FileSink] = {}
        self._written: dict[str, int] = {}
        self._tables: dict[str, CatalogTable | None] = {}

    def __bool__(self) -> bool:
        return bool(self._deliveries)

    @cached_property
    def _id(self) -> str:
        """Id of the checkpoint."""
        return checkpoint_id(self._files)

    def deliver(self, batch: Any, present: set[int], batch_id: int) -> None:
        """Write a micro-batch.

        Args:
            batch: the DataFrame of the query's last layer; read once per sink.
            present: the tags of its rows.
            batch_id: its number.

        Raises:
            WorkerFailure: a sink failed; see :mod:`sparkbeam.wire.failure`.
            CheckpointTaken: there is a newer driver.
        """
        for delivery in self._deliveries:
            place = self._place(delivery, batch.sparkSession)
            if place.folder:
                self._resume(delivery, place)
            if present.isdisjoint(delivery.tags) and not delivery.spec.empty_batches:
                continue
            order = _PLACE if _is_local(delivery.spec) or delivery.spec.key else ()
            rows = batch.where(f"tag IN ({', '.join(map(str, delivery.tags))})")
            values = rows.select(*order, "value")
            self._files.check()
            if delivery.spec.writer or delivery.spec.function:
                delivery(values, batch_id, checkpoint=self._id)
            else:
                self._write(delivery, values, batch_id, place)

    def _place(self, delivery: Delivery, session: Any) -> WriteTarget:
        """Return the target of a sink; create a missing table in append mode."""
        place = WriteTarget(delivery.spec)
        if place.table and place.mode == "append":
            with delivery.reporting():
                if delivery.name not in self._tables:
                    self._tables[delivery.name] = delivery.catalog_table(session)
                place.keep_to(self._tables[delivery.name])
        return place

    def _write(self, delivery: Delivery, values: Any, batch_id: int, place: WriteTarget) -> None:
        place.commit = Commit(f"{self._id}/{delivery.name}", batch_id)
        if place.folder:
            self._write_files(delivery, values, batch_id, place)
        elif place.source == "delta" and not delivery.spec.is_complete:
            delivery(values, batch_id, place)
        else:
            self._write_noted(delivery, values, batch_id, place)

    def _resume(self, delivery: Delivery, place: WriteTarget) -> None:
        """Complete the unfinished work of an earlier run."""
        if delivery.name in self._file_sinks:
            return
        writer = f"{self._id}-{_short_hash(delivery.name, 8)}"
        with delivery.reporting():
            sink = FileSink(
                place.folder,
                writer,
                generation=self._files.number,
                check=self._files.check,
                has_manifest=delivery.spec.has_manifest,
            )
            sink.resume()
        self._file_sinks[delivery.name] = sink

    def _write_files(
        self, delivery: Delivery, values: Any, batch_id: int, place: WriteTarget
    ) -> None:
        def write(folder: str) -> None:
            aside = place.aside(folder)
            # This file shows whether Python sees the files that Spark has written.
            aside.options["mapreduce.fileoutputcommitter.marksuccessfuljobs"] = "true"
            delivery(values, batch_id, aside)

        with delivery.reporting():
            self._file_sinks[delivery.name].deliver(batch_id, write)
            if place.found is not None:
                place.found.added(values.sparkSession)

    def _write_noted(
        self, delivery: Delivery, values: Any, batch_id: int, place: WriteTarget
    ) -> None:
        name = _short_hash(delivery.name, 16)
        if name not in self._written:
            self._written[name] = self._noted(name, delivery.label, batch_id)
        if self._written[name] < batch_id:
            if _is_local(delivery.spec):
                self._give(delivery, values, batch_id, place, begun=self._written[name] >= 0)
            else:
                delivery(values, batch_id, place)
            self._files.write(f"{_NOTES}/{name}.{self._files.number}", str(batch_id).encode())
            self._written[name] = batch_id

    def _give(
        self, delivery: Delivery, values: Any, batch_id: int, place: WriteTarget, *, begun: bool
    ) -> None:
        """Deliver rows that were collected on the driver."""
        with delivery.reporting():
            table = delivery.table(values)
        if delivery.spec.is_complete:
            key = delivery.spec.key
            table = self._results.joined(delivery.name, key, table, batch_id, begun=begun)
        with delivery.reporting():
            # Each chunk would be a partition.
            rows = values.sparkSession.createDataFrame(table.combine_chunks(), delivery.schema)
            delivery.give(rows, batch_id, place)

    def _noted(self, name: str, label: str, batch_id: int) -> int:
        """Return the last micro-batch that a sink has written in any generation; -1 for none.

        Each generation has its own file, so that an older one cannot set the number back.
        """
        found: dict[str, int] = {}
        for file in self._files.names(_NOTES):
            of_sink = file.partition(".")[0] == name
            content = self._files.read(f"{_NOTES}/{file}") if of_sink else None
            if content is None:
                continue
            if not content.isdigit():
                raise damaged(
                    self._files.path(f"{_NOTES}/{file}"),
                    f"It holds the number of the last micro-batch that '{label}' has written. "
                    f"If that is {batch_id}, write this number into the file; otherwise remove it.",
                )
            found[file] = int(content)
        last = max(found.values(), default=-1)
        for file in (file for file, noted in found.items() if noted < last):
            self._files.remove(f"{_NOTES}/{file}")
        return last


def _is_local(spec: WriteSpec) -> bool:
    """Return whether rows are collected on the driver and delivered from there."""
    return spec.is_complete or spec.source == console.FORMAT


def _short_hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
