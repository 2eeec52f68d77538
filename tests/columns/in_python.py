"""Blocks of columns made of Python values, and back: what compiled functions are compared with."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
from apache_beam.pvalue import Row
from apache_beam.transforms.window import TimestampedValue
from physical import Make

from sparkbeam.columns import (
    BlockResult,
    Compiled,
    FallBack,
    RecordShape,
    Refused,
    ResultKind,
    Scalar,
    Shape,
    compile_function,
)
from sparkbeam.columns.python_types import Lists, arrow_type_of
from sparkbeam.columns.python_values import values_of

INT, FLOAT, BOOL = Scalar(int), Scalar(float), Scalar(bool)
STR, BYTES = Scalar(str), Scalar(bytes)


class Inner(NamedTuple):
    i: int
    s: str


class Element(NamedTuple):
    a: int
    b: int
    f: float
    g: float
    s: str
    t: str
    y: bytes
    p: bool
    q: bool
    inner: Inner
    pair: tuple[int, str]
    row: Row
    item: dict[str, Any]


INNER = RecordShape(Inner, ("i", "s"), (INT, STR))
PAIR = RecordShape(tuple, ("0", "1"), (INT, STR))
ROW = RecordShape(Row, ("u", "v"), (FLOAT, BOOL))
ITEM = RecordShape(dict, ("i", "s"), (INT, STR))
ELEMENT = RecordShape(
    Element,
    Element._fields,
    (INT, INT, FLOAT, FLOAT, STR, STR, BYTES, BOOL, BOOL, INNER, PAIR, ROW, ITEM),
)


def column(values: list[Any], shape: Shape, make: Make = pa.array) -> pa.Array:
    """Python values as a column.

    Args:
        values: the values.
        shape: what each is.
        make: makes the arrays of plain values.
    """
    if isinstance(shape, Lists):
        ends = list(accumulate((len(value or ()) for value in values), initial=0))
        items = column([item for value in values for item in value or ()], shape.item, make)
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, mask=mask)
    if not isinstance(shape, RecordShape):
        return make(values, arrow_type_of(shape))
    nothing = [None] * len(shape.names)
    items = [nothing if value is None else _items(value) for value in values]
    arrays = [
        column([item[at] for item in items], field, make) for at, field in enumerate(shape.fields)
    ]
    fields = [pa.field(name, array.type) for name, array in zip(shape.names, arrays, strict=True)]
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _items(value: Any) -> list[Any]:
    return list(value.values() if isinstance(value, dict) else value)


def results(compiled: Compiled, output: BlockResult, count: int) -> list[tuple[int, Any]]:
    """The results of a compiled function, each with the position of its element."""
    values = values_of(output.values, compiled.result)
    rows = range(count) if output.rows is None else output.rows.tolist()
    assert (output.times is not None) == compiled.is_timestamped
    if output.times is not None:
        stamps = output.times.tolist()
        values = [(value, micros) for value, micros in zip(values, stamps, strict=True)]
    return list(zip(rows, values, strict=True))


def called(function: Callable[..., Any], elements: list[Any], form: ResultKind) -> Any:
    """The same by calling the function; the exception if it raises one."""
    found: list[tuple[int, Any]] = []
    try:
        for at, element in enumerate(elements):
            result = function(element)
            if form is ResultKind.FILTER:
                found += [(at, element)] if result else []
            elif form is ResultKind.MAP:
                found.append((at, result))
            else:
                found += [(at, one) for one in result or ()]
    except Exception as error:
        return error
    return [(at, _unstamped(value)) for at, value in found]


def _unstamped(value: Any) -> Any:
    if isinstance(value, TimestampedValue):
        return value.value, value.timestamp.micros
    return value


def written(found: list[tuple[int, Any]]) -> list[str]:
    """Results with all that tells them apart: 1, 1.0 and True, 0.0 and -0.0, classes."""
    return [f"{at}: {_written(value)}" for at, value in found]


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, tuple):
        return f"{type(value).__name__}({', '.join(map(_written, value))})"
    if isinstance(value, Row):
        items = (f"{name}={_written(item)}" for name, item in value.as_dict().items())
        return f"Row({', '.join(items)})"
    if isinstance(value, dict):
        return f"dict({', '.join(f'{key!r}: {_written(item)}' for key, item in value.items())})"
    return f"{type(value).__name__} {value!r}"


def assert_same(
    compiled: Compiled,
    function: Callable[..., Any],
    elements: list[Any] | pa.Array,
    form: ResultKind,
) -> bool:
    """Compares a compiled function with calling it; False if the block was refused."""
    shape = compiled.arguments[0]
    block = elements if isinstance(elements, pa.Array) else column(elements, shape)
    try:
        output = compiled.evaluate(block)
    except FallBack:
        return False
    values = values_of(block, shape) if isinstance(elements, pa.Array) else elements
    expected = called(function, values, form)
    assert not isinstance(expected, Exception), f"it raises {expected!r}"
    assert written(results(compiled, output, len(block))) == written(expected)
    return True


def compiled(function: Any, *shapes: Shape, form: ResultKind = ResultKind.MAP) -> Compiled:
    """The form of a function over columns, which it must have."""
    result = compile_function(function, *(shapes or (ELEMENT,)), form=form)
    assert isinstance(result, Compiled), result
    return result


def refusal(function: Any, *shapes: Shape, form: ResultKind = ResultKind.MAP) -> str:
    """The reason for which a function has no such form."""
    result = compile_function(function, *(shapes or (ELEMENT,)), form=form)
    assert isinstance(result, Refused), result
    return result.reason
