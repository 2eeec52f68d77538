"""Spark's sinks behind a streaming query: each micro-batch once, as far as the sink allows.

A micro-batch that failed, or whose end Spark did not get to note, runs again with its number.
So files of a micro-batch are replaced, a Delta table skips a transaction that it has, and for
all others a note under the checkpoint says what has been written.
"""

import hashlib
from functools import cached_property
from typing import Any

from sparkbeam.io.delivery import Delivery, Place
from sparkbeam.plan.model import Sink
from sparkbeam.streaming.files import Files, checkpoint_id
from sparkbeam.worker.failure import Reports
from sparkbeam.worker.streaming.rows import unpack

_FILES = frozenset(["parquet", "orc", "avro", "json", "csv", "text", "xml"])


class SparkSinks:
    """The sinks of a plan.

    Args:
        sinks: those of the plan.
        files: the files under the query's checkpoint.
        reports: those of the run, of its failures.
    """

    def __init__(self, sinks: tuple[Sink, ...], files: Files, reports: Reports) -> None:
        self._deliveries = [Delivery(sink, unpack, reports) for sink in sinks]
        self._files = files

    def __bool__(self) -> bool:
        return bool(self._deliveries)

    @cached_property
    def _id(self) -> str:
        """What tells the checkpoint from all others."""
        return checkpoint_id(self._files)

    def deliver(self, batch: Any, present: set[int], batch_id: int) -> None:
        """Writes a micro-batch.

        Args:
            batch: the DataFrame of the query's last layer; it is read once for each sink.
            present: the tags of its rows.
            batch_id: its number.

        Raises:
            WorkerFailure: a sink failed; see :mod:`sparkbeam.worker.failure`.
        """
        for delivery in self._deliveries:
            tags = [tag for tag in delivery.tags if tag in present]
            if not tags:
                continue
            values = batch.where(f"tag IN ({', '.join(map(str, tags))})").select("value")
            if delivery.spec.format is None:
                delivery(values, batch_id)
            else:
                self._write(delivery, values, batch_id)

    def _write(self, delivery: Delivery, values: Any, batch_id: int) -> None:
        place = Place(delivery.spec)
        if delivery.spec.format == "delta":
            place.options |= {
                "txnAppId": f"{self._id}/{delivery.name}",
                "txnVersion": str(batch_id),
            }
        elif self._in_folders(place, delivery.spec.format):
            path = place.options["path"].rstrip("/")
            place.options["path"] = f"{path}/batch={self._id}-{batch_id:09d}"
            place.mode = "overwrite"
        else:
            self._write_noted(delivery, values, batch_id)
            return
        delivery(values, batch_id, place)

    @staticmethod
    def _in_folders(place: Place, kind: str | None) -> bool:
        return kind in _FILES and place.mode == "append" and "path" in place.options

    def _write_noted(self, delivery: Delivery, values: Any, batch_id: int) -> None:
        note = f"written/{hashlib.sha256(delivery.name.encode()).hexdigest()[:16]}"
        last = self._files.read(note)
        if last is None or int(last) < batch_id:
            delivery(values, batch_id)
            self._files.write(note, str(batch_id).encode())
