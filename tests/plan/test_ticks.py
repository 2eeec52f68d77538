"""Ticks go past the first layer where that has nothing to do with them."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows
from plans import planned

from sparkbeam.io import ReadFromSpark
from sparkbeam.plan.layers import topology
from sparkbeam.plan.ticks import start_steps


class Confirming(beam.DoFn):
    """Registers callbacks."""

    def process(self, element: Any, done: Any = beam.DoFn.BundleFinalizerParam) -> list[Any]:
        done.register(print)
        return [element]


def rows(p: beam.Pipeline) -> Any:
    """Those of one of Spark's sources."""
    return p | ReadFromSpark("rate", {}, columns=["value"], timestamp_column="timestamp")


def count(elements: Any) -> Any:
    windowed = elements | beam.WindowInto(FixedWindows(10))
    return windowed | "Pair" >> beam.Map(lambda _: (0, 1)) | beam.CombinePerKey(sum)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda p: count(rows(p)), False),
        (lambda p: rows(p) | beam.Map(print), False),
        (lambda p: rows(p) | beam.ParDo(Confirming()), True),
        (lambda p: rows(p) | beam.Reshuffle() | beam.ParDo(Confirming()), False),
        (lambda p: count((rows(p), p | beam.Create([1])) | beam.Flatten()), True),
        (lambda p: p | TestStream().add_elements([1]) | beam.Map(print), True),
        (lambda p: p | beam.Create([1], reshuffle=False) | beam.Map(print), True),
    ],
)
def test_the_tick_starts_steps(build: Callable[[beam.Pipeline], Any], expected: bool) -> None:
    assert start_steps(topology(planned(build, "--streaming"))) == expected
