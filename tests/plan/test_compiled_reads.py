"""Of which sources it is known that all is done over columns with their rows.

And in how many tasks files are read then.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.window import FixedWindows
from apache_beam.typehints.batch import NumpyArray
from plans import planned
from pyspark.sql import types as st

from sparkbeam.io import ReadFromSpark

SCHEMA = st.StructType(
    [
        st.StructField("id", st.LongType(), False),
        st.StructField("name", st.StringType()),
        st.StructField("at", st.TimestampType()),
    ]
)


def is_compiled(build: Callable[[Any], Any], *options: str) -> bool:
    rows = ReadFromSpark("parquet", {}, SCHEMA, timestamp_column="at")
    (source,) = planned(lambda p: build(p | rows), *options).sources
    return bool(source.read and source.read.is_compiled)


class Halves(beam.DoFn):
    """Of batches: one may hand its elements to a model."""

    @beam.DoFn.yields_elements
    def process_batch(self, batch: NumpyArray[np.int64]) -> Iterator[int]:  # type: ignore[valid-type]
        yield len(batch)


class Each(beam.DoFn):
    def setup(self) -> None:
        self.seen: set[int] = set()

    def process(self, row: Any) -> Iterator[int]:
        yield row.id


def counted(rows: Any) -> Any:
    pairs = rows | "pairs" >> beam.Map(lambda row: (row.id % 3, 1))
    return pairs | beam.WindowInto(FixedWindows(3)) | beam.CombinePerKey(sum)


def ids(rows: Any) -> Any:
    return rows | "ids" >> beam.Map(lambda row: row.id).with_output_types(int)


COMPILED: dict[str, Callable[[Any], Any]] = {
    "a combine": counted,
    "two of them": lambda rows: (counted(rows), rows | "Other" >> beam.Filter(lambda row: row.id)),
    "up to a shuffle": lambda rows: ids(rows) | beam.Reshuffle() | beam.Map(print),
}

OTHERS: dict[str, Callable[[Any], Any]] = {
    "a function that is called": lambda rows: ids(rows) | beam.Map(print),
    "of two steps one": lambda rows: (counted(rows), rows | beam.Map(print)),
    "a DoFn": lambda rows: rows | beam.ParDo(Each()),
    "a DoFn of batches": lambda rows: ids(rows) | beam.ParDo(Halves()),
    "a combine by elements": lambda rows: (
        rows | beam.Map(lambda row: (row.id, 1)) | beam.CombinePerKey(ToListCombineFn())
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_all_is_done_over_columns(name: str) -> None:
    assert is_compiled(COMPILED[name])
    assert not is_compiled(COMPILED[name], "--columns=off")


@pytest.mark.parametrize("name", OTHERS)
def test_something_is_done_with_elements(name: str) -> None:
    assert not is_compiled(OTHERS[name])


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
