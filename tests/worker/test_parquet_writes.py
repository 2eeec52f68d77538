"""Beam's own writing of Parquet: out of columns it writes what it writes of elements."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue
from hypothesis import given
from hypothesis import strategies as st
from in_process_batch import BatchRunner

from sparkbeam.columns import FallBack
from sparkbeam.columns.arrays import array_of, arrays_of_dicts
from sparkbeam.columns.python_types import shape_in_arrow
from sparkbeam.columns.python_values import values_of
from sparkbeam.operators import registry
from sparkbeam.operators.dofn import DoFnOperation
from sparkbeam.operators.parquet_writes import TablesOperation

INNER = pa.struct([("first", pa.string()), ("last", pa.int64())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("ratio", pa.float64()),
        ("at", pa.timestamp("us", "UTC")),
        ("cost", pa.decimal128(9, 2)),
        ("tags", pa.list_(pa.string())),
        ("who", INNER),
        ("missing", pa.int32()),
    ]
)


def written(count: int) -> pa.Table:
    rows = [
        {
            "id": at,
            "name": None if at % 5 == 0 else f"n{at}",
            "ratio": at / 3,
            "at": datetime.fromtimestamp(at, UTC),
            "cost": Decimal(at) / 4,
            "tags": [str(at)] * (at % 3),
            "who": {"first": "x", "last": at},
        }
        for at in range(count)
    ]
    return pa.Table.from_pylist(rows, pa.schema(list(SCHEMA)[:-1]))


Build = Callable[[Any, str], Any]


def as_they_are(schema: pa.Schema, **more: Any) -> Build:
    return lambda rows, to: rows | beam.io.WriteToParquet(to, schema, **more)


def of_functions(rows: Any, to: str) -> Any:
    few = rows | beam.Filter(lambda row: row["id"] % 3 == 0)
    made = few | beam.Map(lambda row: {"id": row["id"] * 2, "name": row["name"]})
    return made | beam.io.WriteToParquet(to, SCHEMA, record_batch_size=100)


def in_windows(window_fn: Any) -> Build:
    def build(rows: Any, to: str) -> Any:
        stamped = rows | beam.Map(lambda row: TimestampedValue({"id": row["id"]}, row["id"] % 7))
        return stamped | beam.WindowInto(window_fn) | beam.io.WriteToParquet(to, SCHEMA)

    return build


def refused_in_between(rows: Any, to: str) -> Any:
    made = rows | beam.Map(lambda row: {"id": row["id"], "missing": row["id"] * 5_000_000})
    few = made | beam.Filter(lambda row: row["missing"] < 2**31)
    return few | beam.io.WriteToParquet(to, SCHEMA)


class Sale(NamedTuple):
    id: int
    name: str


def of_rows(rows: Any, to: str) -> Any:
    sales = rows | beam.Map(lambda row: Sale(row["id"], row["name"] or "")).with_output_types(Sale)
    return sales | beam.io.WriteToParquet(to)


OF_SALES = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Tables(beam.DoFn):
    @beam.DoFn.yields_elements
    def process_batch(self, batch: pa.Table) -> Any:
        yield pa.table(batch.columns, schema=OF_SALES)


def batched(rows: Any, to: str) -> Any:
    sales = rows | beam.Map(lambda row: Sale(row["id"], row["name"] or "")).with_output_types(Sale)
    tables = sales | beam.ParDo(Tables()).with_output_types(pa.Table)
    return tables | beam.io.WriteToParquetBatched(to, OF_SALES)


BUILDS: dict[str, Build] = {
    "as they are": as_they_are(SCHEMA),
    "row groups": as_they_are(SCHEMA, row_group_buffer_size=1, record_batch_size=130),
    "small batches": as_they_are(SCHEMA, row_group_buffer_size=4000, record_batch_size=7),
    "one shard": as_they_are(SCHEMA, num_shards=1),
    "other types": as_they_are(pa.schema([("id", pa.float32()), ("name", pa.binary())])),
    "missing": as_they_are(pa.schema([pa.field("gone", pa.int64(), nullable=False)])),
    "no room": as_they_are(pa.schema([("id", pa.int8())])),
    "of functions": of_functions,
    "fixed windows": in_windows(FixedWindows(3)),
    "sliding windows": in_windows(SlidingWindows(6, 3)),
    "refused in between": refused_in_between,
}
OF_ROWS: dict[str, Build] = {"of rows": of_rows, "batched": batched}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[Any]]:
    """What stands in the files that a pipeline writes, or how it fails."""
    source = tmp_path / "source.parquet"
    pq.write_table(written(1000), source, row_group_size=300)

    def run(build: Build, folder: str) -> list[Any]:
        to = tmp_path / folder
        p = beam.Pipeline(BatchRunner())
        _ = build(p | beam.io.ReadFromParquet(str(source)), str(to / "part"))
        try:
            p.run().wait_until_finish()
        except Exception as error:
            return [type(error), type(error.__cause__)]
        return [of_file(file) for file in sorted(to.iterdir())]

    return run


def of_file(path: Path) -> Any:
    file = pq.ParquetFile(path)
    groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    rows = file.read().to_pylist()
    return path.name, file.schema_arrow, groups, sorted(map(repr, rows))


@pytest.mark.part(5)
@pytest.mark.parametrize("name", [*BUILDS, *OF_ROWS])
def test_files_of_columns_are_those_of_elements(
    name: str, run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = (BUILDS | OF_ROWS)[name]
    files = run(build, "columns")
    monkeypatch.setattr(registry, "OPERATORS", registry.ELEMENTWISE)
    expected = run(build, "elements")
    if name in OF_ROWS:  # A batch is a row group, and of as many rows as happen to be in it.
        files, expected = [[f[3] for f in some] for some in (files, expected)]
    assert files
    assert files == expected


@pytest.mark.blocks(reason="Beam's own operations get no columns")
@pytest.mark.parametrize("name", ["as they are", "row groups", "of functions", "fixed windows"])
def test_no_dict_is_made(
    name: str, run: Callable[..., list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []
    of_dofn = DoFnOperation.process_block

    def process_block(self: Any, block: Any) -> None:
        calls.append(isinstance(self, TablesOperation))
        of_dofn(self, block)

    monkeypatch.setattr(DoFnOperation, "process_block", process_block)
    run(BUILDS[name], "columns")
    assert True not in calls


LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.float64(), st.floats()),
    (pa.float32(), st.floats(width=32)),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    (pa.large_binary(), st.binary()),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("ns", "UTC"), st.integers(0, 2**62)),
    (pa.time64("ns"), st.integers(0, 86_399_999_999_999)),
    (pa.duration("us"), st.timedeltas(timedelta(-9), timedelta(9))),
    (pa.null(), st.none()),
]


def fields() -> st.SearchStrategy[tuple[pa.DataType, st.SearchStrategy[Any]]]:
    def wider(of: Any) -> Any:
        lists = of.map(lambda one: (pa.list_(one[0]), st.lists(one[1] | st.none(), max_size=3)))
        structs = of.map(
            lambda one: (
                pa.struct([("a", one[0]), ("b", pa.int64())]),
                st.fixed_dictionaries({"a": one[1] | st.none(), "b": st.integers(0, 9)}),
            )
        )
        maps = of.map(
            lambda one: (
                pa.map_(pa.string(), one[0]),
                st.lists(st.tuples(st.just("k"), one[1] | st.none()), max_size=3),
            )
        )
        return lists | structs | maps

    return st.recursive(st.sampled_from(LEAVES), wider, max_leaves=3)


@given(st.data())
def test_an_array_is_what_arrow_makes_of_the_values(data: st.DataObject) -> None:
    kind, values = data.draw(fields())
    to = data.draw(st.just(kind) | fields().map(lambda one: one[0]))
    array = pa.array(data.draw(st.lists(values | st.none(), max_size=5)), kind)
    shape = shape_in_arrow(kind)
    try:
        made = array_of(array, shape, to)
    except FallBack:
        return
    expected = pa.array(values_of(array, shape), to)
    assert made.type == expected.type
    assert repr(made.to_pylist()) == repr(expected.to_pylist())


def test_missing_items_of_dicts_are_null_where_they_may_be() -> None:
    array = pa.array([{"id": 1}, {"id": 2}])
    shape = shape_in_arrow(array.type)
    schema = pa.schema([SCHEMA.field("id"), SCHEMA.field("missing")])
    ids, missing = arrays_of_dicts(array, shape, schema)
    assert ids.to_pylist() == [1, 2]
    assert missing.to_pylist() == [None, None]
    with pytest.raises(FallBack):
        arrays_of_dicts(array, shape, pa.schema([pa.field("x", pa.int64(), nullable=False)]))
