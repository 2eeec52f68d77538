"""Footers of Parquet files: the schema of their columns, and the sizes of their row groups."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

_File = TypeVar("_File")
_Footer = TypeVar("_Footer")

MOST_FOOTERS, FOOTERS_AT_ONCE = 1000, 16
"""Maximum number of files whose footers are read, in total and concurrently.

Beyond that, inspection costs the driver more than it saves.
"""

BATCH_ROWS, BATCH_BYTES = 1 << 16, 8 << 20
"""Bounds of a batch of rows: a maximum number, and an approximate number of bytes."""


@dataclass(frozen=True)
class Footers:
    """The schema and size of Parquet files, from their footers.

    Attributes:
        schema: the schema of the first file.
        rows: the number of rows of all files.
        sizes: the uncompressed bytes of each column, by name; those of its fields belong to a
            struct.
    """

    schema: pa.Schema
    rows: int
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, files: Sequence[pq.ParquetFile]) -> "Footers":
        """Return the schema and size of some files."""
        rows, sizes = 0, Counter[str]()
        for group in (group for file in files for group in row_groups(file)):
            rows += group.num_rows
            for column in map(group.column, range(group.num_columns)):
                sizes[column.path_in_schema.partition(".")[0]] += column.total_uncompressed_size
        return cls(files[0].schema.to_arrow_schema().remove_metadata(), rows, sizes)

    def batches(self, columns: Iterable[str]) -> float:
        """Return the number of batches of some columns."""
        size = sum(self.sizes.get(name, 0) for name in columns)
        return max(self.rows / BATCH_ROWS, size / BATCH_BYTES)


def row_groups(file: pq.ParquetFile) -> Iterator[Any]:
    """Yield the metadata of the row groups of a file."""
    return map(file.metadata.row_group, range(file.num_row_groups))


def in_threads(read: Callable[[_File], _Footer], files: Sequence[_File]) -> list[_Footer]:
    """Return what is read of each file, several of them at once."""
    with ThreadPoolExecutor(min(FOOTERS_AT_ONCE, len(files))) as pool:
        return list(pool.map(read, files))
