"""Times in microseconds since the epoch: Beam's limits, and the clock.

The limits are repeated here, so that planning a query need not import Beam.
"""

import time

MIN_MICROS = -9_223_372_036_854_775_000
"""The initial watermark."""

MAX_MICROS = 9_223_372_036_854_775_000
"""The final watermark."""


def now_micros() -> int:
    """Return the time of this machine's clock."""
    return time.time_ns() // 1000
