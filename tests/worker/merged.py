"""Keys, rows and outputs, for tests of what merges accumulators over columns."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pyarrow as pa
from apache_beam.transforms.core import CombineFn
from hypothesis import strategies as hs

from sparkbeam.wire import key_packs
from sparkbeam.wire.rows import SCHEMA
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.column_accumulators import Totals
from sparkbeam.worker.slots import parts_of

LABEL = "the sum"
KEYS: dict[str, list[Any]] = {
    "int": [0, -1, 2**40],
    "mixed": [0, "0", b"0", None],
    "str": ["a", "ä", ""],
    "bytes": [b"", b"\0"],
    "pairs": [("a", 1), ("a", 2)],
    "nested": [(("a", 1), b"x"), (("b", 1), b"")],
    "large": [2**62, -(2**63)],
    "lengths": [(1,), (1, 2)],
    "none": [None],
    "truth": [True, False],
}


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


def outputs(blocks: Iterator[Block], fn: CombineFn) -> list[str]:
    """What the groups of blocks come to, with all that belongs to them."""
    found = []
    for block in blocks:
        for part in parts_of(block):
            for element in part.elements():
                key, accumulators = element.value
                total = fn.extract_output(fn.merge_accumulators(accumulators))
                found.append(repr(element.with_value((key, total))) + repr(element.pane_info))
        if isinstance(block.column, Totals):
            plain = [
                (key, fn.extract_output(fn.merge_accumulators(of))) for key, of in block.values
            ]
            assert repr(block.column.outputs().values()) == repr(plain)
    return sorted(found)
