"""What workers make of columns is the same whichever form Arrow holds the values in."""

import math
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.pvalue import Row
from apache_beam.transforms.core import CombineFn
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from physical import FORMS, Make

from sparkbeam.accumulators.choices import choice_of
from sparkbeam.accumulators.inputs import input_of
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.columns import FallBack, shape_of
from sparkbeam.columns.arrays import array_of
from sparkbeam.columns.python_types import RecordShape, Shape, arrow_type_of
from sparkbeam.columns.python_values import values_of
from sparkbeam.columns.vectors import as_counted
from sparkbeam.plan.arrow_batches import ElementsOfBatches
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.row_formats.column_cells import ColumnCoder
from sparkbeam.worker.row_formats.encoded_keys import EncodedKeys
from sparkbeam.worker.row_formats.pairs import distinct
from sparkbeam.worker.row_formats.row_cells import RowCells
from sparkbeam.worker.value_columns import column_of


class Pair(NamedTuple):
    a: Any
    b: Any


ANY = coders.FastPrimitivesCoder()
FNS: dict[str, Any] = {"sum": sum, "min": min, "max": max, "any": any, "all": all}
VALUES: dict[str, tuple[list[Any], pa.DataType]] = {
    "texts": (["Ab", "", "zo\u00eb", "Ab", "a\x00", "Ab" * 40], pa.string()),
    "bytes": ([b"Ab", b"", b"\xff", b"Ab", b"\x00"], pa.binary()),
    "ints": ([5, -7, 2**63 - 1, 5, 0], pa.int64()),
    "small ints": ([5, 1, 7, 5, 0], pa.int64()),
    "floats": ([0.5, -0.0, 0.0, math.inf, 0.5, math.nan], pa.float64()),
    "bools": ([True, False, True, True], pa.bool_()),
}
CODERS = {
    "texts": coders.StrUtf8Coder(),
    "bytes": coders.BytesCoder(),
    "ints": coders.VarIntCoder(),
    "small ints": coders.VarIntCoder(),
    "floats": coders.FloatCoder(),
    "bools": coders.BooleanCoder(),
}


def with_none(values: list[Any]) -> list[Any]:
    return [None, *values[:2], None, *values[2:]]


def made(name: str, form: str, *, has_none: bool) -> tuple[list[Any], pa.Array, Shape]:
    values, kind = VALUES[name]
    values = with_none(values) if has_none else values
    make: Make = FORMS[form]
    return values, as_counted(make(values, kind)), shape_of(kind)


def told(values: Any) -> list[str]:
    return [f"{type(value).__name__} {value!r}" for value in values]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("has_none", [False, True])
def test_keys_are_found_and_encoded(form: str, has_none: bool) -> None:
    for name in VALUES:
        values, array, shape = made(name, form, has_none=has_none)
        found = distinct(array, shape)
        assert found is not None
        keys = found[0].values()
        assert told(keys[at] for at in found[1].tolist()) == told(values)
        assert sorted({*found[1].tolist()}) == list(range(len(keys)))
        each = told(keys)
        assert len(set(each)) == len(each)
        for coder in (ANY, *([] if has_none else [CODERS[name]])):
            encode = coder.get_impl().encode_nested
            encoded = EncodedKeys(coder).of(array, shape)
            assert encoded.to_pylist() == list(map(encode, values))


@pytest.mark.parametrize("has_none", [False, True])
def test_cells_hold_the_values(form: str, has_none: bool) -> None:
    for name in VALUES:
        values, array, shape = made(name, form, has_none=has_none)
        pair = pa.StructArray.from_arrays([array, array], ["0", "1"])
        of_pair = RecordShape(tuple, ("0", "1"), (shape, shape))
        for column, kind, expected in (
            (array, shape, values),
            (pair, of_pair, list(zip(values, values, strict=True))),
        ):
            cells = RowCells(ANY).encode(column, kind)
            assert cells is not None
            rows: dict[int, Any] = {}
            for part, places in RowCells(ANY).decode(cells):
                at = range(len(column)) if places is None else places.tolist()
                rows |= zip(at, part.values(), strict=True)
            assert told(rows[at] for at in range(len(column))) == told(expected)
            coder = ColumnCoder(coders.WindowedValueCoder(ANY, coders.GlobalWindowCoder()))
            template = WindowedValue(None, Timestamp(5), (GlobalWindow(),))
            block = Block(template, column_of(column, kind))
            assert told(coder.decode(coder.encode(block)).values) == told(expected)


@pytest.mark.parametrize("has_none", [False, True])
def test_arrays_for_others_have_the_values(form: str, has_none: bool) -> None:
    for name in VALUES:
        values, array, shape = made(name, form, has_none=has_none)
        assert told(array_of(array, shape, arrow_type_of(shape)).to_pylist()) == told(values)
        column = input_of(array, shape)
        assert column is not None
        assert column.type == arrow_type_of(shape)
        assert told(column.to_pylist()) == told(values)
        if shape != shape_of(pa.string()):
            continue
        with pytest.raises(FallBack):
            array_of(array, shape, pa.int64())


@pytest.mark.parametrize("fn", FNS)
def test_combines_get_the_numbers(form: str, fn: str) -> None:
    vectorized = form_of(beam_fn(fn))
    assert vectorized is not None
    for name in VALUES:
        for has_none in (False, True):
            values, array, shape = made(name, form, has_none=has_none)
            found = vectorized.numbers_of(array, shape)
            plain = vectorized.numbers_of(pa.array(values, VALUES[name][1]), shape)
            # Without numbers it goes element by element, with the same results.
            if found is not None:
                assert plain is not None
                assert told(found.tolist()) == told(plain.tolist())


@pytest.mark.parametrize("fn", ["min", "max"])
def test_texts_are_chosen(form: str, fn: str) -> None:
    choice = choice_of(beam_fn(fn))
    assert choice is not None
    for name in ("texts", "bytes"):
        values, array, _ = made(name, form, has_none=False)
        places = [at % 2 for at in range(len(values))]
        groups, chosen = choice.chosen(pa.array(places).to_numpy(), array)
        found = dict(zip(groups.tolist(), chosen.to_pylist(), strict=True))
        assert found == {0: FNS[fn](values[::2]), 1: FNS[fn](values[1::2])}


def beam_fn(name: str) -> Any:
    return CombineFn.maybe_from_callable(FNS[name])


@pytest.mark.parametrize("kind", [Row, Pair])
def test_each_none_of_rows_is_counted(form: str, kind: Any) -> None:
    for name in VALUES:
        values, kind_of_values = with_none(VALUES[name][0]), VALUES[name][1]
        batch = pa.record_batch([FORMS[form](values, kind_of_values)] * 2, ["a", "b"])
        rows = ElementsOfBatches(kind, None).rows(batch.schema)
        array = rows.elements(batch)
        assert [array.field(at).null_count for at in range(2)] == [2, 2]
        pairs = zip(values, values, strict=True)
        assert told(map(tuple, values_of(array, rows.shape))) == told(pairs)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.list_(pa.struct({"a": pa.int64()})), [{"a": 1}, None], [Row(a=1), None]),
        (pa.map_(pa.string(), pa.struct({"a": pa.int64()})), [("k", {"a": 1})], {"k": Row(a=1)}),
        (pa.list_(pa.timestamp("us")), [5], [Timestamp(micros=5)]),
        (pa.dictionary(pa.int8(), pa.timestamp("us")), 5, Timestamp(micros=5)),
        (pa.list_(pa.dictionary(pa.int8(), pa.timestamp("us"))), [5], [Timestamp(micros=5)]),
    ],
)
def test_times_and_structs_are_those_of_beam_wherever_they_are(
    kind: pa.DataType, value: Any, expected: Any
) -> None:
    if pa.types.is_dictionary(kind):
        array = pa.array([value], kind.value_type).dictionary_encode()
    elif pa.types.is_list(kind) and pa.types.is_dictionary(kind.value_type):
        items = pa.array(value, kind.value_type.value_type).dictionary_encode()
        array = pa.ListArray.from_arrays(pa.array([0, len(items)], pa.int32()), items)
    else:
        array = pa.array([value], kind)
    assert repr(values_of(array, shape_of(array.type))) == repr([expected])
