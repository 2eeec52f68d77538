"""PySpark's contract of streaming data sources for available-now runs, or a stand-in."""

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Before 4.2 a reader has no available-now runs.

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Contract of readers for available-now runs."""


__all__ = ["SupportsTriggerAvailableNow"]
