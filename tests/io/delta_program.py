"""A stream into Delta tables in each output mode, run again as after a crash behind the sinks.

It prints the versions and the rows of each table as JSON.

Usage: delta_program.py FOLDER
"""

import json
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import streams
from table_programs import NO_JAR, settings_with_jars

from sparkbeam.io import ReadFromSpark, WriteToSpark
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session as sessions

KEYED: dict[str, dict[str, Any]] = {
    "append": {},
    "update": {"output_mode": "update", "key": ["key"]},
    "complete": {"output_mode": "complete", "key": ["key"]},
}
BATCHES: tuple[list[dict[str, Any]], ...] = (
    [{"key": "a", "n": 1}, {"key": "b", "n": 2}, {"key": "a", "n": 3}],
    [{"key": "b", "n": 4}, {"n": 5}],
    [{"n": 6}],
)
SCHEMA = "key string, n bigint"


def main(folder: Path) -> None:
    conf = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    settings = settings_with_jars(["delta"], *map("=".join, conf.items()))
    try:
        spark = sessions.obtain(SparkBeamOptions(["--spark_master=local[2]", *settings]))
        spark.range(1).write.format("delta").save(str(folder / "try"))
    except Exception as error:
        print(error, file=sys.stderr)
        sys.exit(NO_JAR)

    def build(p: beam.Pipeline) -> None:
        rows = p | ReadFromSpark("json", {"path": folder / "in", "maxFilesPerTrigger": 1}, SCHEMA)
        for mode, more in KEYED.items():
            path = {"path": folder / f"{mode} `{{}}"}
            _ = rows | mode >> WriteToSpark("delta", path, SCHEMA, **more)

    for number, rows in enumerate(BATCHES):
        streams.write_json(folder / "in" / f"{number}.json", rows, 9 - number)
    streams.run_available(spark, folder / "checkpoint", build)
    # As if the driver had died behind the last transaction.
    last = len(BATCHES) - 1
    streams.rewind(folder / "checkpoint", last)
    for note in (folder / "checkpoint/sparkbeam/written").iterdir():
        note.write_text(str(last - 1))
    streams.run_available(spark, folder / "checkpoint", build)
    found = {mode: versions(spark, folder / f"{mode} `{{}}") for mode in KEYED}
    print(f"\n{json.dumps(found)}")


def versions(spark: Any, path: Path) -> list[list[Any]]:
    """The rows of each version of a table."""
    count = len([*(path / "_delta_log").glob("*.json")])
    reader = spark.read.format("delta")
    found = []
    for number in range(count):
        rows = reader.option("versionAsOf", number).load(str(path)).collect()
        found.append(sorted([row[0] or "", row[1]] for row in rows))
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
