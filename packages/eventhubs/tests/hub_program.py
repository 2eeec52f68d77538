"""Pipelines over event hubs in a session of their own; what they leave behind is looked through."""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import FixedWindows
from pyspark.sql import SparkSession

from sparkbeam import PipelineFailed, SparkRunner
from sparkbeam_eventhubs import (
    EventHubsEvent,
    EventPosition,
    ReadFromEventHubs,
    WriteToEventHubs,
)


def rewind(checkpoint: Path) -> None:
    """Leaves the checkpoint as it is when the driver ends before the last events are committed."""

    def read_by(number: int) -> str:
        lines = (checkpoint / "offsets" / str(number)).read_text().splitlines()
        return next((line for line in lines if line.startswith('{"in"')), "")

    number = max(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    while read_by(number) == read_by(number - 1):
        number -= 1
    for log, first in (("commits", number), ("offsets", number + 1)):
        for path in (checkpoint / log).glob("[0-9]*"):
            if int(path.name) >= first:
                path.unlink()
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def keep(pipeline: beam.Pipeline, result: Any, name: str, folder: Path) -> None:
    """Saves what a pipeline shows of itself, and Spark of it: pages, explanations, figures."""
    web = SparkSession.builder.getOrCreate().sparkContext.uiWebUrl
    with urlopen(f"{web}/api/v1/applications") as answer:
        (application,) = json.load(answer)
    spark = f"{web}/api/v1/applications/{application['id']}"
    pages = {
        "page": result.page,
        "state": f"{result.page}state.json",
        "environment": f"{spark}/environment",
        "sql": f"{spark}/sql?details=true&planDescription=true",
        "jobs": f"{spark}/jobs",
        "SQL": f"{web}/SQL/execution/?id=0",
        "Environment": f"{web}/environment/",
    }
    for kind, address in pages.items():
        with urlopen(address) as answer:
            (folder / f"{name}-{kind}.shown").write_bytes(answer.read())
    told = f"{result.explain()}\n{result.summary()}\n{SparkRunner().explain(pipeline)}"
    (folder / f"{name}-told.shown").write_text(told)


def _body(event: EventHubsEvent) -> bytes:
    return event.body


def copy(hub: str, options: PipelineOptions) -> tuple[beam.Pipeline, Any]:
    """What is in one hub goes to another, and so do the numbers of its windows."""
    pipeline = beam.Pipeline(options=options)
    events = pipeline | ReadFromEventHubs(
        hub, "in", starting_position=EventPosition.start(), max_events_per_trigger=600
    )
    _ = events | "Bodies" >> beam.Map(_body) | WriteToEventHubs(hub, "out")
    _ = (
        events
        | beam.WindowInto(FixedWindows(10))
        | beam.Map(lambda event: (event.partition_key, 1))
        | beam.CombinePerKey(sum)
        | beam.Map(lambda pair: f"{pair[0]}={pair[1]}")
        | "Counts" >> WriteToEventHubs(hub, "counts")
    )
    result = pipeline.run()
    result.wait_until_finish()
    return pipeline, result


def main(folder: Path) -> None:
    hub = os.environ["HUB"]
    checkpoint = folder / "checkpoint"
    base = [
        "--runner=sparkbeam.SparkRunner",
        "--spark_master=local[2]",
        "--spark_page",
        "--spark_conf=spark.sql.shuffle.partitions=1",
        "--spark_conf=spark.ui.enabled=true",
        "--spark_conf=spark.ui.port=0",
        "--spark_conf=spark.eventLog.enabled=true",
        f"--spark_conf=spark.eventLog.dir=file://{folder}/events",
        "--spark_conf=spark.eventLog.compress=false",
        f"--spark_conf=spark.sql.warehouse.dir={folder}/warehouse",
    ]
    stream = [*base, "--streaming", "--trigger=available-now", "--shards=1"]
    options = PipelineOptions([*stream, f"--checkpoint_location={checkpoint}"])
    keep(*copy(hub, options), "stream", folder)
    rewind(checkpoint)
    copy(hub, options)  # The last micro-batch again.

    pipeline = beam.Pipeline(options=PipelineOptions(base))
    found = pipeline | ReadFromEventHubs(hub, "out", drop_repeats=True)
    _ = found | beam.Map(_body) | WriteToEventHubs(hub, "once")
    result = pipeline.run()
    result.wait_until_finish()
    keep(pipeline, result, "batch", folder)

    wrong = hub.replace(os.environ["KEY"], os.environ["WRONG_KEY"])
    try:
        with beam.Pipeline(options=PipelineOptions(base)) as pipeline:
            _ = pipeline | ReadFromEventHubs(wrong, "in") | beam.Map(print)
    except PipelineFailed as error:
        print("FAILED", error)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
