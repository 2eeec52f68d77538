"""Sizes of the row groups of Parquet files, from their footers."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

_File = TypeVar("_File")
_Footer = TypeVar("_Footer")

MOST_FOOTERS, FOOTERS_AT_ONCE = 1000, 16
"""Maximum number of files whose footers are read, in total and concurrently.

Beyond that, inspection costs the driver more than it saves.
"""

BATCH_ROWS, BATCH_BYTES = 1 << 16, 8 << 20
"""Bounds of a batch of rows: a maximum number, and an approximate number of bytes."""


@dataclass(frozen=True)
class Volume:
    """The size of row groups.

    Attributes:
        rows: the number of rows.
        sizes: the uncompressed bytes of each column, by name; those of its fields belong to a
            struct.
    """

    rows: int
    sizes: Mapping[str, int]

    @classmethod
    def of(cls, groups: Iterable[Any]) -> "Volume":
        """Return the size of the row groups with some metadata."""
        rows, sizes = 0, Counter[str]()
        for group in groups:
            rows += group.num_rows
            for column in map(group.column, range(group.num_columns)):
                sizes[column.path_in_schema.partition(".")[0]] += column.total_uncompressed_size
        return cls(rows, sizes)

    def batches(self, columns: Iterable[str]) -> float:
        """Return the number of batches of some columns."""
        size = sum(self.sizes.get(name, 0) for name in columns)
        return max(self.rows / BATCH_ROWS, size / BATCH_BYTES)


def row_groups(footer: Any) -> Iterator[Any]:
    """Yield the metadata of the row groups of a file with some metadata."""
    return map(footer.row_group, range(footer.num_row_groups))


def in_threads(read: Callable[[_File], _Footer], files: Sequence[_File]) -> list[_Footer]:
    """Return what is read of each file, several of them at once."""
    with ThreadPoolExecutor(min(FOOTERS_AT_ONCE, len(files))) as pool:
        return list(pool.map(read, files))
