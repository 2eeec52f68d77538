"""What is said of each step before a pipeline runs: columns, or elements and why."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.combiners import MeanCombineFn, ToListCombineFn
from apache_beam.transforms.window import FixedWindows, NonMergingWindowFn
from plans import planned

from sparkbeam import Join
from sparkbeam.explain import describe
from sparkbeam.io import ReadFromArrow
from sparkbeam.plan.column_steps import steps_by_stage

MAYBE = "columns, if it receives any at run time"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Named(NamedTuple):
    id: int
    name: str


def read(part: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    raise AssertionError("nothing is read")


def of_schema(p: beam.Pipeline) -> Any:
    return p | "Read" >> ReadFromArrow(["a"], read, Named, schema=SCHEMA)


def of_any(p: beam.Pipeline) -> Any:
    return p | "Read" >> ReadFromArrow(["a"], read, Named)


def created(p: beam.Pipeline) -> Any:
    return p | "Make" >> beam.Create([Named(1, "a")])


def said(build: Callable[[Any], Any], origin: Any = of_schema, *options: str) -> dict[str, str]:
    """What is said of each step, by its label or the first part of it where that is enough."""
    plan = planned(lambda p: build(origin(p)), *options)
    assert describe.stages(plan)
    return {step.label: step.words for steps in steps_by_stage(plan).values() for step in steps}


def keyed(rows: Any) -> Any:
    return rows | "key" >> beam.Map(lambda row: (row.name, row.id))


def summed(rows: Any) -> Any:
    sums = keyed(rows) | "sum" >> beam.CombinePerKey(sum)
    return sums | "next" >> beam.Map(lambda pair: pair[1] + 1) | "hash" >> beam.Map(hash)


def test_what_is_behind_a_combine_is_told() -> None:
    steps = said(summed)
    names = ("key", "sum/Precombine", "sum/Merge", "sum/ExtractOutputs", "next")
    assert {name: steps[name] for name in names} == dict.fromkeys(names, "columns")
    assert steps["hash"] == "elements, because it calls hash"


@pytest.mark.parametrize("streaming", [False, True])
def test_of_what_only_shows_when_it_runs_that_is_said(streaming: bool) -> None:
    steps = said(summed, of_any, *(["--streaming"] if streaming else []))
    assert steps["Read/Rows"] == MAYBE
    assert {steps[name] for name in ("key", "sum/Precombine", "next")} <= {
        MAYBE,
        "elements, because state holds elements",
    } or streaming


def test_what_a_create_makes_are_elements_up_to_a_combine() -> None:
    steps = said(summed, created)
    assert steps["key"] == "elements, because Make makes them"
    assert steps["sum/Precombine"] == "elements, because Make makes them"
    assert steps["sum/Merge"] == steps["next"] == MAYBE


def test_what_reads_text_makes_elements() -> None:
    def build(p: Any) -> None:
        lines = p.pipeline | "Lines" >> beam.io.ReadFromText("no/such/*.txt", validate=False)
        _ = lines | "size" >> beam.Map(len)

    assert said(build)["size"] == "elements, because Lines makes them"


def test_what_a_group_by_key_makes_is_told() -> None:
    def build(rows: Any) -> None:
        groups = keyed(rows) | beam.GroupByKey()
        _ = groups | "size" >> beam.MapTuple(lambda key, group: (key, len(group)))

    assert said(build)["size"] == "columns"
    assert said(build, created)["size"] == "elements, because the GroupByKey before it makes them"


class LikeSinks(beam.PTransform[Any, Any]):
    """Steps with the names that the sinks of the plan have behind the label."""

    def expand(self, rows: Any) -> Any:
        for number in range(8):
            rows = rows | f"sink_{number}" >> beam.WindowInto(FixedWindows(3))
        return rows


def test_a_step_may_be_called_like_a_sink() -> None:
    def build(rows: Any) -> None:
        groups = keyed(rows) | "X" >> LikeSinks() | beam.GroupByKey()
        _ = groups | "size" >> beam.MapTuple(lambda key, group: (key, len(group)))

    assert said(build)["size"] == "columns"


def test_what_leaves_a_stage_as_elements_is_told_with_the_reason() -> None:
    def build(rows: Any) -> None:
        ids = rows | "ids" >> beam.Map(lambda row: row.id)
        _ = rows | "in" >> beam.Filter(lambda row, ids: row.id in ids, beam.pvalue.AsList(ids))

    steps = said(build)
    (line,) = (words for label, words in steps.items() if label.startswith("to side inputs of"))
    assert line == "elements, because side inputs hold elements"


class Tagging(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield beam.pvalue.TaggedOutput("other", element)


class ByElement(NonMergingWindowFn):
    def assign(self, context: Any) -> list[Any]:
        return FixedWindows(1).assign(context)

    def get_window_coder(self) -> Any:
        return FixedWindows(1).get_window_coder()


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (beam.ParDo(Tagging()).with_outputs("other"), "it has several outputs"),
        (beam.WindowInto(ByElement()), "its WindowFn needs more than the timestamp"),
        (
            beam.WithKeys(1) | beam.CombinePerKey(ToListCombineFn()),
            "its CombineFn has no vectorized form",
        ),
    ],
)
@pytest.mark.parametrize("origin", [of_schema, of_any])
def test_why_a_step_takes_elements_whatever_it_gets(origin: Any, step: Any, reason: str) -> None:
    assert f"elements, because {reason}" in said(lambda rows: rows | "x" >> step, origin).values()


def test_windows_and_batches_of_columns_are_told_too() -> None:
    def build(rows: Any) -> None:
        windows = keyed(rows) | "windows" >> beam.WindowInto(FixedWindows(3))
        _ = windows | "mean" >> beam.CombinePerKey(MeanCombineFn()) | "id" >> beam.Map(str)

    steps = said(build)
    assert steps["windows"] == steps["mean/Merge"] == "columns"


@pytest.mark.parametrize("key", [lambda row: row.id > 1, lambda row: None, lambda row: ()])
def test_plain_keys_stay_columns(key: Callable[[Any], Any]) -> None:
    def build(rows: Any) -> None:
        pairs = rows | "pairs" >> beam.Map(lambda row: (key(row), row.id))
        _ = pairs | "sum" >> beam.CombinePerKey(sum) | "next" >> beam.Map(lambda pair: pair[1])

    steps = said(build)
    assert {steps["pairs"], steps["sum/Precombine"], steps["next"]} == {"columns"}


def test_keys_that_are_not_told_apart_are_named() -> None:
    def build(rows: Any) -> None:
        pairs = rows | "pairs" >> beam.Map(lambda row: (beam.Row(id=row.id), row.id))
        _ = pairs | "sum" >> beam.CombinePerKey(sum)

    assert said(build)["sum/Precombine"] == (
        "elements, because its keys are Row, which cannot be compared over columns"
    )


def test_sides_of_a_join_of_elements_are_told() -> None:
    def build(rows: Any) -> None:
        sides = {"a": rows, "b": rows | "other" >> beam.Map(lambda row: row)}
        _ = sides | "J" >> Join(on="id", result=lambda key, one, other: key)

    assert "elements" in said(build, created)["J/Result"]


def test_nothing_is_said_without_columns() -> None:
    assert said(summed, of_schema, "--columns=off") == {}
