"""In how many tasks files are read if all is done over columns with their rows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plans import planned


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files, each of a row group of 50,000 rows."""
    for name in "abc":
        table = pa.table({"id": range(50_000), "name": ["a name that is long"] * 50_000})
        pq.write_table(table, tmp_path / f"{name}.parquet", use_dictionary=False)
    return tmp_path


def most_tasks(build: Callable[[Any], Any], files: str, *options: str) -> int | None:
    stage, *_ = planned(lambda p: build(p | beam.io.ReadFromParquet(files)), *options).stages
    assert stage.creates
    return stage.most_tasks


def summed(rows: Any) -> Any:
    return rows | beam.Map(lambda row: (row["id"] % 3, 1)) | beam.CombinePerKey(sum)


def test_a_task_has_a_batch_of_rows_at_least(folder: Path) -> None:
    assert most_tasks(summed, f"{folder}/a.parquet") == 1
    assert most_tasks(summed, f"{folder}/*.parquet") == 3


def test_a_task_has_a_batch_of_bytes_at_least(folder: Path) -> None:
    def longest(rows: Any) -> Any:
        pairs = rows | beam.Map(lambda row: (row["id"], len(row["name"])))
        return pairs | beam.CombinePerKey(max)

    table = pa.table({"id": range(300), "name": ["x" * 100_000] * 300})
    pq.write_table(table, folder / "d.parquet", use_dictionary=False, compression="none")
    assert most_tasks(summed, f"{folder}/d.parquet") == 1
    assert most_tasks(longest, f"{folder}/d.parquet") == 4


def test_what_is_done_with_elements_may_take_long(folder: Path) -> None:
    assert most_tasks(lambda rows: rows | beam.Map(print), f"{folder}/a.parquet") is None
    assert most_tasks(summed, f"{folder}/a.parquet", "--columns=off") is None


def test_of_many_files_the_rows_are_not_known(folder: Path) -> None:
    for number in range(20):
        pq.write_table(pa.table({"id": [number], "name": ["a"]}), folder / f"{number}.parquet")
    assert most_tasks(summed, f"{folder}/*.parquet") is None
