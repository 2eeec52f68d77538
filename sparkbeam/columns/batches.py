"""Batches of elements: input and output of DoFns, made from columns and turned into columns.

A batch equals the one that Beam's ``BatchConverter`` would make of the elements, and its elements
equal those that the converter would take out of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from apache_beam.pvalue import Row
from apache_beam.typehints.arrow_type_compatibility import (
    PyarrowArrayBatchConverter,
    PyarrowBatchConverter,
)
from apache_beam.typehints.batch import BatchConverter, NumpyBatchConverter
from apache_beam.typehints.pandas_type_compatibility import (
    DataFrameBatchConverterDropIndex,
    SeriesBatchConverter,
)
from apache_beam.typehints.typehints import is_nullable

from sparkbeam.columns import FallBack, RecordShape, Shape, UnknownShape
from sparkbeam.columns.arrays import array_of
from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    STR,
    arrow_type_of,
    is_field,
    is_plain_namedtuple,
    shape_in_arrow,
)
from sparkbeam.columns.vectors import DTYPES, as_counted
from sparkbeam.columns.view_types import plain, plain_array, plain_schema
from sparkbeam.upstream.beam_batches import (
    dtype_of_batches,
    dtypes_of_batches,
    schema_of_batches,
    type_of_batches,
)

Converter: TypeAlias = BatchConverter[Any, Any]

_MASKED: dict[Shape, Callable[[Any, Any], Any]] = {
    INT: pd.arrays.IntegerArray,
    BOOL: pd.arrays.BooleanArray,
}
_KINDS = {"i": INT, "u": INT, "f": FLOAT, "b": BOOL}
_OF_OBJECTS: dict[frozenset[type], Shape] = {
    frozenset([shape.type]): shape for shape in (INT, FLOAT, BOOL, STR, BYTES)
}


@dataclass(frozen=True)
class Elements:
    """The elements of a batch as columns.

    Attributes:
        arrays: one after the other.
        shape: the shape of each element.
    """

    arrays: list[pa.Array]
    shape: Shape


def batch_of(converter: Converter, array: pa.Array, shape: Shape) -> Any:
    """Return the batch that a converter makes of the elements in a column.

    Args:
        shape: the shape of each element.

    Raises:
        FallBack: that cannot be promised, or the converter raises.
    """
    array = as_counted(array)
    match converter:
        case PyarrowBatchConverter():
            return _table(schema_of_batches(converter), array, shape)
        case PyarrowArrayBatchConverter():
            return array_of(array, shape, type_of_batches(converter))
        case DataFrameBatchConverterDropIndex():
            return _frame(dtypes_of_batches(converter), array, shape)
        case SeriesBatchConverter():
            return pd.Series(_pandas(array, shape, dtype_of_batches(converter)))
        case NumpyBatchConverter(element_shape=()):
            return _numpy(array, shape)
    raise FallBack(f"its batches are {_name(converter)}")


def _table(schema: pa.Schema, array: pa.Array, shape: Shape) -> pa.Table:
    parts = _fields(schema.names, array, shape)
    arrays = [array_of(*part, field.type) for part, field in zip(parts, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _fields(names: list[str], array: pa.Array, shape: Shape) -> list[tuple[pa.Array, Shape]]:
    """Return the fields that elements have under these names."""
    if not isinstance(shape, RecordShape) or not all(is_field(shape, name) for name in names):
        raise FallBack(f"{shape} does not have the fields of its batches")
    if array.null_count:
        raise FallBack("a value is None")
    places = [shape.names.index(name) for name in names]
    return [(array.field(at), shape.fields[at]) for at in places]


def _frame(dtypes: dict[str, Any], array: pa.Array, shape: Shape) -> pd.DataFrame:
    names = list(dtypes)
    # Beam takes the fields by their places.
    if not isinstance(shape, RecordShape) or not issubclass(shape.type, tuple | Row):
        raise FallBack(f"{shape} has no fields with positions")
    if shape.names != tuple(names):
        raise FallBack(f"{shape} does not have the fields of its batches")
    parts = zip(names, _fields(names, array, shape), strict=True)
    return pd.DataFrame({name: _pandas(*part, dtypes[name]) for name, part in parts})


def _pandas(array: pa.Array, shape: Shape, hint: Any) -> Any:
    """Return the values as a Series that shares no memory."""
    dtype = pd.api.types.pandas_dtype(hint)
    array = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    if dtype == np.dtype(object):
        return _in_objects(array, shape)
    if shape == STR and isinstance(dtype, pd.StringDtype):
        return pd.array(array.to_numpy(zero_copy_only=False), dtype=dtype)
    is_masked = isinstance(dtype, pd.core.dtypes.dtypes.BaseMaskedDtype)
    plain = dtype.numpy_dtype if is_masked else dtype
    if shape not in DTYPES or getattr(plain, "kind", None) != DTYPES[shape].kind:
        raise FallBack(f"{shape} might not convert exactly to {dtype}")
    kind = pa.from_numpy_dtype(plain)
    if not is_masked:
        return _in_numpy(array, shape, kind)
    nothing = pa.scalar(0).cast(array.type)
    values = _in_numpy(array.fill_null(nothing), shape, kind)
    return _MASKED[shape](values, np.array(array.is_null()))


def _in_objects(array: pa.Array, shape: Shape) -> Any:
    """Return Python's own objects; of None among them pandas may make something else."""
    if shape not in _OF_OBJECTS.values() or array.null_count:
        raise FallBack(f"{shape} might not convert exactly to object")
    return array.to_numpy(zero_copy_only=False).astype(object)


def _in_numpy(array: pa.Array, shape: Shape, kind: pa.DataType) -> Any:
    """Return numbers as an array that shares no memory; None is NaN."""
    if array.null_count and shape != FLOAT:
        raise FallBack("a value is None")
    return np.array(array_of(array, shape, kind).to_numpy(zero_copy_only=False))


def _numpy(array: pa.Array, shape: Shape) -> Any:
    dtype = DTYPES.get(shape)
    if dtype is None or array.null_count:
        raise FallBack("the type of its batches depends on all elements")
    return _in_numpy(array, shape, pa.from_numpy_dtype(dtype))


def elements_of(converter: Converter, batch: Any) -> Elements:
    """Return the elements that a converter takes out of a batch.

    Raises:
        FallBack: they make no column.
    """
    try:
        match converter, batch:
            case PyarrowBatchConverter(), pa.Table() | pa.RecordBatch():
                return _rows_of_table(converter, batch)
            case DataFrameBatchConverterDropIndex(), pd.DataFrame():
                return _rows_of_frame(converter, batch)
            case PyarrowArrayBatchConverter(), pa.Array():
                array = plain_array(batch)
                return Elements([as_counted(array)], shape_in_arrow(array.type))
            case SeriesBatchConverter(), pd.Series():
                array, shape = _of_series(batch, nulls=is_nullable(converter.element_type))
                return Elements([array], shape)
    except UnknownShape as unknown:
        raise FallBack(str(unknown)) from None
    raise FallBack(f"elements of {_name(converter)} do not have built-in Python types")


def elements_declared(converter: Converter) -> Shape | None:
    """Return the declared shape of the elements of batches; None if they do not form a column."""
    try:
        return elements_of(converter, converter.produce_batch([])).shape
    except Exception:  # Of FallBack, and where a converter makes no empty batch.
        return None


def passes(made: Converter | None, taken: Converter | None) -> bool:
    """Return whether a DoFn takes exactly the batches that another DoFn makes."""
    return made is not None and made == taken


def _rows_of_table(converter: PyarrowBatchConverter, table: pa.Table | pa.RecordBatch) -> Elements:
    names = schema_of_batches(converter).names
    kind = _class_of_rows(converter, names, table.num_columns)
    fields = tuple(shape_in_arrow(part.type) for part in plain_schema(table.schema))
    parts = map(plain, table.to_batches() if isinstance(table, pa.Table) else [table])
    rows = [as_counted(pa.StructArray.from_arrays(part.columns, names)) for part in parts]
    return Elements(rows, RecordShape(kind, tuple(names), fields))


def _rows_of_frame(converter: DataFrameBatchConverterDropIndex, frame: pd.DataFrame) -> Elements:
    names = list(dtypes_of_batches(converter))
    kind = _class_of_rows(converter, names, len(frame.columns))
    parts = [_of_series(frame.iloc[:, at], nulls=True) for at in range(len(names))]
    rows = pa.StructArray.from_arrays([array for array, _ in parts], names)
    return Elements([rows], RecordShape(kind, tuple(names), tuple(shape for _, shape in parts)))


def _class_of_rows(converter: Converter, names: list[str], count: int) -> type:
    """Return the class of elements that have these fields."""
    kind: Any = getattr(converter.element_type, "user_type", None)
    if not is_plain_namedtuple(kind) or kind._fields != tuple(names) or len(names) != count:
        raise FallBack("its batches do not have the fields of their elements")
    found: type = kind
    return found


def _of_series(series: pd.Series, *, nulls: bool) -> tuple[pa.Array, Shape]:
    """Return the values of a Series; NaN and the like are None if ``nulls``."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in _KINDS:
        # A DoFn may change a batch that it has put out.
        values = series.to_numpy(copy=True)
        return pa.array(values, from_pandas=nulls), _KINDS[dtype.kind]
    if dtype.kind != "O" and not isinstance(dtype, pd.StringDtype):
        raise FallBack(f"elements of a Series of {dtype} do not have built-in Python types")
    objects = [None if value is pd.NA else value for value in series]
    shape = _OF_OBJECTS.get(frozenset(map(type, objects)) - {type(None)})
    if shape is None or (None in objects and not nulls):
        raise FallBack("its batches hold objects of several types")
    try:
        return pa.array(objects, arrow_type_of(shape), from_pandas=nulls), shape
    except (ValueError, OverflowError) as error:
        raise FallBack(f"Arrow cannot hold some {shape} values of its batches") from error


def _name(converter: Converter) -> str:
    return str(converter.batch_type)
