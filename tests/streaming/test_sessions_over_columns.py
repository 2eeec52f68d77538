"""Windows of any length in a stream whose elements come as columns, whatever the pairs are."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.combiners import (
    CountCombineFn,
    MeanCombineFn,
    TopCombineFn,
    TupleCombineFn,
)
from apache_beam.transforms.window import (
    BoundedWindow,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
)
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from noting import noted

from sparkbeam.io import ReadFromArrow

ROWS = 200
LARGE = (1 << 62) + 1


class Event(NamedTuple):
    number: int
    name: str
    part: float
    maybe: int | None


def events(part: int) -> Iterator[pa.RecordBatch]:
    for batch in range(3):
        numbers = np.arange(ROWS) * 7 + part * 13 + batch
        yield pa.record_batch(
            {
                "number": pa.array(numbers % 11 - 5),
                "name": pa.array([f"é{number % 3}\0" for number in numbers.tolist()]),
                "part": pa.array((numbers % 5) / 4),
                "maybe": pa.array([None if n % 31 == 0 else n % 7 for n in numbers.tolist()]),
                "at": pa.array((numbers * 900_001) % 700_000_000 - 10**8, pa.timestamp("us")),
            }
        )


def results(runner: Any, build: Callable[[Any], Any], *options: str) -> list[str]:
    rows = ReadFromArrow([0, 1], events, Event, timestamp_column="at")
    return noted(lambda p: build(p | rows), *options, runner=runner)


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "numbers": (lambda map: map(lambda row: (row.number, row.number)), sum),
    "text": (lambda map: map(lambda row: (row.name, row.number)), max),
    "pairs as keys": (
        lambda map: map(lambda row: ((row.name, row.number), row.number)),
        MeanCombineFn(),
    ),
    "floats as keys": (lambda map: map(lambda row: (row.part, row.name)), CountCombineFn()),
    "None as a key": (lambda map: map(lambda row: (row.maybe, row.number)), sum),
    "None among values": (lambda map: map(lambda row: (row.name, row.maybe)), CountCombineFn()),
    "sums that leave 64 bits": (
        lambda map: map(lambda row: (row.name, row.number + LARGE)),
        sum,
    ),
    "several combines": (
        lambda map: map(lambda row: (row.name, (row.number, row.number))),
        TupleCombineFn(sum, min),
    ),
    "floats": (lambda map: map(lambda row: (row.name, row.part)), MeanCombineFn()),
    "no form": (lambda map: map(lambda row: (row.name, row.number)), TopCombineFn(2)),
    "lists": (lambda map: map(lambda row: (row.name, [row.number])), CountCombineFn()),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("case", CASES)
def test_a_stream_gives_what_another_runner_gives(case: str) -> None:
    pairs, combine = CASES[case]

    def build(rows: Any) -> Any:
        sessions = rows | pairs(beam.Map) | beam.WindowInto(Sessions(1.5))
        return sessions | beam.CombinePerKey(combine)

    expected = results(FnApiRunner(), build)
    assert len(expected) > 20
    assert results(StreamingRunner(), build) == expected


def numbers_of(rows: Any) -> Any:
    return rows | "Pairs" >> beam.Map(lambda row: (row.name, row.number))


class Uneven(NonMergingWindowFn):
    """Windows of 50 s or 100 s, two of them for some elements."""

    def assign(self, context: Any) -> list[BoundedWindow]:
        start = int(context.timestamp) // 100 * 100
        windows: list[BoundedWindow] = [IntervalWindow(start, start + 100)]
        if context.timestamp < start + 50:
            windows.append(IntervalWindow(start, start + 50))
        return windows

    def get_window_coder(self) -> coders.Coder:
        return coders.IntervalWindowCoder()


@pytest.mark.part(3)
@pytest.mark.parametrize("runner", [StreamingRunner, BatchRunner])
@pytest.mark.parametrize("window_fn", [SlidingWindows(70, 30), Uneven()], ids=["sliding", "own"])
@pytest.mark.parametrize("case", ["numbers", "text", "None as a key", "sums that leave 64 bits"])
def test_windows_that_are_no_whole_slices_add_up_over_columns(
    case: str, window_fn: Any, runner: Any
) -> None:
    pairs, combine = CASES[case]

    def build(rows: Any) -> Any:
        return rows | pairs(beam.Map) | beam.WindowInto(window_fn) | beam.CombinePerKey(combine)

    expected = results(runner(), build, "--columns=off")
    assert len(expected) > 20
    assert results(runner(), build) == expected


def sums_of_sums(rows: Any) -> Any:
    """Sessions of any length go into the second sum."""
    sums = numbers_of(rows) | beam.WindowInto(Sessions(1.5)) | "Sums" >> beam.CombinePerKey(sum)
    return sums | beam.Map(lambda pair: (pair[0] is None, pair[1])) | beam.CombinePerKey(sum)


def test_sums_of_sums() -> None:
    assert results(StreamingRunner(), sums_of_sums) == results(FnApiRunner(), sums_of_sums)


@pytest.mark.parametrize("gap", [1.5, 1.0005])
def test_sums_are_the_same_with_columns_and_without(gap: float) -> None:
    def build(rows: Any) -> Any:
        pairs = numbers_of(rows)
        some = pairs | "Short" >> beam.WindowInto(Sessions(gap))
        # Beam warns of it: the windows of these are those that they have.
        others = pairs | "Long" >> beam.WindowInto(Sessions(12))
        return (some, others) | beam.Flatten() | beam.CombinePerKey(sum)

    found = results(StreamingRunner(), build)
    assert found == results(StreamingRunner(), build, "--columns=off")
