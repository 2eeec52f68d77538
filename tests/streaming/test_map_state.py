"""Map states of windows and of other runners; test_maps.py has a model of what they do."""

from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import coders
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from in_process import Measured, rounds, streaming_pipeline
from in_process_batch import BatchRunner
from remembering import keys

from sparkbeam.coders import OrderedIntCoder
from sparkbeam.state import MapStateSpec, MultimapStateSpec, SortedMultimapStateSpec

SORTED = SortedMultimapStateSpec("sorted", OrderedIntCoder(), coders.BytesCoder())
MAP = MapStateSpec("map", coders.VarIntCoder(), coders.BytesCoder())
MULTIMAP = MultimapStateSpec("multimap", coders.VarIntCoder(), coders.BytesCoder())


class Keep(beam.DoFn):
    """Keeps far more for each key than a page has."""

    def process(
        self,
        element: Any,
        one: Any = beam.DoFn.StateParam(SORTED),
        two: Any = beam.DoFn.StateParam(MAP),
        three: Any = beam.DoFn.StateParam(MULTIMAP),
    ) -> None:
        for number in range(300):
            for state in (one, two, three):
                state.put(number, b"x" * 100)


@rounds(3)
def test_windows_that_have_expired_leave_nothing(tmp_path: Path) -> None:
    spark = Measured(keys)
    events = TestStream()
    for number in range(40):
        events = events.add_elements([TimestampedValue(number, 30 * number)])
        events = events.advance_watermark_to(30 * number)
    with streaming_pipeline(spark, tmp_path / "checkpoint") as p:
        pairs = p | events | beam.Map(lambda n: (n, n)) | beam.WindowInto(FixedWindows(10))
        _ = pairs | beam.ParDo(Keep())
    assert 0 < max(spark.found) <= 5
    (checkpoint,) = spark.checkpoints.values()
    assert checkpoint.entries < 20


def test_interactive_beam_over_this_runner_is_none() -> None:
    p = beam.Pipeline(InteractiveRunner(BatchRunner()))
    _ = p | beam.Create([("a", 1)]) | "Keep" >> beam.ParDo(Keep())


def test_keys_whose_coder_is_not_deterministic_get_one() -> None:
    spec = MapStateSpec("s", coders.FastPrimitivesCoder(), coders.VarIntCoder())
    assert spec.key_coder.is_deterministic()
