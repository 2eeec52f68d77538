"""How much Spark hands to a worker at once in a streaming query."""

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from in_process import Spark
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

from sparkbeam.io import ForeachBatch, ReadFromSpark
from sparkbeam.streaming.batch_limits import has_bounded_rows, limit_rows, split_long_values
from sparkbeam.wire.messages import DDL, PIECE_BYTES, SCHEMA, Joiner, Message
from sparkbeam.wire.row_pieces import PIECE, joined

BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
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


class Sizes(beam.DoFn):
    """Notes how many elements come at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def process_batch(self, batch: pa.Array) -> Iterator[pa.Array]:
        note(self._folder, "sizes", len(batch))
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return input_type


def read_numbers(row: Any) -> int:
    """Of a row of numbers and texts."""
    return int(row.number)


def read_texts(row: Any) -> int:
    """Likewise."""
    return len(row.text)


@pytest.mark.part(3)
@pytest.mark.parametrize(
    ("read", "delivers", "most"),
    [(read_numbers, False, 16_384), (read_texts, False, 16_384), (read_numbers, True, ROWS)],
    ids=["numbers", "texts", "numbers for a sink"],
)
def test_rows_are_counted_unless_a_sink_gets_them(
    spark: Any, tmp_path: Path, read: Callable[[Any], int], delivers: bool, most: int
) -> None:
    folder = tmp_path / "notes"
    source = numbers(spark, tmp_path)
    before = spark.conf.getAll

    def build(p: beam.Pipeline) -> None:
        values = p | source | beam.Map(read).with_output_types(int)
        same = values | beam.ParDo(Sizes(folder))
        if delivers:
            rows = same | beam.Map(lambda number: {"number": number})
            _ = rows | ForeachBatch(lambda frame, _: None, StructType().add("number", LongType()))

    run_available(spark, tmp_path / "checkpoint", build)
    sizes = notes(folder)["sizes"]
    assert sum(sizes) == ROWS
    assert max(sizes) == most
    assert spark.conf.getAll == before


def text_of(number: int) -> str:
    """A long text, and longer the larger the number is."""
    return f"{number} " * (1 + number * PIECE_BYTES // 10)


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


def test_pieces_of_several_messages_are_not_joined() -> None:
    def piece(sender: int, more: int) -> Message:
        return Message(0, 1, 0, 5, sender, 0, more, b"some")

    joiner = Joiner()
    assert joiner.add(piece(1, 0)) == b"some"
    assert joiner.add(piece(1, 1)) is None
    with pytest.raises(RuntimeError, match=r"the piece .* is missing"):
        joiner.end()
    with pytest.raises(RuntimeError, match="expected the piece"):
        joiner.add(piece(2, 1))
    assert joiner.add(piece(1, 0)) == b"somesome"
    joiner.end()


@pytest.mark.parametrize(
    ("given", "rows"), [({}, 16_384), ({RECORDS: "100"}, 100), ({RECORDS: "0"}, 16_384)]
)
def test_a_limit_of_fewer_rows_is_kept_to(given: dict[str, str], rows: int) -> None:
    session = Spark()
    session.conf |= given
    limit_rows(session)
    assert {key: session.conf[key] for key in (BYTES, RECORDS)} == {
        BYTES: "2147483647",
        RECORDS: str(rows),
    }


def row(*kinds: DataType) -> StructType:
    """The schema of rows with such columns."""
    return StructType([StructField(f"c{n}", kind) for n, kind in enumerate(kinds)])


NUMBERS = row(LongType(), row(DecimalType(38, 3), BooleanType(), TimestampType()), NullType())


@pytest.mark.parametrize(
    "kind",
    [
        ArrayType(LongType()),
        MapType(LongType(), LongType()),
        row(StringType()),
        StringType("UNICODE_CI"),
        VariantType(),
    ],
    ids=str,
)
def test_what_may_be_of_any_size_is_measured(kind: DataType) -> None:
    assert has_bounded_rows([NUMBERS])
    assert not has_bounded_rows([NUMBERS, row(LongType(), kind)])


@pytest.mark.parametrize("kind", [StringType(), BinaryType(), VarcharType(3)], ids=str)
def test_texts_are_small_in_pieces(kind: DataType) -> None:
    assert has_bounded_rows([NUMBERS, row(LongType(), kind)])


TEXTS = ["", None, "a", "ä€😀" * 700, "x" * 2048, "y" * 2047, "z" * 2049, "\0" * 20_000, "w"]


@pytest.mark.part(4)
@pytest.mark.parametrize("others", [0, 1, 40], ids=str)
@pytest.mark.parametrize("kind", ["string", "binary"])
def test_rows_in_pieces_are_joined_to_what_they_were(spark: Any, kind: str, others: int) -> None:
    more = [(*(f"{n}{text}" for n in range(others)), at) for at, text in enumerate(TEXTS)]
    names = [f"t{n}" for n in range(others)]
    schema = ", ".join(["text string", *(f"{name} string" for name in names), "at int"])
    given = spark.createDataFrame([(text, *m) for text, m in zip(TEXTS, more, strict=True)], schema)
    frame = given.coalesce(1).selectExpr(
        f"CAST(text AS {kind}) AS text", *names, "at", "at AS text"
    )
    found = split_long_values(frame).toArrow()
    assert found.column_names == [*frame.columns, PIECE]
    assert max(len(text or "") for text in found.column(0).to_pylist()) <= 2048
    expected = frame.toArrow().combine_chunks()
    for rows in (1, 3, 16, 16_384):
        batches = found.combine_chunks().to_batches(max_chunksize=rows)
        assert pa.Table.from_batches(joined(iter(batches))).equals(expected)


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


def test_wide_rows_are_measured_and_so_is_what_nothing_is_known_of() -> None:
    assert has_bounded_rows([row(*64 * [LongType()])])
    assert not has_bounded_rows([row(*65 * [LongType()])])
    assert not has_bounded_rows([])
