"""The ends of time in microseconds since the epoch, as Beam has them.

They are written out here, so that what only plans a query need not import Beam.
"""

MIN_MICROS = -9_223_372_036_854_775_000
"""The watermark before anything is known."""

MAX_MICROS = 9_223_372_036_854_775_000
"""The watermark of what has ended."""
