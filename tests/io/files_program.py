"""A stream of files that arrive into Beam's writes of files, which kills itself at a point.

It looks for FOLDER/in/*.txt a number of times, and writes the words of windows of a second below
FOLDER/out, by each of Beam's writes. It dies where it gets to the POINT after it has passed it a
number of times; see ``sinks_program``. Without a point it runs to the end. With no POLLS it writes
WORDS, which are bounded.

Usage: files_program.py FOLDER POLLS [POINT PASSED]
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import sinks_program
import streams
from apache_beam.io import fileio
from apache_beam.transforms.window import FixedWindows
from word_files import AVRO, COLUMNS

from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session as sessions

INTERVAL = 0.4
WORDS = [f"{letter}{number}" for letter in "abcd" for number in range(5000)]


WRITES: dict[str, tuple[Any, Callable[[Path], Any]]] = {
    "text": (None, lambda out: beam.io.WriteToText(str(out / "words"), num_shards=2)),
    "files": (
        None,
        lambda out: fileio.WriteToFiles(
            str(out),
            destination=lambda word: word[0],
            file_naming=fileio.destination_prefix_naming(".txt"),
            shards=3,
        ),
    ),
    "json": (
        beam.Map(lambda word: beam.Row(word=str(word))),
        lambda out: beam.io.WriteToJson(str(out / "words")),
    ),
    "parquet": (
        beam.Map(lambda word: {"word": word}),
        lambda out: beam.io.WriteToParquet(
            str(out / "words"), COLUMNS, file_name_suffix=".parquet"
        ),
    ),
    "avro": (
        beam.Map(lambda word: {"word": word}),
        lambda out: beam.io.WriteToAvro(str(out / "words"), AVRO, file_name_suffix=".avro"),
    ),
}
"""What makes elements of words, and writes them into a folder, by kind."""


def main(folder: Path, polls: int, point: str = "", passed: str = "0") -> None:
    os.setpgid(0, 0)  # The JVM joins the group.
    out = folder / "out"
    spark = sessions.obtain(SparkBeamOptions(["--spark_master=local[2]"]))
    if point:
        sinks_program.kill_at(point, int(passed), out)

    def build(p: beam.Pipeline) -> None:
        words = p | beam.Create(WORDS) if not polls else _looked_for(p, folder, polls)
        for kind, (elements, write) in WRITES.items():
            of_kind = words if elements is None else words | f"To {kind}" >> elements
            _ = of_kind | f"Write {kind}" >> write(out / kind)

    streams.run_to_the_end(spark, folder / "checkpoint", build)


def _looked_for(p: beam.Pipeline, folder: Path, polls: int) -> Any:
    match: Any = fileio.MatchContinuously(
        str(folder / "in/*.txt"), INTERVAL, start_timestamp=0, stop_timestamp=polls * INTERVAL
    )
    return (
        p
        | match
        | fileio.ReadMatches()
        | beam.FlatMap(lambda file: file.read_utf8().split())
        | beam.WindowInto(FixedWindows(1))
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
