"""The code of docs/lookups.md, and such a table on Spark over a restart."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
import waiting
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process import LeapingClock, Spark, StreamingRunner

PAGE = Path(__file__).parents[1] / "docs" / "lookups.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
RATES = {"GBP": 1.25, "USD": 0.5}


def page(name: str) -> dict[str, Any]:
    """The names of the first block of code, and of the one that defines a name and has a text."""
    found: dict[str, Any] = {"__name__": "lookups_page"}
    (block,) = (block for block in BLOCKS if name in block)
    exec(BLOCKS[0], found)
    exec(block, found)
    return found


@pytest.fixture
def rates(tmp_path: Path) -> Path:
    path = tmp_path / "rates.csv"
    path.write_text("".join(f"{name},{euros}\n" for name, euros in RATES.items()))
    return path


def streaming() -> beam.Pipeline:
    runner = StreamingRunner(Spark(repeatable=False))
    return beam.Pipeline(runner=runner, options=PipelineOptions(["--streaming"]))


def test_each_block_of_the_page_is_looked_at() -> None:
    names = ("every=60, start=None", "sqlite3", "keep_writing", "over_jdbc", "pyarrow.dataset")
    assert len(BLOCKS) == len([*names, "with_changes", "convert_by_minute"])
    for name in (*names, "with_changes", "convert_by_minute"):
        page(name)


def test_orders_are_converted_by_a_file(rates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LeapingClock(monkeypatch)
    start = Timestamp.now()
    with streaming() as p:
        orders = p | beam.Create([("GBP", 4), ("USD", 4)])
        convert = page("every=60, start=None")["convert"]
        found = convert(p, orders, str(rates), every=1, start=start, stop=start + 3)
        assert_that(found, equal_to([5.0, 2.0]))


def test_orders_are_converted_by_a_table_of_their_minute(
    rates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LeapingClock(monkeypatch)
    start = Timestamp(Timestamp.now().micros // 60_000_000 * 60 - 120)
    with streaming() as p:
        orders = p | beam.Create([("GBP", 4), ("USD", 4)])
        times = orders | beam.Map(lambda order: TimestampedValue(order, start + 70))
        convert = page("convert_by_minute")["convert_by_minute"]
        found = convert(p, times, str(rates), start=start, stop=start + 120)
        assert_that(found, equal_to([5.0, 2.0]))


def test_orders_are_converted_by_changes() -> None:
    events = (
        TestStream()
        .add_elements([TimestampedValue(("GBP", 1.25), 1)], tag="changes")
        .add_elements([TimestampedValue(("USD", 0.5), 1)], tag="changes")
        .add_elements([("GBP", 4)], tag="orders")
        .add_elements([TimestampedValue(("GBP", 1.5), 2)], tag="changes")
        .add_elements([("GBP", 4), ("USD", 4), ("CHF", 4)], tag="orders")
        .advance_watermark_to_infinity(tag="changes")
        .advance_watermark_to_infinity(tag="orders")
    )
    with streaming() as p:
        found = p | events
        seen = page("with_changes")["with_changes"](found["orders"], found["changes"])
        assert_that(seen, equal_to([5.0, 6.0, 2.0, 4.0]))


def test_rates_are_read_from_a_database(tmp_path: Path) -> None:
    path = tmp_path / "rates.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rates (name TEXT, euros REAL)")
        database.executemany("INSERT INTO rates VALUES (?, ?)", RATES.items())
        database.commit()
    assert page("sqlite3")["read_rates"](str(path)) == RATES


@pytest.fixture
def table(spark: Any) -> Iterator[Any]:
    frame = spark.createDataFrame(list(RATES.items()), "name string, euros double")
    frame.write.saveAsTable("rates")
    yield frame
    spark.sql("DROP TABLE rates")


def test_rates_are_read_from_tables_of_spark(spark: Any, table: Any, tmp_path: Path) -> None:
    """As files of Parquet, by the session, and over JDBC from Derby, which Spark brings along."""
    (location,) = {str(Path(file.removeprefix("file:")).parent) for file in table_files(spark)}
    assert page("pyarrow.dataset")["read_rates"](location) == RATES
    table.write.jdbc("jdbc:derby:memory:rates;create=true", "rates")
    queries = page("over_jdbc")
    for name in ("of_table", "over_jdbc"):
        path = tmp_path / name
        names = page("keep_writing")
        end = names["keep_writing"](spark, queries[name], str(path), every=0.1)
        assert names["read_rates"](str(path)) == RATES
        path.unlink()
        waiting.until(path.exists)
        end()


def table_files(spark: Any) -> list[str]:
    return list(spark.read.table("rates").inputFiles())
