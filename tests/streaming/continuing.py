"""A program that goes on over a checkpoint, whatever version of Spark has written it.

``continuing.py FOLDER NUMBER`` adds a file to FOLDER/in, and does what is there over
FOLDER/checkpoint. Lines of its state come to FOLDER/out.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.userstate import BagStateSpec, CombiningValueStateSpec
from apache_beam.transforms.window import FixedWindows, GlobalWindows

from sparkbeam.io import ReadFromSpark

KEYS = 5
ROWS = 40


class Total(beam.DoFn):
    """Emits how many and which numbers a key has had."""

    ALL = BagStateSpec("all", VarIntCoder())
    SUM = CombiningValueStateSpec("sum", combine_fn=sum)

    def process(
        self,
        element: tuple[str, int],
        every: Any = beam.DoFn.StateParam(ALL),
        total: Any = beam.DoFn.StateParam(SUM),
    ) -> Iterator[str]:
        every.add(element[1])
        total.add(element[1])
        yield f"total {element[0]} {len(list(every.read()))} {total.read()}"


def rows(number: int) -> list[dict[str, Any]]:
    """The rows of a run: their times go on from those of the run before."""
    return [
        {"id": id, "at": f"2030-01-01T00:{id // 60:02d}:{id % 60:02d}Z"}
        for id in range(number * ROWS, (number + 1) * ROWS)
    ]


def build(pipeline: beam.Pipeline, folder: Path) -> None:
    """Sums by window and totals by key."""
    out = str(folder / "out")

    def note(text: str) -> None:
        with open(out, "a") as lines:
            lines.write(f"{text}\n")

    pairs = (
        pipeline
        | ReadFromSpark(
            "json",
            {"path": str(folder / "in"), "maxFilesPerTrigger": 1},
            schema="id bigint, at timestamp",
            timestamp_column="at",
        )
        | "Key" >> beam.Map(lambda row: (f"k{row.id % KEYS}", int(row.id)))
    )
    sums = (
        pairs
        | beam.WindowInto(FixedWindows(15))
        | beam.CombinePerKey(sum)
        | "Sum" >> beam.Map(lambda pair: f"sum {pair}")
        | "Global" >> beam.WindowInto(GlobalWindows())
    )
    totals = pairs | "Totals" >> beam.ParDo(Total())
    _ = (sums, totals) | beam.Flatten() | "Note" >> beam.Map(note)


def main(folder: Path, number: int) -> None:
    source = folder / "in"
    source.mkdir(exist_ok=True)
    hidden = source / f".{number}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows(number)))
    hidden.rename(source / f"{number}.json")
    arguments = ["--streaming", "--trigger=available-now", "--shards=2", "--spark_master=local[2]"]
    options = PipelineOptions([*arguments, f"--checkpoint_location={folder / 'checkpoint'}"])
    with beam.Pipeline(runner="sparkbeam.SparkRunner", options=options) as pipeline:
        build(pipeline, folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
