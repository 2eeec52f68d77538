"""Entry points of the data source ``eventhubs``."""

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
from pyspark.sql.types import StructType

from pyspark_eventhubs import event_rows
from pyspark_eventhubs.data_sink import EventHubsStreamWriter, EventHubsWriter, check_columns
from pyspark_eventhubs.events import EventHubsError
from pyspark_eventhubs.monitoring import PartitionStatus, Watch, Watched
from pyspark_eventhubs.placement import in_turn, place
from pyspark_eventhubs.planning import Numbers, Planner
from pyspark_eventhubs.positions import EventPosition
from pyspark_eventhubs.range_reader import Range, RangeReader
from pyspark_eventhubs.read_reports import ReadReports, ReportTo
from pyspark_eventhubs.slow_partitions import Factors, RangeRead
from pyspark_eventhubs.source_options import SinkOptions, SourceOptions
from pyspark_eventhubs.stream_readers import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

_LOGGER = logging.getLogger(__name__)

Offset = dict[str, dict[str, int]]
"""Sequence number of the next event by hub and partition, in the form of Kafka's offsets."""

NoteEnds = Callable[[Numbers], None]
"""Callback for the partitions without remaining events in a micro-batch."""


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
        ValueError: an option is unknown, missing or invalid.
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
        if options.end is not None or options.ends:
            raise ValueError(
                "endingPosition and endingPositions are for batch reads, but this is a stream: "
                "omit them, or use read instead of readStream."
            )
        return EventHubsStreamReader(
            options, schema, self._note_ends(), self._watches(), freezes=self._freezes()
        )

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return EventHubsWriter(*self._sending(schema, overwrite=overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> Any:
        return EventHubsStreamWriter(*self._sending(schema, overwrite=overwrite))

    def _sending(self, schema: StructType, *, overwrite: bool) -> tuple[SinkOptions, str]:
        """Return the sink options and the name of this run."""
        if overwrite:
            raise ValueError(
                "An event hub cannot be overwritten: use mode 'append', or in streaming the output "
                "mode 'append' or 'update'."
            )
        check_columns(schema)
        return SinkOptions.parse(self.options), uuid.uuid4().hex

    def _note_ends(self) -> NoteEnds | None:
        """Return the callback for the planning of each micro-batch; None for none."""
        return None

    def _freezes(self) -> bool:
        """Return whether a stream ends with the events that are there at its start."""
        return False

    def _watches(self) -> Sequence[Watch]:
        """Return further observers of partition statuses, besides the monitor of the options."""
        return ()


def _with_all_columns(source: EventHubsSource, schema: StructType) -> SourceOptions:
    missing = set(schema.names) - set(source.schema().names)
    if missing:
        raise ValueError(f"The source 'eventhubs' has no column '{min(missing)}'.")
    return SourceOptions.parse(source.options)


@dataclass
class HubRange(InputPartition):
    """Events of a partition, read by a task.

    Attributes:
        events: the range of events.
        number: the planner's number of the micro-batch.
        report: the address for reporting the duration; None for no report.
    """

    hub: str
    events: Range
    number: int = 0
    report: ReportTo | None = None


class _Reads:
    """Task side of the readers for batch and streaming."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = event_rows.arrow_schema(schema)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of a range; called in a task."""
        assert isinstance(partition, HubRange)
        number = int(partition.events.partition)
        name = self._options.timestamp_property
        reader = RangeReader(self._options, partition.events)
        for events in reader.events():
            yield event_rows.batch(events, partition.hub, number, self._schema, name)
        if partition.report is not None:
            name = partition.events.partition
            partition.report.send(RangeRead(partition.number, name, reader.count, reader.seconds))


class EventHubsReader(_Reads, DataSourceReader):
    """Reader of a range of each partition, which is fixed when reading begins."""

    def partitions(self) -> Sequence[InputPartition]:
        planner = Planner(self._options)
        starts = planner.starts(EventPosition.start())
        ends = planner.ends()
        return _ranges(self._options, planner.hub(), starts, ends, None)


class EventHubsStreamReader(_Reads, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Planner of micro-batches, on the driver.

    Args:
        schema: the columns to read.
        note_ends: takes the partitions without remaining events.
        watches: observers of the partitions.
        freezes: the query is an available-now run of which Spark does not tell its sources.
    """

    def __init__(
        self,
        options: SourceOptions,
        schema: StructType,
        note_ends: NoteEnds | None = None,
        watches: Sequence[Watch] = (),
        *,
        freezes: bool = False,
    ) -> None:
        super().__init__(options, schema)
        self._freezes = freezes
        self._last: Numbers | None = None
        self._note_ends = note_ends
        self._ends: Numbers | None = None
        self._epoch = _epoch(options)
        self._planner = Planner(options, self._epoch)
        self._hub = ""
        self._targets: Numbers | None = None
        self._watched = Watched([*watches, *filter(None, [options.monitor])])
        wanted = options.slow is not None or self._watched
        self._factors = Factors(options.slow) if wanted else None
        self._reports: ReadReports | None = None
        self._number = 0

    def initialOffset(self) -> Offset:
        starts = self._planner.starts(EventPosition.end())
        self._last = self._last or starts
        return {self._name(): starts}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._planner.limit()
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        bounds = self._planner.bounds()
        self._targets = {partition: found.end for partition, found in bounds.items()}

    def latestOffset(self, start: Any = None, limit: ReadLimit | None = None) -> Offset:
        # Before Spark 4.2 a reader is told neither of them.
        begin = self._numbers(start) if start or self._last is None else self._last
        most = self._planner.limit() if limit is None else getattr(limit, "max_rows", None)
        if self._freezes and self._targets is None:
            self.prepareForTriggerAvailableNow()
        factors = self._slowness(begin)
        end = self._planner.up_to(begin, most, factors)
        if self._targets is not None:
            end = {
                partition: min(at, max(begin.get(partition, 0), self._targets.get(partition, at)))
                for partition, at in end.items()
                if partition in begin or partition in self._targets
            }
            if end == begin:  # The run is over, and its epoch keeps others out.
                self._planner.end_receivers()
        self._note(self._planner.finished(begin, end))
        self._watched.tell(self._statuses(end, factors))
        self._last = end
        return {self._name(): end}

    def _statuses(self, end: Numbers, factors: Mapping[str, float]) -> list[PartitionStatus]:
        """Return the statuses of the partitions, for observers."""
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
        """Return the sequence numbers of an offset stored by Spark.

        Raises:
            EventHubsError: the checkpoint belongs to another event hub.
        """
        found = dict(offset or self.initialOffset())
        if self._name() not in found:
            raise EventHubsError(
                f"The checkpoint belongs to the event hub '{min(found, default='')}', but the "
                f"query reads '{self._name()}': use a separate checkpoint for each event hub."
            )
        return dict(found[self._name()])

    def _name(self) -> str:
        if not self._hub:
            self._hub = self._planner.hub()
        return self._hub

    def _slowness(self, partitions: Numbers) -> Mapping[str, float]:
        """Return the factors of slow partitions, based on the reports so far."""
        if self._factors is None or self._reports is None:
            return {}
        for read in self._reports.received():
            self._factors.record(read)
        return self._factors.current(partitions)

    def _report_to(self) -> ReportTo | None:
        """Return the address for reports of tasks, listening from the first micro-batch on."""
        if self._factors is not None and self._reports is None:
            try:
                self._reports = ReadReports(self._options.report_host, self._options.report_bind)
            except OSError as error:
                _LOGGER.warning(
                    "slow_partitions= has no effect, because tasks cannot report the durations "
                    "of reads: %s",
                    error,
                )
                self._factors = None
        return None if self._reports is None else self._reports.to

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        begin, stop = self._numbers(start), self._numbers(end)
        self._last = stop  # Spark begins with the last micro-batch of an earlier run.
        found = _ranges(self._options, self._name(), begin, stop, self._epoch)
        self._number += 1
        report = self._report_to()
        return [replace(part, number=self._number, report=report) for part in found]

    def commit(self, end: Any) -> None:
        """Do nothing, as no positions are stored in the service."""


def _status(
    partition: str, lag: int, factors: Mapping[str, float], reads: Factors | None
) -> PartitionStatus:
    read = None if reads is None else reads.last(partition)
    events, seconds = (0, 0.0) if read is None else (read.events, read.seconds)
    return PartitionStatus(int(partition), lag, factors.get(partition, 1.0), events, seconds)


def _epoch(options: SourceOptions) -> int | None:
    """Return an epoch that increases with each run of a query; None for non-exclusive receivers."""
    if not options.exclusive:
        return None
    return int(time.time() * 1000) if options.epoch is None else options.epoch


def _ranges(
    options: SourceOptions, hub: str, starts: Numbers, ends: Numbers, epoch: int | None
) -> list[HubRange]:
    """Return a range per partition with events, ordered for even placement."""
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
