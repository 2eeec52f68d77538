"""Measurement of one side of a join before the other runs: its size and its keys."""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from sparkbeam.connectors.materialized_frames import MaterializedFrame, materialize
from sparkbeam.plan.small_sides import SmallSide
from sparkbeam.spark.capabilities import effective_setting
from sparkbeam.spark.collect import collected
from sparkbeam.wire.rows import METRICS_TAG

_ADAPTIVE = "spark.sql.adaptive.enabled"
_THRESHOLDS = (
    "spark.sql.adaptive.autoBroadcastJoinThreshold",
    "spark.sql.autoBroadcastJoinThreshold",
)
_SIZE = re.compile(r"(-?\d+)\s*([bkmgtp]?)b?")
_EXPONENTS = {"": 0, "b": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}

_ROW_BYTES = 40
"""Size of a Spark row with four fields, without its strings of multiples of eight bytes."""

_WORD = 8

_MOST_KEY_BYTES = 4 << 20
"""Larger sets of keys are not sent with each task of a stage."""


def broadcast_bytes(session: Any) -> int:
    """Return the largest side in bytes that an adaptive join broadcasts; negative for none."""
    if _setting(session, _ADAPTIVE) != "true":
        return -1
    for name in _THRESHOLDS:
        size = _SIZE.fullmatch(_setting(session, name))
        if size:
            return int(size[1]) * 1024 ** _EXPONENTS[size[2]]
    return -1


def _setting(session: Any, name: str) -> str:
    return (effective_setting(session, name) or "").strip().lower()


class MeasuredSide:
    """Measured side of a join.

    Args:
        limit: the largest size of a small side, in bytes.

    Attributes:
        rows: the DataFrame of its rows, which are kept if it is measured.
        is_broadcast: whether it is measured, and small enough to broadcast.
        keys: its distinct binary keys, if rows of the other side without one can be dropped; else
            None.
    """

    def __init__(self, side: SmallSide, rows: Any, limit: int, *, is_kept: bool) -> None:
        self.side = side
        found = MaterializedFrame(rows) if is_kept else materialize(rows.sparkSession, rows)
        self.release = (found or MaterializedFrame(rows)).release
        self.rows = (found or MaterializedFrame(rows)).rows
        self.is_broadcast = False
        self.keys: pa.Array | None = None
        if found is None:
            return  # To measure it would take as long as to compute it again.
        try:
            bytes, key_bytes = _measured(self.rows)
            if bytes <= limit:
                self.is_broadcast = side.is_for_tasks
                if side.is_for_writers and key_bytes <= _MOST_KEY_BYTES:
                    self.keys = _keys(self.rows)
        except BaseException:
            self.release()
            raise


def _measured(rows: Any) -> tuple[int, int]:
    """Return the size of a side as Spark counts it for a broadcast, and the size of its keys."""
    key, value = (sf.coalesce(sf.length(name), sf.lit(0)) for name in ("key", "value"))
    whole = sf.lit(_ROW_BYTES) + _in_words(key) + _in_words(value)
    sums = rows.select(whole.alias("whole"), key.alias("key")).agg(sf.sum("whole"), sf.sum("key"))
    of_all, of_keys = (column[0].as_py() or 0 for column in collected(sums).columns)
    return of_all, of_keys


def _in_words(length: Any) -> Any:
    return sf.ceil(length / _WORD) * _WORD


def _keys(rows: Any) -> pa.Array:
    table = collected(rows.where(sf.col("tag") != METRICS_TAG).select("key"))
    found = table.column(0).combine_chunks().cast(pa.binary()).unique()
    # In a fixed order, independent of the tasks.
    return found.take(pc.sort_indices(found))
