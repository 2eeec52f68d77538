"""Blocks that are columns: pipelines over them give what they give element by element."""

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
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
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
)
from in_process_batch import BatchRunner, read_table
from noting import found, note
from pyspark.sql import types as st

from sparkbeam.aggregate.aggregates import Aggregates, objects
from sparkbeam.aggregate.session_runs import Runs
from sparkbeam.columns import Compiled
from sparkbeam.connectors import source_frames
from sparkbeam.connectors.schemas import arrow_schema
from sparkbeam.errors import PipelineFailed
from sparkbeam.io import ReadFromSpark
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.steps.column_functions import ColumnFunction
from sparkbeam.worker.steps.combine_columns import ColumnCombine
from sparkbeam.worker.steps.combines import PrecombineOperation
from sparkbeam.worker.value_columns import Column

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
evaluated: list[bool] = []
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


AGGREGATES = Runs.aggregates


def objects_of(runs: Runs) -> Aggregates | None:
    """The sessions of runs with accumulators in the place of numbers."""
    found = AGGREGATES(runs)
    if found is None:
        return None
    return replace(found, totals=objects(runs._make.accumulators(found)))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Runs a pipeline over tables, over columns or element by element."""
    over = ColumnFunction.over

    def watched(self: ColumnFunction, block: Block, *further: Column) -> Block | None:
        result = over(self, block, *further)
        evaluated.append(result is not None)
        return result

    def run(build: Build, tables: list[pa.Table], *, columns: bool, time: str = "at") -> list[Any]:
        found.clear()
        evaluated.clear()
        monkeypatch.setattr(ColumnFunction, "over", watched if columns else lambda *_: None)
        if not columns:
            monkeypatch.setattr(Runs, "aggregates", objects_of)
            monkeypatch.setattr(ColumnCombine, "take", lambda *_: "for comparison")
        monkeypatch.setattr(
            source_frames, "timed", lambda _, spec, __: read_table(tables, spec.read, time)
        )
        p = beam.Pipeline(BatchRunner())
        rows = p | ReadFromSpark("parquet", {}, SCHEMA, timestamp_column=time)
        _ = build(rows) | "note" >> beam.Map(note)
        result = p.run()
        result.wait_until_finish()
        monkeypatch.undo()
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


def pairs(rows: Any) -> Any:
    return rows | "pair" >> beam.Map(lambda row: (row.user, row.id)).with_output_types(
        tuple[str, int]
    )


def summed(windowing: Any, fn: Any = sum, **more: Any) -> Build:
    return lambda rows: pairs(rows) | beam.WindowInto(windowing, **more) | beam.CombinePerKey(fn)


def both(found: Any) -> Any:
    least = found | "least" >> beam.CombinePerKey(min)
    return (found | "mean" >> beam.combiners.Mean.PerKey(), least) | beam.Flatten()


def ints_and_floats(rows: Any) -> Any:
    ints = rows | "ints" >> beam.Map(lambda row: (row.user, row.id + 2**53))
    floats = rows | "floats" >> beam.Map(lambda row: (row.user, row.ratio))
    return (ints, floats) | beam.Flatten() | beam.WindowInto(Sessions(5)) | beam.CombinePerKey(max)


PIPELINES: dict[str, Build] = {
    "ints and floats in sessions": ints_and_floats,
    "map": lambda rows: rows | beam.Map(lambda row: row.id * 2 + len(row.user)),
    "filter": lambda rows: rows | beam.Filter(lambda row: row.id % 3 == 0) | beam.Map(str),
    "rows": lambda rows: rows | beam.Map(lambda row: beam.Row(a=row.id, b=(row.ratio, row.at))),
    "bids": lambda rows: rows | beam.Map(lambda row: Bid(row.user, row.id)),
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
    "in windows": lambda rows: (
        rows
        | beam.WindowInto(SlidingWindows(60, 30))
        | beam.Filter(lambda row: row.id < 40)
        | beam.Map(lambda row: row.ratio)
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
    "grouped": lambda rows: (
        pairs(rows)
        | beam.WindowInto(FixedWindows(60))
        | beam.GroupByKey()
        | beam.MapTuple(lambda key, values: (key, sorted(values)))
    ),
    "global sum": summed(GlobalWindows()),
    "sum of all": lambda rows: rows | beam.Map(lambda row: row.id) | beam.CombineGlobally(sum),
    "fixed": summed(FixedWindows(60, 7)),
    "fixed, latest": summed(
        FixedWindows(60), timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST
    ),
    "sliding": summed(SlidingWindows(60, 20), max),
    "sessions": summed(Sessions(3)),
    "sessions, count": summed(Sessions(3), CountCombineFn()),
    "sessions, earliest": summed(
        Sessions(3), min, timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST
    ),
    "sessions, list": lambda rows: (
        summed(Sessions(3), beam.combiners.ToListCombineFn())(rows)
        | beam.MapTuple(lambda key, values: (key, sorted(values)))
    ),
    "sessions of tuples": lambda rows: (
        rows
        | beam.Map(lambda row: ((row.user, row.id % 2), row.id)).with_output_types(
            tuple[tuple[str, int], int]
        )
        | beam.WindowInto(Sessions(3))
        | beam.CombinePerKey(sum)
    ),
    "sessions of rows": lambda rows: (
        rows
        | beam.Map(lambda row: (row.user, row.ratio)).with_output_types(tuple[str, float])
        | beam.WindowInto(Sessions(3))
        | beam.CombinePerKey(beam.combiners.MeanCombineFn())
    ),
    "what comes out of sessions": lambda rows: (
        summed(Sessions(3))(rows)
        | beam.Filter(lambda pair: pair[1] % 2 == 0)
        | beam.MapTuple(lambda key, total: f"{key} has {total}")
    ),
    "called behind sessions": lambda rows: (
        summed(Sessions(3), CountCombineFn())(rows)
        | beam.Map(lambda pair: (pair, hash(pair[1]) * 0))
        | beam.FlatMap(lambda pair: [pair[0]] * (hash(pair[0][1]) % 3))
    ),
    "a DoFn behind sessions": lambda rows: (
        summed(Sessions(3))(rows) | beam.Map(lambda pair: pair[1]) | beam.ParDo(Windowed())
    ),
    "windows behind sessions": lambda rows: (
        summed(Sessions(3))(rows)
        | "again" >> beam.WindowInto(FixedWindows(60))
        | "most" >> beam.CombinePerKey(max)
    ),
    "combined again within sessions": lambda rows: (
        summed(Sessions(3), timestamp_combiner=TimestampCombiner.OUTPUT_AT_LATEST)(rows)
        | "most" >> beam.CombinePerKey(max)
    ),
    "combined again at the end of sessions": lambda rows: (
        summed(Sessions(3))(rows) | "most" >> beam.CombinePerKey(max)
    ),
    "a stateful step behind sessions": lambda rows: (
        summed(Sessions(3), max)(rows) | beam.GroupByKey() | beam.Reshuffle()
    ),
    "means": lambda rows: (
        rows
        | beam.Map(lambda row: (row.id % 7, row.id / 7)).with_output_types(tuple[int, float])
        | beam.combiners.Mean.PerKey()
    ),
    "mean of all": lambda rows: (
        rows | beam.Map(lambda row: row.ratio + row.id) | beam.combiners.Mean.Globally()
    ),
    "means in sessions": summed(Sessions(3), beam.combiners.MeanCombineFn()),
    "several in sessions": lambda rows: (
        summed(
            Sessions(3), SingleInputTupleCombineFn(MeanCombineFn(), max, beam.combiners.Largest(1))
        )(rows)
        | beam.MapTuple(lambda user, found: (user, found[0] * 2, found[2]))
    ),
    "several of all": lambda rows: (
        rows
        | beam.Map(lambda row: row.price)
        | beam.CombineGlobally(SingleInputTupleCombineFn(sum, min, any, MeanCombineFn()))
    ),
    "two combines that become one": lambda rows: both(pairs(rows)),
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
    "two readers": lambda rows: (
        (
            rows | "ids" >> beam.Map(lambda row: row.id),
            rows | "users" >> beam.Map(lambda row: row.user),
        )
        | beam.Flatten()
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
    assert run(PIPELINES[name], tables, columns=True) == expected
    assert any(evaluated) or name in ("called", "sliding", "values in windows") or "DoFn" in name


def test_a_block_that_is_not_exact_goes_element_by_element(run: Callable[..., list[Any]]) -> None:
    tables = [table(10, 1), table(10, 2, price=lambda n: None if n == 5 else 2**62)]

    def build(rows: Any) -> Any:
        return rows | beam.Map(lambda row: 0 if row.price is None else row.price * 4)

    expected = run(build, tables, columns=False)
    assert run(build, tables, columns=True) == expected
    assert str(2**64) in str(found)
    assert set(evaluated) == {True, False}
    assert list(refused_by("Map(<lambda").values()) == [1]


@pytest.mark.parametrize(
    "name",
    ["means", "mean of all", "several of all", "two combines that become one", "aggregated fields"],
)
def test_no_combine_takes_elements(
    name: str, run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PrecombineOperation, "_take", None)
    assert run(PIPELINES[name], [table(57, 3)], columns=True)
    assert refused_by("Precombine") == {}


def test_blocks_that_a_combine_refuses_are_counted(run: Callable[..., list[Any]]) -> None:
    def build(rows: Any) -> Any:
        return (
            rows
            | beam.Map(lambda row: (row.user, row.price))
            | beam.CombinePerKey(SingleInputTupleCombineFn(sum, MeanCombineFn()))
        )

    tables = [table(10, 1), table(10, 2, price=lambda n: 2**61), table(5, 3)]
    expected = run(build, tables, columns=False)
    assert run(build, tables, columns=True) == expected
    assert refused_by("Precombine") == {"(sum, mean) is not exact over columns": 1}


KEYS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "bool": (lambda row: (row.id > 20, row.id), bool),
    "float": (lambda row: (row.ratio, row.id), float),
    "None at times": (lambda row: (row.price, row.id), int | None),
    "None": (lambda row: (None, row.id), None),
    "an empty tuple": (lambda row: ((), row.id), tuple[()]),
    "tuples": (
        lambda row: ((row.ratio, row.id > 20, row.user), row.id),
        tuple[float, bool, str],
    ),
    "tuples with None": (lambda row: ((row.price, ()), row.id), tuple[int | None, tuple[()]]),
}


@pytest.mark.part(5)
@pytest.mark.parametrize("windowing", [GlobalWindows(), FixedWindows(60), Sessions(3)])
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("is_typed", [False, True])
def test_combines_take_plain_keys_of_all_kinds(
    is_typed: bool, key: str, windowing: Any, run: Callable[..., list[Any]]
) -> None:
    function, kind = KEYS[key]
    nan = struct.unpack(">d", bytes.fromhex("7ff8000000000001"))[0]
    ratios = [0.0, -0.0, nan, float("nan"), 1.5]
    fields: dict[str, Callable[[int], Any]] = {
        "price": lambda n: n % 3 or None,
        "ratio": lambda n: ratios[n % 5],
    }
    tables = [table(60, seed, **fields) for seed in (1, 2)]

    def build(rows: Any) -> Any:
        keyed = beam.Map(function)
        if is_typed:
            keyed = keyed.with_output_types(tuple[kind, int])  # type: ignore[valid-type]
        keyed = rows | "key" >> keyed | beam.WindowInto(windowing)
        return keyed | "sum" >> beam.CombinePerKey(sum)

    expected = run(build, tables, columns=False)
    assert run(build, tables, columns=True) == expected
    assert refused_by("sum/Precombine") == {}
    assert refused_by("sum/Merge") == {} or key == "tuples with None"


def test_an_error_in_the_compiled_function_is_none_of_the_user_s(
    run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise IndexError("broken")

    tables = [table(10, 1)]
    expected = run(PIPELINES["map"], tables, columns=True)
    monkeypatch.setattr(Compiled, "evaluate", broken)
    assert run(PIPELINES["map"], tables, columns=True) == expected
    assert list(refused_by("Map(<lambda")) == ["an internal error of the runner"]


def test_an_error_is_that_of_the_element(run: Callable[..., list[Any]]) -> None:
    tables = [table(10, 2, price=lambda n: None if n == 5 else n)]

    def build(rows: Any) -> Any:
        return rows | "doubled" >> beam.Map(lambda row: row.price + 1)

    with pytest.raises(PipelineFailed, match=r"doubled.*NoneType"):
        run(build, tables, columns=True)


def test_results_of_no_element_are_no_element(run: Callable[..., list[Any]]) -> None:
    def build(rows: Any) -> Any:
        return rows | beam.Filter(lambda row: row.id < 0) | beam.Map(lambda row: row.id)

    assert run(build, [table(10, 2)], columns=True) == []


@pytest.mark.parametrize("fn", [sum, max, CountCombineFn()])
def test_sessions_at_the_ends_of_time_and_sums_beyond_64_bits(
    fn: Any, run: Callable[..., list[Any]]
) -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
    tables = [table(40, 5, at=lambda n: last if n % 2 else datetime(1, 1, 1, tzinfo=UTC))]
    tables.append(table(40, 6, id=lambda n: 2**61 + n))
    expected = run(summed(Sessions(100), fn), tables, columns=False)
    assert run(summed(Sessions(100), fn), tables, columns=True) == expected
