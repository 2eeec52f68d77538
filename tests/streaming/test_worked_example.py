"""Two aggregations behind each other, whose watermarks are told apart; docs/windows.md has it."""

import re
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampCombiner, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process import streaming_pipeline

from sparkbeam.observe.figures.progress import StreamingProgress

PAGE = Path(__file__).parents[2] / "docs" / "windows.md"
EARLIEST = TimestampCombiner.OUTPUT_AT_EARLIEST

EVENTS = (
    ("watermark 1", lambda stream: stream.advance_watermark_to(1)),
    ("6 at 1", lambda stream: stream.add_elements([TimestampedValue(6, 1)])),
    ("5 at 2", lambda stream: stream.add_elements([TimestampedValue(5, 2)])),
    ("watermark 3", lambda stream: stream.advance_watermark_to(3)),
    ("7 at 4", lambda stream: stream.add_elements([TimestampedValue(7, 4)])),
    ("watermark 6", lambda stream: stream.advance_watermark_to(6)),
)

EXPECTED = {
    "watermark 1": (1, 1, 1, 1),
    "6 at 1": (1, 1, 1, 1),
    "5 at 2": (1, 1, 1, 1),
    # The maximum of the first window, 6 at 1, is on its way: the second step has taken it.
    "watermark 3": (3, 3, 3, 1),
    "7 at 4": (3, 3, 3, 1),
    "watermark 6": (6, 6, 6, 6),
}
"""After each event: input and output watermark of the first aggregation, and of the second."""


def marks(progress: StreamingProgress) -> tuple[Any, ...]:
    """The watermarks of both aggregations."""
    first, second = (
        next(stage for stage in progress.stages if label in stage.name.split(" + "))
        for label in ("First", "Second")
    )
    return (
        first.input_watermark,
        first.output_watermark,
        second.input_watermark,
        second.output_watermark,
    )


def test_a_result_on_its_way_holds_the_watermark_of_the_next_step(
    snapshots: list[StreamingProgress], capsys: pytest.CaptureFixture[str]
) -> None:
    stream = TestStream(coder=VarIntCoder())
    for _, change in EVENTS:
        stream = change(stream)
    with streaming_pipeline() as p:
        (
            p
            | stream.advance_watermark_to_infinity()
            | beam.WindowInto(FixedWindows(3), timestamp_combiner=EARLIEST)
            | "Max" >> beam.CombineGlobally(max).without_defaults()
            | "First" >> beam.Map(lambda value: (None, value))
            | "Wider" >> beam.WindowInto(FixedWindows(6), timestamp_combiner=EARLIEST)
            | "Sum" >> beam.CombinePerKey(sum)
            | "Second" >> beam.Map(lambda found: print("sum", found[1]))
        )
    assert "sum 13" in capsys.readouterr().out.splitlines()
    found = {name: marks(each) for (name, _), each in zip(EVENTS, snapshots, strict=False)}
    assert found == {name: tuple(map(Timestamp, each)) for name, each in EXPECTED.items()}


def test_the_page_shows_what_is_so() -> None:
    rows = re.findall(
        r"^\| (\S.*?) +\| (\d) \| (\d) \| (\d) \| (\d) \|", PAGE.read_text(), re.MULTILINE
    )
    assert {name: tuple(map(int, numbers)) for name, *numbers in rows} == EXPECTED
