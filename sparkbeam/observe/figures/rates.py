"""Rates of elements, and delays of watermarks."""

from collections.abc import Sequence

from sparkbeam.observe.figures.micro_batch import MicroBatch

_RATE_MICROS = 10_000_000
"""Approximate number of microseconds over which rates of a stream are computed."""

_SECOND = 1e6


def per_second(elements: int, seconds: float) -> float:
    """Return the elements per second; 0 over no time."""
    return elements / seconds if seconds > 0 else 0.0


def recent_rate(batches: Sequence[MicroBatch], elements: Sequence[int]) -> float:
    """Return the elements per second of some micro-batches, of which there is at least one.

    A micro-batch reads the elements that have arrived since the previous one. Hence all
    micro-batches but the first count, over the time since the end of the first. A single one counts
    over its duration.

    Args:
        batches: the micro-batches in order.
        elements: the elements of each.
    """
    first, *others = batches
    micros = others[-1].ended - first.ended if others else first.duration
    return per_second(sum(elements[1:] or elements), micros / _SECOND)


def is_long_ago(earlier: MicroBatch, last: MicroBatch) -> bool:
    """Return whether a micro-batch is too old to start the interval of a rate."""
    return last.ended - earlier.ended >= _RATE_MICROS


def seconds_behind(batch: MicroBatch, now: float) -> float | None:
    """Return the seconds from the source watermark of a micro-batch until now; None if undefined.

    Args:
        now: the time in microseconds since the epoch.
    """
    mark = batch.source_watermark
    return None if mark is None else max(0.0, (now - mark) / _SECOND)
