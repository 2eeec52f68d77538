"""Elements become rows of a sink: what each type takes, one by one and as columns."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from pyspark.sql import types as st
from random_sinks import Figures, case, try_case
from sink_values import TAKEN, VALUES, Wrap, within, wrapped, wraps

from sparkbeam.columns.python_types import INT, RecordShape, Shape, shape_of
from sparkbeam.connectors.schemas import arrow_schema
from sparkbeam.worker.connectors.sink_cells import PackArrow, rows_of
from sparkbeam.worker.connectors.sink_columns import columns_of
from sparkbeam.worker.value_columns import Column, column_of

MOMENT = pa.timestamp("us", "UTC")


class Pair(NamedTuple):
    a: Any
    b: Any


def column(kind: type, a: pa.Array, b: pa.Array) -> Column:
    shape = RecordShape(kind, ("a", "b"), (_shape(a), _shape(b)))
    return column_of(pa.StructArray.from_arrays([a, b], ["a", "b"]), shape)


def _shape(array: pa.Array) -> Shape:
    return shape_of(array.type.value_type if pa.types.is_dictionary(array.type) else array.type)


def packed(schema: pa.Schema, *values: Any) -> list[Any]:
    """Return the column of a sink's rows for the values of dictionaries."""
    cell = PackArrow(schema)._packed([{"c": value} for value in values])
    found: list[Any] = rows_of(cell, schema).column(0).to_pylist()
    return found


def plain(value: Any) -> Any:
    """A value with sorted pairs for dictionaries, and for maps, which Arrow has as pairs."""
    if isinstance(value, dict):
        return plain([*value.items()])
    if isinstance(value, list | tuple):
        found = [*map(plain, value)]
        return sorted(found) if all(isinstance(part, tuple) for part in value) else found
    return value


@pytest.mark.part(3)
@pytest.mark.parametrize("around", [*wraps()], ids=str)
def test_each_type_takes_its_values_at_each_depth_and_no_others(around: tuple[Wrap, ...]) -> None:
    for name, (kind, taken) in TAKEN.items():
        columns, path = within(around, kind)
        schema = arrow_schema(columns)
        written = [wrapped(around, VALUES[words]) for words in taken]
        expected = [wrapped(around, value) for value in taken.values()]
        assert plain(packed(schema, None, *written)) == plain([None, *expected]), name
        for words in VALUES.keys() - taken:
            with pytest.raises(ValueError, match="column") as caught:
                packed(schema, None, wrapped(around, VALUES[words]))
            assert path in str(caught.value), (name, words)


@pytest.mark.parametrize("around", [*wraps()], ids=str)
def test_a_column_without_nulls_is_named_if_one_comes(around: tuple[Wrap, ...]) -> None:
    for kind, _ in (TAKEN[name] for name in TAKEN if name != "void"):
        columns, path = within(around, kind, nullable=False)
        with pytest.raises(ValueError, match=f"'{re.escape(path)}'.* not nullable.* None"):
            packed(arrow_schema(columns), wrapped(around, None))


def test_random_rows_are_packed_as_a_plain_reference_says() -> None:
    figures = Figures()
    for number in range(100):
        assert try_case(case(Random(number)), figures) is None
    assert figures.refused > 5
    assert figures.columns > 50


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (st.DateType(), [date(2024, 2, 3), datetime(2024, 2, 3, 4)]),
        (st.FloatType(), [0.1, float(np.float32(0.1))]),
        (st.TimestampType(), [Timestamp(0), datetime(1970, 1, 1)]),
        (st.StructType().add("x", "date"), [(date(2024, 2, 3),), (datetime(2024, 2, 3, 4),)]),
    ],
    ids=str,
)
def test_keys_that_become_the_same_one_are_an_error(kind: st.DataType, keys: list[Any]) -> None:
    schema = arrow_schema(st.StructType().add("c", st.MapType(kind, st.LongType())))
    assert len(packed(schema, *({key: 1} for key in keys))) == 2
    with pytest.raises(ValueError, match=r"'c\.key' .* two keys of a dictionary"):
        packed(schema, {}, dict.fromkeys(keys, 1))


INTS = pa.array([1, None, 3])
TEXTS = pa.array(["x", None, "zoë"])
KEYS_TWICE = pa.array([[("k", 1), ("k", 2)], None, []], pa.map_(pa.string(), pa.int64()))
ARRAYS = [
    INTS,
    TEXTS,
    TEXTS.dictionary_encode(),
    KEYS_TWICE,
    pa.array([1, 2, 300], pa.int16()),
    pa.array([0.5, None, float("inf")]),
    pa.array([2.0] * 3),
    pa.array([True, None, False]),
    pa.array([b"", None, b"\0"]),
    pa.array([Decimal("1.25")] * 3),
    pa.array([datetime(2024, 1, 1, tzinfo=UTC), None, None], MOMENT),
    pa.array([[1], None, []], pa.list_(pa.int64())),
]
FIELDS = [
    *(pa.int64(), pa.int8(), pa.float64(), pa.float32(), pa.bool_(), pa.string(), pa.binary()),
    *(MOMENT, pa.date32(), pa.decimal128(2, 1), pa.list_(pa.int64()), pa.list_(pa.string())),
    KEYS_TWICE.type,
]


def packed_alike(elements: Column, schema: pa.Schema) -> bool:
    """Return whether elements are packed as columns; then these are what each element becomes."""
    found = columns_of(elements, schema)
    if found is None:
        return False
    expected = PackArrow(schema)._packed(elements.values())
    batch = pa.ipc.read_record_batch(pa.py_buffer(expected), schema)
    assert pa.record_batch(found, schema=schema).equals(batch)
    return True


@pytest.mark.parametrize("kind", [Pair, beam.Row, dict])
@pytest.mark.parametrize("nullable", [False, True])
def test_columns_are_those_of_the_elements(kind: type, nullable: bool) -> None:
    taken = {
        (str(array.type), str(field))
        for array in ARRAYS
        for field in FIELDS
        if packed_alike(
            column(kind, INTS, array),
            pa.schema([pa.field("b", field, nullable=nullable), pa.field("a", pa.int64())]),
        )
    }
    kinds = [one.type for one in ARRAYS if one.type in FIELDS and one is not KEYS_TWICE]
    assert taken >= ({(str(one), str(one)) for one in kinds} if nullable else {("int16", "int64")})


@pytest.mark.parametrize(
    ("elements", "field"),
    [
        (column(Pair, INTS, TEXTS), pa.field("c", pa.int64())),
        (column(dict, INTS, TEXTS), pa.field("c", pa.int64(), nullable=False)),
        (column(tuple, INTS, TEXTS), pa.field("a", pa.int64())),
        (column_of(INTS, INT), pa.field("a", pa.int64())),
        (
            column_of(pa.array([{"a": 1}, None]), RecordShape(Pair, ("a",), (INT,))),
            pa.field("a", pa.int64()),
        ),
    ],
)
def test_other_elements_are_packed_one_by_one(elements: Column, field: pa.Field) -> None:
    assert columns_of(elements, pa.schema([field])) is None


def test_a_property_that_raises_is_told_with_its_column() -> None:
    class Broken:
        b = 2

        @property
        def a(self) -> int:
            raise RuntimeError("no wheels")

    kind = st.StructType().add("a", st.LongType()).add("b", st.LongType())
    told = r"column 'c\.a', and this field of .*Broken raises RuntimeError: no wheels$"
    with pytest.raises(ValueError, match=told):
        packed(arrow_schema(st.StructType().add("c", kind)), Broken())


def test_a_field_that_a_dict_does_not_have_is_null() -> None:
    elements = column(dict, INTS, TEXTS)
    found = columns_of(elements, pa.schema({"c": pa.string(), "a": pa.int64()}))
    assert found is not None
    assert found[0].null_count == 3
