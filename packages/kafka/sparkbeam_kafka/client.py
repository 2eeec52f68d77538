"""Client of Kafka over ``confluent-kafka``."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from sparkbeam.errors import ConfigurationError
from sparkbeam_kafka.client_config import GROUP, client_config

Partition = tuple[str, int]
"""Name of a topic and number of a partition."""

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
SECONDS = 60.0
"""Time in which Kafka has to answer."""

SHORT_SECONDS = 3.0
"""Time after which a client is asked for the errors of its connections."""

_NO_GROUP = "sparkbeam"
_END = "_PARTITION_EOF"
_LATEST = -1  # Kafka's timestamp of the end of a partition.
_MOVING = {
    "COORDINATOR_LOAD_IN_PROGRESS",
    "COORDINATOR_NOT_AVAILABLE",
    "LEADER_NOT_AVAILABLE",
    "NOT_COORDINATOR",
    "NOT_LEADER_FOR_PARTITION",
}
_SILENT = {"_TRANSPORT", "_TIMED_OUT"}
_REFUSALS = {"_AUTHENTICATION", "_SSL"}
_PAUSE_SECONDS = 0.1


class KafkaError(Exception):
    """Kafka does not answer, or refuses."""


class Client:
    """Consumer that joins no group, but reads and commits the offsets of one.

    Raises:
        ConfigurationError: the package is missing, or the configuration has no counterpart.
    """

    def __init__(self, config: Mapping[str, str]) -> None:
        self._kafka = confluent_kafka()
        settings = {GROUP: _NO_GROUP, **client_config(config)}
        # Its lines about lost connections would fill logs; errors are raised.
        own: dict[str, Any] = {
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "log_level": 2,
        }
        self._connection = Connection(lambda: self._consumer.poll(0))
        own["error_cb"] = self._connection.heard
        self._settings = {**client_config(config), "log_level": 2}
        self._consumer = retried(lambda: self._kafka.Consumer({**settings, **own}, logger=_LOG))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def group(self) -> Any:
        """The group, as a producer names it that commits its offsets in a transaction."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        """Return the partitions of topics.

        Raises:
            KafkaError: a topic does not exist.
        """
        return [(topic, number) for topic in topics for number in self._numbers(topic)]

    def _numbers(self, topic: str) -> list[int]:
        found = retried(
            lambda: self._consumer.list_topics(topic, timeout=SHORT_SECONDS), self._connection
        )
        known = found.topics[topic]
        if known.error is not None:
            raise KafkaError(f"Topic '{topic}': {known.error.str()}.")
        return sorted(known.partitions)

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the ids of topics, of which one that is created again has another.

        Raises:
            KafkaError: a topic does not exist, or Kafka does not answer within some seconds.
        """
        admin = self._kafka.admin.AdminClient(self._settings, logger=_LOG)
        wanted = self._kafka.TopicCollection([*topics])

        def ask() -> dict[str, str]:
            found = admin.describe_topics(wanted, request_timeout=SHORT_SECONDS)
            return {topic: str(future.result().topic_id) for topic, future in found.items()}

        return retried(ask, seconds=SHORT_SECONDS)

    def bounds(self, partition: Partition) -> tuple[int, int]:
        """Return the first offset of a partition and the one behind its last record."""
        place = self._place(partition)
        first, end = retried(lambda: self._consumer.get_watermark_offsets(place, timeout=SECONDS))
        return first, end

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the committed offsets of the group; partitions without one are missing."""
        places = [*map(self._place, partitions)]
        found = retried(lambda: self._known(self._consumer.committed(places, timeout=SECONDS)))
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def at_time(self, partitions: Iterable[Partition], millis: int) -> dict[Partition, int]:
        """Return the offset of the first record of at least a timestamp; the end without one."""
        places = [self._place(partition, millis) for partition in partitions]
        found = retried(lambda: self._consumer.offsets_for_times(places, timeout=SECONDS))
        return {
            (each.topic, each.partition): each.offset
            if each.offset >= 0
            else self.bounds((each.topic, each.partition))[1]
            for each in found
        }

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset behind the last record of each partition.

        With ``read_committed`` it is the one of the first open transaction.

        Raises:
            KafkaError: Kafka does not answer within some seconds.
        """
        places = [self._place(partition, _LATEST) for partition in partitions]

        def ask() -> list[Any]:
            return self._known(self._consumer.offsets_for_times(places, timeout=SHORT_SECONDS))

        found = retried(ask, seconds=SHORT_SECONDS)
        return {(each.topic, each.partition): each.offset for each in found}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets for the group.

        Raises:
            KafkaError: not all are committed.
        """
        places = [self._place(partition, offset) for partition, offset in offsets.items()]
        retried(lambda: self._known(self._consumer.commit(offsets=places, asynchronous=False)))

    def records(self, partition: Partition, start: int, end: int) -> Iterator[Any]:
        """Yield the messages of a range of offsets.

        Raises:
            KafkaError: they cannot be read.
        """
        retried(lambda: self._consumer.assign([self._place(partition, start)]))
        offset = start
        while offset < end:
            message = retried(lambda: self._consumer.poll(SECONDS))
            if message is None:
                raise KafkaError(f"Kafka did not answer within {SECONDS:.0f} seconds.")
            error = message.error()
            if error is not None and error.name() != _END:
                topic, number = partition
                raise KafkaError(f"Partition {number} of topic '{topic}': {error.str()}")
            offset = message.offset() + 1 if error is None else end  # Offsets have gaps.
            if error is None and offset <= end:
                yield message

    def _place(self, partition: Partition, *offset: int) -> Any:
        return self._kafka.TopicPartition(*partition, *offset)

    def _known(self, places: list[Any]) -> list[Any]:
        for each in places:
            if each.error is not None:
                raise self._kafka.KafkaException(each.error)
        return places


class Connection:
    """Asynchronous connection errors of a client.

    Args:
        listen: has the client tell what it has to tell.
    """

    def __init__(self, listen: Callable[[], Any]) -> None:
        self._listen = listen
        self._last: Any = None

    def heard(self, error: Any) -> None:
        """Keep an error; the client calls it."""
        if self._last is None or not self._refused:
            self._last = error

    def check(self) -> None:
        """Raise a :class:`KafkaError` if a broker refuses the client, which asks on."""
        self._listen()
        if self._last is not None and self._refused:
            raise KafkaError(self._last.str())

    def error_with_cause(self, error: Any) -> KafkaError:
        """Return an error with its cause, if the client has told one."""
        cause = f": {self._last.str()}" if self._last is not None else ""
        return KafkaError(f"{error.str()}{cause}")

    @property
    def _refused(self) -> bool:
        return self._last.name() in _REFUSALS


def retried(
    ask: Callable[[], T], connection: Connection | None = None, seconds: float | None = None
) -> T:
    """Return an answer of Kafka.

    It is asked again while it is not ready, and while a group or a partition moves to another
    broker.

    Args:
        connection: of the client, if it is asked again while no broker answers.
        seconds: the time after which it is not asked again; None for :data:`SECONDS`.

    Raises:
        KafkaError: it does not answer, or refuses.
    """
    end = time.monotonic() + (SECONDS if seconds is None else seconds)
    while True:
        try:
            return ask()
        except confluent_kafka().KafkaException as error:
            told = error.args[0]
            if not isinstance(told, confluent_kafka().KafkaError):
                raise KafkaError(str(told)) from None
            passes = told.name() in _MOVING or told.retriable()
            if connection is not None:
                connection.check()
                passes = passes or told.name() in _SILENT
            if not passes or time.monotonic() > end:
                raise (
                    connection.error_with_cause(told) if connection else KafkaError(told.str())
                ) from None
        time.sleep(_PAUSE_SECONDS)


def confluent_kafka() -> Any:
    """Return the module of the client.

    Raises:
        ConfigurationError: it is not installed.
    """
    try:
        import confluent_kafka
        import confluent_kafka.admin
    except ImportError:
        raise ConfigurationError(
            "Kafka reads with group.id, max_num_records, max_read_time, or timestamps under "
            "isolation.level=read_committed look up offsets with the package confluent-kafka: "
            "pip install 'sparkbeam[kafka]', on the executors too, or leave these settings out."
        ) from None
    return confluent_kafka
