"""Records of a micro-batch in one transaction of Kafka, together with the micro-batch's number.

Spark repeats a micro-batch that it has not committed. Its number is committed in the transaction,
as an offset of a consumer group; a repeated micro-batch finds it and sends nothing. Of two tasks
that send with one ``transactional.id``, Kafka refuses the one that has begun first.
"""

import copy
import logging
from collections.abc import Mapping
from typing import Any, Self

from sparkbeam.common.sink_ids import TakesSinkId
from sparkbeam_kafka.client import (
    SECONDS,
    SHORT_SECONDS,
    Client,
    Connection,
    KafkaError,
    Partition,
    confluent_kafka,
    retried,
)
from sparkbeam_kafka.client_config import GROUP, Use, client_config

TRANSACTIONAL_ID = "transactional.id"

_PRODUCER = Use(
    "producer_config", "the client that writes in transactions", f"leave out {TRANSACTIONAL_ID}"
)
_SETTINGS = {
    name: name
    for name in (
        *("acks", "batch.size", "compression.type", "delivery.timeout.ms", "enable.idempotence"),
        *("linger.ms", "max.in.flight.requests.per.connection", "request.timeout.ms"),
        *("transaction.timeout.ms", TRANSACTIONAL_ID),
    )
} | {"max.request.size": "message.max.bytes"}
"""Settings of a Java producer with their names in librdkafka."""

_PAUSE = 0.2
_LOG = logging.getLogger(__name__)


def producer_config(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a Java producer for librdkafka.

    Raises:
        ConfigurationError: a setting of the connection has no counterpart.
    """
    found = client_config(config, _PRODUCER)
    del found["isolation.level"]
    # The partition of a key is that of Java's producers.
    found["partitioner"] = "murmur2_random"
    return found | {_SETTINGS[name]: value for name, value in config.items() if name in _SETTINGS}


class TransactionWriter(TakesSinkId):
    """Writer of all records of a micro-batch; like those of :class:`sparkbeam.io.Foreach`.

    Elements are dictionaries with ``key`` and ``value``, and may have ``headers``, ``topic`` and
    ``partition``.

    Args:
        config: of a Java producer, with a ``transactional.id``.
        topic: of records without one; it has the offset that stands for the micro-batch.
    """

    def __init__(self, config: Mapping[str, str], topic: str) -> None:
        self._config = dict(config)
        self._topic = topic
        self._sink_id = ""
        self._epoch = 0
        self._producer: Any = None
        self._client: Client | None = None
        self._failed: Any = None

    def with_sink_id(self, sink_id: str) -> Self:
        writer = copy.copy(self)
        writer._sink_id = sink_id
        return writer

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin a transaction.

        Returns:
            Whether the micro-batch is not written yet.

        Raises:
            KafkaError: Kafka does not answer, or refuses.
        """
        kafka = confluent_kafka()
        self._epoch = epoch_id
        connection = Connection(lambda: self._producer.poll(0))
        own = {"log_level": 2, "error_cb": connection.heard}
        settings = {**producer_config(self._config), **own}
        self._producer = kafka.Producer(settings, logger=_LOG)
        # This ends what an earlier task has begun, so that the offset below is the last one.
        retried(lambda: self._producer.init_transactions(SHORT_SECONDS), connection)
        group = f"{self._config[TRANSACTIONAL_ID]}.{self._sink_id}"
        self._client = Client({**self._config, GROUP: group, "isolation.level": "read_committed"})
        written = self._client.committed([self._place])
        if written.get(self._place, 0) > epoch_id:
            self._leave()
            return False
        retried(self._producer.begin_transaction)
        return True

    def process(self, element: Mapping[str, Any]) -> None:
        """Send a record."""
        more = {}
        if element.get("partition") is not None:
            more["partition"] = element["partition"]
        headers = [(each["key"], each["value"]) for each in element.get("headers") or ()]
        while True:
            try:
                self._producer.produce(
                    element.get("topic") or self._topic,
                    element["value"],
                    element["key"],
                    headers=headers or None,
                    on_delivery=self._delivered,
                    **more,
                )
                break
            except BufferError:
                self._producer.poll(_PAUSE)
            except confluent_kafka().KafkaException as error:
                raise KafkaError(error.args[0].str()) from None
        self._producer.poll(0)
        self._check()

    def close(self, error: Exception | None) -> None:
        """Commit the transaction, or abort it after an error.

        Raises:
            KafkaError: Kafka does not answer, or refuses; nothing is written then.
        """
        if self._producer is None:
            return
        try:
            if error is None:
                self._commit()
            else:
                self._producer.abort_transaction(SECONDS)
        finally:
            self._leave()

    def _commit(self) -> None:
        assert self._client is not None
        group = self._client.group
        written = [confluent_kafka().TopicPartition(*self._place, self._epoch + 1)]
        retried(lambda: self._producer.flush(SECONDS))
        self._check()
        retried(lambda: self._producer.send_offsets_to_transaction(written, group, SECONDS))
        retried(lambda: self._producer.commit_transaction(SECONDS))

    def _leave(self) -> None:
        if self._client is not None:
            self._client.close()
        self._producer = self._client = None

    @property
    def _place(self) -> Partition:
        """The partition whose offset is the number of the next micro-batch."""
        return self._topic, 0

    def _delivered(self, error: Any, message: Any) -> None:
        self._failed = self._failed or error

    def _check(self) -> None:
        if self._failed is not None:
            raise KafkaError(self._failed.str())
