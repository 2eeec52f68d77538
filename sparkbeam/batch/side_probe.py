"""A look at a side of a join before the other one runs: how large it is, and which keys it has."""

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from sparkbeam.plan.small_sides import SmallSide
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
"""Of a row of Spark's with four fields, beside its texts, which take eight bytes or more each."""

_WORD = 8

_MOST_KEY_BYTES = 4 << 20
"""More bytes of keys do not travel with each task of a stage."""


def broadcast_bytes(session: Any) -> int:
    """The size in bytes up to which an adaptive join broadcasts a side; negative for none."""
    if _setting(session, _ADAPTIVE) != "true":
        return -1
    for name in _THRESHOLDS:
        size = _SIZE.fullmatch(_setting(session, name))
        if size:
            return int(size[1]) * 1024 ** _EXPONENTS[size[2]]
    return -1


def _setting(session: Any, name: str) -> str:
    """Spark's own default too, which it does not tell if it is given another one."""
    return str(session.conf.get(name)).strip().lower()


class Look:
    """What is known of a side.

    Args:
        side: which one it is.
        rows: its DataFrame.
        limit: the size in bytes up to which a side is small.
        is_kept: the rows are persisted already.

    Attributes:
        side: the same.
        rows: the DataFrame of its rows, which are not made again.
        is_broadcast: whether it is small, and goes to all tasks of the other side.
        keys: what is on it, binary and each once, if the other side is to leave out what has none
            of them; or else None.
    """

    def __init__(self, side: SmallSide, rows: Any, limit: int, *, is_kept: bool) -> None:
        self.side = side
        self.rows = rows if is_kept else rows.persist()
        self._is_kept = is_kept
        self.is_broadcast = False
        self.keys: pa.Array | None = None
        try:
            bytes, key_bytes = _measured(self.rows)
            if bytes <= limit:
                self.is_broadcast = side.is_for_tasks
                if side.is_for_writers and key_bytes <= _MOST_KEY_BYTES:
                    self.keys = _keys(self.rows)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Lets go of the rows."""
        if not self._is_kept:
            self.rows.unpersist()


def _measured(rows: Any) -> tuple[int, int]:
    """The bytes of a side as Spark counts what it broadcasts, and those of the keys alone."""
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
    # In the same order whichever task was the first.
    return found.take(pc.sort_indices(found))
