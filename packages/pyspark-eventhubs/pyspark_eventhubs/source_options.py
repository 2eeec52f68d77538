"""Options of the data source, as text and as parsed settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark_eventhubs import checks
from pyspark_eventhubs.event_writer import BATCH_BYTES, LEAST_BATCH_BYTES, MOST_BATCH_BYTES
from pyspark_eventhubs.monitoring import PartitionMonitor
from pyspark_eventhubs.placement import BALANCED, PLACEMENTS
from pyspark_eventhubs.positions import EventPosition, parse_all
from pyspark_eventhubs.read_reports import LOOPBACK
from pyspark_eventhubs.settings import ConnectionSettings
from pyspark_eventhubs.slow_partitions import SlowPartitions

DEFAULT_GROUP = "$Default"
EPOCH = "epoch"
"""Option with the epoch of the receivers."""

MONITOR, PICKLED_MONITOR = "slowPartitionMonitor", "secretPartitionMonitor"
"""Options with the name of an observer function, and with the pickled function."""

REPORT_HOST = "reportHost"
"""Option with the address at which executors reach the driver."""

REPORT_BIND = "reportBindAddress"
"""Option with the address on which the driver listens."""

PLACES = "places"
"""Option with the number of concurrent tasks."""

ALL_PARTITIONS = "*"
"""Key of the rate of all partitions without a rate of their own."""

_MOST = 2**31 - 1
_LARGEST = 2**63 - 1
_KNOWN = (
    "secretConnectionString",
    "secretConnectionFunction",
    "secretCredential",
    PICKLED_MONITOR,
    "connectionString",
    "namespace",
    "eventHub",
    "client",
    "consumerGroup",
    "startingPosition",
    "startingPositions",
    "endingPosition",
    "endingPositions",
    "maxEventsPerTrigger",
    "maxRatePerPartition",
    "receiverTimeout",
    "operationTimeout",
    "prefetch",
    "exclusive",
    EPOCH,
    "failOnDataLoss",
    "discoverPartitions",
    "timestampProperty",
    "slowPartitionThreshold",
    MONITOR,
    REPORT_HOST,
    REPORT_BIND,
    "placement",
    PLACES,
)

_OF_SINK = (
    *_KNOWN[:3],
    "connectionString",
    "namespace",
    "eventHub",
    "client",
    "maxBatchBytes",
    "operationTimeout",
    "checkpointLocation",  # Spark hands it on.
)


@dataclass(frozen=True)
class SourceOptions:
    """Settings of the source.

    Attributes:
        start: the position where reading begins; None for the end in streaming, and the start in
            batch.
        starts: the start positions of single partitions, by id.
        end: the position where a batch ends; None for the end.
        most: the maximum events of a micro-batch; None for a thousand per partition, 0 for no
            limit.
        rate: the maximum events per second of a partition by id, ``*`` for all others; empty for no
            limit.
        receiver_timeout: the seconds without an event after which a receiver is reopened.
        operation_timeout: the seconds without an event after which reading fails.
        prefetch: the maximum number of events that a receiver reads ahead.
        exclusive: whether streaming receivers have an epoch, which disconnects others.
        epoch: the epoch of receivers; None for the start time of the query.
        discover: the seconds between searches for new partitions; None for no search.
        timestamp_property: the property with the event time; None for none.
        slow: the settings for slow partitions; None to detect none.
        report_host: the address at which tasks reach the driver.
        report_bind: the address on which the driver listens; ``report_host`` if None.
        placement: ``balanced`` or ``hash``.
        places: the number of concurrent tasks; None to keep partitions in numerical order.
        monitor: observes partition statuses; None for none.
    """

    connection: ConnectionSettings
    group: str = DEFAULT_GROUP
    start: EventPosition | None = None
    starts: Mapping[str, EventPosition] = field(default_factory=dict)
    end: EventPosition | None = None
    ends: Mapping[str, EventPosition] = field(default_factory=dict)
    most: int | None = None
    rate: Mapping[str, int] = field(default_factory=dict)
    receiver_timeout: float = 60.0
    operation_timeout: float = 300.0
    prefetch: int = 1000
    exclusive: bool = True
    epoch: int | None = None
    fail_on_data_loss: bool = True
    discover: float | None = 300.0
    timestamp_property: str | None = None
    slow: SlowPartitions | None = None
    report_host: str = LOOPBACK
    report_bind: str | None = None
    placement: str = BALANCED
    places: int | None = None
    monitor: PartitionMonitor | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Parse the options of a data source.

        Raises:
            ValueError: an option is unknown, missing or invalid.
        """
        given = _known("source", options, _KNOWN)
        never = given.get("discoverpartitions", "").strip().lower() == "none"
        return cls(
            ConnectionSettings.of_options(given),
            _text(given, "consumerGroup", "use the name of a group") or DEFAULT_GROUP,
            _position(given, "startingPosition"),
            parse_all("startingPositions", given.get("startingpositions", "{}")),
            _position(given, "endingPosition"),
            parse_all("endingPositions", given.get("endingpositions", "{}")),
            _number(given, "maxEventsPerTrigger", 0) if "maxeventspertrigger" in given else None,
            _rates(given.get("maxrateperpartition", "{}")),
            _seconds(given, "receiverTimeout", 60),
            _seconds(given, "operationTimeout", 300),
            _number(given, "prefetch", 1, 1000),
            _flag(given, "exclusive"),
            _number(given, EPOCH, 0, most=_LARGEST) if EPOCH in given else None,
            _flag(given, "failOnDataLoss"),
            None if never else _seconds(given, "discoverPartitions", 300),
            _text(given, "timestampProperty", "use the name of a property"),
            _slow(given),
            given.get(REPORT_HOST.lower(), LOOPBACK),
            given.get(REPORT_BIND.lower()),
            checks.one_of("placement", given.get("placement", BALANCED), PLACEMENTS),
            _number(given, PLACES, 1) if PLACES in given else None,
            _monitor(given),
        )


@dataclass(frozen=True)
class SinkOptions:
    """Settings of the sink.

    Attributes:
        batch_bytes: the maximum size of a batch of events.
        timeout: the seconds for which a batch is retried.
    """

    connection: ConnectionSettings
    batch_bytes: int
    timeout: float

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SinkOptions":
        """Parse the options of a data sink.

        Raises:
            ValueError: an option is unknown, missing or invalid.
        """
        given = _known("sink", options, _OF_SINK)
        name = "maxBatchBytes"
        return cls(
            ConnectionSettings.of_options(given),
            _number(given, name, LEAST_BATCH_BYTES, BATCH_BYTES, MOST_BATCH_BYTES),
            _seconds(given, "operationTimeout", 300),
        )


def _known(what: str, options: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """Return the options by name in lower case; raise ValueError for unknown ones."""
    given = {name.lower(): value for name, value in options.items() if value is not None}
    unknown = given.keys() - {name.lower() for name in names}
    if unknown:
        shown = (name for name in names if not name.startswith("secret"))
        raise ValueError(
            f"The {what} 'eventhubs' has no option {checks.shown(min(unknown))}, only "
            f"{', '.join(shown)}."
        )
    return given


def _number(
    given: Mapping[str, str], name: str, least: int, default: int = 0, most: int = _MOST
) -> int:
    text = given.get(name.lower(), str(default)).strip()
    try:
        value: object = int(text)
    except ValueError:
        value = text
    return checks.whole_number(name, value, least=least, most=most)


def _text(given: Mapping[str, str], name: str, remedy: str) -> str | None:
    value = given.get(name.lower())
    return None if value is None else checks.text(name, value, remedy)


def _position(given: Mapping[str, str], name: str) -> EventPosition | None:
    value = given.get(name.lower())
    return None if value is None else EventPosition.parse(name, value)


def _seconds(given: Mapping[str, str], name: str, default: float) -> float:
    text = given.get(name.lower(), str(default))
    try:
        value: object = float(text)
    except ValueError:
        value = text
    return checks.seconds(name, value)


def _slow(given: Mapping[str, str]) -> SlowPartitions | None:
    name = "slowPartitionThreshold"
    return SlowPartitions(_seconds(given, name, 0)) if name.lower() in given else None


def _monitor(given: Mapping[str, str]) -> PartitionMonitor | None:
    pickled, name = given.get(PICKLED_MONITOR.lower()), given.get(MONITOR.lower())
    if name is not None and "." not in name:
        raise ValueError(
            f"{MONITOR}={checks.shown(name)} is not the name of a function: use for example "
            "'package.module.function'."
        )
    return None if pickled is None and name is None else PartitionMonitor(pickled, name or "")


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name.lower(), "true").lower()
    return checks.one_of(name, value, ("true", "false")) == "true"


def _rates(text: str) -> dict[str, int]:
    name = "maxRatePerPartition"
    try:
        found = checks.parsed_json(text)
        if not isinstance(found, int | float | dict):
            raise ValueError
        rates = found if isinstance(found, dict) else {ALL_PARTITIONS: found}
        partitions = [key if key == ALL_PARTITIONS else str(int(key)) for key in rates]
    except ValueError:
        raise ValueError(
            f"{name}={checks.shown(text)} must be a number, or JSON with a number for "
            'each partition, such as {"0": 100, "*": 1000}.'
        ) from None
    numbers = [checks.whole_number(name, each, least=1, most=_MOST) for each in rates.values()]
    return dict(zip(partitions, numbers, strict=True))
