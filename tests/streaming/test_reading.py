"""Unbounded splittable DoFns that have more to read than a micro-batch takes."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import PipelineRunner
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process import StreamingRunner
from lines import Lines
from positions import Positions
from pyspark.sql import SparkSession

from sparkbeam import SparkRunner
from sparkbeam.worker.streaming import unbounded_reads

PARTS = 6
SECONDS = 150


class Read(beam.DoFn):
    """Reads the seconds of a part, at most so many before it pauses."""

    most = SECONDS + 1

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        part: int,
        tracker: Any = beam.DoFn.RestrictionParam(Positions(SECONDS)),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        start = second = tracker.current_restriction().start
        while second - start < self.most and tracker.try_claim(second):
            watermark.set_watermark(Timestamp(second))
            yield TimestampedValue(second, second)
            second += 1
            time.sleep(0.001)
        if second - start == self.most and second < SECONDS:
            tracker.defer_remainder()


SUMS = [f"sum {PARTS * sum(range(start, start + 10))}" for start in range(0, SECONDS, 10)]


def run(log: Lines, read: beam.DoFn, runner: PipelineRunner, *options: str) -> None:
    arguments = PipelineOptions(["--streaming", *options])
    with beam.Pipeline(runner=runner, options=arguments) as p:
        numbers = p | beam.Create(range(PARTS)) | beam.ParDo(read)
        _ = numbers | "Number" >> beam.Map(lambda number: log.note(f"read {number}"))
        _ = (
            numbers
            | beam.WindowInto(FixedWindows(10))
            | beam.CombineGlobally(sum).without_defaults()
            | "Sum" >> beam.Map(lambda total: log.note(f"sum {total}"))
        )


def test_the_watermark_goes_on_while_restrictions_wait_for_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else no window would end, and state would grow, for as long as there is a backlog."""
    monkeypatch.setattr(unbounded_reads, "READ_SECONDS", 0.0)
    log = Lines(tmp_path / "log")
    run(log, Read(), StreamingRunner())
    lines = log.read()
    assert lines.count(f"read {SECONDS - 1}") == PARTS
    assert [line for line in lines if line.startswith("sum")] == SUMS
    assert lines.index(SUMS[0]) < lines.index(f"read {SECONDS - 1}")


def test_a_run_of_what_is_there_goes_on_until_all_is_read_and_emitted(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Lines(tmp_path / "log")
    options = ["--trigger=available-now", "--max_batch_elements=400", "--shards=1"]
    run(log, Read(), SparkRunner(spark), *options)
    assert [line for line in log.read() if line.startswith("sum")] == SUMS


class ReadAndPause(Read):
    """Pauses after half of a part, as a reader does that has found nothing more."""

    most = SECONDS // 2


@pytest.mark.long("the next one is as long, and reads to the end")
def test_a_run_of_what_is_there_ends_when_the_reader_pauses_and_the_next_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Lines(tmp_path / "log")
    options = [
        "--trigger=available-now",
        "--shards=1",
        f"--checkpoint_location={tmp_path / 'checkpoint'}",
    ]
    run(log, ReadAndPause(), SparkRunner(spark), *options)
    half = SECONDS // 2
    read = [int(line.split()[1]) for line in log.read() if line.startswith("read")]
    assert sorted(read) == sorted([*range(half)] * PARTS)
    assert [line for line in log.read() if line.startswith("sum")] == SUMS[: (half - 1) // 10]
    run(log, ReadAndPause(), SparkRunner(spark), *options)
    run(log, ReadAndPause(), SparkRunner(spark), *options)  # The remainder of the last second.
    assert [line for line in log.read() if line.startswith("sum")] == SUMS
