"""Offsets of Kafka at the ends of micro-batches, beside what the partitions have.

Offsets only grow, unless a topic is created again. With ``isolation.level=read_committed`` a
partition ends, for a reader, before its first open transaction. It is idle only if its last record,
committed or not, has been passed, as for Beam's ``KafkaIO``: the records of the transaction are as
old as the time at which they were sent.
"""

from collections.abc import Mapping

from sparkbeam.connectors.kafka_starts import check_ends
from sparkbeam.kafka.client import Client, KafkaError, Partition
from sparkbeam.plan.model import Plan
from sparkbeam.plan.spark_io import PARTITION_SEPARATOR, ReadSpec
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.kafka_topics import by_partition, shrunk
from sparkbeam.streaming.source_watermarks import spark_sources


class KafkaOffsets:
    """Offsets of the sources of a query that read Kafka.

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
            if spec.format.lower() == "kafka"
        ]
        self._feedback = feedback
        self._ends: tuple[int, dict[str, dict[Partition, int]]] = (0, {})
        self._clients: dict[str, Client] = {}

    def read(self, number: int) -> None:
        """Read the offsets at the end of a tick's micro-batch.

        Raises:
            PipelineFailed: a partition ends before the offset at which the micro-batch begins.
        """
        if not self._sources:
            return
        last, before = self._ends
        if last != number - 1:
            before = self._read(number - 1)
        now = self._read(number)
        self._ends = number, now
        for _, tag, label, _ in self._sources:
            for partition, offset in before.get(tag, {}).items():
                if now[tag].get(partition, offset) < offset:
                    raise shrunk(label, partition, offset, now[tag][partition])

    def _read(self, number: int) -> dict[str, dict[Partition, int]]:
        return {
            tag: by_partition(self._feedback.partition_offsets(number, source))
            for source, tag, _, _ in self._sources
        }

    def pending(self, seen: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[str, ...]]:
        """Return the partitions with records behind the end of the micro-batch.

        All partitions without records in it count as such while Kafka does not answer.

        Args:
            seen: the partitions with records in the micro-batch, by the tag of the source.

        Raises:
            ConfigurationError: the package is missing, or the configuration has no counterpart.
        """
        found = {}
        for _, tag, label, spec in self._sources:
            if not spec.hides_records:
                continue
            names = {partition: _name(partition) for partition in self._ends[1].get(tag, {})}
            silent = {
                partition: offset
                for partition, offset in self._ends[1].get(tag, {}).items()
                if names[partition] not in seen.get(tag, {})
            }
            if not silent:
                continue
            try:
                ends: Mapping[Partition, int] = self._client(tag, label, spec).ends(silent)
            except KafkaError:
                ends = {}
            found[tag] = tuple(
                names[partition]
                for partition, offset in silent.items()
                if ends.get(partition, offset + 1) > offset
            )
        return found

    def _client(self, tag: str, label: str, spec: ReadSpec) -> Client:
        if tag not in self._clients:
            check_ends(spec, label)
            settings = spec.kafka_settings | {"isolation.level": "read_uncommitted"}
            self._clients[tag] = Client(settings)
        return self._clients[tag]


def _name(partition: Partition) -> str:
    topic, number = partition
    return f"{topic}{PARTITION_SEPARATOR}{number}"
