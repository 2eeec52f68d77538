"""A stream into sinks that write each micro-batch once, which kills itself and its JVM at a point.

It reads a file of FOLDER/in in each micro-batch, and writes it to each sink of a family. It dies
where it gets to the POINT after it has passed it a number of times. Without a point it runs to the
end, and prints the rows of each sink, and how many versions it has, as JSON.

Usage: sinks_program.py FOLDER FAMILY [POINT PASSED]
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import apache_beam as beam
import streams
from apache_beam.transforms import managed
from delta_program import KEYED
from table_programs import NO_JAR, jars

from sparkbeam.connectors.delivery import Delivery
from sparkbeam.connectors.iceberg_tables import WriteMicroBatch
from sparkbeam.connectors.storage import LocalStorage
from sparkbeam.connectors.upserts import _Target
from sparkbeam.io import ReadFromSpark, WriteToSpark
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session as sessions
from sparkbeam.streaming.file_sink import FileSink
from sparkbeam.streaming.query_sink import QuerySink
from sparkbeam.streaming.spark_sinks import SparkSinks

SCHEMA = "id bigint, key bigint, part bigint"
KEYS = 4
WITHIN = "within a write"
"""The point at which Spark has begun a file of a sink; the number is of those before it."""

BEFORE, HALFWAY, AFTER = "before", "halfway", "after"

POINTS: dict[str, tuple[type, str, str]] = {
    "before a write": (Delivery, "give", BEFORE),
    "after a write": (Delivery, "give", AFTER),
    "between note and moves": (FileSink, "_commit", BEFORE),
    "between moves": (LocalStorage, "move", HALFWAY),
    "between moves and mark": (FileSink, "_told", BEFORE),
    "after a table": (WriteMicroBatch, "_write", AFTER),
    "after a statement": (_Target, "_run", AFTER),
    "after the sinks": (SparkSinks, "deliver", AFTER),
    "before a micro-batch": (QuerySink, "__call__", BEFORE),
    "before Spark's commit": (QuerySink, "__call__", AFTER),
}
"""Points by the call of a method; a write is that of Spark, which is a commit but of files."""

COMMITTED = ("after the sinks", "before Spark's commit")
"""Points at which all sinks have committed the micro-batch, and Spark has not."""


def kill_at(point: str, passed: int, out: Path) -> None:
    """Make this process die at a point, once it has passed it a number of times."""
    if point == WITHIN:
        Thread(target=_watch, args=(out, passed), daemon=True).start()
        return
    owner, name, when = POINTS[point]
    method: Callable[..., Any] = getattr(owner, name)
    calls = count()

    def killing(*arguments: Any, **more: Any) -> Any:
        if next(calls) < passed:
            return method(*arguments, **more)
        if when == HALFWAY:
            storage, moves = arguments
            method(storage, dict([*moves.items()][: len(moves) // 2]))
        elif when == AFTER:
            method(*arguments, **more)
        return _die()

    setattr(owner, name, killing)


def _watch(out: Path, passed: int) -> None:
    """Die when a number of files and one more have been added to a folder."""
    before = _files(out)
    while len(_files(out) - before) <= passed:
        time.sleep(0.001)
    _die()


def _files(out: Path) -> set[str]:
    """All files below a folder whose folders come and go."""
    return {os.path.join(folder, name) for folder, _, names in os.walk(out) for name in names}


def _die() -> None:
    """Leave nothing of the process and its JVM, which are a group."""
    os.killpg(0, signal.SIGKILL)


Sinks = dict[str, beam.PTransform[Any, Any]]
Found = dict[str, tuple[list[list[int]], int]]
"""Rows by sink, and how many versions it has; 0 for those without."""


class Files:
    """Files with partitions, with a log for Spark's readers, and of a table."""

    def __init__(self, spark: Any, out: Path) -> None:
        self._spark = spark
        self._out = out
        spark.sql(f"CREATE TABLE clicks ({SCHEMA}) USING parquet LOCATION '{out / 'table'}'")

    @property
    def sinks(self) -> Sinks:
        parquet, log = {"path": self._out / "parquet"}, {"path": self._out / "log"}
        return {
            "parquet": WriteToSpark("parquet", parquet, SCHEMA, partition_by=["part"]),
            "log": WriteToSpark("json", log, SCHEMA, layout="manifest"),
            "table": WriteToSpark(schema=SCHEMA, table="clicks"),
        }

    def found(self) -> Found:
        reader = self._spark.read.schema(SCHEMA)
        return {
            "parquet": (_rows(reader.parquet(f"{self._out / 'parquet'}")), 0),
            "log": (_rows(reader.json(f"{self._out / 'log'}")), 0),
            "table": (_rows(self._spark.table("clicks")), 0),
        }


class Database:
    """Tables of Derby, which Spark has."""

    def __init__(self, spark: Any, out: Path) -> None:
        self._spark = spark
        self._options = {
            "url": f"jdbc:derby:{out / 'database'};create=true",
            "driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        }

    @property
    def sinks(self) -> Sinks:
        return {
            mode: WriteToSpark("jdbc", {**self._options, "dbtable": f"{mode}d"}, SCHEMA, **more)
            for mode, more in KEYED.items()
            if more
        }

    def found(self) -> Found:
        reader = self._spark.read.format("jdbc").options(**self._options)
        return {
            name: (_rows(reader.option("dbtable", f"{name}d").load()), 0) for name in self.sinks
        }


class Delta:
    """Delta tables in each output mode."""

    settings: ClassVar = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }

    def __init__(self, spark: Any, out: Path) -> None:
        self._spark = spark
        self._out = out

    @property
    def sinks(self) -> Sinks:
        return {
            mode: WriteToSpark("delta", {"path": self._out / mode}, SCHEMA, **more)
            for mode, more in KEYED.items()
        }

    def found(self) -> Found:
        reader = self._spark.read.format("delta")
        return {
            name: (
                _rows(reader.load(f"{self._out / name}")),
                len([*(self._out / name / "_delta_log").glob("*.json")]),
            )
            for name in self.sinks
        }


class Iceberg:
    """A table of all rows, and a table for each key."""

    settings: ClassVar = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "",
    }

    def __init__(self, spark: Any, out: Path) -> None:
        self._spark = spark
        spark.conf.set("spark.sql.catalog.lake.warehouse", str(out))

    @property
    def sinks(self) -> Sinks:
        names = {"append": "shop.clicks", "by key": "shop.of_{key}"}
        return {
            name: managed.Write(managed.ICEBERG, config={"catalog_name": "lake", "table": table})
            for name, table in names.items()
        }

    def found(self) -> Found:
        by_key = [self._table(f"of_{key}") for key in range(KEYS)]
        rows = sorted(row for rows, _ in by_key for row in rows)
        return {"append": self._table("clicks"), "by key": (rows, max(n for _, n in by_key))}

    def _table(self, name: str) -> tuple[list[list[int]], int]:
        table = f"lake.shop.{name}"
        return _rows(self._spark.table(table)), self._spark.table(f"{table}.snapshots").count()


FAMILIES: dict[str, Any] = {"files": Files, "jdbc": Database, "delta": Delta, "iceberg": Iceberg}


def _rows(frame: Any) -> list[list[int]]:
    return sorted([*row] for row in frame.select("id", "key", "part").collect())


def main(folder: Path, name: str, point: str = "", passed: str = "0") -> None:
    os.setpgid(0, 0)  # The JVM joins the group.
    family, out = FAMILIES[name], folder / "out"
    settings = [*jars(name), *("=".join(item) for item in getattr(family, "settings", {}).items())]
    options = [f"--spark_conf={setting}" for setting in settings]
    try:
        spark = sessions.obtain(SparkBeamOptions(["--spark_master=local[2]", *options]))
    except Exception as error:
        print(error, file=sys.stderr)
        sys.exit(NO_JAR)
    if point:
        kill_at(point, int(passed), out)
    run = family(spark, out)

    def build(p: beam.Pipeline) -> None:
        rows = p | ReadFromSpark("json", {"path": folder / "in", "maxFilesPerTrigger": 1}, SCHEMA)
        for label, sink in run.sinks.items():
            _ = rows | label >> sink

    streams.run_available(spark, folder / "checkpoint", build)
    print(f"\n{json.dumps(run.found())}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
