"""Sessions of a key that are combined before the shuffle."""

import random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import Sessions, TimestampCombiner, TimestampedValue
from in_process_batch import BatchRunner

from sparkbeam.worker.blocks import Block
from sparkbeam.worker.layouts.sessions import SessionSink
from sparkbeam.worker.steps import combines

found: list[Any] = []


def note(
    element: Any,
    window: Any = beam.DoFn.WindowParam,
    timestamp: Any = beam.DoFn.TimestampParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> None:
    found.append((element, repr(window), timestamp.micros, repr(pane)))


def sums(runner: Any, windowing: beam.WindowInto, count: int) -> list[Any]:
    """Sums of numbers by key and session, with all that belongs to them."""
    choice = random.Random(3)
    numbers = [(choice.randrange(3), choice.randrange(200)) for _ in range(count)]
    found.clear()
    with beam.Pipeline(runner, options=PipelineOptions()) as p:
        _ = (
            p
            | beam.Create(numbers)
            | beam.Map(lambda pair: TimestampedValue(pair, pair[1] + 0.5))
            | windowing
            | beam.CombinePerKey(sum)
            | beam.Map(note)
        )
    return sorted(found)


@pytest.mark.parametrize("most", [5, 100_000], ids=["in parts", "at once"])
@pytest.mark.parametrize(
    "combiner",
    [
        TimestampCombiner.OUTPUT_AT_EOW,
        TimestampCombiner.OUTPUT_AT_EARLIEST,
        TimestampCombiner.OUTPUT_AT_LATEST,
    ],
)
def test_they_are_those_of_beams_own_runner(
    most: int, combiner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combines, "_MAX_KEYS", most)
    windowing = beam.WindowInto(Sessions(2), timestamp_combiner=combiner)
    expected = sums(FnApiRunner(), windowing, 150)
    assert sums(BatchRunner(), windowing, 150) == expected
    assert len(expected) > 20


def test_elements_of_different_times_are_one_accumulator(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write_block, write = SessionSink.write_block, SessionSink.write

    def noted_block(self: SessionSink, block: Block) -> None:
        written.append(len(block))
        write_block(self, block)

    def noted(self: SessionSink, element: Any) -> None:
        written.append(1)
        write(self, element)

    monkeypatch.setattr(SessionSink, "write_block", noted_block)
    monkeypatch.setattr(SessionSink, "write", noted)
    assert len(sums(BatchRunner(), beam.WindowInto(Sessions(1000)), 500)) == 3
    assert sum(written) < 20
