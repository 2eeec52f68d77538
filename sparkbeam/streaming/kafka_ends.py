"""Partitions of Kafka with records that a read does not see yet.

With ``isolation.level=read_committed`` a partition ends, for a reader, before its first open
transaction. It is idle only if its last record, committed or not, has been passed, as for Beam's
``KafkaIO``: the records of the transaction are as old as the time at which they were sent.
"""

from collections.abc import Mapping
from typing import Any

from sparkbeam.connectors.kafka_starts import check_ends
from sparkbeam.kafka.client import Client, KafkaError
from sparkbeam.plan.model import Plan
from sparkbeam.plan.spark_io import PARTITION_SEPARATOR, ReadSpec
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.source_watermarks import spark_sources


class KafkaEnds:
    """Ends of the partitions that sources of a query read.

    Args:
        plan: of the query.
        feedback: gives the offsets of micro-batches.
    """

    def __init__(self, plan: Plan, feedback: FeedbackFiles) -> None:
        specs = [
            (number, source, ReadSpec.unpack(source.payload))
            for number, source in enumerate(spark_sources(plan))
        ]
        self._sources = [
            (number, str(source.outputs[0][1]), source.label, spec)
            for number, source, spec in specs
            if spec.hides_records
        ]
        self._feedback = feedback
        self._clients: dict[str, Client] = {}

    def pending(
        self, number: int, seen: Mapping[str, Mapping[str, int]]
    ) -> dict[str, tuple[str, ...]]:
        """Return the partitions with records behind the end of a tick's micro-batch.

        All partitions without records in it count as such while Kafka does not answer.

        Args:
            number: of the tick.
            seen: the partitions with records in the micro-batch, by the tag of the source.

        Raises:
            ConfigurationError: the package is missing, or the configuration has no counterpart.
        """
        found = {}
        for source, tag, label, spec in self._sources:
            offsets = self._feedback.partition_offsets(number, source)
            silent = {_partition(at): offsets[at] for at in offsets if at not in seen.get(tag, {})}
            if not silent:
                continue
            try:
                ends: Mapping[Any, int] = self._client(tag, label, spec).ends(silent)
            except KafkaError:
                ends = {}
            behind = [at for at, offset in silent.items() if ends.get(at, offset + 1) > offset]
            found[tag] = tuple(f"{topic}{PARTITION_SEPARATOR}{at}" for topic, at in behind)
        return found

    def _client(self, tag: str, label: str, spec: ReadSpec) -> Client:
        if tag not in self._clients:
            check_ends(spec, label)
            settings = spec.kafka_settings | {"isolation.level": "read_uncommitted"}
            self._clients[tag] = Client(settings)
        return self._clients[tag]


def _partition(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition(PARTITION_SEPARATOR)
    return topic, int(number)
