"""Columns of elements become the columns of a sink's rows that their elements would become."""

from datetime import UTC, datetime
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest

from sparkbeam.columns.python_types import INT, STR, Opaque, RecordShape, Shape, shape_of
from sparkbeam.worker.connectors.sink_cells import PackArrow
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


INTS = pa.array([1, None, 3])
TEXTS = pa.array(["x", None, "zoë"])


@pytest.mark.parametrize("kind", [Pair, beam.Row, dict])
@pytest.mark.parametrize(
    ("array", "field"),
    [
        (INTS, pa.int64()),
        (INTS, pa.int8()),
        (pa.array([1, 2, 3], pa.int16()), pa.int64()),
        (pa.array([0.5, None, float("inf")]), pa.float64()),
        (pa.array([True, None, False]), pa.bool_()),
        (TEXTS, pa.string()),
        (TEXTS.dictionary_encode(), pa.string()),
        (pa.array([b"", None, b"\0"]), pa.binary()),
        (pa.array([datetime(2024, 1, 1, tzinfo=UTC), None, None], MOMENT), MOMENT),
        (pa.array([[1], None, []], pa.list_(pa.int64())), pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_columns_are_those_of_the_elements(kind: type, array: pa.Array, field: Any) -> None:
    schema = pa.schema([pa.field("b", field), pa.field("a", pa.int64())])
    elements = column(kind, INTS, array)
    found = columns_of(elements, schema)
    assert found is not None
    packed = pa.record_batch(found, schema=schema)
    expected = PackArrow(schema)._packed(elements.values())
    assert packed.equals(pa.ipc.read_record_batch(pa.py_buffer(expected), schema))


@pytest.mark.parametrize(
    ("elements", "schema"),
    [
        (column(Pair, INTS, TEXTS), {"a": pa.int64(), "b": pa.int64()}),
        (column(Pair, INTS, TEXTS), {"a": pa.float64()}),
        (column(Pair, pa.array([300]), pa.array([1])), {"a": pa.int8()}),
        (column(Pair, INTS, TEXTS), {"c": pa.int64()}),
        (column(tuple, INTS, TEXTS), {"a": pa.int64()}),
        (column_of(INTS, INT), {"a": pa.int64()}),
        (column_of(TEXTS, STR), {"a": pa.string()}),
        (column(Pair, INTS, pa.array([0.5] * 3)), {"b": pa.float32()}),
    ],
)
def test_other_elements_are_packed_one_by_one(elements: Column, schema: Any) -> None:
    assert columns_of(elements, pa.schema(schema)) is None


def test_elements_that_are_none_are_packed_one_by_one() -> None:
    array = pa.array([{"a": 1}, None])
    elements = column_of(array, RecordShape(Pair, ("a",), (INT,)))
    assert columns_of(elements, pa.schema({"a": pa.int64()})) is None


def test_maps_are_packed_one_by_one_as_a_dict_has_each_key_once() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    array = pa.array([[("k", 1), ("k", 2)]], kind)
    elements = column_of(
        pa.StructArray.from_arrays([array], ["a"]), RecordShape(Pair, ("a",), (Opaque(kind),))
    )
    assert columns_of(elements, pa.schema({"a": kind})) is None


def test_a_field_that_a_dict_does_not_have_is_null() -> None:
    elements = column(dict, INTS, TEXTS)
    found = columns_of(elements, pa.schema({"c": pa.string(), "a": pa.int64()}))
    assert found is not None
    assert found[0].null_count == 3
