"""A stream of numbers at a rate that ends, some of them twice: what programs to be killed read.

It is made in blocks, each of which belongs to a stripe. The rate holds while the query runs: no
number comes while it is down.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp

STRIPES = 2
BLOCK = 100
STEP_MS = 10
TWICE = 5

Build = Callable[[beam.Pipeline, int, float, str], Any]
"""Makes a pipeline of how many numbers there are, how many a second, and a place for the output."""


def in_order_ms(number: int) -> int:
    """When a number happens, if none is late."""
    return number * STEP_MS


def copies(number: int) -> int:
    """How often the stream has a number."""
    return 1 if number % TWICE else 2


class Blocks(beam.RestrictionProvider):
    """A restriction is a range of the blocks of a stripe."""

    def __init__(self, numbers: int) -> None:
        self._blocks = -(-numbers // (STRIPES * BLOCK))

    def initial_restriction(self, stripe: int) -> OffsetRange:
        return OffsetRange(0, self._blocks)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, stripe: int, restriction: OffsetRange) -> int:
        return int(restriction.size())

    def split(self, stripe: int, restriction: OffsetRange) -> Iterator[OffsetRange]:
        yield restriction


def _generate(numbers: int, rate: float, time_ms: Callable[[int], int]) -> beam.DoFn:
    class Generate(beam.DoFn):
        @beam.DoFn.unbounded_per_element()
        def process(
            self,
            stripe: int,
            tracker: Any = beam.DoFn.RestrictionParam(Blocks(numbers)),
            watermark: Any = beam.DoFn.WatermarkEstimatorParam(
                ManualWatermarkEstimator.default_provider()
            ),
        ) -> Iterator[TimestampedValue]:
            block = tracker.current_restriction().start
            if not tracker.try_claim(block):
                return
            start = (block * STRIPES + stripe) * BLOCK
            once = range(start, min(start + BLOCK, numbers))
            for number in (*once, *(n for n in once if copies(n) > 1)):
                yield TimestampedValue(number, Timestamp(micros=time_ms(number) * 1000))
            following = in_order_ms(start + STRIPES * BLOCK)
            watermark.set_watermark(Timestamp(micros=following * 1000))
            tracker.defer_remainder(Duration(STRIPES * BLOCK / rate))

    return Generate()


class Numbers(beam.PTransform):
    """The stream.

    Args:
        numbers: how many there are.
        rate: how many a second.
        time_ms: when a number happens; the watermark goes on as :func:`in_order_ms` says.
    """

    def __init__(
        self, numbers: int, rate: float, time_ms: Callable[[int], int] = in_order_ms
    ) -> None:
        super().__init__()
        self._generate = _generate(numbers, rate, time_ms)

    def expand(self, pipeline: beam.Pipeline) -> Any:
        return (
            pipeline
            | beam.Create(range(STRIPES), reshuffle=False)
            | beam.ParDo(self._generate).with_output_types(int)
        )


def run(build: Build) -> None:
    """What a program does, with the arguments ``NUMBERS RATE OUTPUT [pipeline options]``."""
    numbers, rate, output, *options = sys.argv[1:]
    pipeline = beam.Pipeline(argv=["--runner=sparkbeam.SparkRunner", "--streaming", *options])
    build(pipeline, int(numbers), float(rate), output)
    pipeline.run().wait_until_finish()
