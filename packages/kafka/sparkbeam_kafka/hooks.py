"""Hooks of Spark's source of Kafka: offsets at the start, after commits, of a checkpoint.

Spark goes on at the offsets of a checkpoint. In a topic that was deleted and created again they
mean other records, and those before them would be skipped. Offsets only grow otherwise.

With ``isolation.level=read_committed`` a partition ends, for a reader, before its first open
transaction. It is idle only if its last record, committed or not, has been passed, as for Beam's
``KafkaIO``.
"""

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.hooks import SourceClient, SourceHooks
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.spark_io import PARTITION_SEPARATOR
from sparkbeam.spark.kafka_errors import CHECK_KAFKA
from sparkbeam_kafka.client import Client, KafkaError, Partition, confluent_kafka
from sparkbeam_kafka.client_config import Use, client_config
from sparkbeam_kafka.subscription import Subscription

_LOG = logging.getLogger(__name__)
_KAFKA = "kafka."
"""Prefix of the options of Spark's source that are settings of Kafka's client."""

_STARTS = "startingOffsets"
_ISOLATION, _COMMITTED = "isolation.level", "read_committed"
_ANEW = "Use another --checkpoint_location to read the topic as a new pipeline does."
_USE = Use(
    "isolation.level=read_committed",
    "the client that asks Kafka whether a partition has an open transaction",
    "leave out isolation.level or the record timestamps (timestamp_policy, timestamp_column)",
)


@dataclass(frozen=True)
class KafkaHooks(SourceHooks):
    """Hooks of a read of topics.

    Attributes:
        subscription: of the topics, if Kafka is asked for the offsets to start at, or gets those
            that are read.
    """

    options: tuple[tuple[str, str], ...] = field(repr=False)
    subscription: Subscription | None = None
    partition_columns: ClassVar[tuple[str, ...]] = ("topic", "partition")
    checks_offsets: ClassVar[bool] = True

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> "KafkaHooks":
        """Return the hooks of a read without a subscription."""
        return cls((*options.items(),))

    @property
    def hides_rows(self) -> bool:
        return self._settings.get(_ISOLATION) == _COMMITTED

    @property
    def commits_to(self) -> str | None:
        given = self.subscription
        return f"group '{given.group}'" if given is not None and given.commits else None

    @property
    def _settings(self) -> dict[str, str]:
        """The settings of Kafka's client among the options."""
        found = ((name.lower(), value) for name, value in self.options)
        return {name[len(_KAFKA) :]: value for name, value in found if name.startswith(_KAFKA)}

    def check(self, *, asks_hidden: bool) -> None:
        if asks_hidden or self.commits_to is not None:
            confluent_kafka()
        if asks_hidden:
            client_config(self._settings, _USE)

    def starting_options(self) -> Mapping[str, str]:
        if self.subscription is None or self.subscription.start_time is not None:
            return {}
        hide = Redaction(self.options)
        try:
            with self.subscription.client() as client:
                starts = self.subscription.starts(client)
        except ConfigurationError as error:
            raise ConfigurationError(hide(str(error))) from None
        except KafkaError as error:
            raise PipelineFailed(
                f"Kafka did not return the starting offsets: {hide(str(error))} {CHECK_KAFKA}"
            ) from None
        topics: dict[str, dict[str, int]] = defaultdict(dict)
        for (topic, number), offset in starts.items():
            topics[topic][str(number)] = offset
        return {_STARTS: json.dumps(topics)}

    def check_checkpoint(
        self, label: str, offsets: Mapping[str, int], notes: bytes | None
    ) -> bytes | None:
        """Compare the topics with the checkpoint that a query continues.

        Nothing is compared without the package of the client or a counterpart of the configuration,
        or if Kafka does not answer within some seconds.

        Raises:
            PipelineFailed: a topic was created again, or records that were not read yet are gone.
        """
        at = _by_partition(offsets)
        topics = {topic for topic, _ in at} or {
            *filter(None, dict(self.options).get("subscribe", "").split(","))
        }
        try:
            with Client(self._settings) as client:
                ids = client.topic_ids(topics)
                bounds = {partition: client.bounds(partition) for partition in at}
        except (ConfigurationError, KafkaError) as error:
            _LOG.debug("%s", Redaction(self.options)(str(error)))
            return None
        before = loaded(notes or b"{}")
        for topic in sorted(topics & before.keys()):
            if before[topic] != ids.get(topic):
                raise PipelineFailed(
                    f"topic '{topic}' was deleted and recreated after the checkpoint was "
                    f"written. The checkpoint continues at offset {at.get((topic, 0), 0)} of "
                    f"partition 0, so the records before it would be skipped. {_ANEW}"
                )
        for partition, offset in sorted(at.items()):
            self._check_bounds(label, partition, offset, bounds[partition])
        return json.dumps(ids).encode()

    def _check_bounds(
        self, label: str, partition: Partition, offset: int, bounds: tuple[int, int]
    ) -> None:
        first, end = bounds
        if end < offset:
            raise _shrunk(partition, offset, end)
        if offset >= first:
            return
        topic, number = partition
        gone = (
            f"the records of partition {number} of topic '{topic}' from offset {offset}, where "
            f"the checkpoint continues, to {first - 1} have expired"
        )
        if dict(self.options).get("failOnDataLoss", "true").lower() == "false":
            _LOG.warning("Step '%s': %s. Reading continues at offset %d.", label, gone, first)
            return
        remedy = "auto.offset.reset=earliest in consumer_config (in ReadFromSpark, failOnDataLoss="
        raise PipelineFailed(
            f"{gone}. Set {remedy}false) to continue at offset {first}, or use another "
            "--checkpoint_location. A longer retention.ms of the topic keeps records longer."
        )

    def check_offsets(self, before: Mapping[str, int], now: Mapping[str, int]) -> None:
        for name, offset in before.items():
            if now.get(name, offset) < offset:
                raise _shrunk(_partition(name), offset, now[name])

    def connect(self) -> SourceClient:
        return _Connection(self._settings, self.subscription)


class _Connection(SourceClient):
    """Clients of a query, connected when they are needed."""

    def __init__(self, settings: Mapping[str, str], subscription: Subscription | None) -> None:
        self._settings = settings
        self._subscription = subscription
        self._clients: dict[str, Client] = {}

    def hidden(self, offsets: Mapping[str, int]) -> Collection[str]:
        ends = self._ends(offsets, {**self._settings, _ISOLATION: "read_uncommitted"})
        return [name for name, offset in offsets.items() if ends.get(name, offset + 1) > offset]

    def ends(self, offsets: Mapping[str, int]) -> Mapping[str, int] | None:
        return self._ends(offsets, self._settings) if offsets else None

    def _ends(self, offsets: Mapping[str, int], settings: Mapping[str, str]) -> dict[str, int]:
        def connect() -> Client:
            client_config(settings, _USE)
            return Client(settings)

        ends = self._client(settings.get(_ISOLATION, ""), connect).ends(_by_partition(offsets))
        return {name: ends[_partition(name)] for name in offsets if _partition(name) in ends}

    def commit(self, offsets: Mapping[str, int]) -> None:
        assert self._subscription is not None
        self._client("commits", self._subscription.client).commit(_by_partition(offsets))

    def _client(self, use: str, connect: Callable[[], Client]) -> Client:
        if use not in self._clients:
            self._clients[use] = connect()
        return self._clients[use]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()


def _by_partition(offsets: Mapping[str, int]) -> dict[Partition, int]:
    return {_partition(name): offset for name, offset in offsets.items()}


def _partition(name: str) -> Partition:
    """Return the topic and the number of a partition."""
    topic, _, number = name.rpartition(PARTITION_SEPARATOR)
    return topic, int(number)


def _shrunk(partition: Partition, before: int, now: int) -> PipelineFailed:
    """Return the error for a partition whose end is before an offset of the checkpoint."""
    topic, number = partition
    return PipelineFailed(
        f"partition {number} of topic '{topic}' ends at offset {now}, before offset {before} of "
        "the checkpoint: the topic was deleted and recreated, or has lost records, and its current "
        f"records would be skipped. {_ANEW}"
    )
