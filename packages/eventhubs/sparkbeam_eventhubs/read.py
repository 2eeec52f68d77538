"""Events of an event hub as a PCollection."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from operator import index
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.pvalue import PBegin, PCollection

from pyspark_eventhubs.event_rows import EVENT_TIME, schema
from pyspark_eventhubs.placement import BALANCED, PLACEMENTS
from pyspark_eventhubs.positions import EventPosition, all_as_text
from pyspark_eventhubs.slow_partitions import SlowPartitions
from pyspark_eventhubs.source_options import DEFAULT_GROUP, PICKLED_MONITOR
from sparkbeam.common import arguments
from sparkbeam.errors import ConfigurationError
from sparkbeam.hooks import SourceHooks
from sparkbeam.io.read import ReadFromSpark
from sparkbeam_eventhubs import kafka_options
from sparkbeam_eventhubs.connection import connection_of, packed
from sparkbeam_eventhubs.hooks import HubHooks
from sparkbeam_eventhubs.hub_event import EventHubsEvent
from sparkbeam_eventhubs.kafka_endpoint import AMQP, ENDPOINTS, KAFKA, ReadOverKafka, refuse
from sparkbeam_eventhubs.repeats import DropRepeats

_MOST = 2**31 - 1
_LONGEST = 1e6
_KAFKA_IDLE = 60
_AMQP_ONLY = (
    "starting_positions",
    "ending_positions",
    "max_rate_per_partition",
    "slow_partitions",
    "receiver_timeout",
    "operation_timeout",
    "placement",
    "prefetch",
    "exclusive",
    "discover_partitions",
    "timestamp",
    "drop_repeats",
)
_Options = dict[str, str | None]
_Read = beam.PTransform[PBegin, PCollection[EventHubsEvent]]


class ReadFromEventHubs(beam.PTransform[PBegin, PCollection[EventHubsEvent]]):
    """Reads an event hub; a pipeline without ``--streaming`` reads a range of it.

    Each partition has a watermark: the latest timestamp of its events so far minus
    ``watermark_delay``. The watermark of the hub is their minimum.

    Args:
        connection_string: of the hub or its namespace, ``env:NAME`` for an environment variable, or
            a function that returns it; resolved in each process that connects.
        event_hub: its name, if the connection string does not contain it.
        fully_qualified_namespace: instead of the connection string, with a ``credential``.
        credential: a picklable one of ``azure-identity``, or a function that returns one.
        consumer_group: of the reader. Each streaming pipeline needs its own.
        starting_position: of all partitions; None for the end in streaming, for the start in batch.
            A checkpoint has precedence.
        ending_position: the end of a batch.
        max_events_per_trigger: of a micro-batch; None for 1,000 per partition, 0 for no limit.
        max_rate_per_partition: events per second of each partition, or of single ones.
        slow_partitions: reads less from slow partitions; None to divide by backlog only.
        receiver_timeout: seconds without an event after which a receiver is reopened.
        operation_timeout: seconds without an event after which the pipeline fails.
        placement: the order of partitions in Spark; ``balanced`` places those of a hub on different
            executors, ``hash`` places each independently.
        prefetch: the number of events that a receiver requests at once.
        exclusive: in streaming, no other pipeline may read in the consumer group; the one that was
            started last continues. None for True over AMQP.
        fail_on_data_loss: events that have expired before they were read are an error.
        discover_partitions: seconds between checks for new partitions; None for none.
        timestamp: ``enqueued``, or the name of the property with the event time: milliseconds since
            1970, or ISO 8601 text. Events without it have the time of their enqueuing.
        watermark_delay: how far events may be behind the newest one of their partition, in seconds.
        idle_timeout: an exhausted partition holds the watermark back for this many more seconds; 0
            for not at all, None forever. Over Kafka, where the backlog is unknown, 0 is 60 seconds
            without events.
        drop_repeats: drops events that a task of :class:`WriteToEventHubs` has sent again. Takes a
            shuffle, and a record of state for each task that sends to a partition.
        client: has no meaning any more, as there is one client; ``sdk`` or ``slim``.
        endpoint: ``amqp``, or ``kafka`` for Spark's Kafka source, which supports fewer arguments.

    Raises:
        ConfigurationError: when it is created or applied: an argument is wrong or missing, or the
            pipeline has another runner.
    """

    def __init__(
        self,
        connection_string: str | Callable[[], str] | None = None,
        event_hub: str | None = None,
        *,
        fully_qualified_namespace: str | None = None,
        credential: Any = None,
        consumer_group: str = DEFAULT_GROUP,
        starting_position: EventPosition | None = None,
        starting_positions: Mapping[int, EventPosition] | None = None,
        ending_position: EventPosition | None = None,
        ending_positions: Mapping[int, EventPosition] | None = None,
        max_events_per_trigger: int | None = None,
        max_rate_per_partition: int | Mapping[int, int] | None = None,
        slow_partitions: SlowPartitions | None = None,
        receiver_timeout: float = 60,
        operation_timeout: float = 300,
        placement: str = BALANCED,
        prefetch: int = 1000,
        exclusive: bool | None = None,
        fail_on_data_loss: bool = True,
        discover_partitions: float | None = 300,
        timestamp: str = "enqueued",
        watermark_delay: float = 0,
        idle_timeout: float | None = 0,
        drop_repeats: bool = False,
        client: str | None = None,
        endpoint: str = AMQP,
    ) -> None:
        super().__init__()
        named = connection_string, event_hub, fully_qualified_namespace
        connection = connection_of(*named, credential, client)
        self._drop_repeats = arguments.flag("drop_repeats", drop_repeats)
        self._ends = ending_position is not None or bool(ending_positions)
        by = arguments.text("timestamp", timestamp, "use 'enqueued' or the name of a property")
        options: _Options = {
            **connection.options(),
            "consumerGroup": arguments.text(
                "consumer_group", consumer_group, "use the name of a group"
            ),
            "startingPosition": _position("starting_position", starting_position),
            "startingPositions": _positions("starting_positions", starting_positions),
            "endingPosition": _position("ending_position", ending_position),
            "endingPositions": _positions("ending_positions", ending_positions),
            "maxEventsPerTrigger": _count("max_events_per_trigger", max_events_per_trigger, 0),
            "maxRatePerPartition": _rates(max_rate_per_partition),
            **_slow(slow_partitions),
            "receiverTimeout": _seconds("receiver_timeout", receiver_timeout),
            "operationTimeout": _seconds("operation_timeout", operation_timeout),
            "placement": arguments.one_of("placement", placement, PLACEMENTS),
            "prefetch": _count("prefetch", prefetch, 1),
            "exclusive": _flag("exclusive", True if exclusive is None else exclusive),
            "failOnDataLoss": _flag("fail_on_data_loss", fail_on_data_loss),
            "discoverPartitions": "none"
            if discover_partitions is None
            else _seconds("discover_partitions", discover_partitions),
            "timestampProperty": None if by == "enqueued" else by,
        }
        self._read: _Read = _ReadHub(options, watermark_delay, _idle(idle_timeout))
        if arguments.one_of("endpoint", endpoint, ENDPOINTS) == KAFKA:
            refuse(ReadFromEventHubs, locals(), _AMQP_ONLY)
            read = partial(kafka_options.reading, connection, consumer_group)
            read = partial(read, starting_position, ending_position, max_events_per_trigger)
            read = partial(read, fail_on_data_loss=fail_on_data_loss)
            idle = _KAFKA_IDLE if idle_timeout == 0 else idle_timeout
            self._read = ReadOverKafka(read, watermark_delay, idle)

    def default_label(self) -> str:
        return "ReadFromEventHubs"

    def expand(self, pbegin: PBegin) -> PCollection[EventHubsEvent]:
        if pbegin.pipeline.options.view_as(StandardOptions).streaming and self._ends:
            raise ConfigurationError(
                "ending_position= is for batch pipelines, but this one has --streaming: omit one "
                "of them."
            )
        events = pbegin | "Read" >> self._read
        return events | "DropRepeats" >> DropRepeats() if self._drop_repeats else events


class _ReadHub(ReadFromSpark):
    """Source that uses the data source of this package."""

    def __init__(self, options: dict[str, Any], delay: float, idle: int | None) -> None:
        by_property = options["timestampProperty"] is not None
        super().__init__(
            "eventhubs",
            options,
            schema(event_time=by_property),
            EVENT_TIME if by_property else "enqueued_time",
            delay,
            EventHubsEvent._fields,
        )
        self._idle = idle

    def _element_type(self, schema: Any) -> Any:
        return EventHubsEvent

    def _hooks(self) -> SourceHooks:
        return HubHooks()


def _slow(given: object) -> _Options:
    if given is None:
        return {}
    if not isinstance(given, SlowPartitions):
        raise ConfigurationError(
            f"slow_partitions={arguments.shown(given)} must be SlowPartitions: use "
            "SlowPartitions(threshold=30)."
        )
    found: _Options = {"slowPartitionThreshold": str(given.threshold)}
    if given.monitor is not None:
        remedy = "use a function of a module, without objects that cannot be pickled"
        found[PICKLED_MONITOR] = packed("monitor", given.monitor, remedy)
    return found


def _position(name: str, given: object) -> str | None:
    return None if given is None else _check_position(name, given).text()


def _check_position(name: str, given: object) -> EventPosition:
    if not isinstance(given, EventPosition):
        raise ConfigurationError(
            f"{name}={arguments.shown(given)} is not an EventPosition: use EventPosition.start(), "
            "end(), offset(…), sequence_number(…) or enqueued(…)."
        )
    return given


def _positions(name: str, given: Mapping[int, EventPosition] | None) -> str | None:
    if given is None:
        return None
    _check_partitions(name, given, "{0: EventPosition.start()}")
    for position in given.values():
        _check_position(name, position)
    return all_as_text(given)


def _check_partitions(name: str, given: object, example: str) -> None:
    if not isinstance(given, Mapping) or not all(
        arguments.is_whole(number) and index(number) >= 0 for number in given
    ):
        raise ConfigurationError(
            f"{name}={arguments.shown(given)} must be a dictionary keyed by partition number: "
            f"use {example}."
        )


def _rates(given: int | Mapping[int, int] | None) -> str | None:
    name = "max_rate_per_partition"
    if given is None:
        return None
    if isinstance(given, Mapping):
        _check_partitions(name, given, "{0: 1000}")
        return json.dumps({str(key): _number(name, rate, 1) for key, rate in given.items()})
    return _count(name, given, 1)


def _count(name: str, given: int | None, least: int) -> str | None:
    return None if given is None else str(_number(name, given, least))


def _number(name: str, given: object, least: int) -> int:
    return arguments.whole_number(name, given, least=least, most=_MOST)


def _idle(given: float | None) -> int | None:
    """Convert to microseconds."""
    if given is None:
        return None
    return round(arguments.duration("idle_timeout", given, "seconds", most=_LONGEST) * 1_000_000)


def _seconds(name: str, given: float) -> str:
    return str(arguments.duration(name, given, "seconds", most=_LONGEST))


def _flag(name: str, given: bool) -> str:
    return str(arguments.flag(name, given)).lower()
