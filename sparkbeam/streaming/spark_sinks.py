"""Sinks of a streaming query: each micro-batch is committed to one after the other."""

from functools import cached_property
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
        sinks: of the plan.
        files: the driver's own under the query's checkpoint.
        reports: failures of the run.
    """

    def __init__(
        self, sinks: tuple[SparkSink, ...], files: OwnFiles, reports: FailureReports
    ) -> None:
        self._deliveries = [Delivery(sink, unpack, reports) for sink in sinks]
        self._files = files
        self._committers: dict[str, Committer] = {}

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
            committer = self._committer(delivery, batch.sparkSession)
            if present.isdisjoint(delivery.tags) and not delivery.spec.empty_batches:
                continue
            order = _POSITION if is_collected(delivery.spec) or delivery.spec.key else ()
            rows = batch.where(f"tag IN ({', '.join(map(str, delivery.tags))})")
            values = rows.select(*order, "value")
            self._files.check()
            committer.commit(values, batch_id)

    def _committer(self, delivery: Delivery, session: Any) -> Committer:
        """Return the committer of a sink; it resumes before the first micro-batch."""
        found = self._committers.get(delivery.name)
        if found is None:
            found = committer_for(delivery, session, self._files, self._id)
            found.resume()
            self._committers[delivery.name] = found
        return found
