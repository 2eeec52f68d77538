"""Groups over columns: pipelines give what Beam's FnApiRunner gives."""

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from noting import noted
from own_windows import OWN
from random_aggregations import limits

from sparkbeam.columns.python_types import Lists, RecordShape
from sparkbeam.io import ReadFromArrow
from sparkbeam.wire import key_packs
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.row_formats import group_pack_reader, group_packs
from sparkbeam.worker.steps.column_functions import ColumnFunction

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")

COUNT = 300


class Reading(NamedTuple):
    sensor: str
    number: int
    value: float
    maybe: int | None


class Key(NamedTuple):
    sensor: str
    number: int


SCHEMA = pa.schema(
    [
        ("sensor", pa.string()),
        ("number", pa.int64()),
        ("value", pa.float64()),
        ("maybe", pa.int64()),
        ("at", pa.int64()),
    ]
)


def read(split: int, columns: list[str]) -> list[pa.Table]:
    choice = random.Random(split)
    rows = [
        {
            "sensor": choice.choice(["a", "b", "zoë", ""]),
            "number": choice.choice([-1, 0, 7, 2**40]),
            "value": choice.choice([0.0, -0.0, 0.5, float("nan"), float("inf")]),
            "maybe": choice.choice([None, 1, 2]),
            "at": choice.randrange(-20_000_000, 20_000_000),
        }
        for _ in range(COUNT)
    ]
    whole = pa.Table.from_pylist(rows, SCHEMA)
    return [whole.slice(start, 70).select(columns) for start in range(0, COUNT, 70)]


def in_no_order(pair: tuple[Any, Iterable[Any]]) -> Any:
    key, values = pair
    return repr(key), sorted(map(repr, values))


def tagged_in_no_order(pair: tuple[Any, Any]) -> Any:
    key, by_tag = pair
    items = by_tag.items() if isinstance(by_tag, dict) else enumerate(by_tag)
    return repr(key), {tag: sorted(map(repr, values)) for tag, values in items}


def run(build: Callable[[Any], Any], runner: Any = None, *options: str) -> list[str]:
    rows = ReadFromArrow([0, 1, 2], read, Reading, timestamp_column="at", schema=SCHEMA)
    return noted(lambda p: build(p | rows), *options, runner=runner)


def compare(build: Callable[[Any], Any]) -> None:
    assert run(build) == run(build, FnApiRunner())


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> list[Block]:
    """The blocks of groups that are made."""
    made: list[Block] = []
    blocks_of = group_pack_reader.PackedGroups.blocks

    def noted(*args: Any) -> Any:
        for block in blocks_of(*args):
            made.append(block)
            yield block

    monkeypatch.setattr(group_pack_reader.PackedGroups, "blocks", noted)
    return made


def grouped(pair: Callable[[Any], Any], windowing: Any) -> Callable[[Any], Any]:
    return lambda rows: (
        rows
        | beam.WindowInto(windowing)
        | "pair" >> beam.Map(pair)
        | beam.GroupByKey()
        | beam.Map(in_no_order)
    )


WINDOWS = [
    GlobalWindows(),
    FixedWindows(5),
    FixedWindows(3, 1),
    SlidingWindows(10, 5),
    SlidingWindows(7, 3),
    SlidingWindows(2, 5),
    Sessions(1),
]
PAIRS: dict[str, Callable[[Any], Any]] = {
    "text by text": lambda row: (row.sensor, row.sensor),
    "float by int": lambda row: (row.number, row.value),
    "None by tuple": lambda row: ((row.number, row.sensor), None),
    "int or None by int or None": lambda row: (row.maybe, row.maybe),
    "row by int": lambda row: (row.number, row),
    "Row by float": lambda row: (row.value, beam.Row(a=row.number, b=row.sensor)),
    "tuple by bool": lambda row: (row.number > 0, (row.sensor, (row.number, row.maybe))),
    "int by None": lambda row: (None, row.number),
    "int by Key": lambda row: (Key(row.sensor, row.number), row.number),
}


@pytest.mark.part(5)
@pytest.mark.parametrize("windowing", WINDOWS)
@pytest.mark.parametrize("pair", ["text by text", "int or None by int or None"])
def test_groups_of_windows(pair: str, windowing: Any) -> None:
    compare(grouped(PAIRS[pair], windowing))


def with_window(
    pair: Any, window: Any = beam.DoFn.WindowParam, time: Any = beam.DoFn.TimestampParam
) -> Any:
    return in_no_order(pair), repr(window), repr(time)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", OWN)
def test_groups_of_own_windows(name: str, small: bool, blocks: list[Block]) -> None:
    window_fn, over_columns = OWN[name]

    def build(rows: Any) -> Any:
        windowed = rows | beam.WindowInto(window_fn)
        pairs = [
            windowed | name >> beam.Map(PAIRS[name]) for name in ("text by text", "row by int")
        ]
        groups = [some | f"group {at}" >> beam.GroupByKey() for at, some in enumerate(pairs)]
        numbers = windowed | "number" >> beam.Map(lambda row: (row.sensor, row.number))
        sums = numbers | beam.CombinePerKey(sum) | beam.MapTuple(lambda key, total: (key, [total]))
        everything = (*groups, sums, windowed | beam.Map(lambda row: (row, [])))
        return everything | beam.Flatten() | "seen" >> beam.Map(with_window)

    with limits(2 if small else 0):
        found = run(build)
    assert found == run(build, None, "--columns=off")
    if not small:
        assert bool(blocks) is over_columns
        assert all(block.column is not None for block in blocks)


@pytest.mark.part(4)
@pytest.mark.parametrize("pair", PAIRS)
def test_groups_of_keys_and_values(pair: str, blocks: list[Block]) -> None:
    build = grouped(PAIRS[pair], FixedWindows(5))
    over_columns = run(build)
    # Keys of classes stay objects.
    assert bool(blocks) is (pair != "int by Key")
    assert all(block.column is not None for block in blocks)
    assert over_columns == run(build, FnApiRunner())


def joined(rows: Any) -> Any:
    rows = rows | beam.WindowInto(FixedWindows(5))
    one = rows | "one" >> beam.Map(lambda row: (row.sensor, row.number))
    other = (
        rows
        | "some" >> beam.Filter(lambda row: row.number == 7)
        | "other" >> beam.Map(lambda row: (row.sensor, (row.value, row.maybe)))
    )
    nothing = (
        rows
        | "none" >> beam.Filter(lambda row: row.number == 8)
        | "nothing" >> beam.Map(lambda row: (row.sensor, row.value))
    )
    return {"one": one, "other": other, "": nothing} | beam.CoGroupByKey()


def as_tuple(rows: Any) -> Any:
    one = rows | "one" >> beam.Map(lambda row: (row.sensor, row.number))
    other = rows | "other" >> beam.Map(lambda row: (row.sensor, row.value))
    return (one, other, one) | beam.CoGroupByKey()


def with_elements(rows: Any) -> Any:
    one = rows | "one" >> beam.Map(lambda row: (row.number, row.sensor))
    other = rows.pipeline | beam.Create([(7, "x"), (8, "y"), (0, None)])
    other = other | "times" >> beam.Map(lambda pair: TimestampedValue(pair, 1))
    return {"one": one, "other": other} | beam.CoGroupByKey()


@pytest.mark.parametrize("build", [joined, as_tuple, with_elements])
def test_groups_of_several_tags(build: Callable[[Any], Any]) -> None:
    compare(lambda rows: build(rows) | beam.Map(tagged_in_no_order))


def matched(key: str, group: dict[str, Any]) -> Iterator[Any]:
    for value, maybe in group["other"]:
        for number in group["one"]:
            if number >= 0:
                yield key, number, value, maybe, len(group[""])


def in_tuples(key: str, groups: tuple[list[int], list[float]]) -> Iterator[Any]:
    numbers, values = groups[0], groups[1]
    for number in numbers:
        for value in values:
            yield key, number, value


def two(rows: Any) -> Any:
    rows = rows | beam.WindowInto(FixedWindows(2))
    one = rows | "one" >> beam.Map(lambda row: (row.sensor, row.number))
    other = rows | "other" >> beam.Map(lambda row: (row.sensor, row.maybe))
    return (one, other) | beam.CoGroupByKey() | beam.FlatMapTuple(in_tuples)


def numbers(rows: Any) -> Any:
    pairs = rows | "pair" >> beam.Map(lambda row: (row.sensor, row.number))
    return pairs | beam.WindowInto(SlidingWindows(10, 5)) | beam.GroupByKey()


def in_lists(pair: tuple[Any, Iterable[Iterable[Any]]]) -> Any:
    return pair[0], sorted(sorted(map(repr, values)) for values in pair[1])


CONSUMERS: dict[str, Callable[[Any], Any]] = {
    "loops": lambda rows: joined(rows) | beam.FlatMapTuple(matched),
    "loops through tuples": two,
    "length": lambda rows: numbers(rows) | beam.Map(lambda kv: (kv[0], len(list(kv[1])))),
    "sums": lambda rows: numbers(rows) | beam.MapTuple(lambda k, vs: (k, sum(vs), max(vs))),
    "filter": lambda rows: (
        numbers(rows) | beam.Filter(lambda kv: len(kv[1]) > 3) | beam.Map(in_no_order)
    ),
    "handed on": lambda rows: (
        numbers(rows) | beam.Map(lambda kv: kv) | beam.Reshuffle() | beam.Map(in_no_order)
    ),
    "grouped again": lambda rows: (
        numbers(rows)
        | beam.Map(lambda kv: (len(kv[1]), kv[0]))
        | "again" >> beam.GroupByKey()
        | beam.Map(in_no_order)
    ),
    "sessions grouped again": lambda rows: (
        rows
        | beam.WindowInto(Sessions(0.2))
        | "first" >> beam.Map(lambda row: ((row.sensor, row.number), row.number))
        | beam.GroupByKey()
        | "fewer keys" >> beam.Map(lambda kv: (len(kv[1]) % 2, kv[0][1]))
        | "again" >> beam.GroupByKey()
        | "seen" >> beam.Map(with_window)
    ),
    "grouped again as lists": lambda rows: (
        numbers(rows)
        | beam.Map(lambda kv: (1, kv[1]))
        | "again" >> beam.GroupByKey()
        | beam.Map(in_lists)
    ),
    "combined": lambda rows: (
        numbers(rows) | beam.Map(lambda kv: (kv[0], sum(kv[1]))) | beam.CombinePerKey(max)
    ),
    "by a side input": lambda rows: (
        numbers(rows)
        | beam.Map(
            lambda kv, most: (kv[0], len(kv[1]) < most),
            beam.pvalue.AsSingleton(rows.pipeline | beam.Create([5])),
        )
    ),
}


@pytest.mark.parametrize("build", CONSUMERS.values(), ids=CONSUMERS)
def test_functions_of_groups(build: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[bool] = []
    over = ColumnFunction.over

    def watched(self: ColumnFunction, block: Block, *more: Any, **named: Any) -> Block | None:
        found = over(self, block, *more, **named)
        if block.column is not None and "Lists(" in repr(block.column.shape):
            taken.append(found is not None)
        return found

    monkeypatch.setattr(ColumnFunction, "over", watched)
    over_columns = run(build)
    assert any(taken)
    monkeypatch.undo()
    assert over_columns == run(build, None, "--columns=off")
    assert over_columns == run(build, FnApiRunner())


def test_groups_of_which_a_tag_has_values_of_several_types() -> None:
    def build(rows: Any) -> Any:
        ints = rows | "ints" >> beam.Map(lambda row: (row.sensor, row.number))
        texts = rows | "texts" >> beam.Map(lambda row: (row.sensor, row.sensor))
        return (ints, texts) | beam.Flatten() | beam.GroupByKey() | beam.Map(in_no_order)

    compare(build)


@pytest.mark.parametrize("windowing", [GlobalWindows(), SlidingWindows(10, 5)])
def test_columns_that_nobody_takes(windowing: Any) -> None:
    def build(rows: Any) -> Any:
        rows = rows | beam.WindowInto(windowing)
        _ = rows | "nobody" >> beam.Map(lambda row: row.number)
        pairs = rows | "pair" >> beam.Map(lambda row: (row.sensor, row.number))
        return pairs | beam.GroupByKey() | beam.Map(in_no_order)

    compare(build)


def test_groups_are_columns(blocks: list[Block]) -> None:
    run(grouped(PAIRS["text by text"], FixedWindows(5)))
    shapes = {block.column.shape for block in blocks if block.column is not None}
    (shape,) = shapes
    assert isinstance(shape, RecordShape)
    assert isinstance(shape.fields[1], Lists)


@pytest.mark.parametrize("windowing", [SlidingWindows(40, 2), FixedWindows(1)])
def test_elements_go_to_few_of_their_windows_at_once(
    windowing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All copies of an element would take much memory where it has many windows."""
    most: list[int] = []

    def noted(some: Any, spans: pa.Array) -> Any:
        most.append(len(spans))
        return with_spans(some, spans)

    with_spans = group_packs._with_spans
    monkeypatch.setattr(group_packs, "_with_spans", noted)
    monkeypatch.setattr(group_packs, "column_rows", lambda *_: 200)
    compare(grouped(PAIRS["text by text"], windowing))
    assert max(most) <= 200


@pytest.mark.parametrize("windowing", [GlobalWindows(), FixedWindows(5)])
def test_large_groups_stay_as_they_were(
    windowing: Any, monkeypatch: pytest.MonkeyPatch, blocks: list[Block]
) -> None:
    """They travel in rows of their own, and buckets are read in parts."""
    monkeypatch.setattr(group_packs, "_LARGE", 60)
    monkeypatch.setattr(group_packs, "_MOST_WAITING", 2000)
    monkeypatch.setattr(group_pack_reader, "LIST_BYTES", 120)
    monkeypatch.setattr(key_packs, "_MUCH", 0)
    monkeypatch.setattr(key_packs, "_BUCKETS", 2)
    monkeypatch.setattr(key_packs, "_WHOLE_BYTES", 100)
    monkeypatch.setattr(key_packs, "_MOST_BYTES", 300)
    monkeypatch.setattr(key_packs, "CELL_BYTES", 64)
    compare(grouped(PAIRS["text by text"], windowing))
    assert any(block.column is None for block in blocks)
