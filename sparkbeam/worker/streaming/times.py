"""The times of a streaming pipeline: microseconds since the epoch, as integers."""

from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP

MIN_MICROS = MIN_TIMESTAMP.micros
"""The watermark before anything is known."""

MAX_MICROS = MAX_TIMESTAMP.micros // 1000 * 1000
"""The watermark of what has ended; in milliseconds as Beam's protos have it."""
