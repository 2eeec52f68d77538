"""``WriteToJdbc`` in a stream."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.jdbc import WriteToJdbc
from apache_beam.options.pipeline_options import PipelineOptions
from database_servers import Sql

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark


@pytest.mark.long("a stream into two sinks; Foreach and ForeachBatch have shorter ones")
def test_each_micro_batch_is_written(spark: Any, postgresql: Sql, tmp_path: Path) -> None:
    """As rows by Spark, and by a statement."""
    postgresql("CREATE TABLE streamed (n bigint, note text DEFAULT 'none')")
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.json").write_text(json.dumps({"n": number}))
    with sqlite3.connect(tmp_path / "counts.db") as database:
        database.execute("CREATE TABLE counts (n INT PRIMARY KEY)")
    options = PipelineOptions(["--streaming", "--trigger=available-now", "--shards=1"])
    with beam.Pipeline(SparkRunner(session=spark), options) as p:
        source = {"path": tmp_path / "in", "maxFilesPerTrigger": 1}
        rows = p | ReadFromSpark("json", source, "n bigint")
        _ = rows | "Rows" >> WriteToJdbc("streamed", **postgresql.server.arguments())
        _ = rows | "Statement" >> WriteToJdbc(
            "counts",
            "",
            f"jdbc:sqlite:{tmp_path}/counts.db",
            "",
            "",
            statement="INSERT INTO counts VALUES (?) ON CONFLICT DO NOTHING",
        )
    expected = [("0", "none"), ("1", "none"), ("2", "none")]
    assert postgresql.rows("SELECT * FROM streamed ORDER BY n") == expected
    with sqlite3.connect(tmp_path / "counts.db") as database:
        assert database.execute("SELECT n FROM counts ORDER BY n").fetchall() == [(0,), (1,), (2,)]
