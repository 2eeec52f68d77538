"""Values of evaluated expressions: numpy arrays of numbers, Arrow arrays of all others."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NUMBERS,
    STR,
    Lists,
    Opaque,
    RecordShape,
    Shape,
    Table,
    Union,
    arrow_type_of,
)
from sparkbeam.columns.reasons import FallBack

Bools: TypeAlias = npt.NDArray[np.bool_]
Positions: TypeAlias = npt.NDArray[np.int64]
Micros: TypeAlias = npt.NDArray[np.int64]
"""Times in microseconds."""

DTYPES: dict[Shape, np.dtype[Any]] = {
    INT: np.dtype(np.int64),
    FLOAT: np.dtype(np.float64),
    BOOL: np.dtype(np.bool_),
}
"""Types of numbers in numpy arrays."""

_NONE_MET = "a value is None"


class Vector:
    """One value per element.

    Attributes:
        data: int64, float64 or bool in a numpy array; an Arrow array for all other types.
        nulls: mask of None values; None if there are none. Numpy data at masked positions is
            undefined.
    """

    __slots__ = ("data", "nulls")

    def __init__(self, data: Any, nulls: Bools | None = None) -> None:
        self.data = data
        self.nulls = nulls

    def __len__(self) -> int:
        return len(self.data)

    def take(self, positions: Positions) -> "Vector":
        """Return the values at some positions."""
        is_numpy = isinstance(self.data, np.ndarray)
        data = self.data[positions] if is_numpy else self.data.take(pa.array(positions))
        if self.nulls is None:
            return Vector(data)
        return Vector(data, nulls_or_none(self.nulls[positions]))


Value: TypeAlias = Vector | int | float | bool | str | bytes | None
"""A vector, or a plain value that all elements share."""


def nulls_or_none(nulls: Bools) -> Bools | None:
    """Return a mask of None values; None if it masks nothing."""
    return nulls if nulls.any() else None


def loaded(array: pa.Array, shape: Shape) -> Vector:
    """Return the values of an input column.

    Raises:
        FallBack: a value is out of range.
    """
    if isinstance(shape, Table):
        return Vector(array)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    nulls = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    if isinstance(shape, Opaque):  # Some count only the nulls of their own.
        return Vector(array, nulls_or_none(np.asarray(pc.is_null(array))))
    if shape not in NUMBERS:
        return Vector(_cast(array, shape) if shape in (STR, BYTES) else array, nulls)
    array = _cast(array, shape)
    if nulls is not None:
        array = array.fill_null(False if shape == BOOL else 0)
    return Vector(array.to_numpy(zero_copy_only=False), nulls)


def _cast(array: pa.Array, shape: Shape) -> pa.Array:
    try:
        return as_type(array, arrow_type_of(shape))
    except pa.ArrowInvalid:
        raise FallBack("a column does not fit in 64 bits, or is too long") from None


def as_type(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column, to an array that all Arrow kernels read correctly.

    ``ascii_lower`` and ``ascii_upper`` read the buffer of an array with offset 0 from its start,
    even if its first text begins later. After casting a slice, these bytes belong to other rows.
    Moreover, a slice may fit 32-bit offsets where the whole array does not.

    Raises:
        pa.ArrowInvalid: a value does not fit the type.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    width = _WIDTHS.get(array.type)
    if width is not None and len(array) and (not array.offset or array.type != kind):
        first = np.frombuffer(array.buffers()[1], width, 1, array.offset * width.itemsize)[0]
        if first:
            array = pa.concat_arrays([array, array.slice(0, 0)])
    return array if array.type == kind else array.cast(kind)


_WIDTHS: dict[pa.DataType, np.dtype[Any]] = {
    **dict.fromkeys([pa.string(), pa.binary()], np.dtype(np.int32)),
    **dict.fromkeys([pa.large_string(), pa.large_binary()], np.dtype(np.int64)),
}
"""Types of the offsets of texts."""


def as_counted(array: pa.Array) -> pa.Array:
    """Return a column whose ``null_count`` includes every None.

    That of a dictionary array excludes nulls among its values.
    """
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode() if array.dictionary.null_count else array
    if not pa.types.is_struct(array.type):
        return array
    parts = [array.field(at) for at in range(array.type.num_fields)]
    counted = list(map(as_counted, parts))
    if all(one is other for one, other in zip(parts, counted, strict=True)):
        return array
    fields = [pa.field(part.name, one.type) for part, one in zip(array.type, counted, strict=True)]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(counted, fields=fields, mask=mask)


def as_arrow(vector: Vector, shape: Shape) -> pa.Array:
    """Return the column of a result."""
    if not isinstance(vector.data, np.ndarray):
        return vector.data
    return pa.array(vector.data, arrow_type_of(shape), mask=vector.nulls)


def repeated(value: Any, shape: Shape, count: int) -> Vector:
    """Repeat a plain value for each element."""
    if value is None:
        nulls = np.ones(count, np.bool_)
        if shape in DTYPES:
            return Vector(np.zeros(count, DTYPES[shape]), nulls)
        return Vector(pa.nulls(count, arrow_type_of(shape)), nulls)
    if shape in DTYPES:
        return Vector(np.full(count, value, DTYPES[shape]))
    return Vector(pa.repeat(pa.scalar(value, arrow_type_of(shape)), count))


def selected(mask: Bools, yes: Value, no: Value, shape: Shape) -> Vector:
    """Choose between values of equal length by a mask."""
    nulls = None
    if any(_has_nulls(one) for one in (yes, no)):
        nulls = nulls_or_none(np.where(mask, _nulls_in(yes), _nulls_in(no)))
    if shape in DTYPES:
        return Vector(np.where(mask, _numbers(yes, shape), _numbers(no, shape)), nulls)
    # Arrow before 21 misreads an array in the middle of another one beside a null scalar.
    sides = [
        one.data
        if isinstance(one, Vector)
        else repeated(None, shape, len(mask)).data
        if one is None
        else pa.scalar(one, arrow_type_of(shape))
        for one in (yes, no)
    ]
    return Vector(pc.if_else(pa.array(mask), *sides), nulls)


def _has_nulls(value: Value) -> bool:
    return value.nulls is not None if isinstance(value, Vector) else value is None


def _nulls_in(value: Value) -> Any:
    if isinstance(value, Vector):
        return np.False_ if value.nulls is None else value.nulls
    return np.bool_(value is None)


def _numbers(value: Value, shape: Shape) -> Any:
    if isinstance(value, Vector):
        return value.data
    return DTYPES[shape].type(0 if value is None else value)


def are_neighbours(positions: npt.NDArray[Any]) -> bool:
    """Return whether positions are consecutive."""
    if not len(positions) or positions[-1] - positions[0] != len(positions) - 1:
        return False
    return bool(np.all(positions[1:] > positions[:-1]))


def merged(places: tuple[Positions, Positions], ways: tuple[Value, Value], shape: Shape) -> Vector:
    """Merge two values, each with the elements of one path, into one.

    Args:
        places: the positions of each path's elements in the result.
    """
    count = len(places[0]) + len(places[1])
    nulls = None
    if any(map(_has_nulls, ways)):
        nulls = np.empty(count, np.bool_)
        for at, way in zip(places, ways, strict=True):
            nulls[at] = _nulls_in(way)
        nulls = nulls_or_none(nulls)
    if shape in DTYPES:
        data = np.empty(count, DTYPES[shape])
        for at, way in zip(places, ways, strict=True):
            data[at] = _numbers(way, shape)
        return Vector(data, nulls)
    order = np.empty(count, np.int64)
    order[places[0]] = np.arange(len(places[0]))
    order[places[1]] = np.arange(len(places[0]), count)
    arrays = [
        way.data if isinstance(way, Vector) else repeated(way, shape, len(at)).data
        for at, way in zip(places, ways, strict=True)
    ]
    return Vector(pa.concat_arrays(arrays).take(pa.array(order)), nulls)


def nulls_of(vector: Vector) -> Bools:
    """Return the mask of None values of a vector, also if there are none."""
    return np.zeros(len(vector), np.bool_) if vector.nulls is None else vector.nulls


def bare(value: Value) -> Any:
    """Return the data of a value that must not be None; a plain value unchanged.

    Raises:
        FallBack: a value is None, for which Python raises.
    """
    if isinstance(value, Vector):
        if value.nulls is not None:
            raise FallBack(_NONE_MET)
        return value.data
    if value is None:
        raise FallBack(_NONE_MET)
    return value


def arrow_of(value: Value, arrow_type: pa.DataType) -> Any:
    """Return a value as an Arrow array or scalar, for Arrow kernels."""
    data = bare(value)
    if isinstance(data, pa.Array):
        return data
    if isinstance(data, np.ndarray):
        return pa.array(data)
    return pa.scalar(data, arrow_type)


def numpy_of(array: Any) -> Any:
    """Return the result of an Arrow kernel as a numpy array."""
    return array.to_numpy(zero_copy_only=False)


def union_places(array: pa.UnionArray) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
    """Return the type code of each element of a dense union, and its position in that child.

    For a slice, pyarrow returns those of the whole array.
    """
    _, codes, offsets = array.buffers()[:3]
    part = slice(array.offset, array.offset + len(array))
    return np.frombuffer(codes, np.int8)[part], np.frombuffer(offsets, np.int32)[part]


def member_of(union: pa.UnionArray, code: int, rows: Positions | None = None) -> pa.Array:
    """Return elements of a dense union that all belong to one member, as its column.

    Args:
        rows: the positions of the elements; all if None.

    Raises:
        ValueError: an element belongs to another member.
    """
    codes, offsets = union_places(union)
    if rows is not None:
        codes, offsets = codes[rows], offsets[rows]
    if np.any(codes != code):
        raise ValueError(f"not all elements belong to member {code}")
    return take(union.field(code), offsets)


def take(array: pa.Array, positions: npt.NDArray[Any]) -> pa.Array:
    """Return the values at some positions, without a copy if these are consecutive."""
    if are_neighbours(positions):
        return array.slice(int(positions[0]), len(positions))
    return array.take(pa.array(positions))


def empty_column(shape: Shape) -> pa.Array:
    """Return an empty column."""
    if isinstance(shape, RecordShape):
        fields = list(map(empty_column, shape.fields))
        return pa.StructArray.from_arrays(fields, list(shape.names)) if fields else _NO_FIELDS
    if isinstance(shape, Union):
        nothing = pa.array([], pa.int8()), pa.array([], pa.int32())
        return pa.UnionArray.from_dense(*nothing, list(map(empty_column, shape.members)))
    if isinstance(shape, Lists):
        return pa.ListArray.from_arrays(pa.array([0], pa.int32()), empty_column(shape.item))
    return pa.array([], arrow_type_of(shape))


_NO_FIELDS = pa.nulls(0, pa.struct([]))
