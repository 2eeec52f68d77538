"""A Flatten of what one stage makes hands on columns, of whatever types, and elements."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.window import FixedWindows, Sessions, TimestampedValue
from noting import noted

from sparkbeam.io import ReadFromArrow

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")


class Reading(NamedTuple):
    id: int
    value: float


class Other(NamedTuple):
    id: int
    name: str


def read(part: str) -> Iterator[pa.RecordBatch]:
    numbers = range(100)
    times = pa.array([n // 7 for n in numbers], pa.timestamp("s"))
    yield pa.record_batch(
        {"id": [n % 7 for n in numbers], "value": [n / 2 for n in numbers], "at": times}
    )


def alike(rows: Any) -> Any:
    low = rows | beam.Filter(lambda row: row.value < 20)
    high = rows | "high" >> beam.Filter(lambda row: row.value > 40)
    return (low, high, low) | beam.Flatten() | beam.Map(lambda row: (row.id, row.value))


def of_several_types(rows: Any) -> Any:
    others = rows | beam.Map(lambda row: Other(row.id, "other"))
    numbers = rows | "numbers" >> beam.Map(lambda row: row.id)
    made = rows | "objects" >> beam.Map(lambda row: {row.id: [row.value]})
    return (rows, others, numbers, made) | beam.Flatten()


def with_elements(rows: Any) -> Any:
    called = rows | beam.Map(lambda row: Reading(hash(str(row.id)) % 5, row.value))
    return (rows, called) | beam.Flatten() | beam.Map(lambda row: (row.id, row.value))


def of_windows(rows: Any) -> Any:
    fixed = rows | beam.WindowInto(FixedWindows(3))
    pairs = (fixed, fixed | beam.Filter(lambda row: row.id != 2)) | beam.Flatten()
    keyed = pairs | beam.Map(lambda row: (row.id, row.value))
    return keyed | beam.CombinePerKey(sum)


def of_sessions(rows: Any) -> Any:
    stamp = beam.Map(lambda row: TimestampedValue(row, row.value)).with_output_types(Reading)
    both = (rows, rows | stamp) | beam.Flatten() | beam.WindowInto(Sessions(2))
    return both | "pair" >> beam.Map(lambda row: (row.id, row.value)) | beam.CombinePerKey(sum)


def grouped(rows: Any) -> Any:
    names = rows | beam.Map(lambda row: (row.id, row.value))
    ids = rows | "ids" >> beam.Map(lambda row: (row.id + 3, row.id))
    both = {"names": names, "ids": ids} | beam.CoGroupByKey()
    return both | "sorted" >> beam.MapTuple(
        lambda key, lists: (key, sorted(lists["names"]), sorted(lists["ids"]))
    )


def of_flattens(rows: Any) -> Any:
    low = rows | beam.Filter(lambda row: row.value < 20)
    one = (rows, low) | beam.Flatten()
    other = (low, one) | "again" >> beam.Flatten()
    return (one, other, rows) | "both" >> beam.Flatten() | beam.Map(lambda row: row.id)


def results(build: Callable[[Any], Any], *options: str) -> list[str]:
    rows = ReadFromArrow(["a"], read, Reading, timestamp_column="at")
    return noted(lambda p: build(p | rows), *options)


@pytest.mark.parametrize(
    "build",
    [
        alike,
        of_several_types,
        with_elements,
        of_windows,
        of_sessions,
        grouped,
        of_flattens,
    ],
)
def test_results_are_those_of_elements(build: Callable[[Any], Any]) -> None:
    over_columns = results(build)
    assert len(over_columns) > 6
    assert over_columns == results(build, "--columns=off")
