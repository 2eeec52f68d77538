"""Topics that a pipeline reads, and the offsets at which it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sparkbeam.errors import ConfigurationError
from sparkbeam_kafka.client import Client, Partition
from sparkbeam_kafka.client_config import GROUP, client_config

EARLIEST, LATEST, NONE = RESETS = ("earliest", "latest", "none")
"""Values of ``auto.offset.reset``."""


@dataclass(frozen=True)
class Subscription:
    """Topics with the configuration of their consumer.

    Attributes:
        reset: the start of a partition without a committed offset.
        start_time: the least timestamp of the first record, in milliseconds; None for a start at
            committed offsets.
        commits: offsets are committed for the consumer group.
    """

    topics: tuple[str, ...]
    config: tuple[tuple[str, str], ...] = field(repr=False)
    reset: str = LATEST
    start_time: int | None = None
    commits: bool = False

    @property
    def group(self) -> str | None:
        """The consumer group; None without one."""
        return dict(self.config).get(GROUP)

    def check(self) -> None:
        """Raise a ConfigurationError if a client has no counterpart of the configuration."""
        client_config(dict(self.config))

    def client(self) -> Client:
        """Connect a client.

        Raises:
            ConfigurationError: the package is missing, or the configuration has no counterpart.
        """
        return Client(dict(self.config))

    def starts(self, client: Client) -> Mapping[Partition, int]:
        """Return the offset of the first record to read from each partition.

        Raises:
            ConfigurationError: a partition has no committed offset, and no other is configured.
            KafkaError: Kafka does not answer.
        """
        partitions = client.partitions(self.topics)
        if self.start_time is not None:
            return client.at_time(partitions, self.start_time)
        committed = client.committed(partitions) if self.group is not None else {}
        return {
            partition: self._start(partition, committed.get(partition), client.bounds(partition))
            for partition in partitions
        }

    def _start(self, partition: Partition, committed: int | None, bounds: tuple[int, int]) -> int:
        first, end = bounds
        if committed is not None and first <= committed <= end:
            return committed
        if self.reset == NONE:
            topic, number = partition
            raise ConfigurationError(
                f"auto.offset.reset=none, but partition {number} of topic '{topic}' has no "
                f"committed offset in group '{self.group}' that still exists: commit one, or set "
                "auto.offset.reset to earliest or latest."
            )
        return first if self.reset == EARLIEST else end
