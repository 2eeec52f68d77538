"""Rows that are written and read over JDBC while connections break; it prints findings as JSON.

Spark tries each task four times, as on a cluster. For each write and read the findings are the
number of rows, the number of their ids, the sum of their ids, the number of broken connections and
the duration in seconds.

Usage: broken_program.py SYSTEM ROWS BREAKS
"""

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

import database_servers
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from breaking_proxy import BreakingProxy, breaking_proxy

from sparkbeam import SparkRunner
from sparkbeam.common.maven_packages import DRIVERS
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session as sessions
from sparkbeam.upstream.spark import jdbc_connection
from sparkbeam_tables.databases import Database

TASKS = 4
AFTER = 50_000
"""Bytes after which a connection breaks."""


class Item(NamedTuple):
    """A row."""

    id: int
    name: str


def main(system: str, rows: int, breaks: int) -> None:
    spark = sessions.obtain(
        SparkBeamOptions(
            [
                f"--spark_master=local[2,{TASKS}]",
                "--spark_conf=spark.ui.enabled=false",
                f"--spark_packages={DRIVERS[system]}",
            ]
        )
    )
    with getattr(database_servers, system)() as server:
        port = re.search(r":(\d+)/", server.url)
        assert port is not None
        database = Database(server.url, server.driver, server.user, server.password)
        with (
            breaking_proxy(int(port[1])) as proxy,
            jdbc_connection(spark, database.options(dbtable="t")) as (connection, _),
        ):
            connection.createStatement().execute("CREATE TABLE items (id BIGINT, name VARCHAR(40))")
            place = {
                **server.arguments(),
                "jdbc_url": server.url.replace(port[0], f":{proxy.port}/"),
            }
            print(f"\n{json.dumps(findings(spark, connection, proxy, place, rows, breaks))}")


def findings(
    spark: Any, connection: Any, proxy: BreakingProxy, place: Any, rows: int, breaks: int
) -> dict[str, list[Any]]:
    def write(p: beam.Pipeline) -> None:
        step = rows // TASKS
        parts = p | beam.Create([*range(0, rows, step)]) | beam.Reshuffle()
        items = parts | beam.FlatMap(lambda start: range(start, min(start + step, rows)))
        named = items | beam.Map(lambda id: Item(id, f"item {id}")).with_output_types(Item)
        _ = named | WriteToJdbc("items", **place)

    def read(p: beam.Pipeline) -> None:
        given = {**place, "partition_column": "id", "partitions": TASKS, "fetch_size": 1000}
        items = p | ReadFromJdbc("items", **given) | beam.Map(lambda row: (row.id, 1))
        counts = items | beam.CombinePerKey(sum)
        _ = counts | beam.CombineGlobally(_total) | beam.Map(lambda total: _note(*total))

    def _note(rows: int, ids: int, total: int) -> None:
        Path("total.json").write_text(json.dumps([rows, ids, total]))

    def timed(build: Callable[[beam.Pipeline], None]) -> list[Any]:
        before, start = proxy.broken, time.monotonic()
        proxy.break_next(breaks, after=AFTER)
        with beam.Pipeline(SparkRunner(session=spark)) as p:
            build(p)
        duration = round(time.monotonic() - start, 1)
        proxy.break_next(0, after=0)
        return [proxy.broken - before, duration]

    written = timed(write)
    query = "SELECT COUNT(*), COUNT(DISTINCT id), SUM(id) FROM items"
    result = connection.createStatement().executeQuery(query)
    result.next()
    of_table = [result.getLong(number) for number in (1, 2, 3)]
    of_read = timed(read)
    return {
        "written": of_table + written,
        "read": json.loads(Path("total.json").read_text()) + of_read,
    }


def _total(pairs: Any) -> tuple[int, int, int]:
    """Combine pairs of an id and its count, or such totals."""
    rows = ids = total = 0
    for one in pairs:
        many = one if len(one) == 3 else (one[1], 1, one[0] * one[1])
        rows, ids, total = rows + many[0], ids + many[1], total + many[2]
    return rows, ids, total


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
