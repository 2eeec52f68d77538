"""DoFns of batches over columns: what they get and make is what Beam makes of elements."""

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.dataframe.transforms import DataframeTransform
from apache_beam.transforms.window import FixedWindows, SlidingWindows, TimestampedValue
from apache_beam.typehints.batch import BatchConverter, NumpyArray
from apache_beam.typehints.row_type import RowTypeConstraint
from elementwise import as_elements
from hypothesis import given
from hypothesis import strategies as st
from in_process_batch import BatchRunner
from noting import found, note
from physical import FORMS

from sparkbeam.columns import FallBack, RecordShape, Scalar, Shape
from sparkbeam.columns.batches import batch_of, elements_of
from sparkbeam.columns.python_values import values_of
from sparkbeam.operators import batches
from sparkbeam.worker.steps.column_functions import ColumnFunction


class Sale(NamedTuple):
    shop: str
    price: int
    ratio: float
    paid: bool


class Total(NamedTuple):
    shop: str
    price: int


class Doubled(beam.DoFn):
    """Tables to tables."""

    def process_batch(self, batch: pa.Table) -> Iterator[pa.Table]:
        prices = pa.array([2 * price for price in batch["price"].to_pylist()], pa.int64())
        yield batch.select(["shop"]).append_column("price", prices)

    def infer_output_type(self, input_type: Any) -> Any:
        return Total


class DoubledInPandas(beam.DoFn):
    """DataFrames to DataFrames, in place."""

    def process_batch(self, batch: pd.DataFrame) -> Iterator[pd.DataFrame]:
        batch["price"] *= 2
        yield batch[["shop", "price"]]
        batch["price"] = 0

    def infer_output_type(self, input_type: Any) -> Any:
        return Total


class Halved(beam.DoFn):
    """Arrays to arrays."""

    def process_batch(self, batch: np.ndarray) -> Iterator[np.ndarray]:
        batch //= 2
        yield batch

    def get_input_batch_type(self, input_type: Any) -> Any:
        return NumpyArray[np.int64]

    def get_output_batch_type(self, input_type: Any) -> Any:
        return NumpyArray[np.int64]

    def infer_output_type(self, input_type: Any) -> Any:
        return np.int64


class Lengths(beam.DoFn):
    """Series of text to elements."""

    @beam.DoFn.yields_elements
    def process_batch(self, batch: pd.Series) -> Iterator[int]:
        yield from (len(text) for text in batch)


class Words(beam.DoFn):
    """Arrow's arrays to lists."""

    def process_batch(self, batch: pa.Array) -> Iterator[list[str]]:
        yield [text * 2 for text in batch.to_pylist()]

    def infer_output_type(self, input_type: Any) -> Any:
        return str


class Either(beam.DoFn):
    """Elements or batches."""

    def process(self, element: int) -> Iterator[int]:
        yield element + 1

    def process_batch(self, batch: np.ndarray) -> Iterator[np.ndarray]:
        yield batch + 1

    def infer_output_type(self, input_type: Any) -> Any:
        return int


class Raising(beam.DoFn):
    def process_batch(self, batch: pa.Table) -> Iterator[pa.Table]:
        raise ValueError("no such batch")

    def infer_output_type(self, input_type: Any) -> Any:
        return Total


class RowsOfTables(beam.DoFn):
    """Tables that are elements to batches of rows."""

    @beam.DoFn.yields_batches
    def process(self, element: pa.Table) -> Iterator[pa.Table]:
        yield element.select(["shop", "price"])

    def infer_output_type(self, input_type: Any) -> Any:
        return Total


def sales(count: int) -> pa.Table:
    choice = random.Random(5)
    return pa.table(
        {
            "shop": pa.array([choice.choice(["ann", "zoë", ""]) for _ in range(count)]),
            "price": pa.array([choice.randrange(-9, 9) for _ in range(count)], pa.int64()),
            "ratio": pa.array([choice.choice([0.5, -0.0, math.nan]) for _ in range(count)]),
            "paid": pa.array([at % 2 == 0 for at in range(count)]),
            "second": pa.array([at % 7 for at in range(count)], pa.int64()),
        }
    )


def typed(rows: Any, fields: Callable[[Any], Any], kind: Any) -> Any:
    return rows | "typed" >> beam.Map(fields).with_output_types(kind)


def of_sales(rows: Any) -> Any:
    return typed(rows, lambda row: Sale(row.shop, row.price, row.ratio, row.paid), Sale)


def stamped(rows: Any) -> Any:
    return rows | beam.Map(
        lambda row: TimestampedValue(Total(row.shop, row.price), row.second)
    ).with_output_types(Total)


PIPELINES: dict[str, Callable[[Any], Any]] = {
    "tables": lambda rows: of_sales(rows) | beam.ParDo(Doubled()),
    "frames": lambda rows: of_sales(rows) | beam.ParDo(DoubledInPandas()),
    "then a function": lambda rows: (
        of_sales(rows) | beam.ParDo(Doubled()) | beam.Map(lambda total: (total.shop, total))
    ),
    "then a combine": lambda rows: (
        of_sales(rows)
        | beam.ParDo(DoubledInPandas())
        | beam.Map(lambda total: (total.shop, total.price))
        | beam.CombinePerKey(sum)
    ),
    "passed on": lambda rows: (
        of_sales(rows) | beam.ParDo(Doubled()) | "again" >> beam.ParDo(Doubled())
    ),
    "made anew": lambda rows: (
        of_sales(rows) | beam.ParDo(Doubled()) | beam.ParDo(DoubledInPandas())
    ),
    "read by two": lambda rows: (
        (of_sales(rows) | beam.ParDo(Doubled()))
        | beam.FlatMap(lambda total: [total, total])
        | beam.Map(lambda total: total.price)
    ),
    "in numpy": lambda rows: (
        typed(rows, lambda row: row.price, int)
        | beam.ParDo(Halved())
        | beam.Map(lambda number: (type(number).__name__, number))
    ),
    "in a Series": lambda rows: typed(rows, lambda row: row.shop, str) | beam.ParDo(Lengths()),
    "in an array": lambda rows: (
        typed(rows, lambda row: row.shop, str) | beam.ParDo(Words()) | beam.Map(lambda text: text)
    ),
    "either": lambda rows: typed(rows, lambda row: row.price, int) | beam.ParDo(Either()),
    "stamped": lambda rows: stamped(rows) | beam.ParDo(Doubled()),
    "in windows": lambda rows: (
        stamped(rows)
        | beam.WindowInto(FixedWindows(3))
        | beam.ParDo(Doubled())
        | beam.Map(lambda total: (total.shop, total.price))
        | beam.CombinePerKey(sum)
    ),
    "in sliding windows": lambda rows: (
        stamped(rows) | beam.WindowInto(SlidingWindows(6, 3)) | beam.ParDo(DoubledInPandas())
    ),
    "filtered": lambda rows: (
        of_sales(rows) | beam.Filter(lambda sale: sale.price == 3) | beam.ParDo(Doubled())
    ),
    "elements": lambda rows: (
        rows
        | beam.Map(lambda row: Total(min(row.shop, str(row)), row.price)).with_output_types(Total)
        | beam.ParDo(Doubled())
    ),
    "rows in frames": lambda rows: (
        rows
        | beam.Select("shop", price=lambda row: row.price + 1, half=lambda row: row.ratio / 2)
        | DataframeTransform(lambda frame: frame[frame.price > 0])
        | beam.Map(lambda row: (row.shop, row.price, row.half))
    ),
    "declared rows in frames": lambda rows: (
        typed(
            rows,
            lambda row: beam.Row(shop=row.shop, price=row.price),
            RowTypeConstraint.from_fields([("shop", str), ("price", int)]),
        )
        | DataframeTransform(lambda frame: frame.groupby("shop").sum(), include_indexes=True)
        | beam.Map(lambda row: (row.shop, row.price))
    ),
    "raised": lambda rows: of_sales(rows) | beam.ParDo(Raising()),
}


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., list[str]]:
    """What comes out of a pipeline over the rows of files."""
    some = sales(1000)
    pq.write_table(some.slice(0, 600), tmp_path / "a.parquet", row_group_size=250)
    pq.write_table(some.slice(600), tmp_path / "b.parquet")

    def run(build: Callable[[Any], Any], reading: Any = None) -> list[str]:
        found.clear()
        p = beam.Pipeline(BatchRunner())
        files = str(tmp_path / "*.parquet")
        rows = p | (reading or beam.io.ReadFromParquet)(
            files, **({} if reading else {"as_rows": True})
        )
        _ = build(rows) | "note" >> beam.Map(note)
        try:
            p.run().wait_until_finish()
        except Exception as error:
            return [f"{type(error).__name__}: {error}".splitlines()[0]]
        return sorted(map(repr, found))

    return run


def watched(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[bool]:
    """For each call of a function: whether it gave something."""
    calls: list[bool] = []
    function = getattr(owner, name)

    def called(*args: Any) -> Any:
        try:
            result = function(*args)
        except FallBack:
            calls.append(False)
            raise
        calls.append(result is not None)
        return result

    monkeypatch.setattr(owner, name, called)
    return calls


@pytest.mark.part(4)
@pytest.mark.filterwarnings("ignore:Input to operation")
@pytest.mark.parametrize("name", PIPELINES)
def test_batches_over_columns_are_those_of_beam(
    name: str, run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = PIPELINES[name]
    results = run(build)
    assert results
    assert results == as_elements(monkeypatch, lambda: run(build))


BLOCKS = pytest.mark.blocks(reason="Beam's own operations get no columns")


@BLOCKS
@pytest.mark.parametrize(
    ("name", "taken", "made"),
    [
        ("then a function", True, True),
        ("then a combine", True, True),
        ("made anew", True, True),
        ("in windows", True, True),
        ("filtered", True, True),
        ("in numpy", True, False),
        ("in a Series", True, None),
        ("in an array", True, False),
        ("either", None, None),
        ("elements", None, True),
        ("rows in frames", True, True),
        ("declared rows in frames", True, False),
    ],
)
def test_batches_are_made_of_columns_and_columns_of_batches(
    name: str,
    taken: bool | None,
    made: bool | None,
    run: Callable[..., list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    takes = watched(monkeypatch, batches, "batch_of")
    makes = watched(monkeypatch, batches, "elements_of")
    run(PIPELINES[name])
    assert set(takes) == ({taken} if taken is not None else set())
    assert set(makes) == ({made} if made is not None else set())


class Sizes(beam.DoFn):
    @beam.DoFn.yields_elements
    def process_batch(self, batch: pa.Table) -> Iterator[int]:
        yield batch.num_rows


@BLOCKS
def test_what_is_left_of_columns_makes_large_batches(run: Callable[..., list[str]]) -> None:
    def build(rows: Any) -> Any:
        few = of_sales(rows) | beam.Filter(lambda sale: sale.price % 6 == 0)
        return few | beam.ParDo(Sizes()) | beam.Map(lambda size: size)

    run(build)
    sizes = [number for number, *_ in found]
    # There is one bundle to a file, and each has its row groups.
    assert len(sizes) == 2
    assert sum(sizes) == sum(price % 6 == 0 for price in sales(1000)["price"].to_pylist())


@BLOCKS
def test_rows_of_tables_are_columns_for_what_follows(
    run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(tables: Any) -> Any:
        rows = tables | beam.ParDo(RowsOfTables())
        pairs = rows | beam.Map(lambda row: (row.shop, row.price * 2))
        return pairs | beam.CombinePerKey(sum)

    evaluated = watched(monkeypatch, ColumnFunction, "over")
    results = run(build, beam.io.ReadFromParquetBatched)
    assert evaluated.count(True) >= 4
    assert results == as_elements(monkeypatch, lambda: run(build, beam.io.ReadFromParquetBatched))


@BLOCKS
def test_a_dofn_gets_the_very_tables_that_were_read(
    run: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Whole(beam.DoFn):
        @beam.DoFn.yields_elements
        def process_batch(self, batch: pa.Table) -> Iterator[str]:
            yield f"{batch.num_rows} {batch.schema}"

    results = run(lambda rows: rows | beam.ParDo(Whole()))
    assert results == as_elements(monkeypatch, lambda: run(lambda rows: rows | beam.ParDo(Whole())))


# Of single batches.

INT, FLOAT, BOOL, STR, BYTES = map(Scalar, (int, float, bool, str, bytes))
ARRAYS: list[tuple[Shape, pa.DataType, st.SearchStrategy[Any]]] = [
    (INT, pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (INT, pa.uint64(), st.integers(0, 2**64 - 1)),
    (INT, pa.int8(), st.integers(-128, 127)),
    (FLOAT, pa.float64(), st.floats()),
    (FLOAT, pa.float32(), st.floats(width=32)),
    (BOOL, pa.bool_(), st.booleans()),
    (STR, pa.string(), st.text(st.characters(exclude_categories=["Cs"]))),
    (BYTES, pa.binary(), st.binary()),
]
HINTS = [
    *(int, float, bool, str, bytes, np.int8, np.int32, np.float32),
    *(int | None, float | None, bool | None, str | None, bytes | None),
    Any,
]
BATCHES = [pa.Array, pa.Table, pd.Series, pd.DataFrame, np.ndarray]


@st.composite
def columns(draw: st.DrawFn) -> tuple[pa.Array, Shape]:
    shape, kind, values = draw(st.sampled_from(ARRAYS))
    if draw(st.booleans()):
        values |= st.none()
    make = draw(st.sampled_from([pa.array, *FORMS.values()]))
    return make(draw(st.lists(values, min_size=1, max_size=6)), kind), shape


def converter_of(hint: Any, kind: Any) -> BatchConverter[Any, Any] | None:
    of_rows = kind in (pa.Table, pd.DataFrame)
    element = RowTypeConstraint.from_fields([("one", hint)]) if of_rows else hint
    try:
        return BatchConverter.from_typehints(element_type=element, batch_type=kind)
    except (TypeError, ValueError, NotImplementedError):
        return None


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, pa.Table):
        return left.schema.equals(right.schema, check_metadata=True) and repr(
            left.to_pylist()
        ) == repr(right.to_pylist())
    if isinstance(left, pa.Array):
        return left.type == right.type and repr(left.to_pylist()) == repr(right.to_pylist())
    if isinstance(left, pd.DataFrame):
        pd.testing.assert_frame_equal(left, right)
    elif isinstance(left, pd.Series):
        pd.testing.assert_series_equal(left, right)
    else:
        assert left.dtype == right.dtype
        assert left.flags.writeable
    return repr(left) == repr(right)


def test_none_among_the_values_of_a_dictionary_is_none() -> None:
    array = pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([None], pa.int64()))
    converter = converter_of(int, np.ndarray)
    assert converter is not None
    with pytest.raises(FallBack):
        batch_of(converter, array, INT)


@given(columns(), st.sampled_from(HINTS), st.sampled_from(BATCHES), st.booleans())
def test_a_batch_of_a_column_is_that_of_its_values(
    column: tuple[pa.Array, Shape], hint: Any, kind: Any, of_rows: bool
) -> None:
    array, shape = column
    converter = converter_of(hint, kind)
    if converter is None:
        return
    if kind in (pa.Table, pd.DataFrame):
        rows = beam.Row if of_rows else converter.element_type.user_type
        array, shape = (
            pa.StructArray.from_arrays([array], ["one"]),
            RecordShape(rows, ("one",), (shape,)),
        )
    try:
        batch = batch_of(converter, array, shape)
    except FallBack:
        return
    assert same(batch, converter.produce_batch(values_of(array, shape)))


SERIES = st.sampled_from(
    [
        *((st.integers(-128, 127), dtype) for dtype in ("int8", "int64", "Int64", "object")),
        *((st.floats(width=32), dtype) for dtype in ("float32", "float64", "object")),
        *((st.booleans(), dtype) for dtype in ("bool", "boolean", "object")),
        *((st.none() | values, "object") for values in (st.booleans(), st.integers(), st.floats())),
        *((st.none() | st.text(), dtype) for dtype in ("object", "string")),
        *((st.none() | values, "object") for values in (st.binary(), st.just(math.nan))),
        (st.just(pd.NA) | st.text(), "object"),
        (st.just(pd.Timestamp(1)), "datetime64[ns]"),
    ]
)


@given(st.data(), st.sampled_from(HINTS), st.booleans())
def test_the_elements_of_a_batch_are_those_that_beam_takes_out_of_it(
    data: st.DataObject, hint: Any, of_rows: bool
) -> None:
    values, dtype = data.draw(SERIES)
    series = pd.Series(data.draw(st.lists(values, max_size=6)), dtype=dtype)
    converter = converter_of(hint, pd.DataFrame if of_rows else pd.Series)
    assert converter is not None
    batch: Any = pd.DataFrame({"other": series}) if of_rows else series
    try:
        elements = elements_of(converter, batch)
    except FallBack:
        return
    given = [value for array in elements.arrays for value in values_of(array, elements.shape)]
    expected = list(converter.explode_batch(batch))
    assert repr(given) == repr(expected)
    assert [*map(type, given)] == [*map(type, expected)]
    if of_rows:
        assert [type(row.one) for row in given] == [type(row.one) for row in expected]


@pytest.mark.parametrize("names", [["shop", "price"], ["price", "shop"], ["shop"]])
def test_tables_of_other_columns_are_taken_by_their_places(names: list[str]) -> None:
    converter = BatchConverter.from_typehints(element_type=Total, batch_type=pa.Table)
    batch = sales(3).select(names)
    try:
        elements = elements_of(converter, batch)
    except FallBack:
        assert len(names) == 1
        return
    (array,) = elements.arrays
    assert values_of(array, elements.shape) == list(converter.explode_batch(batch))
