"""Division of the Parquet files of a ``ReadFromSpark`` among tasks that read them directly."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class FilePart:
    """A part of a file.

    Attributes:
        size: of the file, in bytes.
        modified: the time of the last change, in nanoseconds since 1970; None if it may differ
            between machines.
        row_groups: the numbers of the row groups that overlap the part.
        start: the first row of the part, relative to these row groups.
        rows: the maximum number of rows of a batch.
    """

    path: str
    size: int
    modified: int | None
    row_groups: tuple[int, ...]
    start: int
    stop: int
    rows: int


@dataclass(frozen=True)
class ParquetFiles:
    """Divided files of a source.

    Attributes:
        schema: of the columns to read, in Spark's Arrow types.
        time: the name of the timestamp column; None if all rows have the earliest timestamp.
        output: the names of the columns before it.
        shares: the parts of each task.
    """

    schema: pa.Schema
    time: str | None
    output: tuple[str, ...]
    shares: tuple[tuple[FilePart, ...], ...]
