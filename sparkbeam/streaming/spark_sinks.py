"""Sinks of a streaming query: each micro-batch is committed to one after the other."""

from typing import Any

from sparkbeam.connectors.delivery import Delivery
from sparkbeam.plan.model import SparkSink
from sparkbeam.streaming.checkpoint_files import checkpoint_id
from sparkbeam.streaming.committers import Committer, committer_for, is_collected
from sparkbeam.streaming.generation import OwnFiles
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.messages import unpack

_POSITION = ("round", "tag", "sender")
"""Columns that order messages, together with the numbers of the rows."""


class SparkSinks:
    """Sinks of a plan.

    Args:
        files: the driver's own under the query's checkpoint.
    """

    def __init__(
        self, sinks: tuple[SparkSink, ...], files: OwnFiles, reports: FailureReports
    ) -> None:
        self._sinks = sinks
        self._files = files
        self._reports = reports
        self._committers: dict[str, Committer] = {}

    def __bool__(self) -> bool:
        return bool(self._sinks)

    def deliver(self, batch: Any, present: set[int], batch_id: int) -> None:
        """Write a micro-batch.

        Args:
            batch: the DataFrame of the query's last layer; read once per sink.

        Raises:
            WorkerFailure: a sink failed; see :mod:`sparkbeam.wire.failure`.
            CheckpointTaken: there is a newer driver.
        """
        for sink in self._sinks:
            committer = self._committer(sink, batch.sparkSession)
            if present.isdisjoint(sink.inputs) and not sink.write.empty_batches:
                continue
            order = _POSITION if is_collected(sink.write) or sink.write.key else ()
            rows = batch.where(f"tag IN ({', '.join(map(str, sink.inputs))})")
            values = rows.select(*order, "value")
            self._files.check()
            committer.commit(values, batch_id)

    def _committer(self, sink: SparkSink, session: Any) -> Committer:
        """Return the committer of a sink; it resumes before the first micro-batch."""
        found = self._committers.get(sink.name)
        if found is None:
            delivery = Delivery(sink, unpack, self._reports, checkpoint_id(self._files))
            found = committer_for(delivery, self._files, session)
            found.resume()
            self._committers[sink.name] = found
        return found
