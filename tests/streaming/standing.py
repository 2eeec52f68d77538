"""A program that stands still in the middle of a micro-batch, as if its machine did.

``standing.py FOLDER POINT`` reads a file of FOLDER/in in each micro-batch, and writes it to
FOLDER/out over FOLDER/checkpoint. In micro-batch 1 it stops itself at the POINT, if it has one.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from sparkbeam import SparkRunner
from sparkbeam.io import ReadFromSpark, WriteToSpark
from sparkbeam.streaming.folder_commits import FolderCommits
from sparkbeam.streaming.generation import Generation
from sparkbeam.streaming.query_sink import QuerySink

STOPS_IN = 1

POINTS: dict[str, tuple[type, str, bool]] = {
    "before the first micro-batch": (Generation, "begin", True),
    "before the write": (FolderCommits, "commit", False),
    "between write and note": (FolderCommits, "_moves", True),
    "between note and moves": (FolderCommits, "_complete", False),
    "between moves and mark": (FolderCommits, "_write_mark", False),
    "after the mark": (QuerySink, "_take", False),
}
"""Where it may stand: before or after a call of a method."""


def stand(point: str) -> None:
    """Makes this process stop itself at a point; once."""
    owner, name, is_after = POINTS[point]
    method: Callable[..., Any] = getattr(owner, name)
    stood: list[bool] = []

    def standing(*arguments: Any) -> Any:
        result = method(*arguments) if is_after else None
        numbers = [argument for argument in arguments if isinstance(argument, int)]
        is_due = name in ("begin", "_take") or STOPS_IN in numbers
        if is_due and not stood:
            stood.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)
        return result if is_after else method(*arguments)

    setattr(owner, name, standing)


def run(folder: Path, *options: str, session: Any = None) -> None:
    """Run the pipeline to its end, in a session or one that it makes."""
    checkpoint = f"--checkpoint_location={folder / 'checkpoint'}"
    flags = ["--streaming", "--trigger=available-now", checkpoint, *options]
    with beam.Pipeline(SparkRunner(session), options=PipelineOptions(flags)) as p:
        _ = (
            p
            | ReadFromSpark(
                "json",
                {"path": str(folder / "in"), "maxFilesPerTrigger": 1},
                schema="id bigint",
            )
            | beam.Map(lambda row: {"id": row.id})
            | WriteToSpark("csv", {"path": str(folder / "out")}, schema="id bigint")
        )


def main(folder: Path, point: str) -> None:
    if point:
        stand(point)
    run(folder, "--spark_master=local[2]")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
