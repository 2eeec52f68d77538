"""Sessions of events that Spark parses as a stream, for a test that kills the program.

Usage: frames_program.py FOLDER

It reads FOLDER/in and writes a file of each micro-batch into FOLDER/out. If there is a file
FOLDER/kill/<number of others that have been written>, it removes that and kills itself behind the
write, or before it if the file holds the word "before". A test may also :func:`run` the pipeline in
a session that goes on.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import streams
from apache_beam.transforms.window import Sessions
from pyspark.sql import functions as sf

from sparkbeam.io import ForeachBatch, FromDataFrame
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

SCHEMA = "id bigint, user string, second bigint"
GAP = 10


def parsed(spark: Any, folder: Path) -> Any:
    """Events that Spark parses; each has its second as a time."""
    texts = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    rows = texts.select(sf.from_json("value", SCHEMA).alias("row")).select("row.*")
    return rows.where("user <> ''").withColumn("at", sf.timestamp_seconds("second"))


class Died(Exception):
    """A micro-batch ends in the middle."""


def die() -> None:
    """Leave nothing of the program."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    """End the query, and not the program."""
    raise Died


def run(spark: Any, folder: Path, end: Callable[[], None]) -> None:
    """Run the pipeline over its checkpoint.

    Args:
        spark: the session.
        folder: as of the program.
        end: called where a file under ``kill`` wants it.
    """

    def keep(frame: Any, batch_id: int) -> None:
        rows = sorted(map(tuple, frame.collect()))
        out = folder / "out" / str(batch_id)
        others = [path for path in out.parent.iterdir() if path != out]
        kill = folder / "kill" / str(len(others))
        is_before = kill.exists() and kill.read_text() == "before"
        if not is_before:
            out.write_text(json.dumps(rows))
        if kill.exists():
            kill.unlink()
            end()

    def build(pipeline: beam.Pipeline) -> None:
        _ = (
            pipeline
            | FromDataFrame(parsed(spark, folder / "in"), "at", watermark_delay=5)
            | beam.Map(lambda row: (row.user, 1))
            | beam.WindowInto(Sessions(GAP))
            | beam.CombinePerKey(sum)
            | beam.Map(
                lambda pair, window=beam.DoFn.WindowParam: beam.Row(
                    user=str(pair[0]), start=int(window.start), count=int(pair[1])
                )
            )
            | ForeachBatch(keep, "user string, start bigint, count bigint")
        )

    streams.run_available(spark, folder / "checkpoint", build)


def main(folder: Path) -> None:
    run(session.obtain(SparkBeamOptions(["--spark_master=local[2]"])), folder, die)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
