"""Records of a micro-batch in one transaction of Kafka, together with the micro-batch's number.

Spark repeats a micro-batch that it has not committed. Its number is committed in the transaction,
as an offset of a consumer group; a repeated micro-batch finds it and sends nothing. Of two tasks
that send with one ``transactional.id``, Kafka refuses the one that has begun first.
"""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from sparkbeam.kafka.client import KafkaError, confluent_kafka
from sparkbeam.kafka.client_config import GROUP, Use, client_config

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

_SECONDS = 60.0
_PAUSE = 0.2
_LOG = logging.getLogger(__name__)

T = TypeVar("T")


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


class TransactionWriter:
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
        self._run = ""
        self._epoch = 0
        self._producer: Any = None
        self._consumer: Any = None
        self._failed: Any = None

    def of_run(self, run: str) -> None:
        """Set the identity of the run or the checkpoint; called before :meth:`open`."""
        self._run = run

    def open(self, partition_id: int, epoch_id: int) -> bool:
        """Begin a transaction.

        Returns:
            Whether the micro-batch is not written yet.

        Raises:
            KafkaError: Kafka does not answer, or refuses.
        """
        kafka = confluent_kafka()
        self._epoch = epoch_id
        quiet = {"log_level": 2}
        settings = {**producer_config(self._config), **quiet}
        self._producer = kafka.Producer(settings, logger=_LOG)
        # This ends what an earlier task has begun, so that the offset below is the last one.
        self._asked(lambda: self._producer.init_transactions(_SECONDS))
        group = f"{self._config[TRANSACTIONAL_ID]}.{self._run}"
        reading = {**client_config(self._config, _PRODUCER), **quiet, GROUP: group}
        reading |= {"isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = kafka.Consumer(reading, logger=_LOG)
        (place,) = self._asked(lambda: self._consumer.committed([self._place()], _SECONDS))
        if place.offset > epoch_id:
            self._leave()
            return False
        self._asked(self._producer.begin_transaction)
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
                self._producer.abort_transaction(_SECONDS)
        finally:
            self._leave()

    def _commit(self) -> None:
        group = self._consumer.consumer_group_metadata()
        written = [self._place(self._epoch + 1)]
        self._asked(lambda: self._producer.flush(_SECONDS))
        self._check()
        self._asked(lambda: self._producer.send_offsets_to_transaction(written, group, _SECONDS))
        self._asked(lambda: self._producer.commit_transaction(_SECONDS))

    def _leave(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._producer = self._consumer = None

    def _place(self, *offset: int) -> Any:
        return confluent_kafka().TopicPartition(self._topic, 0, *offset)

    def _delivered(self, error: Any, message: Any) -> None:
        self._failed = self._failed or error

    def _check(self) -> None:
        if self._failed is not None:
            raise KafkaError(self._failed.str())

    def _asked(self, ask: Callable[[], T]) -> T:
        """Return an answer; ask again for a while if Kafka is not ready for it."""
        kafka = confluent_kafka()
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                return ask()
            except kafka.KafkaException as error:
                told = error.args[0]
                if not told.retriable() or time.monotonic() > deadline:
                    raise KafkaError(told.str()) from None
            time.sleep(_PAUSE)
