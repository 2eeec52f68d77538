"""Times in microseconds since the epoch: the ends of time as Beam has them, and the clock.

The ends are written out here, so that what only plans a query need not import Beam.
"""

import time

MIN_MICROS = -9_223_372_036_854_775_000
"""The watermark before anything is known."""

MAX_MICROS = 9_223_372_036_854_775_000
"""The watermark of what has ended."""


def now_micros() -> int:
    """What the clock of this machine shows."""
    return time.time_ns() // 1000
