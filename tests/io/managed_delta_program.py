"""Reads of a Delta table and its changes over ``managed.Read``; it prints the rows as JSON.

Usage: managed_delta_program.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import page_programs
import pytest
import streams
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import managed
from apache_beam.yaml.yaml_transform import YamlTransform
from table_programs import NO_JAR, given_jars

from sparkbeam.errors import ConfigurationError
from sparkbeam.io import ForeachBatch
from sparkbeam.upstream.spark import active_session

ENABLED = " TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def main(folder: Path) -> None:
    settings = [f"--spark_conf={setting}" for setting in given_jars("delta")]
    arguments = ["--spark_master=local[2]", *settings]
    path = str(folder / "table")
    (folder / "table").mkdir()

    def rows(name: str, system: str, schema: str, **config: Any) -> None:
        def collect(frame: Any, _: int) -> None:
            found = sorted([*row] for row in frame.collect())
            (folder / f"{name}.json").write_text(json.dumps(found))

        with beam.Pipeline("sparkbeam.SparkRunner", PipelineOptions(arguments)) as p:
            read = p | managed.Read(system, config={"table": path, **config})
            _ = read | ForeachBatch(collect, schema)

    try:
        # The first transform creates the session, with what Delta needs.
        rows("nothing", managed.DELTA, "id int")
    except ConfigurationError as error:
        if "[DELTA_TABLE_NOT_FOUND]" not in str(error):
            print(error, file=sys.stderr)
            sys.exit(NO_JAR)
    spark = active_session()
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, n INT) USING delta{ENABLED}")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 10), (2, 20)")
    spark.sql(f"UPDATE delta.`{path}` SET n = 21 WHERE id = 2")
    rows("newest", managed.DELTA, "id int, n int")
    rows("older", managed.DELTA, "id int, n int", version=1)
    rows(
        "changes",
        managed.DELTA_CDC,
        "id int, n int, change_type string",
        start_version=2,
        include_metadata_columns=["_change_type"],
    )
    names = ("newest", "older", "changes")
    found = {name: json.loads((folder / f"{name}.json").read_text()) for name in names}

    def in_yaml(name: str, kind: str, fields: list[str], **config: Any) -> None:
        transforms = [
            {"type": kind, "config": {"table": path, **config}},
            {"type": "MapToFields", "config": {"fields": {field: field for field in fields}}},
            {"type": "WriteToJson", "config": {"path": str(folder / f"{name}.jsonl")}},
        ]
        with beam.Pipeline("sparkbeam.SparkRunner", PipelineOptions(arguments)) as p:
            _ = p | YamlTransform(json.dumps({"type": "chain", "transforms": transforms}))
        lines = "".join(file.read_text() for file in folder.glob(f"{name}.jsonl*")).splitlines()
        found[name] = sorted([*json.loads(line).values()] for line in lines)

    in_yaml("yaml", "ReadFromDelta", ["id", "n"], version=1)
    in_yaml(
        "changes_in_yaml",
        "ReadFromDeltaCDC",
        ["n", "change_type"],
        start_version=2,
        include_metadata_columns=["_change_type"],
    )

    def follow() -> None:
        def build(p: beam.Pipeline) -> None:
            config = {
                "table": path,
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

        streams.run_available(spark, folder / "checkpoint", build)

    def append(frame: Any, _: int) -> None:
        for n, kind, version, at in sorted(frame.collect()):
            streams.note(folder / "notes", "stream", [n, kind, version, at])

    follow()
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    follow()
    log = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").collect()
    times = {row.version: int(row.timestamp.timestamp() * 1000) for row in log}
    found["stream"] = [
        [n, kind, at // 1000 - times[version]]
        for n, kind, version, at in streams.notes(folder / "notes")["stream"]
    ]

    def once(p: beam.Pipeline) -> None:
        config = {"table": path, "start_version": 1, "end_version": 1}
        changes = p | "Changes" >> managed.Read(managed.DELTA_CDC, config=config)
        newest = p | "Newest" >> managed.Read(managed.DELTA, config={"table": path})
        rows = (
            (changes, newest) | beam.Flatten() | beam.Map(lambda row: beam.Row(id=row.id, n=row.n))
        )
        _ = rows | ForeachBatch(
            lambda frame, _: streams.note(
                folder / "once", "rows", sorted([*row] for row in frame.collect())
            ),
            "id bigint, n bigint",
        )

    streams.run_to_the_end(spark, folder / "other", once)
    (found["once"],) = streams.notes(folder / "once")["rows"]
    found["page"] = page(spark, folder)
    print(f"\n{json.dumps(found)}")


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
    main(Path(sys.argv[1]))
