"""State goes when nobody can need it any more."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, TimestampedValue
from in_process import Measured, rounds, streaming_pipeline
from remembering import keys

USERS = 50


@pytest.mark.part(5)
@rounds(2)
@pytest.mark.parametrize("window", [FixedWindows(10), SlidingWindows(10, 5), Sessions(10)])
@pytest.mark.parametrize("what", [beam.GroupByKey(), beam.CombinePerKey(sum)])
def test_windows_that_have_expired_leave_nothing(window: Any, what: Any, tmp_path: Path) -> None:
    spark = Measured(keys)
    events = TestStream(coder=VarIntCoder())
    for user in range(USERS):
        stamp = 30 * user
        events = events.add_elements([TimestampedValue(user, stamp)]).advance_watermark_to(stamp)
    with streaming_pipeline(spark, tmp_path) as p:
        pairs = p | events | beam.Map(lambda user: (user, 1)) | beam.WindowInto(window)
        _ = pairs | what | "Users" >> beam.Keys()
    assert len(spark.found) >= USERS
    assert 0 < max(spark.found) <= 3, "that of the user before may be there still"
