"""A source with partitions in the place of Spark's, for queries in process.

What each partition gives in each micro-batch is written down beforehand, so a test says what a
producer that lags, or one that is silent, looks like. The clock stands still but for ticks.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows
from in_process import Crash, Point, Spark, streaming_pipeline
from lines import Lines
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from sparkbeam.connectors import source_frames
from sparkbeam.errors import PipelineFailed
from sparkbeam.io import ReadFromSpark
from sparkbeam.streaming import clock, execution, tick_source
from sparkbeam.wire.messages import SCHEMA, TICK_TAG, load
from sparkbeam_kafka.hooks import KafkaHooks

HOUR = 3600

SECOND = 1_000_000
START = 1_700_000_000

COLUMNS = (
    StructType()
    .add("value", LongType())
    .add("topic", StringType())
    .add("partition", IntegerType())
    .add("timestamp", TimestampType())
)

MicroBatch = Mapping[int, Sequence[int]]
"""The rows of a micro-batch: their seconds of event time, by partition. They are their values."""


class Rows:
    """What ``frames.timed`` gives: the rows of the source, and then of the layer over them.

    Args:
        micro_batches: what there is to read, from the first micro-batch on; then nothing.
        partitioned: they come with their partitions.
        columns: those to read; all but the value are empty.
    """

    def __init__(
        self, micro_batches: Sequence[MicroBatch], partitioned: bool, columns: Sequence[str]
    ) -> None:
        self._micro_batches = micro_batches
        self._partitioned = partitioned
        self._columns = columns
        self.schema = COLUMNS
        self.columns = COLUMNS.names

    def mapInArrow(self, layer: Any, schema: str) -> "Rows":
        self._layer = layer
        return self

    def run(self, table: pa.Table, state: Any) -> pa.Table:
        """As an operator over the ticks."""
        tick = next(row["value"] for row in table.to_pylist() if row["tag"] == TICK_TAG)
        number = load(tick).number - 1
        given = self._micro_batches[number] if number < len(self._micro_batches) else {}
        batches = [self._batch(p, seconds) for p, seconds in sorted(given.items()) if seconds]
        rows = pa.Table.from_batches(self._layer(iter(batches)), SCHEMA)
        return pa.concat_tables([table, rows])

    def _batch(self, partition: int, seconds: Sequence[int]) -> pa.RecordBatch:
        columns = [
            pa.array(seconds, pa.int64())
            if name == "value"
            else pa.nulls(len(seconds), pa.binary())
            for name in self._columns
        ]
        columns.append(pa.array([(START + s) * SECOND for s in seconds], pa.int64()))
        if self._partitioned:
            columns.append(pa.array([f"t/{partition}"] * len(seconds)))
        return pa.record_batch(columns, [str(n) for n in range(len(columns))])


class PartitionedRun:
    """Runs a pipeline over such a source for as many micro-batches as a test wants.

    Args:
        folder: for the checkpoint.
        monkeypatch: of the test.
        partitions: how many partitions the source tells to have, at each micro-batch.
        pace: how far the clock goes between two ticks, in seconds.
        end: the offset of each partition at the end of a micro-batch.
    """

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        partitions: Callable[[int], int] = lambda number: 0,
        pace: float = 1,
        end: Callable[[int], int] = lambda number: 0,
    ) -> None:
        self._folder = folder
        self._partitions = partitions
        self._end = end
        self._spark = Spark(self._reach)
        self._clock = START * SECOND
        self._pace = round(pace * SECOND)
        self._patch = monkeypatch
        monkeypatch.setattr(tick_source, "_IDLE_MICROS", 0)
        monkeypatch.setattr(clock, "now_micros", self._now)
        monkeypatch.setattr(time, "sleep", lambda seconds: None)
        monkeypatch.setattr(KafkaHooks, "check_checkpoint", lambda *_: None)
        monkeypatch.setattr(execution, "connects", lambda *_: ())

    def pass_time(self, seconds: float) -> None:
        """Lets the clock go on while nothing runs."""
        self._clock += round(seconds * SECOND)

    def run(
        self,
        micro_batches: Sequence[MicroBatch],
        until: int,
        build: Callable[[beam.PCollection], Any],
        **arguments: Any,
    ) -> None:
        """Runs until a micro-batch, with this number, has been committed; called again, goes on.

        Args:
            micro_batches: what the source gives.
            until: the number.
            build: the pipeline, from the numbers on.
            arguments: of ``ReadFromSpark``, or ``read``: another transform.
        """
        self._until = (until - 1, "committed")
        self._go(micro_batches, build, arguments)

    def crash(
        self,
        micro_batches: Sequence[MicroBatch],
        point: Point,
        build: Callable[[beam.PCollection], Any],
        **arguments: Any,
    ) -> None:
        """As :meth:`run`, but to a crash in the middle of a micro-batch."""
        self._until = point
        self._go(micro_batches, build, arguments)

    def _go(
        self,
        micro_batches: Sequence[MicroBatch],
        build: Callable[[beam.PCollection], Any],
        arguments: dict[str, Any],
    ) -> None:
        other = arguments.pop("read", None)
        arguments = {"format": "kafka", "columns": ["value"], **arguments}
        self._patch.setattr(
            source_frames,
            "timed",
            lambda session, spec, *_: Rows(micro_batches, spec.is_partitioned, spec.read),
        )
        pipeline = streaming_pipeline(self._spark, self._folder, "--streaming")
        read = other or ReadFromSpark(schema=COLUMNS, timestamp_column="timestamp", **arguments)
        build(pipeline | "Read" >> read | "Number" >> beam.Map(lambda row: row[-1]))
        with pytest.raises(PipelineFailed) as caught:
            pipeline.run().wait_until_finish()
        assert isinstance(caught.value.__cause__, Crash), caught.value

    def watermarks(self) -> list[int]:
        """The watermark of the source at the end of each micro-batch, in seconds."""
        (checkpoint,) = self._spark.checkpoints.values()
        found = [json.loads(offset)["sources"] for offset in checkpoint.offsets]
        return [round(s["watermark"] / SECOND) - START for (s,) in (f.values() for f in found)]

    def _now(self) -> int:
        return self._clock

    def _reach(self, point: Point) -> None:
        number, what = point
        if what == "planned":
            self._clock += self._pace
            self._keep_offsets(number)
        if point == self._until:
            raise Crash("Enough has been seen.")

    def _keep_offsets(self, number: int) -> None:
        """Writes the offsets of all sources as Spark does before a micro-batch."""
        (checkpoint,) = self._spark.checkpoints.values()
        offsets = {"t": {str(p): self._end(number) for p in range(self._partitions(number))}}
        folder = self._folder / "offsets"
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["v1", "{}", checkpoint.offsets[number], json.dumps(offsets)]
        (folder / str(number)).write_text("\n".join(lines))


class Sums:
    """Counts rows in windows of ten seconds, into a file."""

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder / "sums")

    def __call__(self, numbers: beam.PCollection) -> Any:
        lines = self._lines

        def note(total: int, window: Any = beam.DoFn.WindowParam) -> None:
            lines.note(f"{int(window.start) % HOUR} {total}")

        return (
            numbers
            | beam.Map(lambda number: 1)
            | beam.WindowInto(FixedWindows(10))
            | beam.CombineGlobally(sum).without_defaults()
            | "Note" >> beam.Map(note)
        )

    def found(self) -> list[list[int]]:
        """Start and count of the windows that have ended, in that order."""
        return [[int(part) for part in line.split()] for line in self._lines.read()]

    def total(self) -> int:
        return sum(count for _, count in self.found())
