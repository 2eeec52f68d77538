"""Unbounded splittable DoFns that have more to read than a micro-batch takes."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process import StreamingRunner

from sparkbeam.worker.streaming import unbounded_reads

PARTS = 6
SECONDS = 150


class Part(beam.RestrictionProvider):
    def initial_restriction(self, part: int) -> OffsetRange:
        return OffsetRange(0, SECONDS)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, part: int, restriction: OffsetRange) -> int:
        return int(restriction.size())


class Read(beam.DoFn):
    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        part: int,
        tracker: Any = beam.DoFn.RestrictionParam(Part()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[TimestampedValue]:
        second = tracker.current_restriction().start
        while tracker.try_claim(second):
            watermark.set_watermark(Timestamp(second))
            yield TimestampedValue(second, second)
            second += 1
            time.sleep(0.001)


def test_the_watermark_goes_on_while_restrictions_wait_for_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else no window would end, and state would grow, for as long as there is a backlog."""
    monkeypatch.setattr(unbounded_reads, "READ_SECONDS", 0.0)
    log = tmp_path / "log"

    def note(what: str) -> None:
        with log.open("a") as lines:
            lines.write(f"{what}\n")

    with beam.Pipeline(runner=StreamingRunner(), options=PipelineOptions(["--streaming"])) as p:
        numbers = p | beam.Create(range(PARTS)) | beam.ParDo(Read())
        _ = numbers | "Number" >> beam.Map(lambda number: note(f"read {number}"))
        _ = (
            numbers
            | beam.WindowInto(FixedWindows(10))
            | beam.CombineGlobally(sum).without_defaults()
            | "Sum" >> beam.Map(lambda total: note(f"sum {total}"))
        )

    lines = log.read_text().splitlines()
    assert lines.count(f"read {SECONDS - 1}") == PARTS
    sums = [f"sum {PARTS * sum(range(start, start + 10))}" for start in range(0, SECONDS, 10)]
    assert [line for line in lines if line.startswith("sum")] == sums
    assert lines.index(sums[0]) < lines.index(f"read {SECONDS - 1}")
