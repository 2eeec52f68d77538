"""Watermark of a source whose messages come in no order: the oldest of the last seconds."""

import time
from dataclasses import dataclass, replace

from apache_beam.io.iobase import WatermarkEstimator
from apache_beam.transforms.core import WatermarkEstimatorProvider
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp

SAMPLE_SECONDS = 10
"""Time for which the timestamps of messages count, as they are received."""


@dataclass(frozen=True)
class Samples:
    """State of the watermark; times are in seconds, timestamps in microseconds.

    Attributes:
        seen: the clock when the watermark was computed last.
        oldest: the least timestamp by the second in which it was received.
    """

    seen: float = 0.0
    watermark: int = MIN_TIMESTAMP.micros
    held_until: float = 0.0
    oldest: tuple[tuple[int, int], ...] = ()


class SampledWatermark(WatermarkEstimatorProvider):
    """Provider of :class:`SampledEstimator`."""

    def initial_estimator_state(self, element: object, restriction: object) -> Samples:
        return Samples()

    def create_watermark_estimator(self, samples: Samples) -> "SampledEstimator":
        return SampledEstimator(samples)


class SampledEstimator(WatermarkEstimator):
    """The oldest timestamp of the last seconds, and no later than the clock less these seconds.

    At the start, and after a pause, the first messages of a backlog need not be its oldest: the
    watermark stays for these seconds, or until the source has nothing more.
    """

    def __init__(self, samples: Samples) -> None:
        now = time.time()
        paused = now - samples.seen > SAMPLE_SECONDS
        held_until = now + SAMPLE_SECONDS if paused else samples.held_until
        self._samples = replace(samples, seen=now, held_until=held_until)

    def observe_timestamp(self, timestamp: Timestamp) -> None:
        second, oldest = int(time.time()), dict(self._samples.oldest)
        oldest[second] = min(timestamp.micros, oldest.get(second, timestamp.micros))
        self._samples = replace(self._samples, oldest=tuple(oldest.items()))

    def caught_up(self) -> None:
        """Note that the source had nothing more."""
        self._samples = replace(self._samples, held_until=0.0)

    def current_watermark(self) -> Timestamp:
        samples, now = self._samples, time.time()
        begin, watermark = now - SAMPLE_SECONDS, samples.watermark
        oldest = tuple(each for each in samples.oldest if each[0] > begin)
        if now >= samples.held_until:
            sampled = min([int(begin * 1e6), *(micros for _, micros in oldest)])
            watermark = max(watermark, sampled)
        self._samples = Samples(now, watermark, samples.held_until, oldest)
        return Timestamp(micros=watermark)

    def get_estimator_state(self) -> Samples:
        return self._samples
