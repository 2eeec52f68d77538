"""As-of joins give what pandas gives, in batch and in streaming, in whatever order."""

import json
import operator
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pandas as pd
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Duration, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import Crashes, Measured, Spark, rounds, streaming_pipeline
from in_process_batch import BatchRunner
from lines import Lines
from remembering import keys

from sparkbeam import AsOfJoin
from sparkbeam.coders import OrderedIntCoder
from sparkbeam.joins.asof import DIRECTIONS
from sparkbeam.joins.closest import Closest, MatchCursor

Side = list[tuple[int, int]]
"""Microseconds and values."""

How = tuple[str, int | None, bool]
"""Direction, tolerance in microseconds, whether exact matches count."""

HOW = st.tuples(st.sampled_from(DIRECTIONS), st.none() | st.integers(0, 8), st.booleans())
ALL = [(d, t, e) for d in DIRECTIONS for t in (None, 0, 3) for e in (True, False)]


def of_pandas(left: Side, right: Side, how: How) -> list[tuple[int, int, int | None]]:
    direction, tolerance, exact = how
    if not right or not left:
        return [(time, value, None) for time, value in sorted(left)]
    frames = [
        pd.DataFrame(
            {"time": pd.to_datetime([t for t, _ in side], unit="us"), name: [v for _, v in side]}
        )
        for name, side in (("left", sorted(left)), ("right", sorted(right)))
    ]
    merged = pd.merge_asof(
        *frames,
        on="time",
        direction=direction,
        tolerance=None if tolerance is None else pd.Timedelta(tolerance, "us"),
        allow_exact_matches=exact,
    )
    rows = zip(sorted(left), merged["right"], strict=True)
    return [(time, value, None if pd.isna(r) else int(r)) for (time, value), r in rows]


SIDES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=25)


@settings(max_examples=300)
@given(SIDES, SIDES, HOW)
def test_matches_are_those_of_pandas(left: Side, right: Side, how: How) -> None:
    coder = OrderedIntCoder()
    walk = MatchCursor([(time, coder.encode(value)) for time, value in sorted(right)])
    found = []
    for time, value in sorted(left):
        match, _ = Closest(*how).match(time, *walk.around(time))
        found.append((time, value, None if match is None else coder.decode(match)))
    assert found == of_pandas(left, right, how)


@settings(max_examples=300)
@given(st.integers(0, 30), SIDES, SIDES, HOW)
def test_what_is_final_does_not_change(time: int, right: Side, more: Side, how: How) -> None:
    def match(side: Side) -> tuple[bytes | None, int]:
        entries = [(time, b"%d" % value) for time, value in sorted(side)]
        return Closest(*how).match(time, *MatchCursor(entries).around(time))

    found, final = match(right)
    assert match(right + [entry for entry in more if entry[0] >= final])[0] == found


class Event(NamedTuple):
    key: str
    is_left: bool
    at: int
    value: int


def joined(p: beam.Pipeline, events: Any, how: How, lateness: int = 0, window: Any = None) -> Any:
    direction, tolerance, exact = how
    within = None if tolerance is None else Duration(micros=1000 * tolerance)
    placed = (
        p | events | beam.WindowInto(window or GlobalWindows(), allowed_lateness=lateness / 1000)
    )
    sides = [
        placed
        | f"Is {is_left}" >> beam.Filter(lambda e, is_left=is_left: e.is_left == is_left)
        | f"Key {is_left}"
        >> beam.Map(lambda e: (e.key, e.value)).with_output_types(tuple[str, int])
        for is_left in (True, False)
    ]
    join = AsOfJoin(direction, within, allow_exact_matches=exact)
    return tuple(sides) | join


def note(folder: Path) -> Any:
    def write(element: Any, time: Any = beam.DoFn.TimestampParam) -> None:
        key, (left, right) = element
        Lines(folder / "out").note(json.dumps([key, time.micros // 1000, left, right]))

    return "Note" >> beam.Map(write)


def noted(folder: Path) -> list[list[Any]]:
    lines = Lines(folder / "out").read()
    (folder / "out").unlink(missing_ok=True)
    return sorted(map(json.loads, lines), key=repr)


def stamped(event: Event) -> TimestampedValue:
    return TimestampedValue(event, Timestamp(micros=1000 * event.at))


def in_batch(events: list[Event], how: How, folder: Path, window: Any = None) -> list[list[Any]]:
    p = beam.Pipeline(BatchRunner())
    create = beam.Create(events, reshuffle=False) | "Stamp" >> beam.Map(stamped)
    _ = joined(p, create, how, 0, window) | note(folder)
    p.run().wait_until_finish()
    return noted(folder)


WINDOWS = [None, FixedWindows(0.01), SlidingWindows(0.02, 0.01)]


def within(events: list[Event], window: Any) -> Iterator[list[Event]]:
    """The events of each window, as lists of whatever length."""
    size = {None: 1000, WINDOWS[1]: 10, WINDOWS[2]: 20}[window]
    for start in range(-10, 50, 10) if window else [0]:
        yield [event for event in events if start <= event.at < start + size]


def expected(events: list[Event], how: How, window: Any) -> list[list[Any]]:
    found = []
    for some in within(events, window):
        for key in {event.key for event in some}:
            left, right = (
                [(e.at, e.value) for e in some if e.key == key and e.is_left == is_left]
                for is_left in (True, False)
            )
            found += [[key, *row] for row in of_pandas(left, right, how)]
    return sorted(found, key=repr)


def some_events(seed: int, many: int = 60) -> list[Event]:
    chance = random.Random(seed)
    return [
        Event(chance.choice("ab"), chance.random() < 0.5, chance.randrange(40), chance.randrange(9))
        for _ in range(many)
    ]


def stream(batches: list[tuple[list[Event], int]]) -> Any:
    """Batches of events, each with the watermark after it."""
    events, before = TestStream(), -1
    for some, watermark in batches:
        events = events.add_elements([stamped(event) for event in some])
        if watermark > before:
            events = events.advance_watermark_to(Timestamp(micros=1000 * watermark))
            before = watermark
    return events.advance_watermark_to_infinity()


def in_order_of_arrival(events: list[Event], lateness: int, seed: int) -> Any:
    """As a stream in which an element is late by less than so many milliseconds at most."""
    chance = random.Random(seed)
    arriving = sorted(events, key=lambda e: e.at + chance.random() * (lateness + 5))
    batches, watermark = [], 0
    for start in range(0, len(arriving), 6):
        some, rest = arriving[start : start + 6], arriving[start + 6 :]
        least = min((event.at for event in rest), default=1000)
        watermark = max(watermark, least + chance.randrange(lateness + 1))
        batches.append((some, watermark))
    return stream(batches)


def run_stream(
    spark: Spark, events: Any, how: How, lateness: int, folder: Path, window: Any = None
) -> Any:
    p = streaming_pipeline(spark, folder / "checkpoint")
    _ = joined(p, events, how, lateness, window) | note(folder)
    result = p.run()
    result.wait_until_finish()
    return result


@pytest.mark.part(5)
@rounds(3)
@pytest.mark.parametrize("seed", range(36))
def test_batch_and_streams_give_what_pandas_gives_in_whatever_order(
    seed: int, tmp_path: Path
) -> None:
    chance, how, crashes = random.Random(seed), ALL[seed % len(ALL)], Crashes((-1, ""))
    window, lateness = chance.choice(WINDOWS), chance.choice([0, 5, 12])
    if seed % 3 == 0:  # It crashes at each point.
        crashes = Crashes()
    events = some_events(seed, 20 if seed % 3 == 0 else 60)
    wanted = expected(events, how, window)
    assert in_batch(events, how, tmp_path, window) == wanted
    spark = Spark(crashes)

    def run() -> Any:
        arriving = in_order_of_arrival(events, lateness, seed)
        return run_stream(spark, arriving, how, lateness, tmp_path, window)

    result = crashes.until_it_ends(run)
    assert not result.metrics().query(MetricsFilter().with_name("dropped_late"))["counters"]
    found = noted(tmp_path)
    if crashes.points:  # What a crash has undone is written again.
        assert {*map(repr, found)} == {*map(repr, wanted)}
    else:
        assert found == wanted


def test_what_is_later_than_allowed_is_dropped_and_counted(tmp_path: Path) -> None:
    batches = [
        ([Event("a", False, 1, 1), Event("a", True, 10, 1)], 20),
        ([Event("a", False, 9, 2), Event("a", True, 12, 2)], 30),
    ]
    result = run_stream(Spark(), stream(batches), ("backward", None, True), 5, tmp_path)
    assert noted(tmp_path) == [["a", 10, 1, 1]]
    (found,) = result.metrics().query(MetricsFilter().with_name("dropped_late"))["counters"]
    assert found.committed == 2


def test_matches_come_out_as_the_watermark_makes_them_final(tmp_path: Path) -> None:
    """A window behind the join closes on time, with all that belongs into it."""
    batches = [
        ([Event("a", not number % 2, 10 * number, number)], 10 * number) for number in range(20)
    ]
    p = streaming_pipeline(None, tmp_path / "checkpoint")
    counts = (
        joined(p, stream(batches), ("nearest", None, True))
        | "Behind" >> beam.WindowInto(FixedWindows(0.04))
        | beam.combiners.Count.PerKey()
    )
    _ = counts | beam.MapTuple(lambda key, n: (key, (n, None))) | note(tmp_path)
    p.run().wait_until_finish()
    assert [row[2] for row in noted(tmp_path)] == [2] * 5


@rounds(2)
@pytest.mark.parametrize("how", [("backward", None, True), ("forward", 5, True)], ids=str)
def test_state_is_collected_as_the_watermark_passes(how: How, tmp_path: Path) -> None:
    spark = Measured(lambda checkpoint: checkpoint.size)
    batches = [
        ([Event("a", n == 5, 100 * number + n, n) for n in range(50)], 100 * number)
        for number in range(30)
    ]
    run_stream(spark, stream(batches), how, 0, tmp_path)
    assert len(spark.found) > 10
    assert max(spark.found[5:]) < 1.2 * max(spark.found[:5])
    assert len(noted(tmp_path)) == 30


@rounds(2)
def test_with_a_tolerance_keys_go_too(tmp_path: Path) -> None:
    spark = Measured(keys)
    batches = [([Event(f"key {n}", False, 100 * n, n)], 100 * n) for n in range(30)]
    run_stream(spark, stream(batches), ("backward", 20, True), 0, tmp_path)
    assert max(spark.found) <= 3


class Trade(NamedTuple):
    name: str
    price: float | None


beam.coders.registry.register_coder(Trade, beam.coders.RowCoder)


@pytest.mark.parametrize(
    "values", [[Trade("x", None), Trade("y", 1.5)], [None, "b"], [{"a": [1]}, b"\0"]], ids=repr
)
def test_values_of_any_type(values: list[Any]) -> None:
    p = beam.Pipeline(BatchRunner())
    left, right = (
        p | f"{n}" >> beam.Create([("k", values[n])]) | f"At {n}" >> beam.Map(lambda e: e)
        for n in range(2)
    )
    check = "Check" >> beam.Map(lambda e: operator.eq(e, ("k", tuple(values))) or 1 / 0)
    _ = {"left": left, "right": right} | AsOfJoin() | check
    p.run().wait_until_finish()


def test_times_are_compared_to_the_microsecond(tmp_path: Path) -> None:
    p = beam.Pipeline(BatchRunner())
    left, right = (
        p
        | f"Make {name}" >> beam.Create([micros for micros, _ in side], reshuffle=False)
        | f"Stamp {name}"
        >> beam.Map(lambda micros: TimestampedValue(("k", micros), Timestamp(micros=micros)))
        for name, side in (("left", [(1500, 0)]), ("right", [(1499, 0), (1501, 0)]))
    )
    _ = (left, right) | AsOfJoin() | note(tmp_path)
    p.run().wait_until_finish()
    assert [row[2:] for row in noted(tmp_path)] == [[1500, 1499]]
