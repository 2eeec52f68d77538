"""Pipelines that read some columns give what they give with all of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from noting import values

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark


class Pair(NamedTuple):
    number: int
    text: str


def test_a_block_that_goes_element_by_element_has_what_its_function_looks_at(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "rows")
    rows = [(1, "a", 2**62), (2, "b", 5), (3, None, None)]
    spark.createDataFrame(rows, "id long, name string, number long").write.parquet(path)
    with beam.Pipeline(SparkRunner(spark)) as p:
        numbers = (
            p
            | ReadFromSpark("parquet", {"path": path})
            | beam.Filter(lambda row: row.number is not None)
            | beam.Map(lambda row: (row.id, row.number * 4))
        )
        assert_that(numbers, equal_to([(1, 2**64), (2, 20)]))


NUMBERS = pa.table({"id": [1, 2], "name": ["a", "b"], "number": [2**62, 5]})


def write_files(folder: Path, **tables: pa.Table) -> None:
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet", row_group_size=1)


def results_of(folder: Path, function: Callable[[Any], Any], **read: Any) -> list[Any]:
    files = beam.io.ReadFromParquet(f"{folder}/*.parquet", **read)
    return sorted(values(lambda p: p | files | beam.Map(function)))


def test_of_a_file_with_other_columns_all_are_read(tmp_path: Path) -> None:
    other = NUMBERS.append_column("discount", pa.array([1, 2]))
    write_files(tmp_path, a=NUMBERS, b=other, c=NUMBERS.select(["number", "id"]))
    assert results_of(tmp_path, lambda row: (row["id"], row.get("discount", 0), "name" in row)) == [
        (1, 0, False),
        (1, 0, True),
        (1, 1, True),
        (2, 0, False),
        (2, 0, True),
        (2, 2, True),
    ]


def test_what_goes_element_by_element_has_the_columns_that_are_read(tmp_path: Path) -> None:
    write_files(tmp_path, a=NUMBERS)
    assert results_of(tmp_path, lambda row: row["number"] * 4) == [20, 2**64]


@pytest.mark.parametrize("columns", [["name", "id", "number"], ["id", "number"]])
def test_columns_that_the_user_has_chosen(columns: list[str], tmp_path: Path) -> None:
    write_files(tmp_path, a=NUMBERS)
    found = results_of(tmp_path, lambda row: (row["id"], row.get("name")), columns=columns)
    assert found == ([(1, "a"), (2, "b")] if "name" in columns else [(1, None), (2, None)])


def test_no_column_at_all(tmp_path: Path) -> None:
    write_files(tmp_path, a=NUMBERS)
    assert results_of(tmp_path, lambda row: 1) == [1, 1]


def test_rows_are_counted_where_no_column_is_read(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "rows")
    spark.createDataFrame([(1, "a"), (2, None), (3, "c")], "id long, name string").write.parquet(
        path
    )
    with beam.Pipeline(SparkRunner(spark)) as p:
        ones = p | ReadFromSpark("parquet", {"path": path}) | beam.Map(lambda row: 1)
        assert_that(ones | beam.CombineGlobally(sum), equal_to([3]))


def test_records_with_fields_that_nobody_looks_at_travel_between_stages(
    spark: Any, tmp_path: Path
) -> None:
    path = str(tmp_path / "rows")
    rows = [(number, f"text {number}") for number in range(100)]
    spark.createDataFrame(rows, "id long, name string").write.parquet(path)
    with beam.Pipeline(SparkRunner(spark)) as p:
        read = p | ReadFromSpark("parquet", {"path": path})
        few = read | "few" >> beam.Filter(lambda row: row.id < 3)
        pairs = [
            one | label >> beam.Map(lambda row: Pair(row.id, row.name)).with_output_types(Pair)
            for label, one in (("all pairs", read), ("few pairs", few))
        ]
        texts = pairs | beam.Flatten() | beam.Reshuffle() | beam.Map(lambda pair: pair.text)
        assert_that(texts, equal_to([name for _, name in rows + rows[:3]]))
