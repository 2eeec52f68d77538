"""Interactive Beam with this runner below its own shows what it shows with DirectRunner."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct import DirectRunner
from apache_beam.testing.test_stream import TestStream
from in_process import StreamingRunner

from sparkbeam import SparkRunner, UnsupportedTransform

ib = pytest.importorskip("apache_beam.runners.interactive.interactive_beam")

from apache_beam.runners.interactive.interactive_runner import InteractiveRunner  # noqa: E402

Look = Callable[[Any], Any]


def watched(runner: Any) -> tuple[beam.PCollection, beam.PCollection]:
    """Words, and how many there are of each."""
    pipeline = beam.Pipeline(InteractiveRunner(underlying_runner=runner), PipelineOptions([]))
    words = pipeline | beam.Create(["to", "be", "or", "not", "to", "be"])
    counts = words | beam.combiners.Count.PerElement()
    ib.watch({"pipeline": pipeline, "words": words, "counts": counts})
    return words, counts


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.itertuples(index=False)))


def collected_twice(runner: Any) -> list[Any]:
    words, counts = watched(runner)
    # The second and third come out of the cache, or go on from it.
    return [rows(ib.collect(counts)), rows(ib.collect(words)), rows(ib.collect(counts, words)[0])]


def collected_with_windows(runner: Any) -> list[Any]:
    words, _ = watched(runner)
    frame = ib.collect(words, include_window_info=True)
    return [list(frame.columns), rows(frame[[0, "event_time"]])]


def first_rows(runner: Any) -> list[Any]:
    words, _ = watched(runner)
    return [len(ib.collect(words, n=2)), rows(ib.collect(words, n=100))]


def shown(runner: Any) -> list[Any]:
    words, counts = watched(runner)
    ib.show(counts, words)
    return [rows(ib.collect(counts))]


LOOKS = [collected_twice, collected_with_windows, first_rows, shown]


@pytest.mark.part(3)
@pytest.mark.parametrize("look", LOOKS)
def test_a_streaming_query_shows_what_direct_runner_shows(look: Look) -> None:
    assert look(StreamingRunner()) == look(DirectRunner())


@pytest.mark.part(3)
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("look", LOOKS)
def test_spark_shows_what_direct_runner_shows(look: Look) -> None:
    assert look(SparkRunner()) == look(DirectRunner())


def test_a_failure_is_raised_where_the_rows_are_asked_for() -> None:
    words, _ = watched(StreamingRunner())
    broken = words | "Parse" >> beam.Map(int)
    ib.watch({"broken": broken})
    with pytest.raises(Exception, match=r"Step '.*Parse' failed: ValueError"):
        ib.collect(broken)


def test_the_recording_of_an_unbounded_source_is_an_error_with_the_remedy() -> None:
    ib.options.recordable_sources.add(TestStream)
    try:
        pipeline = beam.Pipeline(
            InteractiveRunner(underlying_runner=StreamingRunner()), PipelineOptions(streaming=True)
        )
        events = pipeline | TestStream().add_elements(["a"]).advance_watermark_to_infinity()
        ib.watch({"pipeline": pipeline, "events": events})
        with pytest.raises(UnsupportedTransform, match=r"records an unbounded source.*alone"):
            ib.collect(events)
    finally:
        ib.options.recordable_sources.remove(TestStream)
