"""Routing of sink output to the stages that read it."""

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from sparkbeam.columns.vectors import Positions
from sparkbeam.plan.layers import Hop, Route
from sparkbeam.wire.firing_rows import UNKNOWN
from sparkbeam.wire.heap import WORKER_HEAP
from sparkbeam.wire.messages import pack
from sparkbeam.wire.rows import CELL_BYTES, Orders, Row

Deliver = Callable[[int, list[Row]], None]
"""Function that delivers rows of a port to the stages of the same layer and shard."""

Send = Callable[[int, int, int, int, bytes], None]
"""Function that sends a message to a shard of a layer: its round, tag and value."""


class Router:
    """Target of sinks in streaming, in place of the row buffer of batch.

    Args:
        shards: the numbers of all shards.
        home: the index of the own shard in ``shards``; None in the first layer, which has none.
        hops: the ways out of each port, by its tag.

    Attributes:
        firing: the firing of the elements that are being processed, for sinks that record it.
    """

    firing = UNKNOWN

    def __init__(
        self,
        shards: tuple[int, ...],
        home: int | None,
        sender: int,
        hops: Mapping[int, tuple[Hop, ...]],
        deliver: Deliver,
        send: Send,
    ) -> None:
        self._shards = shards
        self._home = home
        self._hops = hops
        self._deliver = deliver
        self._send = send
        # The tasks of the first layer begin at different shards, or few rows would all go to one.
        self._next = sender
        self._round = 0
        self._waiting: dict[tuple[int, int, int], list[Row]] = defaultdict(list)
        self._bytes = 0

    def begin(self, round_number: int) -> None:
        """Start a round, to which all later rows belong."""
        self._round = round_number

    def take(self, tag: int, rows: list[Row]) -> None:
        """Add rows of one port."""
        for hop in self._hops[tag]:
            self._take(tag, hop, rows)

    def append(self, tag: int, key: bytes | None, order: int, value: bytes) -> None:
        """Add a row."""
        self.take(tag, [(key or b"", order, value)])

    def extend(self, tag: int, keys: list[bytes], orders: list[int], values: list[bytes]) -> None:
        """Add many rows of one port."""
        self.take(tag, list(zip(keys, orders, values, strict=True)))

    def extend_columns(self, tag: int, keys: pa.Array, orders: Orders, values: pa.Array) -> None:
        """Add many rows of one port, as columns."""
        self.extend(tag, keys.to_pylist(), orders.tolist(), values.to_pylist())

    def extend_keys(self, tag: int, keys: pa.Array, cell: Callable[[Positions], bytes]) -> None:
        """Add many keys of one port, in a row for each shard."""
        each = keys.to_pylist()
        shards = self.shards_of(each)
        for shard in np.unique(shards).tolist():
            places = np.flatnonzero(shards == shard)
            self.take(tag, [(each[int(places[0])], 0, cell(places))])

    def shards_of(self, keys: list[bytes]) -> Positions:
        """Return the index of each key's shard among all shards."""
        return np.array([zlib.crc32(key) for key in keys]) % len(self._shards)

    def pass_on(self, tag: int, hops: tuple[Hop, ...], rows: list[Row]) -> None:
        """Pass on rows of a source that no stage of the first layer reads."""
        for hop in hops:
            self._take(tag, hop, rows)

    def _take(self, tag: int, hop: Hop, rows: list[Row]) -> None:
        shards = self._shards
        waiting = self._waiting
        match hop.way:
            case Route.LOCAL:
                self._deliver(tag, rows)
                return
            case Route.BROADCAST:
                for shard in shards:
                    waiting[hop.layer, shard, tag] += rows
            case Route.BY_KEY:
                count = len(shards)
                for row in rows:
                    waiting[hop.layer, shards[zlib.crc32(row[0]) % count], tag].append(row)
            case Route.FORWARD if self._home is not None:
                waiting[hop.layer, shards[self._home], tag] += rows
            case _:
                for row in rows:
                    self._next = (self._next + 1) % len(shards)
                    waiting[hop.layer, shards[self._next], tag].append(row)
        size = sum(len(key) + len(value) for key, _, value in rows)
        if size > WORKER_HEAP.heap.most:
            WORKER_HEAP.heap.check(max(len(key), len(value)) for key, _, value in rows)
        self._bytes += size
        if self._bytes >= CELL_BYTES * len(shards):
            self.flush()

    def flush(self) -> None:
        """Send the gathered rows."""
        waiting, self._waiting, self._bytes = self._waiting, defaultdict(list), 0
        for (layer, shard, tag), rows in waiting.items():
            self._send(shard, layer, self._round, tag, pack(rows))
