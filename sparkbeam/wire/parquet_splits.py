"""Which Parquet files the tasks of a source read, in place of rows that Spark hands over."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class FilePart:
    """A part of a file.

    Attributes:
        path: of the file.
        size: of the file, in bytes.
        modified: when the file was last modified, in nanoseconds since 1970.
        row_groups: the numbers of those that are in the part, in whole or not.
        start: the first row of the part, counted from the first one of these row groups.
        stop: the row behind its last one, counted likewise.
        rows: at most so many of them in a batch.
    """

    path: str
    size: int
    modified: int
    row_groups: tuple[int, ...]
    start: int
    stop: int
    rows: int


@dataclass(frozen=True)
class ParquetFiles:
    """The files of a source, divided.

    Attributes:
        schema: of the columns that are read, as Spark hands them over.
        time: the name of the one with the timestamps of rows; None where all have the earliest.
        output: the names of those that come before it.
        shares: for each task the parts that it reads.
    """

    schema: pa.Schema
    time: str | None
    output: tuple[str, ...]
    shares: tuple[tuple[FilePart, ...], ...]
