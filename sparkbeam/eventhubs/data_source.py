"""The data source ``eventhubs``."""

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
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
from sparkbeam.eventhubs import event_rows
from sparkbeam.eventhubs.client import EventHubsError
from sparkbeam.eventhubs.data_sink import EventHubsStreamWriter, EventHubsWriter, check_columns
from sparkbeam.eventhubs.monitoring import PartitionStatus, Watch, Watched
from sparkbeam.eventhubs.placement import in_turn, place
from sparkbeam.eventhubs.planning import Numbers, Planner
from sparkbeam.eventhubs.positions import EventPosition
from sparkbeam.eventhubs.range_reader import Range, RangeReader
from sparkbeam.eventhubs.read_reports import Reports, ReportTo
from sparkbeam.eventhubs.slow_partitions import Factors, Read
from sparkbeam.eventhubs.source_options import SinkOptions, SourceOptions

_LOGGER = logging.getLogger(__name__)

Offset = dict[str, dict[str, int]]
"""By event hub and partition the sequence number of the next event, as Kafka's offsets are."""

NoteEnds = Callable[[Numbers], None]
"""Takes note of the partitions of which nothing is read in a micro-batch as nothing is left."""


class EventHubsSource(DataSource):
    """The data source ``eventhubs``, for ``read``, ``readStream``, ``write`` and ``writeStream``.

    ::

        spark.dataSource.register(EventHubsSource)
        spark.readStream.format("eventhubs").options(
            connectionString="env:HUB", eventHub="clicks", startingPosition="start"
        ).load()
        rows.write.format("eventhubs").mode("append").options(
            connectionString="env:HUB", eventHub="counts"
        ).save()

    ``docs/eventhubs.md`` lists the options and the columns.

    Raises:
        ConfigurationError: an option is unknown, missing, or no such value.
    """

    @classmethod
    def name(cls) -> str:
        return "eventhubs"

    def schema(self) -> StructType:
        options = SourceOptions.parse(self.options)
        return event_rows.schema(event_time=options.timestamp_property is not None)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = _with_all_columns(self, schema)
        return EventHubsReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = _with_all_columns(self, schema)
        return EventHubsStreamReader(options, schema, self._note_ends(), self._watches())

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return EventHubsWriter(*self._sending(schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        return EventHubsStreamWriter(*self._sending(schema, overwrite=overwrite))

    def _sending(self, schema: StructType, *, overwrite: bool) -> tuple[SinkOptions, str]:
        """Where rows are sent to, and a name of this run."""
        if overwrite:
            raise ConfigurationError(
                "An event hub cannot be overwritten: use the mode 'append', in streaming the "
                "output mode 'append' or 'update'."
            )
        check_columns(schema)
        return SinkOptions.parse(self.options), uuid.uuid4().hex

    def _note_ends(self) -> NoteEnds | None:
        """Who is told at the planning of each micro-batch; None for nobody."""
        return None

    def _watches(self) -> Sequence[Watch]:
        """Who else is told how the partitions are, beside the monitor of the options."""
        return ()


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
        number: of the micro-batch, as the planner counts them.
        report: where to tell how long it took; None not to.
    """

    hub: str
    events: Range
    number: int = 0
    report: ReportTo | None = None


class _Reads:
    """What readers in batch and in streaming share: the work of a task."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = event_rows.arrow_schema(schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a range; called in a task."""
        assert isinstance(partition, HubRange)
        number = int(partition.events.partition)
        name = self._options.timestamp_property
        reader = RangeReader(self._options, partition.events)
        for events in reader.events():
            yield event_rows.batch(events, partition.hub, number, self._schema, name)
        if partition.report is not None:
            name = partition.events.partition
            partition.report.send(Read(partition.number, name, reader.count, reader.seconds))


class EventHubsReader(_Reads, DataSourceReader):
    """Reads a range of each partition, which is set when reading begins."""

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        starts = planner.starts(EventPosition.start())
        ends = planner.ends()
        return _ranges(self._options, planner.hub(), starts, ends, None)


class EventHubsStreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches, on the driver."""

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        note_ends: NoteEnds | None = None,
        watches: Sequence[Watch] = (),
    ) -> None:
        super().__init__(options, schema)
        self._note_ends = note_ends
        self._ends: Numbers | None = None
        self._epoch = _epoch(options)
        self._planner = Planner(options, self._epoch)
        self._hub = ""
        self._targets: Numbers | None = None
        self._watched = Watched([*watches, *filter(None, [options.monitor])])
        wanted = options.slow is not None or self._watched
        self._factors = Factors(options.slow) if wanted else None
        self._reports: Reports | None = None
        self._number = 0

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
        factors = self._slowness(begin)
        end = self._planner.up_to(begin, most, factors)
        if self._targets is not None:
            end = {
                partition: max(begin.get(partition, 0), min(at, self._targets.get(partition, at)))
                for partition, at in end.items()
                if partition in begin or partition in self._targets
            }
            if end == begin:  # The run is over, and its epoch keeps others out.
                self._planner.end_receivers()
        self._note(self._planner.finished(begin, end))
        self._watched.tell(self._statuses(end, factors))
        return {self._name(): end}

    def _statuses(self, end: Numbers, factors: Mapping[str, float]) -> list[PartitionStatus]:
        """How the partitions are, for those who watch."""
        if not self._watched:
            return []
        lag = self._planner.lag(end)
        return [
            _status(partition, lag[partition], factors, self._factors)
            for partition in sorted(lag, key=int)
        ]

    def _note(self, ends: Numbers) -> None:
        if self._note_ends is not None and ends != self._ends:
            self._note_ends(ends)
            self._ends = ends

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

    def _slowness(self, partitions: Numbers) -> Mapping[str, float]:
        """The factors of slow partitions, by what the tasks have told until now."""
        if self._factors is None or self._reports is None:
            return {}
        for read in self._reports.take():
            self._factors.note(read)
        return self._factors.current(partitions)

    def _report_to(self) -> ReportTo | None:
        """Where tasks tell how long they take; listens there from the first micro-batch on."""
        if self._factors is not None and self._reports is None:
            try:
                self._reports = Reports(self._options.report_host, self._options.report_bind)
            except OSError as error:
                _LOGGER.warning(
                    "Nobody tells how long partitions take, and slow_partitions= does nothing, as "
                    "no task can report: %s",
                    error,
                )
                self._factors = None
        return None if self._reports is None else self._reports.to

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        begin, stop = self._numbers(start), self._numbers(end)
        found = _ranges(self._options, self._name(), begin, stop, self._epoch)
        self._number += 1
        report = self._report_to()
        return [replace(part, number=self._number, report=report) for part in found]

    def commit(self, end: Any) -> None:
        """Nothing is to be done: the service keeps no positions."""


def _status(
    partition: str, lag: int, factors: Mapping[str, float], reads: Factors | None
) -> PartitionStatus:
    read = None if reads is None else reads.last(partition)
    events, seconds = (0, 0.0) if read is None else (read.events, read.seconds)
    return PartitionStatus(int(partition), lag, factors.get(partition, 1.0), events, seconds)


def _epoch(options: SourceOptions) -> int | None:
    """Of two runs of a query the later one has the higher; None if others may read beside it."""
    if not options.exclusive:
        return None
    return int(time.time() * 1000) if options.epoch is None else options.epoch


def _ranges(
    options: SourceOptions, hub: str, starts: Numbers, ends: Numbers, epoch: int | None
) -> list[HubRange]:
    """One for each partition that has something to read, in the order of their places."""
    places = options.places or 1
    return in_turn(
        [
            (
                place(hub, partition, places, options.placement),
                HubRange(hub, Range(partition, starts[partition], end, epoch)),
            )
            for partition, end in sorted(ends.items(), key=lambda item: int(item[0]))
            if partition in starts and end > starts[partition]
        ]
    )
