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
import misuse
import page_programs
import pytest
import streams
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import managed
from apache_beam.utils.timestamp import Timestamp
from table_programs import NO_JAR, settings

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

    def tables(self) -> list[str]:
        """Return the names of all tables."""
        place = self.named("x").removesuffix(".x")
        return sorted(row.tableName for row in self.spark.sql(f"SHOW TABLES IN {place}").collect())

    def write(self, rows: list[Any], **config: Any) -> None:
        """Write rows of one type."""
        kind = type(rows[0])

        def build(p: beam.Pipeline) -> None:
            made = p | beam.Create([0]) | beam.FlatMap(lambda _: rows).with_output_types(kind)
            _ = made | "Visits" >> managed.Write(managed.ICEBERG, config=config)

        pipeline(build)

    def read(self, source: str, **config: Any) -> None:
        """Read what cannot be read."""
        pipeline(lambda p: p | "Visits" >> managed.Read(source, config=config))


def basics(shop: Shop) -> dict[str, Any]:
    """A table is written and read, a stream adds to one, another follows its changes."""
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
    """Tables by a field, YAML, the page, merges, and arguments without a meaning."""
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
    found["page"] = page(shop)

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
    return found


class Place(NamedTuple):
    """A row within a row."""

    zip: int | None
    share: Decimal | None


class Visit(NamedTuple):
    """A row whose fields choose its table."""

    id: int
    city: str | None
    flag: bool | None
    ratio: float | None
    day: datetime.date | None
    place: Place | None
    shares: list[Decimal]
    price: Decimal | None


SHARE = Decimal("-1.000000000000000001")
VISITS = [
    Visit(1, None, True, 2.0, datetime.date(2020, 1, 2), Place(7, SHARE), [SHARE], SHARE),
    Visit(2, "", False, None, None, None, [], None),
    Visit(3, "it's `1` \" Köln", None, -0.5, None, Place(None, None), [], Decimal("1E+19")),
]
DIGITS = Decimal("0.1234567890123456789")


def names(shop: Shop) -> dict[str, Any]:
    """Names of tables by fields of any type, and exact decimals."""
    before = shop.tables()
    shop.write(VISITS, table="shop.of_{city}", drop=["city"], **shop.catalog)
    shop.write(VISITS, table="shop.at_{place.zip}_{flag}_{day}", keep=["id"], **shop.catalog)
    shop.write(VISITS[:1], table="shop.only_{id}", only="place", **shop.catalog)
    return {
        "tables": [name for name in shop.tables() if name not in before],
        "of null": shop.table("of_", "id, price, shares, place.share"),
        "of text": shop.table(f"`of_{VISITS[2].city}`".replace("`1`", "``1``"), "id, price"),
        "only": shop.table("only_1"),
    }


def errors(shop: Shop) -> dict[str, Any]:
    """The errors of the calls in the table of wrong uses, and what they leave."""
    wrong = VISITS[0]._replace(id=4, city="new", price=DIGITS)
    columns = "(price decimal(5,2), id bigint NOT NULL)"
    shop.spark.sql(f"CREATE TABLE {shop.named('narrow')} {columns} USING iceberg")
    shop.spark.sql(f"DELETE FROM {shop.named('sales')} WHERE id = 3")
    before = shop.tables()
    given = {"write": shop.write, "read": shop.read, "lake": shop.catalog, "wrong": wrong}
    calls = misuse.calls(__file__.replace("iceberg_program.py", "test_iceberg_misuse.txt"))
    return {
        "errors": {call.source: misuse.error_of(call, globals() | given)[1] for call in calls},
        "left": [name for name in shop.tables() if name not in before],
        "rows": shop.table("narrow"),
    }


PARTS = {"basics": basics, "others": others, "names": names, "errors": errors}


def findings(folder: Path, part: str) -> dict[str, Any]:
    """Return what a part finds."""
    return PARTS[part](Shop(folder))


if __name__ == "__main__":
    print(f"\n{json.dumps(findings(Path(sys.argv[1]), sys.argv[2]))}")
