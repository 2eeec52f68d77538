"""Reads of a Delta table and its changes over ``managed.Read``; it prints the rows as JSON.

Usage: managed_delta_program.py FOLDER PART, of PARTS
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import page_programs
import pytest
import streams
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import managed
from apache_beam.yaml.yaml_transform import YamlTransform
from table_programs import NO_JAR, settings

from sparkbeam.errors import ConfigurationError
from sparkbeam.io import ForeachBatch
from sparkbeam.upstream.spark import active_session

ENABLED = " TBLPROPERTIES (delta.enableChangeDataFeed = true)"


class Reads:
    """Reads of a table, each in a pipeline.

    Args:
        folder: for the table and what the pipelines put out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._arguments = ["--spark_master=local[2]", *settings(["delta", "iceberg"])]
        self.table = str(folder / "table")
        (folder / "table").mkdir()

    def rows(self, system: str, schema: str, **config: Any) -> list[list[Any]]:
        """Return the rows of a read."""
        path = self._folder / "rows.json"

        def collect(frame: Any, _: int) -> None:
            path.write_text(json.dumps(sorted([*row] for row in frame.collect())))

        with beam.Pipeline("sparkbeam.SparkRunner", PipelineOptions(self._arguments)) as p:
            read = p | managed.Read(system, config={"table": self.table, **config})
            _ = read | ForeachBatch(collect, schema)
        rows: list[list[Any]] = json.loads(path.read_text())
        return rows

    def in_yaml(self, kind: str, fields: list[str], **config: Any) -> list[list[Any]]:
        """Return the rows of a read in YAML."""
        transforms = [
            {"type": kind, "config": {"table": self.table, **config}},
            {"type": "MapToFields", "config": {"fields": {field: field for field in fields}}},
            {"type": "WriteToJson", "config": {"path": str(self._folder / f"{kind}.jsonl")}},
        ]
        with beam.Pipeline("sparkbeam.SparkRunner", PipelineOptions(self._arguments)) as p:
            _ = p | YamlTransform(json.dumps({"type": "chain", "transforms": transforms}))
        files = self._folder.glob(f"{kind}.jsonl*")
        lines = "".join(file.read_text() for file in files).splitlines()
        return sorted([*json.loads(line).values()] for line in lines)

    def follow(self, spark: Any) -> None:
        """Note the changes that a stream has not seen."""

        def build(p: beam.Pipeline) -> None:
            config = {
                "table": self.table,
                "start_version": 2,
                "include_metadata_columns": ["_change_type", "_commit_version"],
            }
            changes = p | managed.Read(managed.DELTA_CDC, config=config)
            timed = changes | beam.Map(
                lambda row, time=beam.DoFn.TimestampParam: beam.Row(
                    n=row.n, kind=row.change_type, version=row.commit_version, at=time.micros
                )
            )
            schema = "n bigint, kind string, version bigint, at bigint"
            _ = timed | ForeachBatch(append, schema)

        def append(frame: Any, _: int) -> None:
            for row in sorted(frame.collect()):
                streams.note(self._folder / "notes", "stream", [*row])

        streams.run_available(spark, self._folder / "checkpoint", build)

    def once(self, spark: Any) -> list[list[Any]]:
        """Return the rows of reads that end, in a stream."""

        def build(p: beam.Pipeline) -> None:
            config = {"table": self.table, "start_version": 1, "end_version": 1}
            changes = p | "Changes" >> managed.Read(managed.DELTA_CDC, config=config)
            newest = p | "Newest" >> managed.Read(managed.DELTA, config={"table": self.table})
            rows = (changes, newest) | beam.Flatten()
            rows = rows | beam.Map(lambda row: beam.Row(id=row.id, n=row.n))
            _ = rows | ForeachBatch(note, "id bigint, n bigint")

        def note(frame: Any, _: int) -> None:
            rows = sorted([*row] for row in frame.collect())
            streams.note(self._folder / "once", "rows", rows)

        streams.run_to_the_end(spark, self._folder / "other", build)
        (found,) = streams.notes(self._folder / "once")["rows"]
        return list(found)


def findings(folder: Path, part: str) -> dict[str, Any]:
    """Return what a part finds."""
    reads = Reads(folder)
    try:
        # The first transform creates the session, with what Delta needs.
        reads.rows(managed.DELTA, "id int")
    except ConfigurationError as error:
        if "[DELTA_TABLE_NOT_FOUND]" not in str(error):
            print(error, file=sys.stderr)
            sys.exit(NO_JAR)
    spark = active_session()
    spark.sql(f"CREATE TABLE delta.`{reads.table}` (id INT, n INT) USING delta{ENABLED}")
    spark.sql(f"INSERT INTO delta.`{reads.table}` VALUES (1, 10), (2, 20)")
    spark.sql(f"UPDATE delta.`{reads.table}` SET n = 21 WHERE id = 2")
    return PARTS[part](reads, spark, folder)


CHANGES: dict[str, Any] = {"start_version": 2, "include_metadata_columns": ["_change_type"]}


def basics(reads: Reads, spark: Any, folder: Path) -> dict[str, Any]:
    """A table and its changes, and the program of the page."""
    return {
        "newest": reads.rows(managed.DELTA, "id int, n int"),
        "changes": reads.rows(managed.DELTA_CDC, "id int, n int, change_type string", **CHANGES),
        "page": page(spark, folder),
    }


def others(reads: Reads, spark: Any, folder: Path) -> dict[str, Any]:
    """An older version, YAML, reads that end in a stream, and one that follows changes."""
    found = {
        "older": reads.rows(managed.DELTA, "id int, n int", version=1),
        "yaml": reads.in_yaml("ReadFromDelta", ["id", "n"], version=1),
        "changes_in_yaml": reads.in_yaml("ReadFromDeltaCDC", ["n", "change_type"], **CHANGES),
        "once": reads.once(spark),
    }
    reads.follow(spark)
    spark.sql(f"DELETE FROM delta.`{reads.table}` WHERE id = 1")
    reads.follow(spark)
    log = spark.sql(f"DESCRIBE HISTORY delta.`{reads.table}`").collect()
    times = {row.version: int(row.timestamp.timestamp() * 1000) for row in log}
    found["stream"] = [
        [n, kind, at // 1000 - times[version]]
        for n, kind, version, at in streams.notes(folder / "notes")["stream"]
    ]
    return found


PARTS: dict[str, Callable[[Reads, Any, Path], dict[str, Any]]] = {
    "basics": basics,
    "others": others,
}


def page(spark: Any, folder: Path) -> list[list[Any]]:
    """Runs the program of the page, and runs it again after changes; returns the copy."""
    orders, copy = folder / "orders", folder / "copy"
    columns = "(id BIGINT, city STRING, amount BIGINT)"
    spark.sql(f"CREATE TABLE delta.`{orders}` {columns} USING delta{ENABLED}")
    arguments = ["--runner=sparkbeam.SparkRunner", "--streaming", "--trigger=available-now"]
    arguments.append(f"--checkpoint_location={folder / 'page'}")
    places = {"/data/orders": str(orders), "/data/copy": str(copy)}
    for change in (
        f"INSERT INTO delta.`{orders}` VALUES (1, 'Bonn', 10), (2, 'Bern', 20)",
        f"UPDATE delta.`{orders}` SET amount = 21 WHERE id = 2",
    ):
        spark.sql(change)
        with pytest.MonkeyPatch.context() as patch:
            page_programs.run("delta", folder, patch, arguments, places)
    return sorted([*row] for row in spark.read.format("delta").load(str(copy)).collect())


if __name__ == "__main__":
    print(f"\n{json.dumps(findings(Path(sys.argv[1]), sys.argv[2]))}")
