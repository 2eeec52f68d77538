"""Record batches of the user's own: in columns on this runner, as elements on others."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.direct import direct_runner
from apache_beam.transforms.window import FixedWindows
from in_process_batch import BatchRunner
from noting import values

from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.io import ReadFromArrow
from sparkbeam.operators import registry

ODD: Any = 5


class Reading(NamedTuple):
    sensor: str
    value: float


class Failure(NamedTuple):
    sensor: str
    code: int


def readings(split: int) -> Iterator[pa.RecordBatch]:
    for part in range(3):
        numbers = range(split * 100 + part * 10, split * 100 + part * 10 + 10)
        yield pa.RecordBatch.from_pydict(
            {
                "sensor": [f"s{at % 4}" for at in numbers],
                "at": pa.array([at * 1_000_000 + 1 for at in numbers]),
                "value": [at / 2 for at in numbers],
            }
        )


def tables(split: int) -> list[pa.Table]:
    return [pa.Table.from_batches(readings(split)), pa.Table.from_batches(readings(split + 50))]


def moments(split: int) -> Iterator[pa.RecordBatch]:
    for batch in readings(split):
        at = pa.array(
            [datetime.fromtimestamp(n, UTC) for n in range(10)], pa.timestamp("ns", "UTC")
        )
        yield batch.set_column(1, "at", at)


def events(split: int) -> list[pa.RecordBatch]:
    kinds = pa.array([0, 1, 0], pa.int8())
    places = pa.array([0, 0, 1], pa.int32())
    members = [
        pa.StructArray.from_arrays(
            [pa.array(["a", "b"]), pa.array([1.5, 2.5])], ["sensor", "value"]
        ),
        pa.StructArray.from_arrays([pa.array(["c"]), pa.array([split])], ["sensor", "code"]),
    ]
    union = pa.UnionArray.from_dense(kinds, places, members)
    return [pa.RecordBatch.from_arrays([union, pa.array([1, 2, 3])], ["event", "at"])]


def stamped(rows: Any) -> Any:
    return rows | beam.Map(lambda row, at=beam.DoFn.TimestampParam: (row, at.micros))


def windowed(rows: Any) -> Any:
    return (
        rows
        | beam.Map(lambda row: (row.sensor, row.value))
        | beam.WindowInto(FixedWindows(20))
        | beam.CombinePerKey(max)
        | beam.Map(lambda pair, window=beam.DoFn.WindowParam: (pair, window.start.micros))
    )


SOURCES: dict[str, Callable[[], ReadFromArrow]] = {
    "NamedTuples": lambda: ReadFromArrow(range(3), readings, Reading, timestamp_column="at"),
    "tables": lambda: ReadFromArrow([1], tables, Reading, timestamp_column="at"),
    "timestamps": lambda: ReadFromArrow([1], moments, Reading, timestamp_column="at"),
    "Rows": lambda: ReadFromArrow([1], readings, timestamp_column="at"),
    "nothing": lambda: ReadFromArrow([], readings, Reading, timestamp_column="at"),
    "no batches": lambda: ReadFromArrow([1], lambda _: [], Reading),
}


def run(source: ReadFromArrow, build: Callable[[Any], Any], runner: Any = None) -> list[str]:
    return sorted(map(repr, values(lambda p: build(p | source), runner=runner)))


@pytest.mark.part(5)
@pytest.mark.parametrize("build", [stamped, windowed])
@pytest.mark.parametrize("name", SOURCES)
def test_elements_are_the_same_on_all_runners(name: str, build: Callable[[Any], Any]) -> None:
    results = run(SOURCES[name](), build)
    assert results or name.startswith("no")
    assert results == run(SOURCES[name](), build, runner=direct_runner.BundleBasedDirectRunner())


def test_elements_of_several_types_are_a_union(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(rows: Any) -> Any:
        few = rows | beam.Filter(lambda one: isinstance(one, Failure))
        codes = few | "codes" >> beam.Map(lambda failure: failure.code + 1)
        return (stamped(rows), codes) | beam.Flatten()

    def source() -> ReadFromArrow:
        return ReadFromArrow([7, 8], events, (Reading, Failure), timestamp_column="at")

    results = run(source(), build)
    assert {"8", "9"} < set(results)
    assert len(results) == 8
    monkeypatch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)
    assert run(source(), build) == results


def test_a_declared_type_is_that_of_the_elements() -> None:
    p = beam.Pipeline(BatchRunner())
    assert (p | ReadFromArrow([1], readings, Reading)).element_type is Reading
    other = "other" >> ReadFromArrow([1], readings).with_output_types(tuple[str, float])
    assert (p | other).element_type == beam.typehints.Tuple[str, float]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            lambda: ReadFromArrow([1], readings, Reading),
            "has the fields sensor, value, and",
        ),
        (
            lambda: ReadFromArrow([1], readings, Reading, timestamp_column="t"),
            "the timestamp column 't' is missing",
        ),
        (lambda: ReadFromArrow([1], readings, (Reading,)), "need one column, not 3"),
        (lambda: ReadFromArrow([1], without_time, timestamp_column="at"), "'at' has a null"),
        (lambda: ReadFromArrow([1], lambda _: ODD), "int"),
    ],
)
def test_batches_that_do_not_fit_are_told(source: Callable[[], Any], message: str) -> None:
    with pytest.raises(PipelineFailed, match=message):
        run(source(), lambda rows: rows)


def without_time(_: int) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"at": pa.array([1, None]), "x": np.arange(2)})]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ReadFromArrow([1], ODD), "read"),
        (
            lambda: ReadFromArrow([1], readings, int),
            "element_type=<class 'int'> is not supported: give",
        ),
        (lambda: ReadFromArrow([1], readings, ()), "element_type"),
        (lambda: ReadFromArrow([1], readings, (Reading, beam.Row)), "element_type"),
        (lambda: ReadFromArrow([1], readings, timestamp_column=ODD), "timestamp_column"),
        (lambda: ReadFromArrow(ODD, readings), "splits"),
    ],
)
def test_arguments_that_cannot_be_are_told(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
