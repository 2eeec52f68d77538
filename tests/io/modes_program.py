"""Streams into tables by name, in each output mode that a table has.

It prints the rows, the number of versions and the partitions of each table as JSON.

Usage: modes_program.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import streams
from delta_program import KEYED
from table_programs import NO_JAR, settings_with_jars

from sparkbeam.io import ReadFromSpark, WriteToSpark
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session as sessions

SCHEMA = "key string, n bigint"
COLUMNS = f"({SCHEMA}, more int)"
BATCHES: tuple[list[dict[str, Any]], ...] = (
    [{"key": "a", "n": 1}, {"key": "b", "n": 2}],
    [{"key": "a", "n": 3}],
)


def catalogs(folder: Path) -> dict[str, str]:
    """The settings of three catalogs."""
    jdbc = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        "spark.sql.catalog.db": jdbc,
        "spark.sql.catalog.db.url": f"jdbc:derby:{folder / 'db'};create=true",
        "spark.sql.catalog.db.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
    }


def main(folder: Path) -> None:
    settings = settings_with_jars(["delta", "iceberg"], *map("=".join, catalogs(folder).items()))
    try:
        spark = sessions.obtain(SparkBeamOptions(["--spark_master=local[2]", *settings]))
    except Exception as error:
        print(error, file=sys.stderr)
        sys.exit(NO_JAR)
    spark.sql("CREATE NAMESPACE lake.shop")
    versioned = {}
    for mode, more in KEYED.items():
        for system, table in {"delta": f"default.{mode}", "iceberg": f"lake.shop.{mode}"}.items():
            spark.sql(f"CREATE TABLE {table} {COLUMNS} USING {system} PARTITIONED BY (key)")
            spark.sql(f"INSERT INTO {table} VALUES ('a', 0, 7)")
            versioned[f"{system} {mode}"] = WriteToSpark(table=table, schema=SCHEMA, **more)
    versioned["iceberg new"] = WriteToSpark(
        "iceberg", table="lake.shop.new", schema=SCHEMA, **KEYED["update"]
    )
    others = {}
    for mode in ("append", "complete"):
        table = f"db.APP.{mode.upper()}"
        spark.sql(f"CREATE TABLE {table} {COLUMNS}")
        others[f"jdbc {mode}"] = WriteToSpark(table=table, schema=SCHEMA, **KEYED[mode])
    for number, rows in enumerate(BATCHES):
        streams.write_json(folder / "in" / f"{number}.json", rows, 9 - number)
    run(spark, folder, "versioned", versioned)
    # As if the driver had died behind the last commit of a table.
    streams.rewind(folder / "versioned", 1)
    for note in (folder / "versioned/sparkbeam/written").iterdir():
        note.write_text("0")
    run(spark, folder, "versioned", versioned)
    run(spark, folder, "others", others)
    found = {}
    for mode in KEYED:
        history = spark.sql(f"DESCRIBE HISTORY default.{mode}")
        (detail,) = spark.sql(f"DESCRIBE DETAIL default.{mode}").collect()
        found[f"delta {mode}"] = [
            rows_of(spark, f"default.{mode}"),
            # The first is of an empty table.
            history.count() - 1,
            detail.partitionColumns,
        ]
        table = f"lake.shop.{mode}"
        partitions = [*spark.table(f"{table}.partitions").select("partition.*").columns]
        snapshots = spark.table(f"{table}.snapshots").count()
        found[f"iceberg {mode}"] = [rows_of(spark, table), snapshots, partitions]
    found["iceberg new"] = [rows_of(spark, "lake.shop.new")]
    for mode in ("append", "complete"):
        found[f"jdbc {mode}"] = [rows_of(spark, f"db.APP.{mode.upper()}")]
    print(f"\n{json.dumps(found)}")


def run(spark: Any, folder: Path, name: str, sinks: dict[str, Any]) -> None:
    def build(p: beam.Pipeline) -> None:
        rows = p | ReadFromSpark("json", {"path": folder / "in", "maxFilesPerTrigger": 1}, SCHEMA)
        for label, sink in sinks.items():
            _ = rows | label >> sink

    streams.run_available(spark, folder / name, build)


def rows_of(spark: Any, table: str) -> list[list[Any]]:
    return sorted(([*row] for row in spark.table(table).collect()), key=str)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
