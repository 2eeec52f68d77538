"""Two drivers over one checkpoint: the older one ends, and what comes out is exactly once.

A driver stands still at a point, another one is started, does something, and the first one wakes
up: at each point of a micro-batch, and at each access to a file.
"""

import random
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import TimestampedValue
from click.testing import CliRunner
from in_process import Crash, Point, Spark, StreamingRunner
from numbers_sink import write_numbers, written
from test_file_sink import BATCHES, ROWS, WRITER, Reader, Unsteady, as_spark, rows_in

from sparkbeam import localfiles
from sparkbeam.cli import main
from sparkbeam.errors import CheckpointTaken, ConfigurationError, PipelineFailed
from sparkbeam.io import committed_files
from sparkbeam.streaming import source
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.file_sink import FileSink
from sparkbeam.streaming.files import LocalFiles, checkpoint_id, files
from sparkbeam.streaming.generation import Generation, OwnFiles, newest

NUMBERS = list(range(24))


@pytest.fixture(scope="module", autouse=True)
def by_value() -> Iterator[None]:
    """The stand-in pickles functions as Spark does."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def short_micro_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_MOST_ROUNDS", 4)
    monkeypatch.setattr(source, "_LOOK_SECONDS", 0)


def start(spark: Spark, folder: Path) -> Any:
    """Starts a program that batches numbers, and writes each micro-batch as a file."""
    events = TestStream(coder=VarIntCoder())
    for second in range(4):
        some = [TimestampedValue(number, second) for number in NUMBERS[second::4]]
        events = events.add_elements(some).advance_watermark_to(second)
    options = PipelineOptions(["--streaming", f"--checkpoint_location={folder / 'checkpoint'}"])
    p = beam.Pipeline(runner=StreamingRunner(spark), options=options)
    _ = (
        p
        | events.advance_watermark_to_infinity()
        | beam.Reshuffle()
        | beam.WithKeys(lambda number: number % 2).with_output_types(tuple[int, int])
        | beam.GroupIntoBatches(5)
        | beam.FlatMapTuple(lambda _, numbers: numbers)
        | write_numbers(folder)
    )
    return p.run()


def run(spark: Spark, folder: Path) -> None:
    start(spark, folder).wait_until_finish()


def beside(other: Spark) -> Spark:
    """Another driver's session over the checkpoints of one."""
    spark = Spark()
    spark.checkpoints = other.checkpoints
    return spark


class Standstill:
    """Lets a driver stand still when it is somewhere for the first time; then it goes on.

    Args:
        at: the point.
        meanwhile: what happens there.
    """

    def __init__(self, at: Any, meanwhile: Callable[[], None]) -> None:
        self._at = at
        self._meanwhile = meanwhile
        self.stood = False

    def __call__(self, point: Any) -> None:
        if point == self._at and not self.stood:
            self.stood = True
            self._meanwhile()


def points(folder: Path) -> list[Point]:
    """Where a run of the program can stand still."""
    spark = Spark()
    run(spark, folder)
    return list(dict.fromkeys(spark.points))


def runs_and_crashes(spark: Spark, folder: Path, at: Point) -> None:
    """Runs a driver until it crashes somewhere, if it comes there."""

    def crash(point: Point) -> None:
        if point == at:
            raise Crash(str(point))

    spark.crash = crash
    try:
        run(spark, folder)
    except PipelineFailed as error:
        assert "At" in str(error) or "Crash" in str(error) or str(at) in str(error), error


def test_a_driver_that_wakes_up_ends_with_an_error_wherever_it_stood(tmp_path: Path) -> None:
    """The other one does all that is left."""
    whole = tmp_path / "whole"
    whole.mkdir()
    last = points(whole)[-1]
    for number, point in enumerate(points(whole := fresh(tmp_path, "again"))):
        folder = fresh(tmp_path, str(number))
        spark = Spark()
        other = beside(spark)
        spark.crash = Standstill(point, lambda other=other, folder=folder: run(other, folder))
        if point == last:
            run(spark, folder)  # All was done.
        else:
            with pytest.raises(CheckpointTaken) as ended:
                run(spark, folder)
            text = str(ended.value)
            assert str(folder / "checkpoint") in text
            assert "generation 1, and generation 2 began" in text
            assert "another --checkpoint_location" in text
        assert written(folder) == NUMBERS, point


def test_what_the_older_driver_left_and_a_crash_of_the_newer_lose_and_double_nothing(
    tmp_path: Path,
) -> None:
    found = points(fresh(tmp_path, "points"))
    for stood in found[:-1]:
        for crashed in found:
            folder = fresh(tmp_path, f"{found.index(stood)}-{found.index(crashed)}")
            spark = Spark()
            other = beside(spark)
            spark.crash = Standstill(
                stood,
                lambda other=other, folder=folder, at=crashed: runs_and_crashes(other, folder, at),
            )
            with pytest.raises(CheckpointTaken):
                run(spark, folder)
            run(beside(spark), folder)
            assert written(folder) == NUMBERS, (stood, crashed)


def fresh(folder: Path, name: str) -> Path:
    found = folder / name
    found.mkdir(exist_ok=True)
    return found
