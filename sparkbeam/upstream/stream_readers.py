"""PySpark's contracts for streaming data sources, with stand-ins where PySpark lacks them."""

from dataclasses import dataclass

FREEZES_AVAILABLE_NOW = True
"""True if Spark tells the readers of Python data sources that a query is an available-now run.

Otherwise it would run a query with such a source as a single micro-batch.
"""

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Before 4.2 a reader has neither limits nor available-now runs.
    FREEZES_AVAILABLE_NOW = False

    class ReadLimit:  # type: ignore[no-redef]
        """Limit of a micro-batch."""

    @dataclass
    class ReadAllAvailable(ReadLimit):  # type: ignore[no-redef]
        """No limit."""

    @dataclass
    class ReadMaxRows(ReadLimit):  # type: ignore[no-redef]
        """Maximum number of rows."""

        max_rows: int

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Contract of readers for available-now runs."""


__all__ = [
    "FREEZES_AVAILABLE_NOW",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]
