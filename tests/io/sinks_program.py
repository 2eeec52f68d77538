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
from typing import Any, ClassVar, NamedTuple

import apache_beam as beam
import streams
from apache_beam.io.jdbc import WriteToJdbc
from apache_beam.transforms import managed
from database_servers import Server
from table_programs import NO_JAR, settings_with_jars

from sparkbeam.common.maven_packages import DRIVERS
from sparkbeam.connectors.delivery import Delivery
from sparkbeam.connectors.jdbc_urls import known_url
from sparkbeam.connectors.storage import LocalStorage
from sparkbeam.io import ReadFromSpark, WriteToSpark
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session as sessions
from sparkbeam.streaming.folder_commits import FolderCommits
from sparkbeam.streaming.query_sink import QuerySink
from sparkbeam.streaming.spark_sinks import SparkSinks
from sparkbeam.upstream.spark import jdbc_connection
from sparkbeam_tables.iceberg_merges import ChangeMerge
from sparkbeam_tables.iceberg_tables import WriteMicroBatch
from sparkbeam_tables.upserts import _Target

SCHEMA = "id bigint, key bigint, part bigint"
KEYS = 4
KEYED: dict[str, dict[str, Any]] = {
    "append": {},
    "update": {"output_mode": "update", "key": ["key"]},
    "complete": {"output_mode": "complete", "key": ["key"]},
}
"""The output modes of sinks, and their further arguments."""
BEFORE_ALL = (-1, 0, 0, 7)
"""A row of tables that are there before the stream, which have a further column."""
SERVER = "server.json"
"""The file of FOLDER with the server of a database."""
WITHIN = "within a write"
"""The point at which Spark has begun a file of a sink; the number is of those before it."""

BEFORE, HALFWAY, AFTER = "before", "halfway", "after"

POINTS: dict[str, tuple[type, str, str]] = {
    "before a write": (Delivery, "give", BEFORE),
    "after a write": (Delivery, "give", AFTER),
    "between note and moves": (FolderCommits, "_complete", BEFORE),
    "between moves": (LocalStorage, "move", HALFWAY),
    "between moves and mark": (FolderCommits, "_write_mark", BEFORE),
    "after a table": (WriteMicroBatch, "_write", AFTER),
    "after a merge": (ChangeMerge, "__call__", AFTER),
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
Found = tuple[list[list[int]], int]
"""Rows of a sink, and how many versions of the stream it has; 0 for those without."""


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

    def found(self, name: str) -> Found:
        reader = self._spark.read.schema(SCHEMA)
        if name == "table":
            return _rows(self._spark.table("clicks")), 0
        return _rows(reader.load(f"{self._out / name}", "json" if name == "log" else name)), 0


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

    def found(self, name: str) -> Found:
        reader = self._spark.read.format("jdbc").options(**self._options)
        return _rows(reader.option("dbtable", f"{name}d").load()), 0


class OfServer:
    """Tables of a database server, of rows alone and of rows by key."""

    _UPSERT: ClassVar = {
        "postgresql": "ON CONFLICT (id) DO UPDATE SET part = EXCLUDED.part",
        "mariadb": "ON DUPLICATE KEY UPDATE part = VALUES(part)",
    }
    settings: ClassVar = {
        "spark.jars.packages": ",".join(DRIVERS[scheme] for scheme in sorted(_UPSERT))
    }

    def __init__(self, spark: Any, out: Path) -> None:
        server = Server(*json.loads((out.parent / SERVER).read_text()))
        self._arguments = server.arguments()
        self._scheme = server.url.split(":")[1]
        self._options = {
            "url": server.url,
            "driver": server.driver,
            "user": server.user,
            "password": server.password,
        }
        self._connected = known_url("jdbc", {**self._options, "dbtable": "t"})
        self._spark = spark
        with jdbc_connection(spark, self._connected) as (connection, quote):
            columns = f"id BIGINT PRIMARY KEY, {quote('key')} BIGINT, part BIGINT"
            by_key = f"id BIGINT, {quote('key')} BIGINT PRIMARY KEY, part BIGINT"
            for table, definition in {
                "added": columns.replace(" PRIMARY KEY", ""),
                "stated": columns,
                "updated": by_key,
            }.items():
                statement = connection.createStatement()
                statement.executeUpdate(f"CREATE TABLE IF NOT EXISTS {table} ({definition})")

    @property
    def sinks(self) -> Sinks:
        statement = f"INSERT INTO stated VALUES (?, ?, ?) {self._UPSERT[self._scheme]}"
        return {
            "rows": WriteToJdbc("added", **self._arguments),
            "statement": WriteToJdbc("", statement=statement, **self._arguments),
            **{
                mode: WriteToSpark("jdbc", {**self._options, "dbtable": f"{mode}d"}, SCHEMA, **more)
                for mode, more in KEYED.items()
                if more
            },
        }

    def found(self, name: str) -> Found:
        table = {"rows": "added", "statement": "stated"}.get(name, f"{name}d")
        with jdbc_connection(self._spark, self._connected) as (connection, _):
            found, rows = connection.createStatement().executeQuery(f"SELECT * FROM {table}"), []
            while found.next():
                rows.append([found.getLong(number) for number in (1, 2, 3)])
        return sorted(rows), 0


def _make(spark: Any, table: str, system: str, more: str = "") -> None:
    """Make a table with partitions, a further column and a row."""
    columns = f"({SCHEMA}, more int) USING {system} PARTITIONED BY (part) {more}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} {columns}")
    if spark.table(table).isEmpty():
        spark.sql(f"INSERT INTO {table} VALUES {BEFORE_ALL}")


class Delta:
    """Delta tables in each output mode, by odd paths with a null in the key, and by name."""

    settings: ClassVar = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

    def __init__(self, spark: Any, out: Path) -> None:
        self._spark = spark
        self._out = out
        for mode in KEYED:
            _make(spark, f"default.{mode}", "delta", f"LOCATION '{out / mode}'")

    def _path(self, mode: str) -> str:
        return str(self._out / f"{mode} `{{}}")

    @property
    def sinks(self) -> Sinks:
        with_none = beam.Map(lambda row: {"id": row.id, "key": row.key or None, "part": row.part})
        return {
            mode: with_none | WriteToSpark("delta", {"path": self._path(mode)}, SCHEMA, **more)
            for mode, more in KEYED.items()
        } | {
            f"{mode} by name": WriteToSpark(table=f"default.{mode}", schema=SCHEMA, **more)
            for mode, more in KEYED.items()
        }

    def found(self, name: str) -> Found:
        mode, _, named = name.partition(" ")
        table = f"default.{mode}" if named else f"delta.`{self._path(mode).replace('`', '``')}`"
        (detail,) = self._spark.sql(f"DESCRIBE DETAIL {table}").collect()
        assert detail.partitionColumns == (["part"] if named else [])
        history = self._spark.sql(f"DESCRIBE HISTORY {table}").collect()
        # A table by name is made, and gets a row, before the stream.
        if not named:
            return _rows(self._spark.table(table)), len(history)
        return _rows(self._spark.table(table), "more"), len(history) - 2


class Change(NamedTuple):
    """A row that replaces that of its key."""

    id: int
    key: int
    part: int
    at: int


class Iceberg:
    """A table of all rows, one for each key, one of changes, and by name in each output mode."""

    settings: ClassVar = {
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": "",
    }

    def __init__(self, spark: Any, out: Path) -> None:
        self._spark = spark
        spark.conf.set("spark.sql.catalog.lake.warehouse", str(out))
        spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
        for mode in KEYED:
            _make(spark, f"lake.shop.{mode}", "iceberg")

    @property
    def sinks(self) -> Sinks:
        merge = {
            "mode": "merge-on-read",
            "equality_columns": ["key"],
            "sequence_number_column": "at",
        }
        changes = beam.Map(lambda row: Change(row.id, row.key, row.part, row.id))
        return {
            "rows": _iceberg("shop.rows"),
            "by key": _iceberg("shop.of_{key}"),
            "merge": changes.with_output_types(Change) | _iceberg("shop.merge", **merge),
            **{
                mode: WriteToSpark("iceberg", table=f"lake.shop.{mode}", schema=SCHEMA, **more)
                for mode, more in {**KEYED, "new": KEYED["update"]}.items()
            },
        }

    def found(self, name: str) -> Found:
        if name == "by key":
            by_key = [self.found(f"of_{key}") for key in range(KEYS)]
            return sorted(row for rows, _ in by_key for row in rows), max(n for _, n in by_key)
        table = f"lake.shop.{name}"
        snapshots = self._spark.table(f"{table}.snapshots")
        ours = snapshots.where("summary['sparkbeam-batch'] IS NOT NULL")
        if name not in KEYED:
            return _rows(self._spark.table(table)), ours.count()
        partitions = self._spark.table(f"{table}.partitions").select("partition.*")
        assert partitions.columns == ["part"]
        return _rows(self._spark.table(table), "more"), ours.count()


FAMILIES: dict[str, Any] = {
    "files": Files,
    "jdbc": Database,
    "postgresql": OfServer,
    "mariadb": OfServer,
    "delta": Delta,
    "iceberg": Iceberg,
}


SYSTEMS = {"delta": ["delta"], "iceberg": ["iceberg"]}
"""Those of which a family needs a release."""


def _iceberg(table: str, **more: Any) -> Any:
    return managed.Write(managed.ICEBERG, config={"catalog_name": "lake", "table": table, **more})


def _rows(frame: Any, *more: str) -> list[list[int]]:
    return sorted([*row] for row in frame.select("id", "key", "part", *more).collect())


def main(folder: Path, name: str, point: str = "", passed: str = "0") -> None:
    os.setpgid(0, 0)  # The JVM joins the group.
    family, out = FAMILIES[name], folder / "out"
    more = map("=".join, getattr(family, "settings", {}).items())
    settings = settings_with_jars(SYSTEMS.get(name, ()), *more)
    try:
        spark = sessions.obtain(SparkBeamOptions(["--spark_master=local[2]", *settings]))
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
    print(f"\n{json.dumps({name: run.found(name) for name in run.sinks})}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
