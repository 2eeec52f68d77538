"""Nexmark events as an unbounded Beam source, with a watermark and at a rate."""

import time
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Event
from beam_nexmark.generator import EventBatch, in_time_order

_BLOCK = 500
"""Number of events generated at once."""

_STRIPES = 4
"""Number of parts of the stream, among which blocks alternate."""


class NexmarkStream(beam.PTransform[beam.pvalue.PBegin, beam.PCollection[Any]]):
    """The events of :class:`~beam_nexmark.beam_source.NexmarkEvents` as a stream.

    The watermark is that of the generator: nothing is late. The stream ends after the last event.

    Args:
        rate: events per second of processing time; None for no limit.
    """

    def __init__(self, configuration: Configuration, rate: float | None = None) -> None:
        super().__init__()
        self._configuration = configuration
        self._rate = rate

    def expand(self, pipeline: beam.pvalue.PBegin) -> beam.PCollection[Any]:
        return (
            pipeline
            | "Stripes"
            >> beam.Create([(stripe, self._configuration.events) for stripe in range(_STRIPES)])
            | "Events"
            >> beam.ParDo(_Generate(self._configuration, self._rate)).with_output_types(Event)
        )


class _Blocks(beam.RestrictionProvider):
    """Restrictions that are ranges of the blocks of a stripe."""

    def initial_restriction(self, element: tuple[int, int]) -> OffsetRange:
        stripe, events = element
        blocks = -(-events // _BLOCK)
        return OffsetRange(0, max(0, -(-(blocks - stripe) // _STRIPES)))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: tuple[int, int], restriction: OffsetRange) -> int:
        return int(restriction.size())

    def split(self, element: tuple[int, int], restriction: OffsetRange) -> Iterator[OffsetRange]:
        # A later part would hold the watermark back for as long as the first one runs.
        yield restriction


class _Generate(beam.DoFn):
    def __init__(self, configuration: Configuration, rate: float | None) -> None:
        self._configuration = configuration
        self._rate = rate
        self._began = time.time()

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element: tuple[int, int],
        tracker: Any = beam.DoFn.RestrictionParam(_Blocks()),
        watermark: Any = beam.DoFn.WatermarkEstimatorParam(
            ManualWatermarkEstimator.default_provider()
        ),
    ) -> Iterator[Any]:
        stripe, _ = element
        block = tracker.current_restriction().start
        while True:
            start = (block * _STRIPES + stripe) * _BLOCK
            wait = self._seconds_until(start)
            if wait > 0:
                tracker.defer_remainder(Duration(wait))
                return
            if not tracker.try_claim(block):
                return
            numbers = in_time_order(self._configuration, start, start + _BLOCK)
            events = EventBatch.generate(self._configuration, numbers).to_python()
            for event, stamp in zip(events, numbers.timestamps.tolist(), strict=True):
                yield TimestampedValue(event, Timestamp(micros=stamp * 1000))
            block += 1
            watermark.set_watermark(self._earliest((block * _STRIPES + stripe) * _BLOCK))

    def _seconds_until(self, start: int) -> float:
        """Return the seconds until the event of a number is due."""
        return 0.0 if self._rate is None else self._began + start / self._rate - time.time()

    def _earliest(self, start: int) -> Timestamp:
        """Return a lower bound of the times of events from a number on."""
        configuration = self._configuration
        span = configuration.generators * configuration.out_of_order_group_size
        stamps = in_time_order(configuration, start, start + span).timestamps
        return Timestamp(micros=int(stamps.min()) * 1000) if len(stamps) else MAX_TIMESTAMP
