"""Exchanges between stages as DataFrame operations."""

from typing import Any

from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from sparkbeam.plan.model import Exchange
from sparkbeam.upstream.spark import spread_by

ROW_TYPE = StructType(
    [
        StructField("tag", IntegerType()),
        StructField("key", BinaryType()),
        StructField("ord", LongType()),
        StructField("value", BinaryType()),
    ]
)
"""Spark schema of the rows between stages; see :mod:`sparkbeam.wire.rows`."""


def impulses(session: Any, count: int = 1) -> Any:
    """Return the numbers from 0 to ``count``, each in its own partition."""
    return session.range(0, count, 1, count)


def exchanged(
    rows: Any, exchange: Exchange, *, parallelism: int | None, tasks: int, repeatable: bool
) -> Any:
    """Apply an exchange to the rows of ports.

    Args:
        parallelism: the user's number of partitions, or None.
        tasks: the number of partitions of a rebalancing exchange.
        repeatable: each attempt of a task sees its rows in the same order.
    """
    by = ("key", "ord", "value") if repeatable else ("key", "ord")
    match exchange:
        case Exchange.BY_KEY:
            parts = ("key",) if parallelism is None else (parallelism, "key")
            return rows.repartition(*parts).sortWithinPartitions(*by)
        case Exchange.SORT:
            return rows.coalesce(1).sortWithinPartitions(*by)
        case Exchange.REBALANCE:
            spread = spread_by(rows, tasks, sf.col("ord").cast("int"))
            return spread.sortWithinPartitions("ord", "value") if repeatable else spread
        case _:
            return rows
