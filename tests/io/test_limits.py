"""How much Spark hands to a worker at once in a streaming query."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
    VariantType,
)
from streams import note, notes, run_available

from sparkbeam.io import ReadFromSpark
from sparkbeam.streaming.limits import by_rows, rows_are_small
from sparkbeam.wire.messages import PIECE_BYTES

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROWS = 40_000
LARGE = 20


def numbers(spark: Any, folder: Path) -> ReadFromSpark:
    """Reads numbers, and texts with them, as a stream of files."""
    path = str(folder / "numbers")
    frame = spark.range(ROWS, numPartitions=1).selectExpr(
        "id AS number", "string(id) AS text", "timestamp_seconds(7) AS at"
    )
    frame.write.parquet(path)
    return ReadFromSpark("parquet", {"path": path}, schema=frame.schema, timestamp_column="at")


class Sizes(beam.DoFn):
    """Notes how many elements come at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process_batch(self, batch: pa.Array) -> Iterator[pa.Array]:
        note(self._folder, "sizes", len(batch))
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return input_type


@pytest.mark.parametrize(
    ("function", "most"),
    [(lambda row: row.number, 16_384), (lambda row: len(row.text), ROWS)],
    ids=["numbers", "texts"],
)
def test_rows_of_numbers_are_counted_and_others_measured(
    spark: Any, tmp_path: Path, function: Callable[[Any], int], most: int
) -> None:
    folder = tmp_path / "notes"
    source = numbers(spark, tmp_path)
    before = spark.conf.getAll

    def build(p: beam.Pipeline) -> None:
        values = p | source | beam.Map(function).with_output_types(int)
        _ = values | beam.ParDo(Sizes(folder))

    run_available(spark, tmp_path / "checkpoint", build)
    sizes = notes(folder)["sizes"]
    assert sum(sizes) == ROWS
    assert max(sizes) == most
    assert spark.conf.getAll == before


def text_of(number: int) -> str:
    """A long text, and longer the larger the number is."""
    return f"{number} " * (number * PIECE_BYTES // 10)


def test_what_is_large_gets_to_later_layers_as_it_was(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    source = numbers(spark, tmp_path)

    def build(p: beam.Pipeline) -> None:
        few = p | source | beam.Filter(lambda row: row.number < LARGE)
        large = few | beam.Map(lambda row: (row.number, text_of(row.number)))
        # Those that come from the first layer go through the second one.
        again = large | "Once" >> beam.Reshuffle()
        both = (large, again) | beam.Flatten() | "Twice" >> beam.Reshuffle()
        _ = both | beam.MapTuple(
            lambda number, text: note(folder, str(number), zlib.crc32(text.encode()))
        )

    run_available(spark, tmp_path / "checkpoint", build)
    assert notes(folder) == {
        str(number): 2 * [zlib.crc32(text_of(number).encode())] for number in range(LARGE)
    }


@pytest.mark.parametrize(
    ("given", "rows"), [({}, 16_384), ({RECORDS: "100"}, 100), ({RECORDS: "0"}, 16_384)]
)
def test_a_limit_of_fewer_rows_is_kept_to(given: dict[str, str], rows: int) -> None:
    assert by_rows(given) == {BYTES: "2147483647", RECORDS: str(rows)}


def row(*kinds: DataType) -> StructType:
    """The schema of rows with such columns."""
    return StructType([StructField(f"c{n}", kind) for n, kind in enumerate(kinds)])


NUMBERS = row(LongType(), row(DecimalType(38, 3), BooleanType(), TimestampType()), NullType())


@pytest.mark.parametrize(
    "kind",
    [
        StringType(),
        VarcharType(3),
        BinaryType(),
        ArrayType(LongType()),
        MapType(LongType(), LongType()),
        row(StringType()),
        VariantType(),
    ],
    ids=str,
)
def test_what_may_be_of_any_size_is_measured(kind: DataType) -> None:
    assert rows_are_small([NUMBERS])
    assert not rows_are_small([NUMBERS, row(LongType(), kind)])


def test_wide_rows_are_measured_and_so_is_what_nothing_is_known_of() -> None:
    assert rows_are_small([row(*64 * [LongType()])])
    assert not rows_are_small([row(*65 * [LongType()])])
    assert not rows_are_small([])
