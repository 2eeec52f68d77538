"""Blocks that are columns: pipelines over them give what they give element by element."""

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.transforms.combiners import (
    CountCombineFn,
    MeanCombineFn,
    SingleInputTupleCombineFn,
)
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from in_process_batch import BatchRunner, read_table
from noting import found, note
from pyspark.sql import types as st

from sparkbeam.columns import Compiled
from sparkbeam.connectors import source_frames
from sparkbeam.connectors.schemas import arrow_schema
from sparkbeam.errors import PipelineFailed
from sparkbeam.io import ReadFromSpark
from sparkbeam.operators import registry

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")

Build = Callable[[Any], Any]
SCHEMA = st.StructType(
    [
        st.StructField("id", st.LongType(), False),
        st.StructField("user", st.StringType(), False),
        st.StructField("price", st.LongType(), True),
        st.StructField("ratio", st.DoubleType(), False),
        st.StructField("at", st.TimestampType(), False),
        st.StructField("tags", st.ArrayType(st.StringType()), True),
    ]
)
counters: list[Any] = []


class Bid(NamedTuple):
    user: str
    price: int


def table(count: int, seed: int, **fields: Callable[[int], Any]) -> pa.Table:
    choice = random.Random(seed)
    rows = []
    for number in range(count):
        row: dict[str, Any] = {
            "id": number,
            "user": choice.choice(["ann", "bob", "zoë"]),
            "price": choice.randrange(-50, 100),
            "ratio": choice.choice([0.5, -0.0, 0.0, 3.25]),
            "at": datetime.fromtimestamp(1000 + choice.randrange(600) + 0.0015, UTC),
            "tags": [str(number)],
        }
        rows.append(row | {name: make(number) for name, make in fields.items()})
    return pa.Table.from_pylist(rows, arrow_schema(SCHEMA))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Runs a pipeline over tables, over columns or element by element."""

    def run(build: Build, tables: list[pa.Table], *, columns: bool = True) -> list[str]:
        found.clear()
        with monkeypatch.context() as patch:
            patch.setattr(
                source_frames, "timed", lambda _, spec, __: read_table(tables, spec.read, "at")
            )
            if not columns:
                patch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)
            p = beam.Pipeline(BatchRunner())
            rows = p | ReadFromSpark("parquet", {}, SCHEMA, timestamp_column="at")
            _ = build(rows) | "note" >> beam.Map(note)
            result = p.run()
            result.wait_until_finish()
        counters[:] = result.metrics().query()["counters"]
        return sorted(map(repr, found))

    return run


def refused_by(part: str) -> dict[str, int]:
    """How many blocks steps of which this is a part of the label have refused, by reason."""
    return {
        counter.key.metric.name.removeprefix("refused_blocks: "): counter.committed
        for counter in counters
        if part in counter.key.step
    }


def pairs(rows: Any, label: str = "pair") -> Any:
    return rows | label >> beam.Map(lambda row: (row.user, row.id)).with_output_types(
        tuple[str, int]
    )


def in_sessions(rows: Any, fn: Any = sum) -> Any:
    return pairs(rows) | beam.WindowInto(Sessions(3)) | beam.CombinePerKey(fn)


def ints_and_floats(rows: Any) -> Any:
    ints = rows | "ints" >> beam.Map(lambda row: (row.user, row.id + 2**53))
    floats = rows | "floats" >> beam.Map(lambda row: (row.user, row.ratio))
    return (ints, floats) | beam.Flatten() | beam.WindowInto(Sessions(5)) | beam.CombinePerKey(max)


def of_several_types(rows: Any) -> Any:
    bids = rows | "bids" >> beam.Map(lambda row: Bid(row.user, row.id))
    numbers = rows | "numbers" >> beam.Map(lambda row: row.id)
    made = rows | "objects" >> beam.Map(lambda row: {row.id: [row.ratio]})
    return (rows, bids, numbers, made) | beam.Flatten()


def of_flattens(rows: Any) -> Any:
    low = rows | beam.Filter(lambda row: row.id < 20)
    one = (rows, low) | beam.Flatten()
    other = (low, one) | "again" >> beam.Flatten()
    return (one, other, rows) | "both" >> beam.Flatten() | beam.Map(lambda row: row.id)


PIPELINES: dict[str, Build] = {
    "map": lambda rows: rows | beam.Map(lambda row: row.id * 2 + len(row.user)),
    "whole": lambda rows: rows | beam.Map(lambda row: (row.id, row)),
    "handed on": lambda rows: rows | beam.Map(lambda row: (row.at, row.tags)),
    "stamped": lambda rows: (
        rows
        | beam.Map(lambda row: TimestampedValue(row.user, row.id))
        | beam.WindowInto(FixedWindows(7))
    ),
    "stamped by a field": lambda rows: (
        rows
        | beam.Map(lambda row: TimestampedValue((row.id, row.at.micros % 7), row.at))
        | beam.WindowInto(SlidingWindows(60, 30))
    ),
    "windowed anew": lambda rows: (
        rows
        | beam.WindowInto(SlidingWindows(60, 30))
        | "again" >> beam.WindowInto(FixedWindows(45))
        | beam.Map(lambda row: row.id)
    ),
    "called": lambda rows: (
        rows | beam.WindowInto(FixedWindows(30)) | beam.Map(lambda row: hash(row.id) % 7)
    ),
    "several types": of_several_types,
    "flattened again": of_flattens,
    "flattened with elements": lambda rows: (
        (rows | "ids" >> beam.Map(lambda row: row.id), rows | beam.Map(lambda row: hash(row.id)))
        | beam.Flatten()
        | "twice" >> beam.Map(lambda number: number * 2)
    ),
    "ints and floats in sessions": ints_and_floats,
    "what comes out of sessions": lambda rows: (
        in_sessions(rows)
        | beam.Filter(lambda pair: pair[1] % 2 == 0)
        | beam.MapTuple(lambda key, total: f"{key} has {total}")
    ),
    "called behind sessions": lambda rows: (
        in_sessions(rows, CountCombineFn())
        | beam.Map(lambda pair: (pair, hash(pair[1]) * 0))
        | beam.FlatMap(lambda pair: [pair[0]] * (hash(pair[0][1]) % 3))
    ),
    "a DoFn behind sessions": lambda rows: (
        in_sessions(rows) | beam.Map(lambda pair: pair[1]) | beam.ParDo(Windowed())
    ),
    "aggregated fields": lambda rows: (
        rows
        | beam.WindowInto(FixedWindows(60))
        | beam.GroupBy("user", kind=lambda row: row.id % 3)
        .aggregate_field("id", sum, "total")
        .aggregate_field(lambda row: row.ratio * row.id, MeanCombineFn(), "mean")
        .aggregate_field("tags", beam.combiners.CountCombineFn(), "count")
        .aggregate_field("price", max, "dearest")
    ),
    "selected": lambda rows: (
        rows
        | beam.WindowInto(FixedWindows(60))
        | beam.Select("user", "at", lambda row: row.id % 3, double=lambda row: row.ratio * 2)
        | "named" >> beam.Select(name="user", of_double=lambda row: row.double, kind="arg02")
    ),
    "a group with a side input": lambda rows: (
        pairs(rows)
        | beam.GroupByKey()
        | beam.Map(
            lambda group, least: (group[0], len(group[1]) < least),
            beam.pvalue.AsSingleton(rows.pipeline | beam.Create([50])),
        )
    ),
    "nested loops over groups": lambda rows: (
        {"all": pairs(rows), "few": pairs(rows | beam.Filter(lambda row: row.id < 9), "few")}
        | beam.CoGroupByKey()
        | beam.FlatMapTuple(matched)
    ),
    "a DoFn in windows": lambda rows: (
        rows | beam.WindowInto(FixedWindows(30)) | beam.ParDo(Twice()) | beam.Map(str)
    ),
    "a DoFn that asks for its window": lambda rows: (
        rows | beam.WindowInto(Sessions(3)) | beam.Map(lambda row: row.id) | beam.ParDo(Windowed())
    ),
    "values in windows": lambda rows: (
        rows
        | beam.Map(lambda row: [row.id, hash(row.user) * 0])
        | beam.WindowInto(SlidingWindows(60, 30))
        | "same" >> beam.Map(lambda pair: pair[0] + hash(0))
        | beam.FlatMap(lambda number: [number] * (number % 3))
        | "again" >> beam.Map(lambda number: TimestampedValue(number, number + hash(0)))
    ),
    "a class that filters and maps": lambda rows: (
        rows | beam.WindowInto(FixedWindows(30)) | beam.ParDo(Dear(20)) | beam.ParDo(Parts())
    ),
    "a DoFn that changes": lambda rows: rows | beam.ParDo(Numbered()),
    "a DoFn that is set up": lambda rows: rows | beam.ParDo(SetUp()),
    "a DoFn": lambda rows: rows | beam.Filter(lambda row: row.id > 10) | beam.ParDo(Twice()),
}


def matched(key: str, groups: dict[str, Any]) -> Iterator[Any]:
    for few in groups["few"]:
        for number in groups["all"]:
            if number > few:
                yield key, few, number


class Dear(beam.DoFn):
    def __init__(self, least: int) -> None:
        self.least = least

    def process(self, row: Any) -> Iterator[Any]:
        if row.price >= self.least:
            yield row.user, row.price - self.least
            if row.id % 2:
                yield "odd", row.id


class Parts(beam.DoFn):
    def process(self, element: Any) -> list[Any]:
        return [element[0], f"{element[1]}"]


class Numbered(beam.DoFn):
    seen = 0

    def process(self, row: Any) -> Iterator[Any]:
        self.seen += 1
        yield row.id, self.seen > 0


class SetUp(beam.DoFn):
    least = 0

    def setup(self) -> None:
        self.least = 50

    def process(self, row: Any) -> Iterator[Any]:
        if row.price > self.least:
            yield row.price


class Twice(beam.DoFn):
    def process(self, row: Any, timestamp: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        yield row.id, timestamp.micros
        yield row


class Windowed(beam.DoFn):
    def process(self, number: int, window: Any = beam.DoFn.WindowParam) -> Iterator[Any]:
        yield number, str(window)


@pytest.mark.parametrize("name", PIPELINES)
def test_columns_give_what_elements_give(name: str, run: Callable[..., list[Any]]) -> None:
    tables = [table(120, 1), table(0, 2), table(57, 3)]
    expected = run(PIPELINES[name], tables, columns=False)
    assert expected
    assert run(PIPELINES[name], tables) == expected


def test_a_block_that_is_not_exact_goes_element_by_element(run: Callable[..., list[Any]]) -> None:
    tables = [table(10, 1), table(10, 2, price=lambda n: None if n == 5 else 2**62)]

    def build(rows: Any) -> Any:
        return rows | beam.Map(lambda row: 0 if row.price is None else row.price * 4)

    expected = run(build, tables, columns=False)
    assert run(build, tables) == expected
    assert str(2**64) in str(found)
    assert list(refused_by("Map(<lambda").values()) == [1]


def test_blocks_that_a_combine_refuses_are_counted(run: Callable[..., list[Any]]) -> None:
    def build(rows: Any) -> Any:
        return (
            rows
            | beam.Map(lambda row: (row.user, row.price))
            | beam.CombinePerKey(SingleInputTupleCombineFn(sum, MeanCombineFn()))
        )

    tables = [table(10, 1), table(10, 2, price=lambda n: 2**61), table(5, 3)]
    expected = run(build, tables, columns=False)
    assert run(build, tables) == expected
    assert refused_by("Precombine") == {"(sum, mean) is not exact over columns": 1}


def test_an_error_in_the_compiled_function_is_none_of_the_user_s(
    run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise IndexError("broken")

    tables = [table(10, 1)]
    expected = run(PIPELINES["map"], tables)
    monkeypatch.setattr(Compiled, "evaluate", broken)
    assert run(PIPELINES["map"], tables) == expected
    assert list(refused_by("Map(<lambda")) == ["an internal error of the runner"]


def test_an_error_is_that_of_the_element(run: Callable[..., list[Any]]) -> None:
    tables = [table(10, 2, price=lambda n: None if n == 5 else n)]

    def build(rows: Any) -> Any:
        return rows | "doubled" >> beam.Map(lambda row: row.price + 1)

    with pytest.raises(PipelineFailed, match=r"doubled.*NoneType"):
        run(build, tables)


def test_results_of_no_element_are_no_element(run: Callable[..., list[Any]]) -> None:
    def build(rows: Any) -> Any:
        return rows | beam.Filter(lambda row: row.id < 0) | beam.Map(lambda row: row.id)

    assert run(build, [table(10, 2)]) == []
