"""Rows of any size in a streaming query."""

import zlib
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from streams import note, notes, run_available

from sparkbeam.io import ReadFromSpark
from sparkbeam.wire.messages import DDL, SCHEMA

ROWS = 40_000
LARGE = 20


def numbers(spark: Any, folder: Path, partitions: int = 1) -> ReadFromSpark:
    """Reads numbers, and texts with them, as a stream of files."""
    path = str(folder / "numbers")
    frame = spark.range(ROWS, numPartitions=partitions).selectExpr(
        "id AS number", "string(id) AS text", "timestamp_seconds(7) AS at"
    )
    frame.write.parquet(path)
    return ReadFromSpark("parquet", {"path": path}, schema=frame.schema, timestamp_column="at")


def text_of(number: int) -> str:
    """A long text, and longer the larger the number is."""
    return f"{number} " * (1 + number * 800)


@pytest.mark.long("half a minute; large rows of a first layer run")
def test_what_is_large_gets_to_later_layers_as_it_was(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    first, second = (numbers(spark, tmp_path / name, partitions=3) for name in ("a", "b"))

    def build(p: beam.Pipeline) -> None:
        rows = (p | "First" >> first, p | "Second" >> second) | "Both" >> beam.Flatten()
        few = rows | beam.Filter(lambda row: row.number % (ROWS // LARGE) == 0)
        large = few | beam.Map(lambda row: text_of(row.number // (ROWS // LARGE)))
        # Those that come from the first layer go through the second one.
        again = large | "Once" >> beam.Reshuffle()
        both = (large, again) | beam.Flatten() | "Twice" >> beam.Reshuffle()
        _ = both | beam.Map(lambda text: note(folder, text.split()[0], zlib.crc32(text.encode())))

    run_available(spark, tmp_path / "checkpoint", build)
    assert notes(folder) == {
        str(number): 4 * [zlib.crc32(text_of(number).encode())] for number in range(LARGE)
    }


def test_no_column_of_messages_has_a_name_that_sql_reserves(spark: Any) -> None:
    spark.conf.set("spark.sql.ansi.enforceReservedKeywords", "true")
    try:
        assert spark.createDataFrame([], DDL).columns == SCHEMA.names
    finally:
        spark.conf.unset("spark.sql.ansi.enforceReservedKeywords")


def test_large_rows_get_to_the_pipeline_as_they_were(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    path = str(tmp_path / "numbers")
    text = f"IF(id % {ROWS // 4} = 7, repeat(string(id), 1000000), string(id)) AS text"
    frame = spark.range(ROWS, numPartitions=2).selectExpr(text, "timestamp_seconds(7) AS at")
    frame.write.parquet(path)
    source = ReadFromSpark("parquet", {"path": path}, schema=frame.schema, timestamp_column="at")

    def build(p: beam.Pipeline) -> None:
        large = p | source | beam.Filter(lambda row: len(row.text) > 9)
        _ = large | beam.Map(lambda row: note(folder, row.text[:5], zlib.crc32(row.text.encode())))

    run_available(spark, tmp_path / "checkpoint", build)
    numbers = range(7, ROWS, ROWS // 4)
    texts = [1_000_000 * str(number) for number in numbers]
    assert notes(folder) == {text[:5]: [zlib.crc32(text.encode())] for text in texts}
