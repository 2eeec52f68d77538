"""Values are measured whatever they are, and few large ones are alive at once."""

import array
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.window import TimestampedValue
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.worker.object_sizes import SMALL_BYTES, size_of

MB = 1 << 20
TEXT = "x" * MB


@dataclass
class Plain:
    text: str
    number: int = 0


@dataclass(slots=True)
class Slotted:
    text: str


class Named(NamedTuple):
    text: str
    number: int


class Hostile:
    """Fails whatever it is asked."""

    def __sizeof__(self) -> int:
        raise RuntimeError

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError


class Nested:
    def __init__(self, depth: int) -> None:
        self.inner: Any = Nested(depth - 1) if depth else TEXT


LARGE = [
    TEXT,
    TEXT.encode(),
    bytearray(MB),
    memoryview(bytes(MB)),
    array.array("q", [0]) * (MB // 8),
    np.zeros(MB // 8),
    np.array([TEXT], dtype=object),
    pa.array(np.zeros(MB // 8)),
    pa.table({"a": np.zeros(MB // 8)}),
    pd.DataFrame({"a": np.zeros(MB // 8)}),
    pd.Series([TEXT[: MB // 8]] * 8),
    (1, TEXT),
    [1.5, TEXT],
    {TEXT},
    frozenset([TEXT]),
    deque([TEXT]),
    {"key": TEXT.encode()},
    {TEXT: 1},
    beam.Row(number=1, text=TEXT),
    Plain(TEXT),
    Slotted(TEXT),
    Named(TEXT, 1),
    TimestampedValue(TEXT, 5),
    Nested(1),
    list(range(MB // 36)),
    [{"a": b"x" * 1000} for _ in range(MB // 1250)],
]


@pytest.mark.parametrize("value", LARGE, ids=lambda value: type(value).__name__)
def test_a_value_of_a_megabyte_is_known_for_one(value: Any) -> None:
    assert MB / 2 <= size_of(value) <= MB * 2.1


@pytest.mark.parametrize(
    "value", [1, None, "", b"", (), {}, 1.5, object()], ids=lambda value: type(value).__name__
)
def test_a_small_value_is_small(value: Any) -> None:
    assert SMALL_BYTES <= size_of(value) < 200


def test_a_value_that_fails_to_tell_counts_as_small() -> None:
    assert size_of(Hostile()) == SMALL_BYTES
    assert size_of([Hostile()]) < 200


def test_a_value_that_contains_itself_has_a_size() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert size_of(loop) >= SMALL_BYTES


def test_a_huge_collection_is_measured_by_a_part_of_it() -> None:
    start = time.process_time()
    assert size_of([[1, 2]] * MB) > 100 * MB
    assert time.process_time() - start < 1


class Large:
    """Knows how many of its kind there are, and have been at most."""

    alive = most = 0

    def __init__(self) -> None:
        self.data = bytes(MB)
        Large.alive += 1
        Large.most = max(Large.most, Large.alive)

    def __del__(self) -> None:
        Large.alive -= 1


class Longest(beam.CombineFn):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, longest: int, value: Any) -> int:
        return max(longest, len(value.data))

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return max(accumulators)

    def extract_output(self, longest: int) -> int:
        return longest


STEPS: dict[str, Any] = {
    "map": lambda: beam.Map(lambda number: Large()),
    "flat map": lambda: beam.FlatMap(lambda number: [Large()]),
    "generator": lambda: beam.FlatMap(lambda number: (Large() for _ in range(1))),
    "after small ones": lambda: beam.Map(lambda number: Large() if number > 2500 else number),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("combined", [False, True], ids=["mapped", "combined"])
@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_few_large_values_are_alive_at_once(runner: Any, step: str, combined: bool) -> None:
    Large.most = Large.alive = 0
    count = 2800 if step == "after small ones" else 300
    with beam.Pipeline(runner(), options=PipelineOptions()) as p:
        made = p | beam.Create([None]) | beam.FlatMap(lambda _: range(count)) | STEPS[step]()
        made |= "large" >> beam.Filter(lambda value: isinstance(value, Large))
        if combined:
            made = made | beam.Map(lambda value: (1, value)) | beam.CombinePerKey(Longest())
        else:
            made = made | beam.Map(lambda value: len(value.data)) | beam.combiners.Count.Globally()
    assert 0 < Large.most < 120
