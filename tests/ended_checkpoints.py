"""Checkpoints of pipelines that have run to their end, in this process."""

from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from in_process import streaming_pipeline


def leave(location: Path, *flags: str, then: Any = None) -> None:
    """Runs a pipeline that groups a number, and gives the group to another transform."""
    events = TestStream(coder=VarIntCoder()).add_elements([TimestampedValue(1, 1)])
    with streaming_pipeline(None, location, *flags) as p:
        grouped = (
            p
            | events.advance_watermark_to_infinity()
            | "Windows" >> beam.WindowInto(FixedWindows(10))
            | "Group" >> beam.GroupBy(lambda x: x % 2)
        )
        if then is not None:
            _ = grouped | then
