"""Connections to a database that break while rows are written and read."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import broken_program
import pytest
from apache_beam.io.jdbc import ReadFromJdbc, WriteToJdbc
from breaking_proxy import breaking_proxy
from command import attempt, with_paths
from database_servers import Sql
from whole import is_whole

from sparkbeam import ConfigurationError, PipelineFailed, SparkRunner

ROWS = 2_000_000 if is_whole() else 20_000
BREAKS = 3


@pytest.mark.long("minutes each, and a server; another test has a connection that breaks")
@pytest.mark.parametrize("system", ["postgresql", "mariadb"])
def test_rows_are_written_and_read_once_though_connections_break(
    system: str, tmp_path: Path
) -> None:
    """Each task that fails runs again; its rows are a transaction."""
    program = [sys.executable, broken_program.__file__, system, ROWS, BREAKS]
    done = attempt(*program, folder=tmp_path, more=with_paths())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print(system, ROWS, found)
    expected = [ROWS, ROWS, ROWS * (ROWS - 1) // 2, BREAKS]
    assert {name: values[:-1] for name, values in found.items()} == {
        "written": expected,
        "read": expected,
    }


def test_a_connection_that_breaks_fails_a_local_run_and_leaves_no_rows(
    spark: Any, postgresql: Sql
) -> None:
    """A local master tries a task once."""
    postgresql("CREATE TABLE items AS SELECT n AS id, 'x' AS name FROM generate_series(1, 9000) n")
    postgresql("CREATE TABLE copied (id int, name text)")
    server = postgresql.server
    port = re.search(r":(\d+)/", server.url)
    assert port is not None
    with breaking_proxy(int(port[1])) as proxy:
        place = {
            **server.arguments(),
            "jdbc_url": server.url.replace(port[0], f":{proxy.port}/"),
        }

        def read() -> None:
            with beam.Pipeline(SparkRunner(session=spark)) as p:
                _ = p | "Items" >> ReadFromJdbc("items", **place) | beam.Map(len)

        def write() -> None:
            with beam.Pipeline(SparkRunner(session=spark)) as p:
                items = beam.Create([broken_program.Item(n, "x" * 99) for n in range(9000)])
                rows = p | items.with_output_types(broken_program.Item)
                _ = rows | "Copy" >> WriteToJdbc("copied", **place)

        proxy.break_next(1, after=60_000)
        with pytest.raises(PipelineFailed, match=r"'Items/Read' failed: .* run the pipeline again"):
            read()
        proxy.break_next(1, after=60_000)
        with pytest.raises(PipelineFailed, match="'Copy' failed") as caught:
            write()
        assert server.password not in str(caught.value)
        assert proxy.broken == 2
        assert postgresql.rows("SELECT COUNT(*) FROM copied") == [("0",)]
        read()
        write()
        proxy.break_next(1, after=1)
        with pytest.raises(ConfigurationError, match="'Items': Spark cannot read the table"):
            read()
    assert postgresql.rows("SELECT COUNT(*) FROM copied") == [("9000",)]
