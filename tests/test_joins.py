"""A join that gives each pair as soon as both of its elements are there."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from in_process import Spark, StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam import IncrementalJoin
from sparkbeam.observe.figures.progress import StreamingProgress

Events = list[tuple[str, int, Any, Any]]
"""Of each its side, its time, its key and its value."""


class Seller(NamedTuple):
    """A value of a class of one's own."""

    name: str
    tags: list[int]


def pipeline(runner: Any = None) -> beam.Pipeline:
    return beam.Pipeline(runner or StreamingRunner(), options=PipelineOptions([]))


def sides(events: beam.PCollection[Any]) -> tuple[Any, Any]:
    """The events of the two sides, each a key with a value."""

    def of(side: str) -> Any:
        return (
            events
            | f"Only {side}" >> beam.Filter(lambda event: event[0] == side)
            | f"Keyed {side}" >> beam.Map(lambda event: (event[2], event[3]))
        )

    return of("left"), of("right")


def stamped(events: Events) -> list[TimestampedValue]:
    return [TimestampedValue(event, event[1]) for event in events]


def pairs(events: Events, ttl: float | None) -> list[Any]:
    """What is to come out, with the time of each."""
    return [
        ((key, (value, other)), max(time, when))
        for side, time, key, value in events
        for others, when, same, other in events
        if (side, others) == ("left", "right") and key == same
        if ttl is None or abs(time - when) <= ttl
    ]


def timed(joined: beam.PCollection[Any]) -> beam.PCollection[Any]:
    return joined | beam.Map(lambda pair, stamp=beam.DoFn.TimestampParam: (pair, int(stamp)))


EVENTS: Events = [
    ("left", 1, "a", 1),
    ("right", 11, "a", "ten later"),
    ("right", 12, "a", "too late"),
    ("left", 5, "b", None),
    ("right", 2, "b", b"before"),
    ("right", 3, "c", "alone"),
    ("left", 1, "a", 2),
]


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
@pytest.mark.parametrize("ttl", [10, 0.5, 0, None])
def test_pairs_of_a_key_that_are_near_in_time(runner: Callable[[], Any], ttl: float | None) -> None:
    with pipeline(runner()) as p:
        events = p | beam.Create(EVENTS) | beam.Map(lambda event: TimestampedValue(event, event[1]))
        joined = sides(events) | IncrementalJoin(ttl=ttl)
        assert_that(timed(joined), equal_to(pairs(EVENTS, ttl)))


@pytest.mark.parametrize("seed", range(4))
def test_the_order_and_the_watermark_make_no_difference(seed: int) -> None:
    chance = random.Random(seed)
    events: Events = [
        (chance.choice(["left", "right"]), time, chance.choice("ab"), time) for time in range(40)
    ]
    stream = TestStream()
    for start in range(0, 40, 8):
        some = events[start : start + 8]
        chance.shuffle(some)
        stream = stream.advance_watermark_to(start).add_elements(stamped(some))
    with pipeline(StreamingRunner(Spark(attempts=2))) as p:
        joined = sides(p | stream.advance_watermark_to_infinity()) | IncrementalJoin(ttl=7)
        assert_that(timed(joined), equal_to(pairs(events, 7)))


def test_what_has_no_partner_to_come_is_forgotten(snapshots: list[StreamingProgress]) -> None:
    stream = TestStream()
    for time in range(0, 2000, 100):
        late = stamped([("left", time, "a", "x" * 1000)])
        stream = stream.advance_watermark_to(time).add_elements(late)
    with pipeline() as p:
        _ = sides(p | stream) | IncrementalJoin(ttl=150)
    kept = [stage.state_bytes for each in snapshots for stage in each.stages if stage.keys]
    assert len(kept) > 10
    assert 1000 < max(kept) < 5000


def test_pairs_are_of_one_window() -> None:
    events: Events = [("left", 8, "a", 1), ("right", 9, "a", 2), ("right", 11, "a", 3)]
    with pipeline() as p:
        stream = TestStream().add_elements(stamped(events)).advance_watermark_to_infinity()
        windowed = p | stream | beam.WindowInto(FixedWindows(10))
        assert_that(sides(windowed) | IncrementalJoin(ttl=60), equal_to([("a", (1, 2))]))


def test_values_may_be_of_any_type() -> None:
    seller = Seller("ü" * 1000, [1, 2])
    with pipeline(BatchRunner()) as p:
        left = p | "L" >> beam.Create([(1, seller), (2**70, None)])
        right = p | "R" >> beam.Create([(1, {"a": 1.5}), (2**70, "huge")])
        found = (left, right) | IncrementalJoin(ttl=None)
        assert_that(found, equal_to([(1, (seller, {"a": 1.5})), (2**70, (None, "huge"))]))
