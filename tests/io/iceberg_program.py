"""Tables of Iceberg over managed transforms, in batch and in a stream that runs again.

It prints its findings as JSON.

Usage: iceberg_program.py FOLDER
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
from table_programs import NO_JAR, given_jars

from sparkbeam.errors import ConfigurationError
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
    settings = [f"--spark_conf={setting}" for setting in given_jars("iceberg")]
    options = PipelineOptions(["--spark_master=local[2]", *settings])
    with beam.Pipeline("sparkbeam.SparkRunner", options) as p:
        build(p)


def main(folder: Path) -> None:
    catalog = {
        "catalog_name": "my catalog",
        "catalog_properties": {"type": "hadoop", "warehouse": str(folder / "warehouse")},
    }
    sales = {**catalog, "table": "shop.sales"}
    partitions = ["bucket(id, 2)", "day(at)"]

    def write(p: beam.Pipeline) -> None:
        rows = p | beam.Create(SALES).with_output_types(Sale)
        more = {"partition_fields": partitions, "table_properties": {"who": "it's me"}}
        _ = rows | managed.Write(managed.ICEBERG, config={**sales, **more})

    try:
        pipeline(write)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        sys.exit(NO_JAR)
    spark = active_session()

    def collect(frame: Any, _: int) -> None:
        rows = sorted([*map(str, row)] for row in frame.collect())
        (folder / "some.json").write_text(json.dumps(rows))

    def read(p: beam.Pipeline) -> None:
        some = {**sales, "filter": "id >= 1 AND item IS NOT NULL", "drop": ["item", "at"]}
        schema = "id bigint, day date, price decimal(38,18), tags array<string>"
        _ = p | managed.Read(managed.ICEBERG, config=some) | ForeachBatch(collect, schema)

    def chosen(p: beam.Pipeline) -> None:
        rows = p | beam.Create(SALES[:2]).with_output_types(Sale)
        _ = rows | managed.Write(
            managed.ICEBERG, config={**catalog, "table": "shop.of_{id}", "keep": ["id", "item"]}
        )

    def copy(p: beam.Pipeline) -> None:
        from apache_beam.yaml.yaml_transform import YamlTransform

        some = {**sales, "filter": "id = 3", "keep": ["id", "item"]}
        copied = {**catalog, "table": "shop.copied", "partition_fields": ["truncate(what, 2)"]}
        transforms = [
            {"type": "ReadFromIceberg", "config": some},
            {"type": "MapToFields", "config": {"fields": {"what": "item", "id": "id"}}},
            {"type": "WriteToIceberg", "config": copied},
        ]
        _ = p | YamlTransform(json.dumps({"type": "chain", "transforms": transforms}))

    pipeline(read)
    pipeline(chosen)
    pipeline(copy)

    def build(p: beam.Pipeline) -> None:
        source = {"path": folder / "in", "maxFilesPerTrigger": 1}
        rows = p | ReadFromSpark("json", source, "n bigint")
        _ = rows | managed.Write(managed.ICEBERG, config={**catalog, "table": "shop.stream"})

    for number in range(3):
        streams.write_json(folder / "in" / f"{number}.json", [{"n": number}], 9 - number)
    streams.run_available(spark, folder / "checkpoint", build)
    # As if the driver had died behind the last snapshot.
    streams.rewind(folder / "checkpoint", 2)
    streams.run_available(spark, folder / "checkpoint", build)

    def table(name: str, columns: str) -> list[Any]:
        rows = spark.sql(f"SELECT {columns} FROM {named(name)} ORDER BY 1").collect()
        return [[str(value) for value in row] for row in rows]

    def named(table: str) -> str:
        catalogs = spark.sql("SHOW CATALOGS").where("catalog LIKE 'my_catalog%'").collect()
        return f"{catalogs[0][0]}.shop.{table}"

    found: dict[str, Any] = {"some": json.loads((folder / "some.json").read_text())}
    found["partitions"] = table("`sales`.partitions", "count(*)")
    found["one"] = table("of_1", "*")
    found["copied"] = table("copied", "*")
    found["stream"] = table("stream", "*")
    found["snapshots"] = table("stream.snapshots", "count(*)")
    spark.sql(f"CREATE TABLE {named('orders')} (city STRING, amount BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO {named('orders')} VALUES ('Bonn', 1), ('Bonn', 2), ('Bern', -1)")
    with pytest.MonkeyPatch.context() as patch:
        places = {'"lake"': '"my catalog"', "/data/warehouse": str(folder / "warehouse")}
        page_programs.run("iceberg", folder, patch, ["--runner=sparkbeam.SparkRunner"], places)
    found["page"] = table("totals", "*")

    changes = {
        **catalog,
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
    found["merged"] = table("merged", "*")
    found["merges"] = table("merged.snapshots", "count(*), max(summary['by'])")
    shown = spark.sql(f"SHOW TBLPROPERTIES {named('merged')}").collect()
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
    print(f"\n{json.dumps(found)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
