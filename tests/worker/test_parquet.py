"""Beam's own reading of Parquet: its rows are columns, and give what they give as elements."""

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from elementwise import as_elements
from noting import noted

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")

PLAIN = ["bidder", "price", "name", "note", "tags"]
NAMED = pa.struct([("first", pa.string()), ("last", pa.string())])


def bids(count: int) -> pa.Table:
    choice = random.Random(3)
    numbers = range(count)
    return pa.table(
        {
            "bidder": pa.array([choice.randrange(7) for _ in numbers], pa.int32()),
            "price": pa.array([choice.randrange(100) for _ in numbers], pa.int64()),
            "ratio": pa.array([at / 4 for at in numbers], pa.float32()),
            "name": pa.array([choice.choice(["ann", "zoë"]) for _ in numbers]).dictionary_encode(),
            "note": pa.array([None if at % 5 else str(at) for at in numbers]),
            "second": pa.array([choice.randrange(600) for _ in numbers]),
            "at": pa.array([datetime.fromtimestamp(at, UTC) for at in numbers]),
            "naive": pa.array([at * 1000 for at in numbers], pa.timestamp("us")),
            "day": pa.array([date(2020, 1, 1 + at % 28) for at in numbers]),
            "cost": pa.array([Decimal(at) / 4 for at in numbers], pa.decimal128(9, 2)),
            "tags": pa.array([[str(at)] * (at % 3) for at in numbers]),
            "who": pa.array([{"first": str(at), "last": "x"} for at in numbers], NAMED),
            "all": pa.array(
                [[{"first": str(at), "last": None}] for at in numbers], pa.list_(NAMED)
            ),
            "counts": pa.array([[("a", at)] for at in numbers], pa.map_(pa.string(), pa.int64())),
            "raw": pa.array([b"\x00" * (at % 2) for at in numbers]),
            "whole": pa.array([2**63 + at for at in numbers], pa.uint64()),
        }
    )


PIPELINES: dict[str, Callable[[Any], Any]] = {
    "as they are": lambda rows: rows,
    "fields": lambda rows: rows | beam.Map(lambda row: (row["bidder"], row["price"] * 2)),
    "all else": lambda rows: (
        rows
        | beam.Map(
            lambda row: (row["at"], row["naive"], row["day"], row["cost"], row["tags"], row["all"])
        )
    ),
    "inner": lambda rows: rows | beam.Map(lambda row: (row["who"]["first"], row["who"])),
    "with None": lambda rows: (
        rows | beam.Map(lambda row: len(row["note"]) if row.get("note") is not None else -1)
    ),
    "raises for some": lambda rows: rows | beam.Map(lambda row: row["whole"] + 1),
    "new dicts": lambda rows: rows | beam.Map(lambda row: {**row, "price": row["price"] // 10}),
    "as rows": lambda rows: rows | beam.Map(lambda row: beam.Row(**row)),
    "changed": lambda rows: (
        rows
        | beam.Map(lambda row: row.update(price=0) or row)
        | "price" >> beam.Map(lambda row: row["price"])
    ),
    "stamped by a datetime": lambda rows: (
        rows
        | beam.Map(lambda row: TimestampedValue(row["bidder"], row["at"].timestamp()))
        | "ones" >> beam.Map(lambda bidder: (bidder, 1))
        | beam.WindowInto(FixedWindows(60))
        | beam.CombinePerKey(sum)
    ),
    "stamped by a datetime without a zone": lambda rows: (
        rows
        | beam.Map(lambda row: TimestampedValue((row["name"], 1), row["naive"].timestamp()))
        | beam.WindowInto(FixedWindows(60))
        | beam.CombinePerKey(sum)
    ),
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[str]]:
    """What comes out of a pipeline over the rows of files."""
    some = bids(1000)
    plain = some.select(PLAIN).set_column(2, "name", some["name"].cast(pa.string()))
    pq.write_table(plain, tmp_path / "plain", row_group_size=400)
    pq.write_table(some.slice(0, 600), tmp_path / "a.parquet", row_group_size=250)
    pq.write_table(some.slice(600), tmp_path / "b.parquet", row_group_size=1000)
    pq.write_table(some.slice(0, 0), tmp_path / "c.parquet")

    def run(
        build: Callable[[Any], Any], files: str = "*.parquet", *, as_rows: bool = False
    ) -> list[str]:
        rows = beam.io.ReadFromParquet(str(tmp_path / files), as_rows=as_rows)
        return noted(lambda p: build(p | rows))

    return run


@pytest.mark.part(5)
@pytest.mark.parametrize("name", PIPELINES)
def test_dicts_over_columns_are_those_of_beam(
    name: str, run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = PIPELINES[name]
    results = run(build)
    assert results
    assert results == as_elements(monkeypatch, lambda: run(build))


@pytest.mark.parametrize(
    "build",
    [
        lambda rows: rows,
        lambda rows: rows | beam.Filter(lambda row: row.price > 50),
        lambda rows: rows | beam.Map(lambda row: (row.bidder, row.note, row.tags)),
        lambda rows: rows | beam.GroupBy("bidder").aggregate_field("price", sum, "total"),
        lambda rows: rows | beam.Select("name", twice=lambda row: row.price * 2),
    ],
)
def test_rows_over_columns_are_those_of_beam(
    build: Callable[[Any], Any], run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = run(build, "plain", as_rows=True)
    assert results
    assert results == as_elements(monkeypatch, lambda: run(build, "plain", as_rows=True))


@pytest.mark.parametrize("window_fn", [FixedWindows(60), SlidingWindows(60, 20), Sessions(60)])
def test_rows_without_a_timestamp_are_in_the_windows_at_the_beginning_of_time(
    tmp_path: Path, window_fn: Any
) -> None:
    """Where a block has None for a key, and gives elements to the same windows, too."""
    table = pa.table({"k": ["a", "a", "a", None], "v": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=2)

    def build(p: beam.Pipeline) -> Any:
        rows = p | beam.io.ReadFromParquet(str(tmp_path / "rows.parquet"))
        pairs = rows | beam.Map(lambda row: (row["k"], row["v"])) | beam.WindowInto(window_fn)
        totals = pairs | beam.CombinePerKey(sum)
        groups = pairs | beam.GroupByKey() | beam.MapTuple(lambda k, vs: (k, sorted(vs)))
        return (totals, groups) | beam.Flatten()

    assert noted(build) == noted(build, runner=FnApiRunner())
