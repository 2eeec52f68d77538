"""Plans of many pipelines: the steps that take columns, and the columns that are read.

The golden files have them as words: of each step whether it takes columns, and why not.
"""

import json
import re
from collections.abc import Callable, Iterator
from difflib import ndiff
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import picking
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.kafka import ReadFromKafka
from apache_beam.pvalue import AsList, AsSingleton, TaggedOutput
from apache_beam.transforms.combiners import Count, Latest, MeanCombineFn, ToListCombineFn
from apache_beam.transforms.combiners import TupleCombineFn as TupleFn
from apache_beam.transforms.trigger import AccumulationMode, AfterProcessingTime, Repeatedly
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    TimestampCombiner,
    TimestampedValue,
)
from apache_beam.typehints.batch import NumpyArray
from golden_files import Golden, sections
from plans import planned
from pyspark.sql import types as st

from sparkbeam import Join
from sparkbeam.io import ReadFromArrow, ReadFromSpark, WriteToSpark
from sparkbeam.plan.model import Plan

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")

Build = Callable[[Any], Any]
LATEST = TimestampCombiner.OUTPUT_AT_LATEST
INNER = st.StructType([st.StructField("x", st.DoubleType()), st.StructField("y", st.LongType())])
TIME = st.StructField("at", st.TimestampType())
SCHEMA = st.StructType(
    [
        st.StructField("id", st.LongType(), False),
        st.StructField("name", st.StringType()),
        TIME,
        st.StructField("inner", INNER),
        st.StructField("parts", st.ArrayType(st.LongType())),
        st.StructField("number", st.LongType()),
        st.StructField("set", st.LongType(), False),
    ]
)
USE = "use" >> beam.Map(print)


def words(plan: Plan) -> list[str]:
    """The columns that are read, the rows of groups, and what is said of each step."""
    lines = [f"reads {', '.join(spec.read) or 'nothing'}" for spec in plan.spark_reads.values()]
    for stage in plan.stages:
        lines += [
            f"{one.reading} reads {len(one.names)} of {one.count} columns"
            for one in stage.needed_columns
        ]
        lines += [f"groups {stage.grouping.format}"] if stage.grouping is not None else []
        lines += [
            f"{step.label}: {step.words}"
            for step in stage.column_steps
            if step.reason != "it makes them"
        ]
    return lines


class Few(NamedTuple):
    id: int
    name: str


class At(NamedTuple):
    id: int
    name: str
    third: int


class Twice(beam.DoFn):
    def process(self, element: Any) -> list[Any]:
        return [element, element]


class Stamped(beam.DoFn):
    def process(self, element: Any, stamp: Any = beam.DoFn.TimestampParam) -> list[Any]:
        return [element, stamp]


class Windowed(beam.DoFn):
    def process(self, element: Any, window: Any = beam.DoFn.WindowParam) -> list[Any]:
        return [(element.id, window)]


class Tagging(beam.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield TaggedOutput("other", element)


class Tables(beam.DoFn):
    def process_batch(self, batch: pa.Table) -> Iterator[pa.Table]:
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return Few


class Lengths(beam.DoFn):
    @beam.DoFn.yields_elements
    def process_batch(self, batch: NumpyArray[str]) -> Iterator[int]:  # type: ignore[valid-type]
        yield len(batch)


class Halves(beam.DoFn):
    """Of batches: one may hand its elements to a model."""

    @beam.DoFn.yields_elements
    def process_batch(self, batch: NumpyArray[np.int64]) -> Iterator[int]:  # type: ignore[valid-type]
        yield len(batch)


class LikeSinks(beam.PTransform[Any, Any]):
    """Steps with the names that the sinks of the plan have behind the label."""

    def expand(self, rows: Any) -> Any:
        for number in range(8):
            rows = rows | f"sink_{number}" >> beam.WindowInto(FixedWindows(3))
        return rows


def fixed(rows: Any) -> Any:
    return rows | "windows" >> beam.WindowInto(FixedWindows(3))


def combined(
    fn: Any,
    value: Build = lambda row: row.id,
    windows: Any = FixedWindows(3),
    key: Build = lambda row: row.name,
    **windowing: Any,
) -> Build:
    """A combine in windows of a value of each row, by its name or another key."""

    def build(rows: Any) -> Any:
        rows = rows | "windows" >> beam.WindowInto(windows, **windowing)
        pairs = rows | "pairs" >> beam.Map(lambda row: (key(row), value(row)))
        return pairs | "combine" >> beam.CombinePerKey(fn)

    return build


def matched(key: int, group: Any) -> Any:
    for name in group["names"]:
        for number in group["ids"]:
            yield key, name, number


def groups(rows: Any) -> None:
    rows = fixed(rows)
    ids = rows | "ids" >> beam.Map(lambda row: (row.id, row.id))
    both = {"names": names_by_id(rows), "ids": ids} | "both" >> beam.CoGroupByKey()
    found = both | "match" >> beam.FlatMapTuple(matched)
    counts = found | "key" >> beam.Map(lambda one: (one[1], one)) | beam.GroupByKey()
    _ = counts | "count" >> beam.Map(lambda pair: (pair[0], len(pair[1])))
    _ = both | "keys" >> beam.Map(lambda pair: repr(pair))


def up_to_a_call(rows: Any) -> None:
    few = rows | "few" >> beam.Filter(lambda row: row.id > 3 and row.inner.x is not None)
    few = few | "twice" >> beam.ParDo(Twice())
    pairs = few | "pairs" >> beam.Map(lambda row: (row.name, row.id))
    _ = fixed(pairs) | "sums" >> beam.CombinePerKey(sum)
    other = few | "found" >> beam.Map(lambda row: re.match("a", row.name))
    _ = other | "after" >> beam.Map(lambda found: found)


def batches(rows: Any) -> None:
    few = rows | "few" >> beam.Map(lambda row: Few(row.id, row.name)).with_output_types(Few)
    few = few | "tables" >> beam.ParDo(Tables()) | "again" >> beam.ParDo(Tables())
    names = few | "names" >> beam.Map(lambda few: few.name).with_output_types(str)
    _ = names | "lengths" >> beam.ParDo(Lengths())


def ids(rows: Any) -> Any:
    return rows | "ids" >> beam.Map(lambda row: row.id).with_output_types(int)


def names_by_id(rows: Any) -> Any:
    return rows | "names" >> beam.Map(lambda row: (row.id, row.name))


def to_parquet(schema: pa.Schema) -> Build:
    dicts = "dicts" >> beam.Map(lambda row: {"id": row.id, "at": row.at})
    return lambda rows: rows | dicts | "to" >> beam.io.WriteToParquet("unwritten", schema)


def arguments(rows: Any) -> None:
    _ = rows | "more" >> beam.Map(lambda row, more: row.id + more, 3)
    _ = rows | "called" >> beam.Map(lambda row, more: hash(more), 3)
    _ = rows | "limited" >> beam.Filter(lambda row, least, most=9: least < row.id < most, 3)
    _ = rows | "times" >> beam.Map(lambda row, factor=2, *, more: row.id * factor, more=None)
    _ = rows | "in a list" >> beam.Filter(lambda row, ids: row.id in ids, [3, 4])
    _ = rows | "of a list" >> beam.Filter(lambda row, ids: row.id < max(ids), [3, 4])


def most_as_side_input(rows: Any) -> None:
    most = AsSingleton(ids(rows) | beam.CombineGlobally(max))
    highest = rows | "highest" >> beam.Filter(lambda row, top: row.id == top, most)
    _ = highest | "name" >> beam.Map(lambda row: row.name)


def count_as_side_input(rows: Any) -> None:
    count = AsSingleton(rows | "count" >> Count.Globally())
    _ = rows | "counted" >> beam.Map(lambda row, of: row.id / of, of=count)


def rows_as_side_input(rows: Any) -> None:
    _ = rows | "in" >> beam.Filter(lambda row, ids: row.id in ids, AsList(ids(rows)))


def reshuffles(rows: Any) -> None:
    few = rows | "few" >> beam.Map(lambda row: Few(row.id, row.name)).with_output_types(Few)
    _ = few | beam.Reshuffle() | "names" >> beam.Map(lambda few: few.name)
    rows = rows | "rows" >> beam.Map(lambda row: beam.Row(id=row.id))
    _ = rows | "spread" >> beam.Reshuffle() | "ids" >> beam.Map(lambda row: row.id)


def classes(rows: Any) -> None:
    few = rows | "few" >> beam.Map(lambda row: Few(row.id, row.name))
    ids = rows | "at" >> beam.Map(lambda row: At(row.id, row.name, 1))
    both = (few, ids) | beam.Flatten() | beam.Reshuffle()
    kept = both | "kept" >> beam.Filter(lambda element: isinstance(element, At))
    _ = kept | "third" >> beam.Map(lambda element: element.third)


def branches(rows: Any) -> None:
    low = rows | "low" >> beam.Filter(lambda row: row.id < 3)
    high = rows | "high" >> beam.Map(lambda row: Few(row.id, row.name))
    both = (low, high, low) | beam.Flatten()
    _ = both | "pair" >> beam.Map(lambda row: (row.name, row.id)) | beam.CombinePerKey(sum)


def selects(rows: Any) -> None:
    few = rows | beam.Select("id", x="at", name=lambda row: (row.name or "") + "!")
    _ = few | "twice" >> beam.Map(lambda row: row.id * 2)
    _ = rows | "odd" >> beam.Select(code=hash)


def joined(how: str, right: Any) -> Build:
    """A join of small rows with what a transform makes of them."""

    def build(rows: Any) -> None:
        few = rows | "few" >> beam.Map(lambda row: beam.Row(id=row.id, name=row.name))
        sides = {"all": few, "some": few | "made" >> right}
        _ = sides | "J" >> Join(
            on="id",
            how=how,
            result=lambda key, one, other: (key, one.name, other.id if other else None),
        )

    return build


def without_a_match(rows: Any) -> None:
    sales = rows | "sales" >> beam.Map(lambda row: beam.Row(item_id=row.id, name=row.name))
    items = rows | "items" >> beam.Map(lambda row: beam.Row(item_id=row.id, name=row.name))
    prices = {"sales": sales, "items": items} | "J" >> Join(
        on="item_id", how="left", result=lambda key, sale, item: (sale, item and item.name)
    )
    _ = prices | "names" >> beam.Map(lambda price: price[1] or "nobody")


def two_readers(rows: Any) -> None:
    _ = rows | "names" >> beam.Map(lambda row: row.name)
    _ = rows | "xs" >> beam.Map(lambda row: row.inner.x if row.id else 0.0)


def with_fields_unread(of: Build, function: Build) -> Build:
    """A step that looks at some fields of what the one before it makes."""
    return lambda rows: rows | "make" >> beam.Map(of) | "look" >> beam.Map(function) | USE


def stamped(rows: Any) -> Any:
    times = rows | beam.Map(lambda row: TimestampedValue((row.id, row.name), row.set))
    return times | "ids" >> beam.Map(lambda pair: pair[0]) | USE


def mapped(function: Build) -> Build:
    return lambda rows: rows | beam.Map(function) | USE


def counted(rows: Any) -> Any:
    return fixed(rows) | beam.Map(lambda row: (row.id, row)) | Count.PerKey()


def side_by_side(rows: Any) -> Any:
    use = rows | "r" >> beam.Filter(lambda row: row.set) | USE
    return use, names_by_id(rows) | "p" >> beam.Map(len)


def behind_reshuffle(rows: Any) -> Any:
    return names_by_id(rows) | beam.Reshuffle() | beam.Map(lambda pair: pair[0]) | USE


def flattened(rows: Any) -> Any:
    some = rows | "some" >> beam.Filter(lambda row: row.set > 1)
    others = some | "others" >> beam.Map(lambda row: (row.set, row.name))
    both = (names_by_id(rows), others) | beam.Flatten() | beam.Reshuffle()
    return both | beam.Map(lambda pair: pair[0]) | USE


def beside_a_side_input(rows: Any) -> Any:
    rows = rows | "same" >> beam.Map(lambda row: row)
    use = "sides" >> beam.Map(lambda one, side: len(side), AsList(rows))
    return behind_reshuffle(rows), rows | "one" >> beam.Map(lambda row: 1) | use


MEAN = MeanCombineFn()
SESSIONS = Sessions(3)
DISCARDING: dict[str, Any] = {
    "trigger": Repeatedly(AfterProcessingTime(1)),
    "accumulation_mode": AccumulationMode.DISCARDING,
}
ROWS: dict[str, Build] = {
    "a field": lambda rows: rows | "x" >> beam.Map(lambda row: row.id) | USE,
    "a field that nobody uses": lambda rows: rows | "x" >> beam.Map(lambda row: row.id),
    "two fields": lambda rows: rows | beam.Map(lambda row: (row.at, row.set)) | USE,
    "a field by its number": lambda rows: rows | beam.Map(lambda row: row[1]) | USE,
    "a constant": lambda rows: rows | beam.Map(lambda row: 1) | USE,
    "a filter before another step": lambda rows: (
        fixed(rows | beam.Filter(lambda row: row.id > 3)) | beam.Map(lambda row: row.name) | USE
    ),
    "two readers": two_readers,
    "whole rows": lambda rows: rows | beam.Map(lambda row: row) | beam.Reshuffle() | USE,
    "whole rows in tuples": lambda rows: rows | beam.Map(lambda row: (row.id, row)) | USE,
    "rows that are compared": lambda rows: (
        rows | beam.Map(lambda row: row == (1, "a", None, None, None, None, 2))
    ),
    "rows or nothing": lambda rows: rows | beam.Map(lambda row: row if row.id else None) | USE,
    "a filter that nobody uses": lambda rows: rows | beam.Filter(lambda row: row.id > 3),
    "a filter": lambda rows: rows | beam.Filter(lambda row: row.id > 3) | USE,
    "a function that is called": lambda rows: rows | beam.Map(lambda row: re.match("a", row.name)),
    "an argument": lambda rows: rows | beam.Map(lambda row, side: row.id, 3) | USE,
    "a field of records": lambda rows: (
        rows
        | beam.Map(lambda row: Few(row.id, row.name)).with_output_types(Few)
        | "texts" >> beam.Map(lambda few: few.name)
        | USE
    ),
    "what may fail": with_fields_unread(
        lambda row: (row.number + 1, row.name), lambda pair: pair[1]
    ),
    "one of two tuples": with_fields_unread(
        lambda row: (row.id, row.set) if row.inner else (row.set, row.id), lambda pair: pair[0]
    ),
    "timestamps": stamped,
    "counts": counted,
    "sums": combined(sum, lambda row: row.set, key=lambda row: row.id),
    "sums in the global window": combined(sum, windows=GlobalWindows()),
    "two steps that read": side_by_side,
    "behind a reshuffle": behind_reshuffle,
    "behind a flatten": flattened,
    "groups of pairs": lambda rows: fixed(names_by_id(rows)) | beam.GroupByKey() | USE,
    "beside a side input": beside_a_side_input,
    "a sink of Spark": lambda rows: (
        rows
        | "few" >> beam.Filter(lambda row: row.id > 3)
        | "Store" >> WriteToSpark("parquet", {}, "id long, name string")
    ),
    "groups": groups,
    "up to a call": up_to_a_call,
    "a timestamp": lambda rows: rows | "x" >> beam.ParDo(Stamped()),
    "the window of no windows": lambda rows: rows | "x" >> beam.ParDo(Windowed()),
    "the window": lambda rows: fixed(rows) | "x" >> beam.ParDo(Windowed()),
    "timestamps in sessions": lambda rows: (
        rows
        | beam.WindowInto(SESSIONS)
        | "x" >> beam.Map(lambda row: TimestampedValue(row.id, row.id))
    ),
    "lists of values": combined(ToListCombineFn()),
    "a sum of texts": combined(sum, lambda row: row.name),
    "sum and max of pairs": combined(TupleFn(sum, max), lambda row: (row.id, row.at)),
    "max of texts at the latest timestamp": combined(
        max, lambda row: row.name, timestamp_combiner=LATEST
    ),
    "sums at the latest timestamp": combined(sum, timestamp_combiner=LATEST),
    "sums in sessions": combined(sum, windows=SESSIONS),
    "means of floats in sessions": combined(MEAN, lambda row: row.id / 2, SESSIONS),
    "means in sessions": combined(MEAN, windows=SESSIONS),
    "max and mean of floats in sessions": combined(
        TupleFn(max, MEAN), lambda row: (row.id, row.id / 2), SESSIONS
    ),
    "means in sessions with a trigger": combined(MEAN, windows=SESSIONS, **DISCARDING),
    "means in sessions of parts of milliseconds": combined(MEAN, windows=Sessions(1.0005)),
    "max of texts in sessions": combined(max, lambda row: row.name, SESSIONS),
    "the least": combined(min, lambda row: row.name),
    "the latest": lambda rows: names_by_id(rows) | "latest" >> Latest.PerKey(),
    "batches": batches,
    "a DoFn of batches of numbers": lambda rows: ids(rows) | beam.ParDo(Halves()),
    "Parquet": to_parquet(pa.schema([("id", pa.int64()), ("other", pa.int8())])),
    "Parquet of another type": to_parquet(pa.schema([("id", pa.string())])),
    "Parquet without a field": to_parquet(pa.schema([pa.field("gone", pa.int8(), nullable=False)])),
    "arguments": arguments,
    "the most as a side input": most_as_side_input,
    "a count as a side input": count_as_side_input,
    "rows as a side input": rows_as_side_input,
    "reshuffles": reshuffles,
    "a reshuffle at once": lambda rows: rows | beam.Reshuffle() | "x" >> beam.Map(len),
    "combines and a filter": lambda rows: (
        combined(sum)(rows),
        rows | "other" >> beam.Filter(lambda row: row.id),
    ),
    "combines and a call": lambda rows: (combined(sum)(rows), rows | USE),
    "several classes": classes,
    "branches": branches,
    "an aggregating GroupBy": lambda rows: (
        rows
        | beam.GroupBy("name")
        .aggregate_field("id", sum, "total")
        .aggregate_field(lambda row: row.id / 2, MEAN, "mean")
    ),
    "selects": selects,
    "times that are added": lambda rows: rows | "x" >> beam.Map(lambda row: row.at + row.at),
    "an inner join": joined("inner", beam.Filter(lambda row: row.id > 3)),
    "a left join": joined("left", beam.Filter(lambda row: row.id > 3)),
    "a join of elements": joined(
        "inner",
        beam.Map(lambda row: {"id": row.id, "day": row}).with_output_types(dict[str, Any]),
    ),
    "a semi join": joined("semi", beam.Map(lambda row: {"id": row.id, "all": row.name})),
    "a join without a match": without_a_match,
    **{
        f"a function of a module: {name}": mapped(function)
        for name, function in {
            "a global": picking.pick,
            "a function": lambda row: picking.pick(row),
            "an attribute": lambda row: row.id if picking.FLAG else row.set,
            "a global index": picking.at_key,
            "a global factor": picking.rated,
            "a global that is None": picking.without,
            "an attribute of a class": picking.of_class,
            "an attribute of an object": picking.of_settings,
            "a method": picking.Settings().pick,
            "a default": lambda row: picking.default(row),
            "another name": picking.aliased,
            "a function of math": picking.rounded,
        }.items()
    },
}
"""Over rows that Spark reads."""


def read(part: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    raise AssertionError("nothing is read")


def chained(read: Build, build: Build) -> Build:
    return lambda pipeline: build(read(pipeline))


def summed(rows: Any) -> Any:
    sums = combined(sum, windows=GlobalWindows())(rows)
    return sums | "next" >> beam.Map(lambda pair: pair[1] + 1) | "hash" >> beam.Map(hash)


def sizes_of_groups(rows: Any) -> Any:
    pairs = fixed(rows | "key" >> beam.Map(lambda row: (row.name, row.id)))
    groups = pairs | beam.GroupByKey()
    return groups | "size" >> beam.MapTuple(lambda key, group: (key, len(group)))


ANY: dict[str, Build] = {
    "sums": summed,
    "several outputs": lambda rows: rows | "x" >> beam.ParDo(Tagging()).with_outputs("other"),
    "lists of values": lambda rows: (
        rows | "x" >> (beam.WithKeys(1) | beam.CombinePerKey(ToListCombineFn()))
    ),
    "sizes of groups": sizes_of_groups,
    "a join": joined("inner", beam.Map(lambda row: row)),
}
ARROW: dict[str, Build] = ANY | {
    "steps that are called like sinks": lambda rows: sizes_of_groups(rows | "X" >> LikeSinks()),
    "means in windows": combined(MEAN),
    "truth as keys": combined(sum, key=lambda row: row.id > 1),
    "None as keys": combined(sum, key=lambda row: None),
    "empty tuples as keys": combined(sum, key=lambda row: ()),
    "rows as keys": combined(sum, key=lambda row: beam.Row(id=row.id)),
    "JSON": lambda rows: (
        rows | "parse" >> beam.Map(lambda row: json.loads(row.name)) | "key" >> beam.Map(len)
    ),
    "lines of text beside them": lambda rows: (
        rows.pipeline
        | "Lines" >> beam.io.ReadFromText("no/such/*.txt", validate=False)
        | "size" >> beam.Map(len)
    ),
}
FIELDS = pa.schema([("id", pa.int64()), ("name", pa.string())])


REQUIRED = st.StructType(
    [st.StructField("at", st.TimestampType(), False) if one is TIME else one for one in SCHEMA]
)


def of_spark(pipeline: Any, format: str = "parquet", schema: st.StructType = SCHEMA) -> Any:
    return pipeline | ReadFromSpark(format, {}, schema, timestamp_column="at")


ORIGINS: dict[str, tuple[Build, dict[str, Build]]] = {
    "rows of Spark": (of_spark, ROWS),
    "batches": (lambda p: p | "Read" >> ReadFromArrow(["a"], read, Few, schema=FIELDS), ARROW),
    "batches of any schema": (lambda p: p | "Read" >> ReadFromArrow(["a"], read, Few), ANY),
    "created": (lambda p: p | "Make" >> beam.Create([Few(1, "a")]), ANY),
    "rows of csv": (lambda p: of_spark(p, "csv"), {"a field": ROWS["a field"]}),
    "rows with a required time": (
        lambda p: of_spark(p, schema=REQUIRED),
        {name: ROWS[name] for name in ("a field", "times that are added", "timestamps")},
    ),
}
"""Sources by name, with the pipelines over them."""


@pytest.mark.parametrize("origin", ORIGINS)
def test_plans(golden: Golden, origin: str) -> None:
    read, cases = ORIGINS[origin]
    texts = {}
    for name, build in cases.items():
        plan = planned(chained(read, build))
        compiled = ["all over columns"] * any(r.is_compiled for r in plan.spark_reads.values())
        batch = words(plan)
        try:
            stream = words(planned(chained(read, build), "--streaming"))
            changes = [line for line in ndiff(batch, stream) if line[0] in "-+"]
        except ValueError as error:
            changes = [str(error)]
        texts[name] = [*compiled, *batch, *(["in streaming:"] if changes else []), *changes]
    golden(f"columns of {origin}.txt", sections(texts))


@pytest.mark.parametrize("aggregator", ["columnar", "canonical", "ordered"])
def test_plans_with_an_aggregator_of_sessions(golden: Golden, aggregator: str) -> None:
    option = f"--session_aggregator={aggregator}"
    plan = planned(lambda p: ROWS["sums in sessions"](of_spark(p)), option)
    golden(f"columns with {aggregator} sessions.txt", "\n".join(words(plan)))


@pytest.mark.parametrize("name", ["a field", "groups", "sums", "an inner join", "whole rows"])
def test_without_columns_all_is_read_and_nothing_is_said(name: str) -> None:
    plan = planned(lambda p: ROWS[name](of_spark(p)), "--columns=off")
    (spec,) = plan.spark_reads.values()
    assert (len(spec.read), spec.is_compiled) == (len(SCHEMA), False)
    assert not any(stage.column_steps for stage in plan.stages)
    assert "groups GroupRows(packed=True)" not in words(plan)


def test_plans_of_parquet_files(golden: Golden, tmp_path: Path) -> None:
    table = pa.table({"id": [1], "tags": [["a"]], "number": [2**62]})
    pq.write_table(table, tmp_path / "a.parquet")
    pairs = "pairs" >> beam.Map(lambda row: (row["id"], row.get("tags")))
    cases: dict[str, tuple[Build, list[str] | None, list[str]]] = {
        "fields": (lambda rows: rows | pairs | "called" >> beam.Map(hash), None, []),
        "chosen columns": (lambda rows: rows | pairs | "called" >> beam.Map(hash), ["id"], []),
        "a column that was not chosen": (lambda rows: rows | pairs, ["tags"], []),
        "without columns": (lambda rows: rows | pairs, None, ["--columns=off"]),
        "one field": (lambda rows: rows | beam.Map(lambda row: row["id"]), None, []),
        "the only chosen field": (
            lambda rows: rows | beam.Map(lambda r: r["id"]) | USE,
            ["id"],
            [],
        ),
        "whole rows": (
            lambda rows: rows | beam.Map(lambda r: (r["id"], "name" in r, r)) | USE,
            None,
            [],
        ),
        "all values": (lambda rows: rows | beam.Map(lambda r: list(r.values())) | USE, None, []),
        "a reshuffle": (lambda rows: rows | beam.Reshuffle() | USE, None, []),
    }

    def explained(build: Build, columns: list[str] | None, options: list[str]) -> list[str]:
        source = beam.io.ReadFromParquet(f"{tmp_path}/*.parquet", columns=columns)
        return words(planned(lambda p: build(p | source), *options))

    texts = {name: explained(*case) for name, case in cases.items()}
    (tmp_path / "a.parquet").write_bytes(b"no Parquet")
    texts["no Parquet"] = explained(*cases["fields"])
    golden("columns of Parquet files.txt", sections(texts))


@pytest.mark.parametrize(
    ("deserializer", "columns"), [("ByteArray", ["key"]), ("Long", ["key", "value"])]
)
def test_values_of_records_that_nobody_reads_are_left_out_unless_they_may_be_malformed(
    deserializer: str, columns: list[str]
) -> None:
    records = ReadFromKafka(
        {"bootstrap.servers": "h:1"},
        ["t"],
        value_deserializer=f"org.apache.kafka.common.serialization.{deserializer}Deserializer",
    )
    keys = "keys" >> beam.Map(lambda record: record[0])
    (spec,) = planned(lambda p: p | records | keys | USE, "--streaming").spark_reads.values()
    assert list(spec.read) == columns


def test_branches_of_branches_are_followed_once() -> None:
    def build(pipeline: Any) -> None:
        rows = of_spark(pipeline)
        for depth in range(25):
            both = (
                rows | f"{name} {depth}" >> beam.Filter(lambda row: row.id > 0)
                for name in ("one", "other")
            )
            rows = tuple(both) | f"Flatten {depth}" >> beam.Flatten()

    (stage,) = planned(build).stages
    assert {step.words for step in stage.column_steps} == {"columns"}
