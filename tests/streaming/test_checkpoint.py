"""The command ``sparkbeam checkpoint``: what a checkpoint holds of a query's course."""

import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from click.testing import Result
from command import command
from golden_files import Golden
from in_process import Crash, Point, Spark, rounds, streaming_pipeline

from sparkbeam.errors import PipelineFailed

LAST = 2
"""The number in Spark's logs of the micro-batch in which the program is killed."""


class Program:
    """A windowed count over a checkpoint, which a test kills in its third micro-batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark = Spark(self._reach)
        self._kill: Point | None = None

    def _reach(self, point: Point) -> None:
        if point == self._kill:
            raise Crash("Killed.")

    def run(self, until: str | None = None) -> list[int]:
        """The numbers of the micro-batches that have run, as Spark has them."""
        self._kill = None if until is None else (LAST, until)
        self.spark.points.clear()
        with nullcontext() if until is None else pytest.raises(PipelineFailed, match="Killed"):
            self._pipeline().run().wait_until_finish()
        self._write_logs()
        return [batch for batch, what in self.spark.points if what == "sink"]

    def _pipeline(self) -> beam.Pipeline:
        events = TestStream(coder=VarIntCoder())
        for number in range(5):
            events = events.add_elements([TimestampedValue(number, number)])
            events = events.advance_watermark_to(number)
        p = streaming_pipeline(self.spark, self.folder)
        _ = (
            p
            | "Events" >> events.advance_watermark_to_infinity()
            | "Windows" >> beam.WindowInto(FixedWindows(10))
            | "Key" >> beam.Map(lambda number: (number % 2, 1))
            | "Count" >> beam.CombinePerKey(sum)
        )
        return p

    def _write_logs(self) -> None:
        """As Spark has them: the stand-in keeps its own in memory."""
        (kept,) = self.spark.checkpoints.values()
        for log, count in (("offsets", len(kept.offsets)), ("commits", kept.commits)):
            (self.folder / log).mkdir(exist_ok=True)
            for number in range(count):
                content = f"v1\n{{}}\n{kept.offsets[number]}"
                (self.folder / log / str(number)).write_text(content)


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """The program with a micro-batch for each event and watermark."""
    with rounds(2):
        yield Program(tmp_path)


def asked(folder: Path, *options: str) -> Result:
    return command("checkpoint", folder, *options)


@pytest.mark.parametrize(
    ("point", "first"),
    [("planned", LAST), ("operator 1", LAST), ("sink", LAST), ("committed", LAST + 1), (None, 0)],
)
def test_after_a_kill_it_shows_offsets_and_watermarks_and_what_runs_again(
    program: Program, point: str | None, first: int, golden: Golden
) -> None:
    program.run(until=point)
    content = json.loads(asked(program.folder, "--json").output) | {"versions": {}}
    text = [asked(program.folder).output, json.dumps(content, indent=1)]
    varying = {
        re.escape(str(program.folder)): "FOLDER",
        r"\bsparkbeam \S+, Beam \S+, Python \S+": "VERSIONS",
        r"(?<!committed )[\d.]+ s ago|committed .* ago": "TIME ago",
        r'(?<="ago_seconds": )[\d.]+': "TIME",
        r"(?<=\")20\d\d-[^\"]*(?=\")": "TIME",
        r'("|\\")(time|event)\1: \d+': r"\1\2\1: TIME",
    }
    golden(f"checkpoint after {point or 'the end'}.txt", "\n".join(text), varying)
    if point is not None:
        assert program.run()[0] == first


def test_what_somebody_has_written_in_its_logs_is_shown_as_text(program: Program) -> None:
    program.run(until="planned")
    for log in ("offsets", "commits"):
        (program.folder / log / "7").write_text(
            'v1\n{}\n\x1b[31m{"number": "x", "password": "Tr0ub4dor"}\n[['
        )
    result = asked(program.folder)
    assert result.exit_code == 0
    for output in (result.output, asked(program.folder, "--json").output):
        assert "\x1b" not in output
        assert "Tr0ub4dor" not in output
    assert "micro-batch 8 is the last planned (offsets/7)" in result.output


def test_a_folder_without_a_checkpoint_is_an_error(tmp_path: Path) -> None:
    result = asked(tmp_path)
    assert result.exit_code == 2
    assert "There is no checkpoint of a sparkbeam pipeline at" in result.output
