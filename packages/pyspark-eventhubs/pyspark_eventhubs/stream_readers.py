"""PySpark's contracts for streaming data sources, with stand-ins where PySpark lacks them."""

from dataclasses import dataclass

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
except ImportError:  # Before 4.2 a reader has neither limits nor available-now runs.

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


try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:
    from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamWriter

    # Spark 4.0 passes record batches to each writer of this kind, in streaming too.
    class DataSourceStreamArrowWriter(  # type: ignore[misc, no-redef]
        DataSourceStreamWriter, DataSourceArrowWriter
    ):
        """Contract of streaming writers of record batches."""


__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]
