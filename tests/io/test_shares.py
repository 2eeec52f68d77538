"""Rows of Parquet files are divided between tasks: each is read once, in order."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.connectors.parquet_reads import divided
from sparkbeam.wire.parquet_splits import FilePart, ParquetFiles
from sparkbeam.worker.connectors.parquet_rows import batches_of

SCHEMA = pa.schema([("x", pa.int64())])

Share = tuple[FilePart, ...]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def parts_of(folder: Path, files: list[list[int]], rows: int) -> list[tuple[FilePart, int]]:
    """A part for each row group of some files with so many rows each, with its bytes."""
    parts, before = [], 0
    for number, groups in enumerate(files):
        path = folder / f"{number}.parquet"
        with pq.ParquetWriter(path, SCHEMA) as writer:
            for count in groups:
                column = pa.array(range(before, before + count), pa.int64())
                writer.write_table(pa.table([column], SCHEMA))
                before += count
        stat = path.stat()
        parts += [
            (FilePart(str(path), stat.st_size, stat.st_mtime_ns, (at,), 0, count, rows), 8 * count)
            for at, count in enumerate(groups)
        ]
    return parts


def read(shares: tuple[Share, ...]) -> list[list[int]]:
    """The rows of each share."""
    files = ParquetFiles(SCHEMA, None, ("x",), shares)
    return [
        [row for batch in batches_of(files, at) for row in batch.column("x").to_pylist()]
        for at in range(len(shares))
    ]


def counts(shares: tuple[Share, ...]) -> list[int]:
    """How many rows are in each share."""
    return [sum(part.stop - part.start for part in share) for share in shares]


@given(
    files=st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=4), min_size=1, max_size=4),
    tasks=st.integers(1, 9),
    rows=st.integers(1, 20),
)
def test_each_row_is_read_once_and_in_order(
    folder: Path, files: list[list[int]], tasks: int, rows: int
) -> None:
    shares = divided(parts_of(folder, files, rows), tasks)
    found = read(shares)
    assert [row for share in found for row in share] == [*range(sum(map(sum, files)))]
    assert all(found)
    assert len(found) <= tasks
    assert counts(shares) == [*map(len, found)]


def test_a_row_group_is_divided_where_tasks_would_be_unequal(folder: Path) -> None:
    assert counts(divided(parts_of(folder, [[100]] * 5, 10), 2)) == [250, 250]
    assert counts(divided(parts_of(folder, [[100, 100, 100]], 10), 2)) == [150, 150]
    assert counts(divided(parts_of(folder, [[100]], 10), 2)) == [50, 50]


def test_a_row_group_stays_in_one_piece_where_tasks_are_about_equal(folder: Path) -> None:
    assert counts(divided(parts_of(folder, [[100, 100]], 1), 2)) == [100, 100]
    assert counts(divided(parts_of(folder, [[100, 109]], 1), 2)) == [100, 109]
    assert counts(divided(parts_of(folder, [[100, 130]], 1), 2)) == [115, 115]


def test_a_row_group_stays_in_one_piece_if_a_batch_would_be_more(folder: Path) -> None:
    assert counts(divided(parts_of(folder, [[100]], 51), 2)) == [100]
    assert counts(divided(parts_of(folder, [[100]] * 5, 51), 2)) == [200, 300]


def test_few_row_groups_are_not_for_many_tasks(folder: Path) -> None:
    assert counts(divided(parts_of(folder, [[100]], 10), 100)) == [50, 50]
