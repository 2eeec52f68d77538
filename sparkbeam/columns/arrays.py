"""Arrow arrays of Python values, built from columns without creating the values."""

from collections.abc import Callable

import pyarrow as pa

from sparkbeam.columns.python_types import (
    BOOL,
    BYTES,
    FLOAT,
    INT,
    NONE,
    STR,
    Opaque,
    RecordShape,
    Shape,
    shape_in_arrow,
)
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import as_type

_SUITING: dict[Shape, Callable[[pa.DataType], bool]] = {
    INT: pa.types.is_integer,
    FLOAT: pa.types.is_float64,
    BOOL: pa.types.is_boolean,
    STR: lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind),
    BYTES: lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind),
    NONE: lambda kind: True,
}
_PLAIN_TESTS: tuple[Callable[[pa.DataType], bool], ...] = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null),
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_decimal, pa.types.is_date32),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
)
_LISTS: tuple[Callable[[pa.DataType], bool], ...] = (
    *(pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
)


def array_of(array: pa.Array, shape: Shape, kind: pa.DataType) -> pa.Array:
    """Return the array that ``pa.array(values, kind)`` gives for the values of a column.

    Raises:
        FallBack: the result may differ, or Arrow raises.
    """
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    suits = _SUITING.get(shape)
    if suits is None:
        if array.type == kind and _comes_back(kind, shape):
            return array
    elif suits(kind) or (shape == FLOAT and array.type == kind):
        try:
            return as_type(array, kind)
        except pa.ArrowException as error:
            raise FallBack(f"{shape} does not fit in {kind}") from error
    raise FallBack(f"{shape} might not convert exactly to {kind}")


def arrays_of_dicts(array: pa.Array, shape: Shape, schema: pa.Schema) -> list[pa.Array]:
    """Return the columns that Arrow builds from the items of dicts; nullable items may be missing.

    Raises:
        FallBack: the result may differ, or building the columns raises.
    """
    if not isinstance(shape, RecordShape) or shape.type is not dict:
        raise FallBack(f"{shape} is not a dict")
    if array.null_count:
        raise FallBack("a value is None")
    found = []
    for field in schema:
        if field.name in shape.names:
            at = shape.names.index(field.name)
            found.append(array_of(array.field(at), shape.fields[at], field.type))
        elif field.nullable:
            found.append(pa.nulls(len(array), field.type))
        else:
            raise FallBack(f"{field.name} is missing")
    return found


def _comes_back(kind: pa.DataType, shape: Shape) -> bool:
    """Return whether an array survives a round trip through Python values."""
    if isinstance(shape, Opaque):
        return _is_equal_again(kind, in_arrow=shape.is_as_in_arrow)
    return _is_equal_again(kind, in_arrow=True) and shape == shape_in_arrow(kind)


def _is_equal_again(kind: pa.DataType, *, in_arrow: bool) -> bool:
    if any(test(kind) for test in _PLAIN_TESTS):
        return True
    if any(test(kind) for test in _LISTS):
        return _is_equal_again(kind.value_type, in_arrow=in_arrow)
    if not in_arrow:
        return False
    if pa.types.is_struct(kind):
        names = [part.name for part in kind]
        return len(set(names)) == len(names) and all(
            _is_equal_again(part.type, in_arrow=True) for part in kind
        )
    # Python's times have no nanoseconds, but pandas' Timestamp has.
    return pa.types.is_timestamp(kind)
