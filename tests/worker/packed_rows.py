"""Packs of rows as Spark gives them to a task, for tests of what reads them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import strategies as hs

from sparkbeam.wire import key_packs
from sparkbeam.wire.rows import SCHEMA


class Rows:
    """Gathers rows."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, bytes, int, bytes]] = []

    def append(self, tag: int, key: Any, order: int, value: bytes) -> None:
        self.rows.append((tag, key, order, value))

    def extend(self, tag: int, keys: Any, orders: Any, values: Any) -> None:
        self.rows += zip([tag] * len(keys), keys, orders, values, strict=True)

    def extend_columns(self, tag: int, keys: Any, orders: Any, values: Any) -> None:
        self.extend(tag, keys.to_pylist(), orders.tolist(), values.to_pylist())

    def batches(self, size: int) -> Iterator[pa.RecordBatch]:
        """In their order, as Spark sorts them."""
        self.rows.sort(key=lambda row: row[1:3])
        columns = [list(column) for column in zip(*self.rows, strict=True)]
        table = pa.table(
            [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
        )
        return iter(table.to_batches(max_chunksize=size))


@contextmanager
def packs_of(size: int) -> Iterator[None]:
    """Lets packs be no larger than so many bytes, and be read as if that were much."""
    with mock.patch.multiple(key_packs, CELL_BYTES=size, _WHOLE_BYTES=size, _MOST_BYTES=size):
        yield


PACK_SIZES = hs.sampled_from([1, 300, 1 << 20])
