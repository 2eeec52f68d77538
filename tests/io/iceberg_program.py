"""Tables of Iceberg over managed transforms, in batch and in a stream that runs again.

It prints its findings as JSON.

Usage: iceberg_program.py FOLDER PART, of PARTS
"""

import datetime
import json
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import page_programs
import pytest
import streams
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import managed
from apache_beam.utils.timestamp import Timestamp
from table_programs import NO_JAR, settings

from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.io import ForeachBatch, ReadFromSpark
from sparkbeam.upstream.spark import active_session


class Sale(NamedTuple):
    """A row."""

    id: int
    item: str | None
    price: Decimal
    day: datetime.date
    at: Timestamp
    tags: list[str]


SALES = [
    Sale(
        number,
        None if number == 2 else f"it'em {number}",
        Decimal("1.250"),
        datetime.date(2020, 1, 1 + number),
        Timestamp(number + 0.000001),
        ["a", f"{number}"],
    )
    for number in range(4)
]


def pipeline(build: Callable[[beam.Pipeline], None]) -> None:
    options = PipelineOptions(["--spark_master=local[2]", *settings(["iceberg"])])
    with beam.Pipeline("sparkbeam.SparkRunner", options) as p:
        build(p)


class Part(NamedTuple):
    """A row with a fraction where the table has a whole number."""

    id: float


class Shop:
    """A catalog with a table of sales, written in batch.

    Args:
        folder: for the catalog and what pipelines read and put out.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = {
            "catalog_name": "my catalog",
            "catalog_properties": {"type": "hadoop", "warehouse": str(folder / "warehouse")},
        }
        self.sales = {**self.catalog, "table": "shop.sales"}
        try:
            pipeline(self._write)
        except ConfigurationError as error:
            print(error, file=sys.stderr)
            sys.exit(NO_JAR)
        self.spark = active_session()

    def _write(self, p: beam.Pipeline) -> None:
        rows = p | beam.Create(SALES).with_output_types(Sale)
        partitions = ["bucket(id, 2)", "day(at)"]
        more = {"partition_fields": partitions, "table_properties": {"who": "it's me"}}
        _ = rows | managed.Write(managed.ICEBERG, config={**self.sales, **more})

    def named(self, table: str) -> str:
        """Return the name of a table in the session."""
        catalogs = self.spark.sql("SHOW CATALOGS").where("catalog LIKE 'my_catalog%'").collect()
        return f"{catalogs[0][0]}.shop.{table}"

    def table(self, name: str, columns: str = "*") -> list[Any]:
        """Return columns of a table as texts."""
        rows = self.spark.sql(f"SELECT {columns} FROM {self.named(name)} ORDER BY 1").collect()
        return [[str(value) for value in row] for row in rows]


def basics(shop: Shop) -> dict[str, Any]:
    """A table is written and read, a stream adds to one, another follows its changes; the page."""
    folder, spark = shop.folder, shop.spark

    def collect(frame: Any, _: int) -> None:
        rows = sorted([*map(str, row)] for row in frame.collect())
        (folder / "some.json").write_text(json.dumps(rows))

    def read(p: beam.Pipeline) -> None:
        some = {**shop.sales, "filter": "id >= 1 AND item IS NOT NULL", "drop": ["item", "at"]}
        schema = "id bigint, day date, price decimal(38,18), tags array<string>"
        _ = p | managed.Read(managed.ICEBERG, config=some) | ForeachBatch(collect, schema)

    def write(p: beam.Pipeline) -> None:
        source = {"path": folder / "in", "maxFilesPerTrigger": 1}
        rows = p | ReadFromSpark("json", source, "n bigint")
        _ = rows | managed.Write(managed.ICEBERG, config={**shop.catalog, "table": "shop.stream"})

    def follow(p: beam.Pipeline) -> None:
        config = {**shop.catalog, "table": "shop.stream", "starting_strategy": "earliest"}
        changes = p | managed.Read(managed._ICEBERG_CDC, config={**config, "streaming": True})
        _ = changes | ForeachBatch(note, "n bigint")

    def note(frame: Any, _: int) -> None:
        for row in sorted(frame.collect()):
            streams.note(folder / "notes", "changes", row.n)

    pipeline(read)
    for number in range(3):
        streams.write_json(folder / "in" / f"{number}.json", [{"n": number}], 9 - number)
    streams.run_available(spark, folder / "checkpoint", write)
    streams.run_available(spark, folder / "following", follow)
    # As if the driver had died behind the last snapshot.
    streams.rewind(folder / "checkpoint", 2)
    streams.write_json(folder / "in" / "3.json", [{"n": 3}])
    streams.run_available(spark, folder / "checkpoint", write)
    streams.run_available(spark, folder / "following", follow)
    return {
        "some": json.loads((folder / "some.json").read_text()),
        "partitions": shop.table("`sales`.partitions", "count(*)"),
        "stream": shop.table("stream"),
        "snapshots": shop.table("stream.snapshots", "count(*)"),
        "changes": streams.notes(folder / "notes")["changes"],
        "page": page(shop),
    }


def page(shop: Shop) -> list[Any]:
    """Run the program of the page, and return the totals that it writes."""
    orders = shop.named("orders")
    shop.spark.sql(f"CREATE TABLE {orders} (city STRING, amount BIGINT) USING iceberg")
    shop.spark.sql(f"INSERT INTO {orders} VALUES ('Bonn', 1), ('Bonn', 2), ('Bern', -1)")
    with pytest.MonkeyPatch.context() as patch:
        places = {'"lake"': '"my catalog"', "/data/warehouse": str(shop.folder / "warehouse")}
        options = ["--runner=sparkbeam.SparkRunner"]
        page_programs.run("iceberg", shop.folder, patch, options, places)
    return shop.table("totals")


def others(shop: Shop) -> dict[str, Any]:
    """Tables by a field, YAML, merges, and arguments without a meaning."""
    folder, spark = shop.folder, shop.spark

    def chosen(p: beam.Pipeline) -> None:
        rows = p | beam.Create(SALES[:2]).with_output_types(Sale)
        _ = rows | managed.Write(
            managed.ICEBERG,
            config={**shop.catalog, "table": "shop.of_{id}", "keep": ["id", "item"]},
        )

    def copy(p: beam.Pipeline) -> None:
        from apache_beam.yaml.yaml_transform import YamlTransform

        some = {**shop.sales, "filter": "id = 3", "keep": ["id", "item"]}
        partitions = ["truncate(what, 2)"]
        copied = {**shop.catalog, "table": "shop.copied", "partition_fields": partitions}
        transforms = [
            {"type": "ReadFromIceberg", "config": some},
            {"type": "MapToFields", "config": {"fields": {"what": "item", "id": "id"}}},
            {"type": "WriteToIceberg", "config": copied},
        ]
        _ = p | YamlTransform(json.dumps({"type": "chain", "transforms": transforms}))

    pipeline(chosen)
    pipeline(copy)
    found: dict[str, Any] = {"one": shop.table("of_1"), "copied": shop.table("copied")}

    changes = {
        **shop.catalog,
        "table": "shop.merged",
        "mode": "merge-on-read",
        "sequence_number_column": "at",
        "change_type_column": "kind",
        "change_type_map": {
            "+": "INSERT",
            "-": "DELETE",
            "<": "UPDATE_BEFORE",
            ">": "UPDATE_AFTER",
        },
        "equality_columns": ["id"],
        "snapshot_properties": {"by": "tests"},
        "sort_fields": ["item desc nulls last", "bucket(id, 4)"],
        "num_shards": 3,
    }

    def merge(p: beam.Pipeline) -> None:
        source = {"path": folder / "changes", "maxFilesPerTrigger": 1}
        schema = "id bigint, item string, kind string, at bigint"
        _ = p | ReadFromSpark("json", source, schema) | managed.Write("iceberg", config=changes)

    batches = (
        [(1, "a", "+", 1), (2, "b", "+", 1), (1, "c", ">", 2), (1, "a", "<", 2)],
        [(2, "b", "-", 4), (2, "d", "+", 3), (3, "e", ">", 3), (4, "f", "-", 3)],
        [(1, "c", "<", 5), (5, "c", ">", 5)],
    )
    for number, rows in enumerate(batches):
        dicts = [dict(zip(("id", "item", "kind", "at"), row, strict=True)) for row in rows]
        streams.write_json(folder / "changes" / f"{number}.json", dicts, 9 - number)
    streams.run_available(spark, folder / "merging", merge)
    streams.rewind(folder / "merging", 2)
    streams.run_available(spark, folder / "merging", merge)
    found["merged"] = shop.table("merged")
    found["merges"] = shop.table("merged.snapshots", "count(*), max(summary['by'])")
    shown = spark.sql(f"SHOW TBLPROPERTIES {shop.named('merged')}").collect()
    found["order"] = dict(map(tuple, shown))["sort-order"]
    for problem, config in (
        ("mode", {**changes, "mode": "append"}),
        ("error_handling", {**changes, "error_handling": {"output": "wrong"}}),
        ("kinds", {**changes, "change_type_map": {"+": "ADD"}}),
    ):
        try:
            sales = beam.Pipeline("sparkbeam.SparkRunner") | beam.Create([beam.Row(id=1)])
            _ = sales | managed.Write("iceberg", config=config)
        except ConfigurationError as error:
            found[problem] = str(error)
    for problem, row, table in (
        ("null", Sale._make([None, *SALES[0][1:]]), "sales"),
        ("cut", Part(2.7), "of_1"),
    ):
        found[problem] = failure(shop, row, table)
    return found


def failure(shop: Shop, row: Any, table: str) -> str:
    """Return the error of a write of a row."""

    def write(p: beam.Pipeline) -> None:
        rows = p | beam.Create([0]) | beam.Map(lambda _: row).with_output_types(type(row))
        config = {**shop.catalog, "table": f"shop.{table}"}
        _ = rows | "Store" >> managed.Write(managed.ICEBERG, config=config)

    try:
        pipeline(write)
    except PipelineFailed as error:
        return str(error)
    return ""


PARTS = {"basics": basics, "others": others}


def findings(folder: Path, part: str) -> dict[str, Any]:
    """Return what a part finds."""
    return PARTS[part](Shop(folder))


if __name__ == "__main__":
    print(f"\n{json.dumps(findings(Path(sys.argv[1]), sys.argv[2]))}")
