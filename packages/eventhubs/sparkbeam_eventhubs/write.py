"""Elements of a PCollection as events of an event hub."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import PCollection, PDone

from pyspark_eventhubs.event_writer import (
    BATCH_BYTES,
    LEAST_BATCH_BYTES,
    MOST_BATCH_BYTES,
    HubWriter,
    Sending,
    check_properties,
)
from pyspark_eventhubs.events import EventHubsError
from sparkbeam.common import arguments
from sparkbeam.common.sink_ids import TakesSinkId
from sparkbeam.connectors import resolve
from sparkbeam.errors import ConfigurationError
from sparkbeam.io.write import to_writer
from sparkbeam_eventhubs import kafka_options
from sparkbeam_eventhubs.connection import connection_of
from sparkbeam_eventhubs.kafka_endpoint import AMQP, ENDPOINTS, KAFKA, WriteOverKafka, refuse

_LONGEST = 1e6
_AMQP_ONLY = ("max_batch_bytes", "operation_timeout")


class WriteToEventHubs(beam.PTransform[PCollection[Any], PDone]):
    """Sends elements to an event hub, from the tasks, in batches.

    Events are sent at least once: a repeated task sends its events again. Each event has the
    property ``sparkbeam-sent``, by which ``ReadFromEventHubs(drop_repeats=True)`` finds the
    repeats.

    Args:
        connection_string: of the hub or its namespace, ``env:NAME`` for an environment variable, or
            a function that returns it; resolved in each process that connects.
        event_hub: its name, if the connection string does not contain it.
        fully_qualified_namespace: instead of the connection string, with a ``credential``.
        credential: a picklable one of ``azure-identity``, or a function that returns one.
        body: a function that returns the body of an element, bytes or a string. None for elements
            that are bytes or strings themselves.
        properties: the properties of all events, or a function that returns those of an element.
        partition_key: of all events, or a function that returns that of an element: events of one
            key are in one partition, in order.
        partition_id: the number of the partition of all events, or a function that returns that of
            an element, None for any. Without a key and an id, batches rotate through the
            partitions.
        max_batch_bytes: the maximum size of a batch; None for 1 MiB, the most that a hub accepts.
            If it accepts less, as in the basic tier, a batch is split.
        operation_timeout: seconds of retries of a batch before the pipeline fails.
        client: has no meaning any more, as there is one client; ``sdk`` or ``slim``.
        endpoint: ``amqp``, or ``kafka`` for Spark's Kafka sink, which supports fewer arguments.

    Raises:
        ConfigurationError: when it is created or applied: an argument is wrong or missing, or the
            pipeline has another runner.
        PipelineFailed: from the run, with the label of this transform: events cannot be sent.
    """

    def __init__(
        self,
        connection_string: str | Callable[[], str] | None = None,
        event_hub: str | None = None,
        *,
        fully_qualified_namespace: str | None = None,
        credential: Any = None,
        body: Callable[[Any], Any] | None = None,
        properties: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] | None = None,
        partition_key: str | Callable[[Any], str | None] | None = None,
        partition_id: int | Callable[[Any], int | None] | None = None,
        max_batch_bytes: int | None = None,
        operation_timeout: float = 300,
        client: str | None = None,
        endpoint: str = AMQP,
    ) -> None:
        super().__init__()
        connection = connection_of(
            connection_string, event_hub, fully_qualified_namespace, credential, client
        )
        if partition_key is not None and partition_id is not None:
            raise ConfigurationError("Give partition_key= or partition_id=, not both.")
        if body is not None:
            arguments.function("body", body, "use one that returns bytes or a string")
        self._options = tuple(sorted(connection.options().items()))
        self._sending = Sending(
            connection,
            body,
            _of_elements("properties", properties, _properties),
            _of_elements("partition_key", partition_key, partial(arguments.text, remedy=_KEY)),
            _of_elements("partition_id", partition_id, _PARTITION),
            BATCH_BYTES if max_batch_bytes is None else _BYTES("max_batch_bytes", max_batch_bytes),
            arguments.duration("operation_timeout", operation_timeout, "seconds", most=_LONGEST),
        )

        self._over_kafka: WriteOverKafka | None = None
        if arguments.one_of("endpoint", endpoint, ENDPOINTS) == KAFKA:
            refuse(WriteToEventHubs, locals(), _AMQP_ONLY)
            options = partial(kafka_options.writing, connection)
            self._over_kafka = WriteOverKafka(options, self._sending)

    def expand(self, elements: PCollection[Any]) -> PDone:
        resolve.require_spark(elements.pipeline, "WriteToEventHubs")
        if self._over_kafka is not None:
            return elements | self._over_kafka
        return to_writer(elements, EventWriter(self._sending), self._options)


class EventWriter(HubWriter, TakesSinkId):
    """Sender whose events are recognized if a task repeats."""

    def with_sink_id(self, sink_id: str) -> "EventWriter":
        return EventWriter(self._sending, sink_id)


_KEY = "use a string, or a function that returns one for an element"
_PARTITION = partial(arguments.whole_number, least=0, most=2**31)
_BYTES = partial(arguments.whole_number, least=LEAST_BATCH_BYTES, most=MOST_BATCH_BYTES)


def _of_elements(
    name: str, given: Any, check: Callable[[str, Any], Any]
) -> Callable[[Any], Any] | None:
    """Return an argument as a function of elements; None for none.

    Args:
        check: returns a value of all elements, or raises an error.
    """
    if given is None or callable(given):
        return given
    return partial(_constant, check(name, given))


def _constant(value: Any, element: Any) -> Any:
    return value


def _properties(name: str, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"{name}={arguments.shown(given)} must be a dictionary: use "
            "{'kind': 'click'}, or a function that returns one for an element."
        )
    try:
        check_properties(given)
    except EventHubsError as error:
        raise ConfigurationError(str(error)) from None
    return dict(given)
