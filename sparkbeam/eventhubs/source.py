"""The data source ``eventhubs``."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from sparkbeam.errors import ConfigurationError
from sparkbeam.eventhubs import columns
from sparkbeam.eventhubs.client import EventHubsError
from sparkbeam.eventhubs.options import SourceOptions
from sparkbeam.eventhubs.planning import Numbers, Planner
from sparkbeam.eventhubs.positions import EventPosition
from sparkbeam.eventhubs.reading import Range, RangeReader

Offset = dict[str, dict[str, int]]
"""By event hub and partition the sequence number of the next event, as Kafka's offsets are."""


class EventHubsSource(DataSource):
    """The data source ``eventhubs``, for ``spark.read`` and ``spark.readStream``.

    ::

        spark.dataSource.register(EventHubsSource)
        spark.readStream.format("eventhubs").options(
            connectionString="env:HUB", eventHub="clicks", startingPosition="start"
        ).load()

    ``docs/eventhubs.md`` lists the options and the columns.

    Raises:
        ConfigurationError: an option is unknown, missing, or no such value.
    """

    @classmethod
    def name(cls) -> str:
        return "eventhubs"

    def schema(self) -> StructType:
        options = SourceOptions.parse(self.options)
        return columns.schema(event_time=options.timestamp_property is not None)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = _with_all_columns(self, schema)
        return EventHubsReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = _with_all_columns(self, schema)
        return EventHubsStreamReader(options, schema)


def _with_all_columns(source: EventHubsSource, schema: StructType) -> SourceOptions:
    missing = set(schema.names) - set(source.schema().names)
    if missing:
        raise ConfigurationError(f"The source 'eventhubs' has no column '{min(missing)}'.")
    return SourceOptions.parse(source.options)


@dataclass
class HubRange(InputPartition):
    """The events of a partition that a task reads.

    Attributes:
        hub: the event hub.
        events: which.
    """

    hub: str
    events: Range


class _Reads:
    """What readers in batch and in streaming share: the work of a task."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = columns.arrow_schema(schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range; called in a task."""
        assert isinstance(partition, HubRange)
        number = int(partition.events.partition)
        name = self._options.timestamp_property
        for events in RangeReader(self._options, partition.events).events():
            yield columns.batch(events, partition.hub, number, self._schema, name)


class EventHubsReader(_Reads, DataSourceReader):
    """Reads a range of each partition, which is set when reading begins."""

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        starts = planner.starts(EventPosition.start())
        ends = planner.ends()
        return _ranges(planner.hub(), starts, ends, None)


class EventHubsStreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches, on the driver."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._planner = Planner(options)
        self._hub = ""
        self._targets: Numbers | None = None
        # Of two runs of a query the later one has the higher epoch.
        self._epoch = int(time.time() * 1000) if options.exclusive else None

    def initialOffset(self) -> Offset:
        return {self._name(): self._planner.starts(EventPosition.end())}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._planner.limit()
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        bounds = self._planner.bounds()
        self._targets = {partition: found.end for partition, found in bounds.items()}

    def latestOffset(self, start: Any = None, limit: ReadLimit | None = None) -> Offset:
        begin = self._numbers(start)
        most = getattr(limit, "max_rows", None)
        end = self._planner.up_to(begin, most)
        if self._targets is not None:
            end = {
                partition: max(begin.get(partition, 0), min(at, self._targets.get(partition, at)))
                for partition, at in end.items()
                if partition in begin or partition in self._targets
            }
        return {self._name(): end}

    def _numbers(self, offset: Any) -> Numbers:
        """Those of an offset, which Spark has kept.

        Raises:
            EventHubsError: the checkpoint is of another event hub.
        """
        found = dict(offset or self.initialOffset())
        if self._name() not in found:
            raise EventHubsError(
                f"The checkpoint is of the event hub '{min(found, default='')}', and the query "
                f"reads '{self._name()}': use another checkpoint for another event hub."
            )
        return dict(found[self._name()])

    def _name(self) -> str:
        if not self._hub:
            self._hub = self._planner.hub()
        return self._hub

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        return _ranges(self._name(), self._numbers(start), self._numbers(end), self._epoch)

    def commit(self, end: Any) -> None:
        """Nothing is to be done: the service keeps no positions."""


def _ranges(hub: str, starts: Numbers, ends: Numbers, epoch: int | None) -> list[InputPartition]:
    """One for each partition that has something to read."""
    return [
        HubRange(hub, Range(partition, starts[partition], end, epoch))
        for partition, end in sorted(ends.items(), key=lambda item: int(item[0]))
        if partition in starts and end > starts[partition]
    ]
