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
        given = locals()
        named = connection_string, event_hub, fully_qualified_namespace
        connection = connection_of(*named, credential, client)
        self._drop_repeats = arguments.flag("drop_repeats", drop_repeats)
        self._ends = ending_position is not None or bool(ending_positions)
        options = {
            **connection.options(),
            **{option: check(name, given[name]) for name, (option, check) in _OPTIONS.items()},
            **_slow(slow_partitions),
        }
        self._read: _Read = _ReadHub(options, watermark_delay, _idle(idle_timeout))
        if arguments.one_of("endpoint", endpoint, ENDPOINTS) == KAFKA:
            of_amqp = [name for name in _OPTIONS if name not in _OVER_KAFKA]
            refuse(ReadFromEventHubs, given, [*of_amqp, "slow_partitions", "drop_repeats"])
            read = partial(kafka_options.reading, connection, consumer_group)
            read = partial(read, starting_position, ending_position, max_events_per_trigger)
            read = partial(read, fail_on_data_loss=fail_on_data_loss)
            idle = _KAFKA_IDLE if idle_timeout == 0 else idle_timeout
            self._read = ReadOverKafka(read, watermark_delay, idle)

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


def _slow(given: object) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, SlowPartitions):
        raise ConfigurationError(
            f"slow_partitions={arguments.shown(given)} must be SlowPartitions: use "
            "SlowPartitions(threshold=30)."
        )
    found = {"slowPartitionThreshold": str(given.threshold)}
    if given.monitor is not None:
        remedy = "use a function of a module, without objects that cannot be pickled"
        found[PICKLED_MONITOR] = packed("monitor", given.monitor, remedy)
    return found


_Check = Callable[[str, Any], Any]
"""Returns the option for the value of an argument with a name, or raises an error."""


def _unless_none(check: _Check, option: object = None) -> _Check:
    """Return a check of an argument whose value may be None.

    Args:
        option: the option for None; None for the default of the data source.
    """
    return lambda name, given: option if given is None else check(name, given)


def _position(name: str, given: object) -> str:
    if not isinstance(given, EventPosition):
        raise ConfigurationError(
            f"{name}={arguments.shown(given)} is not an EventPosition: use EventPosition.start(), "
            "end(), offset(…), sequence_number(…) or enqueued(…)."
        )
    return given.text()


def _positions(name: str, given: Mapping[int, EventPosition]) -> str:
    _check_partitions(name, given, "{0: EventPosition.start()}")
    for position in given.values():
        _position(name, position)
    return all_as_text(given)


def _check_partitions(name: str, given: object, example: str) -> None:
    if not isinstance(given, Mapping) or not all(
        arguments.is_whole(number) and index(number) >= 0 for number in given
    ):
        raise ConfigurationError(
            f"{name}={arguments.shown(given)} must be a dictionary keyed by partition number: "
            f"use {example}."
        )


def _rates(name: str, given: int | Mapping[int, int]) -> object:
    if not isinstance(given, Mapping):
        return _rate(name, given)
    _check_partitions(name, given, "{0: 1000}")
    return json.dumps({str(key): _rate(name, rate) for key, rate in given.items()})


def _timestamp(name: str, given: object) -> str | None:
    found = arguments.text(name, given, "use 'enqueued' or the name of a property")
    return None if found == "enqueued" else found


def _idle(given: float | None) -> int | None:
    """Convert to microseconds."""
    return None if given is None else round(_seconds("idle_timeout", given) * 1_000_000)


_rate = partial(arguments.whole_number, least=1, most=_MOST)
_seconds = partial(arguments.duration, unit="seconds", most=_LONGEST)


_OPTIONS: Mapping[str, tuple[str, _Check]] = {
    "consumer_group": ("consumerGroup", partial(arguments.text, remedy="use the name of a group")),
    "starting_position": ("startingPosition", _unless_none(_position)),
    "starting_positions": ("startingPositions", _unless_none(_positions)),
    "ending_position": ("endingPosition", _unless_none(_position)),
    "ending_positions": ("endingPositions", _unless_none(_positions)),
    "max_events_per_trigger": (
        "maxEventsPerTrigger",
        _unless_none(partial(arguments.whole_number, least=0, most=_MOST)),
    ),
    "max_rate_per_partition": ("maxRatePerPartition", _unless_none(_rates)),
    "receiver_timeout": ("receiverTimeout", _seconds),
    "operation_timeout": ("operationTimeout", _seconds),
    "placement": ("placement", partial(arguments.one_of, choices=PLACEMENTS)),
    "prefetch": ("prefetch", _unless_none(_rate)),
    "exclusive": ("exclusive", _unless_none(arguments.flag, True)),
    "fail_on_data_loss": ("failOnDataLoss", arguments.flag),
    "discover_partitions": ("discoverPartitions", _unless_none(_seconds, "none")),
    "timestamp": ("timestampProperty", _timestamp),
}
"""Options of the data source, with the checks of their arguments."""

_OVER_KAFKA = (
    *("consumer_group", "starting_position", "ending_position"),
    *("max_events_per_trigger", "fail_on_data_loss"),
)
"""Arguments among these that are supported over Kafka, too."""
