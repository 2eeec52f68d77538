"""Entries of the state of shards, as Spark's own reader of state finds them."""

import functools
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

from sparkbeam.common.display_text import line, shortened
from sparkbeam.errors import CheckpointFailed
from sparkbeam.streaming.status import last_entry

ROOT = b"root"
"""The entry of a shard that knows all others."""

Entries = Mapping[bytes, bytes]

_STATE = "state"
_MOST = 300


class Store(Protocol):
    """The state of a query as of its last committed micro-batch."""

    def roots(self) -> Iterator[tuple[int, int, bytes]]:
        """The operator, the shard and the root entry of each shard of each operator.

        Raises:
            CheckpointFailed: there is no state that can be read.
        """

    def entries(self, operator: int, prefix: bytes) -> Iterator[tuple[int, Entries]]:
        """The entries of an operator whose names begin so, shard by shard.

        Raises:
            CheckpointFailed: there is no state that can be read.
        """


class SparkStore:
    """Reads with a session of Spark, whose processes have to see the checkpoint.

    Args:
        session: gives the session, when it is needed.
        location: the checkpoint location.
    """

    def __init__(self, session: Callable[[], Any], location: str) -> None:
        self._session = functools.cache(session)
        self._location = location

    @functools.cached_property
    def _batch(self) -> int:
        """The last committed micro-batch: the pipeline may go on while its state is read."""
        last = last_entry(self._location, "commits")
        if last is None:
            raise CheckpointFailed(
                f"There is no state under {self._location} yet: no micro-batch is committed."
            )
        return last[0]

    def roots(self) -> Iterator[tuple[int, int, bytes]]:
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
        rows = self._rows(operator, prefix)
        for shard, found in groupby(rows, itemgetter(0)):
            yield shard, {name: content for _, name, content in found}

    def _rows(self, operator: int, prefix: bytes) -> Iterator[tuple[int, bytes, bytes]]:
        """Shard by shard: each is a partition of Spark's, of which the driver has one at a time."""
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
            for row in frame.toLocalIterator():
                yield int(row[0]), bytes(row[1]), bytes(row[2])
        except Exception as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> CheckpointFailed:
        first = line(shortened(next(iter(str(error).splitlines()), ""), _MOST))
        return CheckpointFailed(
            f"Spark cannot read the state under {self._location} as of the micro-batch "
            f"{self._batch} in its log: {first} It has to see the storage, for which --spark_conf "
            "gives it settings. Where the pipeline has gone on by many micro-batches meanwhile, "
            "try again."
        )
