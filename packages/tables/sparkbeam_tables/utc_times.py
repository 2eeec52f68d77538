"""Timestamps without a time zone, which are in UTC here whatever zone a session has."""

from typing import Any

from pyspark.sql import functions as sf


def in_utc(timestamp: Any) -> Any:
    """Return a column of timestamps as one without a time zone."""
    micros = sf.unix_micros(timestamp)
    seconds = (micros / sf.lit(1_000_000).cast("decimal(7,0)")).cast("decimal(18,6)")
    zero = sf.lit(0)
    interval = sf.make_dt_interval(zero, zero, zero, seconds)
    return sf.lit("1970-01-01").cast("timestamp_ntz") + interval
