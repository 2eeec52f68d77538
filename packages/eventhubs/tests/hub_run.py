"""A streaming query in this process that reads an event hub of the test server.

The data source plans and reads as under Spark, in the order in which Spark asks: the tick first,
then the hub, then both are logged. A test says at which point a run ends.
"""

import json
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from hubs import EARLY, rows_of
from in_process import Crash, Point, Spark, StreamingRunner

from pyspark_eventhubs.stream_readers import ReadAllAvailable
from pyspark_eventhubs.testing import EventHubsServer
from sparkbeam.connectors import source_frames
from sparkbeam.errors import PipelineFailed
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.streaming import tick_source
from sparkbeam.wire.messages import SCHEMA, TICK_TAG, load
from sparkbeam_eventhubs import EventPosition, ReadFromEventHubs
from sparkbeam_eventhubs.source import PipelineHubSource

EARLIEST = round(EARLY.timestamp())
NONE = -1


class HubRows:
    """What ``frames.timed`` gives: the rows of the hub, and then of the layer over them.

    Args:
        spec: what is read.
        logs: Spark's log of offsets.
    """

    def __init__(self, spec: ReadSpec, logs: Path) -> None:
        self._spec = spec
        self._logs = logs
        found = PipelineHubSource(dict(spec.options))
        self.schema = found.schema()
        self._reader: Any = found.streamReader(self.schema)

    def mapInArrow(self, layer: Any, schema: str) -> "HubRows":
        self._layer = layer
        return self

    def plan(self, batch: int) -> Any:
        """The offset at the end of a micro-batch that has not been planned."""
        start = self._end(batch - 1)
        limit = self._reader.getDefaultReadLimit()
        return self._reader.latestOffset(start, limit or ReadAllAvailable())

    def _end(self, batch: int) -> Any:
        if batch < 0:
            return self._reader.initialOffset()
        return json.loads((self._logs / str(batch)).read_text().splitlines()[3])

    def run(self, table: pa.Table, state: Any) -> pa.Table:
        """As an operator over the ticks."""
        tick = next(row["value"] for row in table.to_pylist() if row["tag"] == TICK_TAG)
        batch = load(tick).number - 1
        parts = self._reader.partitions(self._end(batch - 1), self._end(batch))
        batches = [self._timed(rows) for part in parts for rows in rows_of(self._reader, part)]
        found = pa.Table.from_batches(self._layer(iter(batches)), SCHEMA)
        return pa.concat_tables([table, found])

    def _timed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        columns = [rows[name] for name in self._spec.columns]
        columns.append(rows[self._spec.timestamp_column].cast(pa.int64()))
        parts = zip(*(rows[name].to_pylist() for name in self._spec.partition_columns), strict=True)
        columns.append(pa.array(["/".join(map(str, part)) for part in parts]))
        return pa.record_batch(columns, [str(n) for n in range(len(columns))])


class HubRun:
    """Counts the events of a hub in windows of ten seconds, micro-batch by micro-batch.

    Args:
        folder: for the checkpoint and the counts.
        monkeypatch: of the test.
        server: with the hub ``clicks``.
        given: arguments of ``ReadFromEventHubs``.
    """

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        server: EventHubsServer,
        **given: Any,
    ) -> None:
        self._folder = folder
        self._server = server
        self._given = given
        self._spark = Spark(self._reach)
        self._done = 0
        monkeypatch.setattr(tick_source, "_IDLE_MICROS", 0)
        monkeypatch.setattr(time, "sleep", lambda seconds: None)
        monkeypatch.setattr(source_frames, "timed", self._timed)

    def _timed(self, session: Any, spec: ReadSpec, *_: Any) -> HubRows:
        self._rows = HubRows(spec, self._folder / "offsets")
        return self._rows

    def send(self, partition: int, *seconds: int) -> None:
        """Enqueues an event at each of these seconds after the earliest time."""
        for second in seconds:
            time = EARLY.fromtimestamp(EARLIEST + second, EARLY.tzinfo)
            self._server.send("clicks", [b"x"], partition=partition, enqueued=time)

    def go(self, batches: int, end: str = "committed", options: list[str] | None = None) -> None:
        """Starts a query, and ends it at a point of the last of so many micro-batches more."""
        self._until = (self._done + batches - 1, end)
        self._done += batches - (end != "committed")
        argv = ["--streaming", f"--checkpoint_location={self._folder}", *(options or ())]
        pipeline = beam.Pipeline(runner=StreamingRunner(self._spark), options=PipelineOptions(argv))
        path = self._folder / "counts"

        def note(count: int, window: Any = beam.DoFn.WindowParam) -> None:
            with path.open("a") as lines:
                lines.write(f"{int(window.start) - EARLIEST} {count}\n")

        _ = (
            pipeline
            | ReadFromEventHubs(
                self._server.connection_string("clicks"),
                starting_position=EventPosition.start(),
                **self._given,
            )
            | beam.Map(lambda event: 1)
            | beam.WindowInto(FixedWindows(10))
            | beam.CombineGlobally(sum).without_defaults()
            | "Note" >> beam.Map(note)
        )
        with pytest.raises(PipelineFailed) as caught:
            pipeline.run().wait_until_finish()
        assert isinstance(caught.value.__cause__, Crash), caught.value

    def _reach(self, point: Point) -> None:
        batch, what = point
        if what == "planned":
            (checkpoint,) = self._spark.checkpoints.values()
            found = self._rows.plan(batch)
            folder = self._folder / "offsets"
            folder.mkdir(exist_ok=True)
            if self._until == (batch, "unlogged"):
                checkpoint.offsets.pop()
                raise Crash("Before Spark has written what was planned.")
            lines = ["v1", "{}", checkpoint.offsets[batch], json.dumps(found)]
            (folder / str(batch)).write_text("\n".join(lines))
        if point == self._until:
            raise Crash("Enough has been seen.")

    def counts(self) -> dict[int, int]:
        """Of the windows that have ended, by their starts."""
        path = self._folder / "counts"
        lines = path.read_text().splitlines() if path.exists() else []
        return {int(start): int(count) for start, count in map(str.split, lines)}

    def watermark(self) -> int:
        """That of the hub, in seconds after the earliest time; NONE if there is none yet."""
        (checkpoint,) = self._spark.checkpoints.values()
        (marks,) = json.loads(checkpoint.offsets[-1])["sources"].values()
        found = marks["watermark"] // 1_000_000
        return found - EARLIEST if found > 0 else NONE
