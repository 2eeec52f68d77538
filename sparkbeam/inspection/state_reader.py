"""State entries of shards, read with Spark's state reader."""

import functools
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from sparkbeam.common.display_text import line, shortened
from sparkbeam.errors import CheckpointFailed
from sparkbeam.streaming.status import last_entry

ROOT = b"root"
"""Root entry of a shard, which refers to all others."""

Entries = Mapping[bytes, bytes]

_STATE = "state"
_MOST = 300


class SparkStore:
    """State of a query as of its last committed micro-batch.

    It is read with a Spark session whose processes can see the checkpoint.

    Args:
        session: returns the session, on first use.
    """

    def __init__(self, session: Callable[[], Any], location: str) -> None:
        self._session = functools.cache(session)
        self._location = location

    @functools.cached_property
    def _batch(self) -> int:
        """Last committed micro-batch; fixed, as the pipeline may continue meanwhile."""
        last = last_entry(self._location, "commits")
        if last is None:
            raise CheckpointFailed(
                f"There is no state under {self._location} yet: no micro-batch is committed."
            )
        return last[0]

    def roots(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the operator, the shard and the root entry of each shard of each operator.

        Raises:
            CheckpointFailed: there is no readable state.
        """
        _, session = self._batch, self._session()
        try:
            metadata = session.read.format("state-metadata").load(self._location)
            operators = {row.operatorId for row in metadata.select("operatorId").collect()}
        except Exception as error:
            raise self._unreadable(error) from error
        for operator in sorted(operators):
            for shard, entries in self.entries(operator, ROOT):
                if ROOT in entries:
                    yield operator, shard, entries[ROOT]

    def entries(self, operator: int, prefix: bytes) -> Iterator[tuple[int, Entries]]:
        """Yield an operator's entries whose names begin with a prefix, by shard.

        Raises:
            CheckpointFailed: there is no readable state.
        """
        try:
            frame = (
                self._session()
                .read.format("statestore")
                .option("batchId", self._batch)
                .option("operatorId", operator)
                .option("stateVarName", _STATE)
                .option("flattenCollectionTypes", "true")
                .load(self._location)
                .selectExpr("key.shard", "user_map_key.key", "user_map_value.value")
                .where(f"startswith(key, X'{prefix.hex()}')")
            )
            # Each shard is a Spark partition, of which the driver holds one at a time.
            for shard, rows in groupby(frame.toLocalIterator(), itemgetter(0)):
                yield int(shard), {bytes(name): bytes(content) for _, name, content in rows}
        except Exception as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> CheckpointFailed:
        first = line(shortened(next(iter(str(error).splitlines()), ""), _MOST))
        return CheckpointFailed(
            f"Spark cannot read the state under {self._location} as of the micro-batch "
            f"{self._batch} in its log: {first} Spark needs access to the storage: set it up with "
            "--spark_conf. If the pipeline has committed many micro-batches since, "
            "try again."
        )
