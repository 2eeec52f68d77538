"""Which steps are said to take columns."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import plans
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.combiners import Latest, MeanCombineFn, ToListCombineFn, TupleCombineFn
from apache_beam.transforms.trigger import AccumulationMode, AfterProcessingTime, Repeatedly
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    TimestampCombiner,
    TimestampedValue,
)
from apache_beam.typehints.batch import NumpyArray
from pyspark.sql import types as st

from sparkbeam import Join, SparkRunner
from sparkbeam.explain import describe
from sparkbeam.io import ReadFromSpark, WriteToSpark
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.plan.model import Plan
from sparkbeam.plan.row_formats import GroupRows
from sparkbeam.plan.source_columns import column_steps

LATEST = TimestampCombiner.OUTPUT_AT_LATEST
SCHEMA = st.StructType(
    [
        st.StructField("id", st.LongType(), False),
        st.StructField("name", st.StringType(), True),
        st.StructField("at", st.TimestampType(), False),
        st.StructField("inner", st.StructType([st.StructField("x", st.DoubleType(), True)]), True),
        st.StructField("parts", st.ArrayType(st.LongType()), True),
    ]
)


def planned(build: Callable[[Any], Any], *options: str) -> Plan:
    rows = ReadFromSpark("parquet", {}, SCHEMA, timestamp_column="at")
    return plans.planned(lambda p: build(p | rows), *options)


def told(build: Callable[[Any], Any], *options: str) -> dict[str, str | None]:
    plan = planned(build, *options)
    return {step.label: step.reason for stage in plan.stages for step in column_steps(plan, stage)}


def test_what_spark_writes_stays_columns() -> None:
    def build(rows: Any) -> None:
        few = rows | "few" >> beam.Filter(lambda row: row.id > 3)
        _ = few | "Store" >> WriteToSpark("parquet", {}, "id long, name string")

    assert told(build) == {"few": None, "Store/Pack": None}


def matched(key: int, group: Any) -> Any:
    for name in group["names"]:
        for number in group["ids"]:
            yield key, name, number


def test_groups_stay_columns() -> None:
    def build(rows: Any) -> None:
        names = rows | "names" >> beam.Map(lambda row: (row.id, row.name))
        ids = rows | "ids" >> beam.Map(lambda row: (row.id, row.id))
        both = {"names": names, "ids": ids} | "both" >> beam.CoGroupByKey()
        found = both | "match" >> beam.FlatMapTuple(matched)
        counts = found | "key" >> beam.Map(lambda one: (one[1], one)) | beam.GroupByKey()
        _ = counts | "count" >> beam.Map(lambda pair: (pair[0], len(pair[1])))
        _ = both | "keys" >> beam.Map(lambda pair: repr(pair))

    plan = planned(build)
    formats = [stage.grouping.format for stage in plan.stages if stage.grouping is not None]
    assert formats == [GroupRows(packed=True)] * 2
    found = told(build)
    assert found.pop("keys") == "it calls repr with (int, dict)"
    assert {"match", "key", "count"} <= found.keys()
    assert set(found.values()) == {None}
    off = planned(build, "--columns=off")
    assert {stage.grouping.format for stage in off.stages if stage.grouping is not None} == {
        GroupRows()
    }


class Twice(beam.DoFn):
    def process(self, element: Any) -> list[Any]:
        return [element, element]


class Stamped(beam.DoFn):
    def process(self, element: Any, stamp: Any = beam.DoFn.TimestampParam) -> list[Any]:
        return [element, stamp]


class Windowed(beam.DoFn):
    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> list[Any]:
        return [(element.id, window)]


class Started(Twice):
    def start_bundle(self) -> None:
        self.begun = True


@pytest.mark.parametrize("options", [[], ["--streaming"]])
def test_each_step_up_to_the_first_that_makes_elements(options: list[str]) -> None:
    def build(rows: Any) -> None:
        few = rows | "few" >> beam.Filter(lambda row: row.id > 3 and row.inner.x is not None)
        few = few | "twice" >> beam.ParDo(Twice())
        pairs = few | "pairs" >> beam.Map(lambda row: (row.name, row.id))
        _ = pairs | beam.WindowInto(FixedWindows(10)) | "sums" >> beam.CombinePerKey(sum)
        other = few | "found" >> beam.Map(lambda row: re.match("a", row.name))
        _ = other | "after" >> beam.Map(lambda found: found)

    steps = told(build, *options)
    assert steps.pop("found") == "it calls re.match"
    assert list(steps) == ["few", "twice", "pairs", "sums/Precombine"]
    assert set(steps.values()) == {None}


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (lambda rows: rows | "x" >> beam.ParDo(Stamped()), "it produces a Timestamp"),
        (
            lambda rows: rows | "x" >> beam.ParDo(Windowed()),
            "it uses a window that",
        ),
        (
            lambda rows: rows | beam.WindowInto(FixedWindows(3)) | "x" >> beam.ParDo(Windowed()),
            "it makes a tuple with a window in it",
        ),
        (lambda rows: rows | "x" >> beam.ParDo(Started()), "it has a start_bundle"),
        (
            lambda rows: (
                rows
                | "y" >> beam.WindowInto(Sessions(3))
                | "x" >> beam.Map(lambda row: TimestampedValue(row.id, row.id))
            ),
            "it sets the timestamps of windowed elements",
        ),
        (
            lambda rows: (
                rows
                | "y" >> beam.Map(lambda row: (row.name, row.id))
                | "x" >> beam.CombinePerKey(ToListCombineFn())
            ),
            "its CombineFn has no vectorized form",
        ),
        (
            lambda rows: (
                rows
                | "y" >> beam.Map(lambda row: (row.name, row.name))
                | "x" >> beam.CombinePerKey(sum)
            ),
            "its values are not supported by sum over columns",
        ),
        (
            lambda rows: (
                rows
                | "y" >> beam.Map(lambda row: (row.name, (row.id, row.at)))
                | "x" >> beam.CombinePerKey(TupleCombineFn(sum, max))
            ),
            "its values are not supported by (sum, max) over columns",
        ),
        (
            lambda rows: (
                rows
                | beam.WindowInto(FixedWindows(3), timestamp_combiner=LATEST)
                | "y" >> beam.Map(lambda row: (row.name, row.name))
                | "x" >> beam.CombinePerKey(max)
            ),
            "its results have the latest timestamp of their elements",
        ),
    ],
)
def test_why_a_step_takes_elements(build: Callable[[Any], Any], reason: str) -> None:
    found = {label.partition("/")[0]: why for label, why in told(build).items()}
    assert str(found["x"]).startswith(reason)


@pytest.mark.parametrize("lateness", [0, 5])
def test_sums_of_a_streams_sessions_are_columns(lateness: int) -> None:
    def build(rows: Any) -> None:
        sessions = rows | beam.WindowInto(Sessions(3), allowed_lateness=lateness)
        pairs = sessions | beam.Map(lambda row: (row.name, row.id))
        _ = pairs | "x" >> beam.CombinePerKey(sum)

    assert told(build, "--streaming")["x/Precombine"] is None


WHY_ELEMENTS: list[tuple[Callable[[Any], Any], beam.WindowInto, str]] = [
    (
        lambda row: (row.id, row.id / 2),
        beam.WindowInto(Sessions(3)),
        "mean adds up floats as they arrive, and sessions reorder them",
    ),
    (
        lambda row: (row.id, row.id),
        beam.WindowInto(
            Sessions(3),
            trigger=Repeatedly(AfterProcessingTime(1)),
            accumulation_mode=AccumulationMode.DISCARDING,
        ),
        "its sessions are merged one by one",
    ),
    (
        lambda row: (row.id, row.id),
        beam.WindowInto(Sessions(1.0005)),
        "its windows cannot be combined over columns",
    ),
]


@pytest.mark.parametrize(("function", "windows", "reason"), WHY_ELEMENTS)
def test_why_a_streams_sessions_are_elements(
    function: Callable[[Any], Any], windows: beam.WindowInto, reason: str
) -> None:
    def build(rows: Any) -> None:
        _ = rows | beam.Map(function) | windows | "x" >> beam.CombinePerKey(MeanCombineFn())

    assert told(build, "--streaming")["x/Precombine"] == reason


def test_sums_with_the_timestamp_of_an_element_are_columns() -> None:
    def build(rows: Any) -> None:
        windows = rows | beam.WindowInto(FixedWindows(3), timestamp_combiner=LATEST)
        pairs = windows | beam.Map(lambda row: (row.name, row.id))
        _ = pairs | "x" >> beam.CombinePerKey(sum)

    assert told(build)["x/Precombine"] is None


class Few(NamedTuple):
    id: int
    name: str


class At(NamedTuple):
    id: int
    name: str
    third: int


class Tables(beam.DoFn):
    def process_batch(self, batch: pa.Table) -> Iterator[pa.Table]:
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return Few


class Numbers(beam.DoFn):
    @beam.DoFn.yields_elements
    def process_batch(self, batch: NumpyArray[str]) -> Iterator[int]:  # type: ignore[valid-type]
        yield len(batch)


def test_batches_are_columns_on_both_sides() -> None:
    def build(rows: Any) -> None:
        few = rows | "few" >> beam.Map(lambda row: Few(row.id, row.name)).with_output_types(Few)
        few = few | "tables" >> beam.ParDo(Tables()) | "again" >> beam.ParDo(Tables())
        names = few | "names" >> beam.Map(lambda few: few.name).with_output_types(str)
        _ = names | "numbers" >> beam.ParDo(Numbers())

    steps = told(build)
    assert steps.pop("numbers") == "the type of its batches depends on all elements"
    assert steps == {"few": None, "tables": None, "again": None, "names": None}


def test_what_chooses_among_values_takes_columns_before_the_shuffle() -> None:
    def build(rows: Any) -> None:
        names = rows | "names" >> beam.Map(lambda row: (row.id, row.name))
        _ = names | "least" >> beam.CombinePerKey(min)
        _ = names | "latest" >> Latest.PerKey()
        _ = names | beam.WindowInto(Sessions(3)) | "of sessions" >> beam.CombinePerKey(max)

    steps = told(build)
    assert steps.pop("of sessions/Precombine") == "its values are not supported by max over columns"
    assert steps.keys() > {
        "names",
        "least/Precombine",
        "latest/CombinePerKey(LatestCombineFn)/Precombine",
    }
    assert set(steps.values()) == {None}


def of_sessions(fn: Any, value: Callable[[Any], Any], *options: str) -> str | None:
    """Why a combine over sessions takes elements."""

    def build(rows: Any) -> None:
        pairs = rows | "pairs" >> beam.Map(lambda row: (row.name, value(row)))
        _ = pairs | beam.WindowInto(Sessions(3)) | "x" >> beam.CombinePerKey(fn)

    return told(build, *options)["x/Precombine"]


@pytest.mark.parametrize("aggregator", ["canonical", "ordered"])
def test_an_aggregator_of_sessions_that_takes_elements_is_named(aggregator: str) -> None:
    asked = f"--session_aggregator={aggregator}"
    assert of_sessions(sum, lambda row: row.id) is None
    assert of_sessions(sum, lambda row: row.id, "--session_aggregator=columnar") is None
    assert of_sessions(sum, lambda row: row.id, asked) == (
        f"the {aggregator} aggregator of sessions takes them, as --session_aggregator says so"
    )


def test_what_adds_floats_up_in_sessions_takes_elements() -> None:
    reason = "mean adds up floats as they arrive, and sessions reorder them"
    assert of_sessions(MeanCombineFn(), lambda row: row.id / 2) == reason
    assert of_sessions(MeanCombineFn(), lambda row: row.id) is None
    both = TupleCombineFn(max, MeanCombineFn())
    assert str(of_sessions(both, lambda row: (row.id, row.id / 2))).startswith("(max, mean) adds")
    assert of_sessions(both, lambda row: (row.id / 2, row.id)) is None


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (pa.schema([("id", pa.int64()), ("other", pa.int8())]), None),
        (pa.schema([("id", pa.string())]), "int might not convert exactly to string"),
        (pa.schema([pa.field("gone", pa.int8(), nullable=False)]), "gone is missing"),
    ],
)
def test_what_beam_writes_to_parquet_stays_columns(schema: pa.Schema, reason: str | None) -> None:
    def build(rows: Any) -> None:
        dicts = rows | "dicts" >> beam.Map(lambda row: {"id": row.id, "at": row.at})
        _ = dicts | "to" >> beam.io.WriteToParquet("unwritten", schema)

    steps = told(build)
    assert steps.pop("dicts") is None
    assert list(steps.values()) == [reason]


def test_functions_with_arguments_take_columns() -> None:
    def build(rows: Any) -> None:
        most = rows | "ids" >> beam.Map(lambda row: row.id) | beam.CombineGlobally(max)
        highest = rows | "highest" >> beam.Filter(
            lambda row, most: row.id == most, beam.pvalue.AsSingleton(most)
        )
        _ = highest | "name" >> beam.Map(lambda row: row.name)
        _ = highest | "more" >> beam.Map(lambda row, more: row.id + more, 3)
        _ = highest | "called" >> beam.Map(lambda row, more: hash(more), 3)

    steps = told(build)
    assert str(steps.pop("called")).startswith("it calls hash")
    assert {steps[label] for label in ("ids", "highest", "name", "more")} == {None}


def test_columns_go_on_behind_a_reshuffle() -> None:
    def build(rows: Any) -> None:
        few = rows | "few" >> beam.Map(lambda row: Few(row.id, row.name)).with_output_types(Few)
        _ = few | beam.Reshuffle() | "names" >> beam.Map(lambda few: few.name)
        rows = rows | "rows" >> beam.Map(lambda row: beam.Row(id=row.id))
        _ = rows | "spread" >> beam.Reshuffle() | "ids" >> beam.Map(lambda row: row.id)

    assert told(build) == {"few": None, "names": None, "rows": None, "ids": None}


def test_columns_of_several_classes_go_on_behind_a_flatten() -> None:
    def build(rows: Any) -> None:
        few = rows | "few" >> beam.Map(lambda row: Few(row.id, row.name))
        ids = rows | "at" >> beam.Map(lambda row: At(row.id, row.name, 1))
        both = (few, ids) | beam.Flatten() | beam.Reshuffle()
        kept = both | "kept" >> beam.Filter(lambda element: isinstance(element, At))
        _ = kept | "third" >> beam.Map(lambda element: element.third)

    assert set(told(build).values()) == {None}
    assert {"kept", "third"} < told(build).keys()


def test_columns_go_on_behind_a_flatten_of_branches() -> None:
    def build(rows: Any) -> None:
        low = rows | "low" >> beam.Filter(lambda row: row.id < 3)
        high = rows | "high" >> beam.Map(lambda row: Few(row.id, row.name))
        both = (low, high, low) | beam.Flatten()
        _ = both | "pair" >> beam.Map(lambda row: (row.name, row.id)) | beam.CombinePerKey(sum)

    steps = told(build)
    assert set(steps.values()) == {None}
    assert {"low", "high", "pair"} < steps.keys()


def test_branches_of_branches_are_followed_once() -> None:
    def build(rows: Any) -> None:
        for depth in range(25):
            branches = (
                rows | f"{name} {depth}" >> beam.Filter(lambda row: row.id > 0)
                for name in ("one", "other")
            )
            rows = tuple(branches) | f"Flatten {depth}" >> beam.Flatten()

    assert set(told(build).values()) == {None}


def test_an_aggregating_group_by_takes_columns_up_to_the_shuffle() -> None:
    steps = told(
        lambda rows: (
            rows
            | beam.GroupBy("name")
            .aggregate_field("id", sum, "total")
            .aggregate_field(lambda row: row.id / 2, MeanCombineFn(), "mean")
        )
    )
    assert len(steps) == 2
    assert set(steps.values()) == {None}


def test_a_function_with_arguments_is_columns() -> None:
    def build(rows: Any) -> None:
        count = beam.pvalue.AsSingleton(rows | "count" >> beam.combiners.Count.Globally())
        _ = rows | "limited" >> beam.Filter(lambda row, least, most=9: least < row.id < most, 3)
        _ = rows | "times" >> beam.Map(lambda row, factor=2, *, more: row.id * factor, more=None)
        _ = rows | "counted" >> beam.Map(lambda row, of: row.id / of, of=count)
        _ = rows | "in a list" >> beam.Filter(lambda row, ids: row.id in ids, [3, 4])
        _ = rows | "of a list" >> beam.Filter(lambda row, ids: row.id < max(ids), [3, 4])

    steps = told(build)
    assert steps["of a list"] == "it calls max with a list, which may change"
    assert {steps[label] for label in ("limited", "times", "counted", "in a list")} == {None}


def test_a_select_is_columns() -> None:
    def build(rows: Any) -> None:
        few = rows | beam.Select("id", x="at", name=lambda row: (row.name or "") + "!")
        _ = few | "twice" >> beam.Map(lambda row: row.id * 2)
        _ = rows | "odd" >> beam.Select(code=hash)

    steps = told(build)
    assert steps.pop("odd/Map(<lambda at core.py:3605>)") == "it calls hash"
    assert len(steps) == 2
    assert set(steps.values()) == {None}


def test_what_is_only_handed_on_may_be_of_any_type() -> None:
    steps = told(lambda rows: rows | "x" >> beam.Map(lambda row: (row.at, row.parts, row.inner)))
    assert steps == {"x": None}


def test_reasons_name_the_types_of_fields() -> None:
    times = told(lambda rows: rows | "x" >> beam.Map(lambda row: row.at + row.at))
    assert times == {"x": "it computes timestamp[us, tz=UTC] + timestamp[us, tz=UTC]"}
    lists = told(lambda rows: rows | "x" >> beam.Map(lambda row: row.parts * row.parts))
    assert lists == {"x": "it computes list<item: int64> * list<item: int64>"}


def test_nothing_is_said_where_columns_are_off_or_read_with_others() -> None:
    def build(rows: Any) -> Any:
        return rows | "x" >> beam.Map(lambda row: row.id)

    assert told(build) == {"x": None}
    assert told(build, "--columns=off") == {}
    assert told(lambda rows: rows | "y" >> beam.Reshuffle() | "x" >> beam.Map(len)) == {}


def test_explain_has_a_line_for_each_step() -> None:
    text = describe.stages(planned(lambda rows: rows | "short" >> beam.Map(lambda row: row.id)))
    assert "step  short: columns" in text


def test_what_is_read_of_parquet_by_beam_is_columns_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "tags": [["a"]]}), tmp_path / "a.parquet")

    def explained(*options: str, columns: list[str] | None = None) -> str:
        p = beam.Pipeline(SparkRunner(), argv=["--runner=sparkbeam.SparkRunner", *options])
        rows = p | beam.io.ReadFromParquet(str(tmp_path / "*.parquet"), columns=columns)
        pairs = rows | "pairs" >> beam.Map(lambda row: (row["id"], row.get("tags")))
        _ = pairs | "called" >> beam.Map(hash)
        plan = SparkRunner()._plan(p, p.options.view_as(SparkBeamOptions))
        steps = [step for stage in plan.stages for step in column_steps(plan, stage)]
        return "; ".join(f"{step.label} {step.reason}" for step in steps)

    assert explained() == "pairs None; called it calls hash"
    assert explained(columns=["id"]) == "pairs None; called it calls hash"
    assert explained(columns=["tags"]) == "pairs it raises KeyError"
    assert explained("--columns=off") == ""
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    assert explained() == ""


class Item(NamedTuple):
    id: int
    names: list[str]


def join_told(of_right: Callable[[Any], Any], how: str, *options: str) -> dict[str, str | None]:
    """What is told of a join of small rows with what is made of them."""

    def build(rows: Any) -> None:
        few = rows | "few" >> beam.Map(lambda row: beam.Row(id=row.id, name=row.name))
        sides = {"all": few, "some": few | "made" >> of_right(few)}
        _ = sides | "J" >> Join(
            on="id",
            how=how,
            result=lambda key, one, other: (key, one.name, other.id if other else None),
        )

    found = told(build, *options)
    return {label: reason for label, reason in found.items() if label.startswith("J")}


@pytest.mark.parametrize("how", ["inner", "left"])
def test_sides_of_a_join_are_columns_and_so_is_what_comes_out(how: str) -> None:
    filtered = join_told(lambda rows: beam.Filter(lambda row: row.id > 3), how)
    assert filtered.pop("J (left)") is None
    assert filtered.pop("J (right)") is None
    assert filtered.pop("J/Key all") is None
    assert filtered.pop("J/Key some") is None
    assert filtered == {"J/Result": None}


def test_what_a_result_makes_of_nobody_is_columns() -> None:
    def build(rows: Any) -> None:
        sales = rows | "sales" >> beam.Map(lambda row: beam.Row(item_id=row.id, name=row.name))
        items = rows | "items" >> beam.Map(lambda row: beam.Row(item_id=row.id, name=row.name))
        prices = {"sales": sales, "items": items} | "J" >> Join(
            on="item_id", how="left", result=lambda key, sale, item: (sale, item and item.name)
        )
        _ = prices | "names" >> beam.Map(lambda price: price[1] or "nobody")

    found = told(build)
    assert found["J/Result"] is None
    assert found["names"] is None


def test_of_the_side_of_a_join_that_is_no_columns_it_is_said_why() -> None:
    found = join_told(
        lambda rows: beam.Map(lambda row: {"id": row.id, "day": row}).with_output_types(
            dict[str, Any]
        ),
        "inner",
    )
    assert "may decode to other values" in str(found["J (right)"])
    assert found["J (left)"] is None
    assert "J/Result" not in found


def test_a_side_of_which_only_keys_are_asked_for_is_columns() -> None:
    found = join_told(lambda rows: beam.Map(lambda row: {"id": row.id, "all": row.name}), "semi")
    assert found["J (right)"] is None


def test_sides_of_a_join_that_get_no_columns_are_not_told() -> None:
    assert (
        join_told(lambda rows: beam.Filter(lambda row: row.id > 3), "inner", "--columns=off") == {}
    )
