"""The quick grouping for the default trigger puts out what Beam's trigger driver does."""

import random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import (
    FixedWindows,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)
from in_process import StreamingRunner

from sparkbeam.worker.streaming.windowed import WindowGrouping

found: list[Any] = []


def note(element: Any, window: Any, timestamp: Any, pane: Any) -> None:
    found.append((repr(element), repr(window), repr(timestamp), repr(pane)))


def panes(windowing: beam.WindowInto) -> list[Any]:
    """All panes of a random stream, grouped and combined, with all that belongs to them."""
    choice = random.Random(7)
    events = TestStream(coder=VarIntCoder())
    watermark = 0
    for _ in range(20):
        seconds = [max(0, watermark + choice.randrange(-12, 8)) for _ in range(4)]
        events = events.add_elements([TimestampedValue(s, s) for s in seconds])
        watermark += choice.choice([1, 1, 2, 5, 10])
        events = events.advance_watermark_to(watermark)
    found.clear()
    with beam.Pipeline(runner=StreamingRunner(), options=PipelineOptions(["--streaming"])) as p:
        keyed = (
            p | events.advance_watermark_to_infinity() | windowing | beam.Map(lambda n: (n % 3, n))
        )
        grouped = keyed | beam.GroupByKey() | "sort" >> beam.MapTuple(lambda k, v: (k, sorted(v)))
        summed = keyed | beam.CombinePerKey(sum)
        for name, output in (("grouped", grouped), ("summed", summed)):
            output | name >> beam.Map(
                note,
                beam.DoFn.WindowParam,
                beam.DoFn.TimestampParam,
                beam.DoFn.PaneInfoParam,
            )
    return sorted(found)


@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])
@pytest.mark.parametrize(
    "windows", [FixedWindows(5), SlidingWindows(6, 3)], ids=["fixed", "sliding"]
)
@pytest.mark.parametrize(
    "combiner",
    [
        TimestampCombiner.OUTPUT_AT_EOW,
        TimestampCombiner.OUTPUT_AT_EARLIEST,
        TimestampCombiner.OUTPUT_AT_LATEST,
    ],
)
@pytest.mark.parametrize("lateness", [0, 7])
def test_panes_are_those_of_beams_trigger_driver(
    mode: Any, windows: Any, combiner: Any, lateness: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    windowing = beam.WindowInto(
        windows, accumulation_mode=mode, timestamp_combiner=combiner, allowed_lateness=lateness
    )
    quick = panes(windowing)
    monkeypatch.setattr(WindowGrouping, "suits", staticmethod(lambda windowing: False))
    assert quick == panes(windowing)
    assert len(quick) > 20
