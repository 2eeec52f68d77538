"""Blocks of columns that steps take as elements are told, with the reason."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pandas as pd
import pyarrow as pa
import pytest
from apache_beam.transforms.combiners import (
    MeanCombineFn,
    SingleInputTupleCombineFn,
    ToListCombineFn,
)
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
)
from in_process_batch import BatchRunner
from own_windows import Called, Spelled

from sparkbeam.io import ReadFromArrow

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")

LATEST = TimestampCombiner.OUTPUT_AT_LATEST
GREATEST = beam.CombinePerKey(max)


class Reading(NamedTuple):
    id: int
    value: float


def read(part: str, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
    numbers = range(100)
    times = pa.array([n % 2 for n in numbers], pa.timestamp("s"))
    batch = pa.record_batch(
        {"id": [n % 7 for n in numbers], "value": [n / 2 for n in numbers], "at": times}
    )
    yield batch.select(columns) if columns else batch


class Paned(beam.DoFn):
    def process(self, element: Any, pane: Any = beam.DoFn.PaneInfoParam) -> Iterator[Any]:
        yield element


class Begun(beam.DoFn):
    def start_bundle(self) -> None:
        pass

    def process(self, element: Any) -> Iterator[Any]:
        yield element


class Tagging(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield beam.pvalue.TaggedOutput("other", element)


class Tables(beam.DoFn):
    def process_batch(self, batch: pa.Table) -> Iterator[pa.Table]:
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return Reading


class Frames(beam.DoFn):
    def process_batch(self, batch: pd.DataFrame) -> Iterator[pd.DataFrame]:
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return Reading


def pairs(rows: Any, label: str = "pairs") -> Any:
    return rows | label >> beam.Map(lambda row: (row.id, row.value))


def counted(build: Callable[[Any], Any], schema: pa.Schema | None = None) -> Any:
    p = beam.Pipeline(BatchRunner(), argv=["--runner=sparkbeam.SparkRunner"])
    build(p | ReadFromArrow(["a"], read, Reading, timestamp_column="at", schema=schema))
    result: Any = p.run()
    result.wait_until_finish()
    return result


CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a function": (lambda rows: rows | "x" >> beam.Map(hash), "it calls hash"),
    "a DoFn that asks for more": (
        lambda rows: rows | "x" >> beam.ParDo(Paned()),
        "it uses the pane",
    ),
    "a DoFn with bundles": (
        lambda rows: rows | "x" >> beam.ParDo(Begun()),
        "it has a start_bundle",
    ),
    "several outputs": (
        lambda rows: rows | "x" >> beam.ParDo(Tagging()).with_outputs("other"),
        "it runs as Beam's own operation",
    ),
    "a side input that is no column": (
        lambda rows: (
            rows
            | "x"
            >> beam.Filter(
                lambda row, one: row.id < one.real,
                beam.pvalue.AsSingleton(rows.pipeline | beam.Create([3j])),
            )
        ),
        "a side input is not a column",
    ),
    "a WindowFn of one's own": (
        lambda rows: rows | "x" >> beam.WindowInto(Called()),
        "it calls own_windows.Called.assign, where it writes Reading as text",
    ),
    "windows of one's own": (
        lambda rows: rows | "x" >> beam.WindowInto(Spelled()),
        "its WindowFn has windows that are not intervals",
    ),
    "a combine without a form": (
        lambda rows: pairs(rows) | "x" >> beam.CombinePerKey(ToListCombineFn()),
        "its CombineFn has no vectorized form",
    ),
    "values of a combine": (
        lambda rows: (
            rows | beam.Map(lambda row: (row.id, row.id > 3)) | "x" >> beam.CombinePerKey(sum)
        ),
        "values are not supported by sum over columns",
    ),
    "timestamps of a combine": (
        lambda rows: (
            rows
            | beam.WindowInto(FixedWindows(3), timestamp_combiner=LATEST)
            | beam.Map(lambda row: (row.id, f"{row.id}"))
            | "x" >> beam.CombinePerKey(max)
        ),
        "its results have the latest timestamp of their elements",
    ),
    "sessions of floats": (
        lambda rows: (
            pairs(rows)
            | beam.WindowInto(Sessions(3))
            | "x" >> beam.CombinePerKey(beam.combiners.MeanCombineFn())
        ),
        "mean adds up floats as they arrive, and sessions reorder them",
    ),
    "groups of elements": (
        lambda rows: (
            pairs(rows)
            | beam.WindowInto(FixedWindows(3), timestamp_combiner=LATEST)
            | beam.GroupByKey()
            | beam.Values()
        ),
        "its groups are made of elements",
    ),
    "a side input": (
        lambda rows: (
            rows.pipeline
            | beam.Create([1])
            | beam.Map(lambda one, all: len(all), beam.pvalue.AsList(rows))
        ),
        "side inputs hold elements",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_kind_of_step_tells_of_them(case: str) -> None:
    build, reason = CASES[case]
    result = counted(build)
    steps = [step for stage in result.summary().stages for step in stage.steps]
    (refused,) = (step.refused for step in steps if reason in step.refused)
    assert refused[reason] == 1
    for text in (" ".join(result.explain().stages.split()), str(result.summary())):
        assert f"1 block refused: {reason}" in text or f"because {reason}; 1 block refused" in text


def in_time(rows: Any) -> Any:
    return rows | beam.WindowInto(FixedWindows(3))


def texts(rows: Any) -> Any:
    return rows | "texts" >> beam.Map(lambda row: (row.id, f"{row.id}"))


def sized(groups: Any) -> Any:
    return groups | "sizes" >> beam.MapTuple(lambda key, values: (key, len(values)))


TAKEN: dict[str, Callable[[Any], Any]] = {
    "a mean": lambda rows: pairs(rows) | beam.combiners.Mean.PerKey(),
    "a mean of all": lambda rows: (
        rows | beam.Map(lambda row: row.value) | beam.combiners.Mean.Globally()
    ),
    "several in sliding windows": lambda rows: (
        pairs(rows)
        | beam.WindowInto(SlidingWindows(6, 2))
        | beam.CombinePerKey(SingleInputTupleCombineFn(sum, min, any, MeanCombineFn()))
    ),
    "two combines that become one": lambda rows: [
        pairs(rows) | beam.CombinePerKey(max),
        pairs(rows, "again") | "least" >> beam.CombinePerKey(min),
    ],
    "sessions": lambda rows: pairs(rows) | beam.WindowInto(Sessions(3)) | beam.CombinePerKey(max),
    "keys of several parts": lambda rows: (
        rows
        | beam.Map(lambda row: ((row.value, row.id > 3, f"{row.id}"), None))
        | beam.combiners.Count.PerKey()
    ),
    "aggregated fields": lambda rows: (
        rows | beam.GroupBy("id").aggregate_field(lambda row: row.value * 2, sum, "total")
    ),
    "the greatest text": lambda rows: texts(in_time(rows)) | beam.CombinePerKey(max),
    "the latest": lambda rows: pairs(rows) | beam.combiners.Latest.PerKey(),
    "groups": lambda rows: sized(pairs(in_time(rows)) | beam.GroupByKey()),
    "groups of texts": lambda rows: sized(texts(rows) | beam.GroupByKey()),
    "groups in sliding windows": lambda rows: sized(
        pairs(rows) | beam.WindowInto(SlidingWindows(6, 2)) | beam.GroupByKey()
    ),
    "a shuffle": lambda rows: (
        in_time(rows) | beam.Reshuffle() | beam.Map(lambda row: row.id + row.value)
    ),
    "dicts": lambda rows: (
        rows | beam.Map(lambda row: {"id": row.id}) | "ids" >> beam.Map(lambda found: found["id"])
    ),
    "tables": lambda rows: (
        rows | beam.ParDo(Tables()) | beam.Map(lambda row: (row.id, row.value)) | GREATEST
    ),
    "frames": lambda rows: (
        rows | beam.ParDo(Frames()) | beam.Map(lambda row: (row.id, row.value)) | GREATEST
    ),
    "a Flatten": lambda rows: (
        (pairs(rows), pairs(rows, "again")) | beam.Flatten() | beam.CombinePerKey(sum)
    ),
}


@pytest.mark.parametrize("case", TAKEN)
def test_steps_that_take_columns_refuse_none(case: str) -> None:
    result = counted(TAKEN[case], next(read("a")).schema)
    steps = [step for stage in result.summary().stages for step in stage.steps]
    assert [step.refused for step in steps if step.refused] == []


def test_a_step_that_takes_columns_does_so_beside_one_that_does_not() -> None:
    def build(rows: Any) -> None:
        _ = rows | "tags" >> beam.ParDo(Tagging()).with_outputs("other")
        _ = rows | "ids" >> beam.Map(lambda row: row.id) | "next" >> beam.Map(lambda id: id + 1)

    steps = [step for stage in counted(build).summary().stages for step in stage.steps]
    assert {step.label for step in steps if step.refused} == {"tags/ParDo(Tagging)"}
