"""Each operation over columns gives the same whichever form Arrow holds the values in.

The operations are those of the tables in the package: one without an example here is a failure.
"""

import inspect
import math
import types
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.utils.timestamp import Timestamp
from in_python import (
    BOOL,
    BYTES,
    FLOAT,
    INNER,
    INT,
    STR,
    Inner,
    called,
    column,
    compiled,
    results,
    written,
)
from operations import EXAMPLES, NAMES, OF_FUNCTIONS, OF_METHODS, OF_SYMBOLS, OF_UNARY
from physical import FORMS, Make

from sparkbeam.columns import (
    Argument,
    Compiled,
    DataDependent,
    FallBack,
    RecordShape,
    ResultKind,
    calls,
    compile_function,
    list_kernels,
    lookups,
    methods,
    number_kernels,
    operators,
    text_kernels,
    times,
)
from sparkbeam.columns.expressions import Apply
from sparkbeam.columns.python_types import Lists, Opaque, Table, Union
from sparkbeam.columns.python_values import values_of

WHEN = Opaque(pa.timestamp("us", "UTC"))
LOCAL = Opaque(pa.timestamp("ms"), is_as_in_arrow=True)
DAY = Opaque(pa.date32(), is_as_in_arrow=True)
SUM = Opaque(pa.decimal128(20, 3), is_as_in_arrow=True)


class Element(NamedTuple):
    a: int
    b: int
    f: float
    g: float
    s: str
    t: str
    n: str
    y: bytes
    z: bytes
    p: bool
    q: bool
    inner: Inner
    ints: list[int]
    texts: list[str]
    when: Timestamp
    local: datetime
    day: date
    sum: Decimal


ELEMENT = RecordShape(
    Element,
    Element._fields,
    (
        *(INT, INT, FLOAT, FLOAT, STR, STR, STR, BYTES, BYTES, BOOL, BOOL, INNER),
        *(Lists(INT), Lists(STR), WHEN, LOCAL, DAY, SUM),
    ),
)
_ARROW = RecordShape(
    Element,
    Element._fields,
    tuple(
        Opaque(one.arrow_type, is_as_in_arrow=True) if isinstance(one, Opaque) else one
        for one in ELEMENT.fields
    ),
)
"""The same, with the values that Arrow makes of times."""


def block(count: int, of: Callable[[int], tuple[Any, ...]]) -> list[Element]:
    return [Element(*of(number)) for number in range(count)]


def ordinary(number: int) -> tuple[Any, ...]:
    text = ["ab", "b", "a b", "Abba", "", " x"][number % 6]
    return (
        *(
            number - 3,
            number % 4 + 1,
            number / 4,
            1.5 + number % 3,
            text,
            "BB ab"[number % 4 :],
        ),
        *(
            str(number),
            text.encode(),
            b"ab"[number % 3 :],
            number % 2 == 0,
            number % 3 == 0,
        ),
        *(
            Inner(number, text),
            list(range(number % 4 + 1)),
            [text, "b"],
            number * 10**6 + 5,
        ),
        *(number * 1000, number, Decimal(number) / 8),
    )


def odd(number: int) -> tuple[Any, ...]:
    texts = ["\u0130\u00df", "\u03a3\u03c2 a", "a\x00B", "\x1c\u3000x ", "\U0001f600ab", "\u0149"]
    text = texts[number % 6]
    return (
        *([2**63 - 1, -(2**63), 2**53 + 1, -1, 0][number % 5], [3, -7, 1][number % 3]),
        *([math.nan, math.inf, -0.0, 5e-324, 1e308][number % 5], [-0.0, 0.5, -2.0][number % 3]),
        *(
            text,
            texts[-number % 6] * 3,
            ["-00", "7.50", "1e5"][number % 3],
            bytes([0, 200, number]),
        ),
        *(text.encode(), number % 3 == 1, number % 2 == 1, Inner(-(2**63), text)),
        *([2**62, -number], [text * number, ""], -number - 10**12, -number * 1001, -number),
        Decimal(-number) / 1000,
    )


def with_none(number: int) -> tuple[Any, ...]:
    """All are None at times."""
    fields = zip(ordinary(number + 1), range(len(ELEMENT.fields)), strict=True)
    return tuple(None if (number + at) % 5 == 0 else value for value, at in fields)


BLOCKS: dict[str, list[Element]] = {
    "ordinary": block(13, ordinary),
    "odd": block(11, odd),
    "with None": block(9, with_none),
    "all None": block(3, lambda _: (None,) * len(ELEMENT.fields)),
}


def made_of(elements: list[Element], make: Make) -> pa.Array:
    return column(elements, ELEMENT, make)


def _longer(elements: list[Element], shape: RecordShape) -> pa.Array:
    """A part of a longer column of records and lists."""
    every = [*BLOCKS["ordinary"][:9], *elements, *BLOCKS["odd"][:2]]
    return column(every, shape).slice(9, len(elements))


ARRAYS: dict[str, dict[str, pa.Array]] = {
    name: {
        "plain": made_of(elements, pa.array),
        "a part of records": _longer(elements, ELEMENT),
        **{form: made_of(elements, make) for form, make in FORMS.items()},
    }
    for name, elements in BLOCKS.items()
}
"""The elements of each block in all forms."""


@cache
def compiled_of(source: str) -> tuple[Callable[..., Any], Compiled]:
    space = {"Inner": Inner, **NAMES}
    function = eval(f"lambda x: {source}", space)
    shape = _ARROW if ".timestamp()" in source else ELEMENT
    compiled = compile_function(function, shape)
    if isinstance(compiled, DataDependent):
        compiled = compiled.compiled_for(ARRAYS["ordinary"]["plain"])
    assert isinstance(compiled, Compiled), f"{source}: {compiled.reason}"
    return function, compiled


def evaluated(compiled: Compiled, array: pa.Array, rows: Any = None) -> list[str] | None:
    """What comes out; None where the block is refused."""
    try:
        output = compiled.evaluate(array, rows=rows)
    except FallBack:
        return None
    output.values.validate(full=True)
    values = values_of(output.values, compiled.result)
    if output.times is not None:
        values = list(zip(values, output.times.tolist(), strict=True))
    return written(list(enumerate(values)))


def expected_of(function: Callable[..., Any], elements: list[Any]) -> list[str] | None:
    found = called(function, elements, ResultKind.MAP)
    return None if isinstance(found, Exception) else written(found)


@pytest.mark.part(5)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_operation_gives_the_same_over_all_forms_of_a_column(name: str) -> None:
    for source in EXAMPLES[name]:
        function, compiled = compiled_of(source)
        results = 0
        for block_name, arrays in ARRAYS.items():
            plain = evaluated(compiled, arrays["plain"])
            elements = values_of(arrays["plain"], compiled.arguments[0])
            assert plain in (None, expected_of(function, elements)), (source, block_name)
            results += plain is not None
            for form, array in arrays.items():
                found = evaluated(compiled, array)
                assert found == plain, f"{source} of {block_name}, {form}"
            rows = np.arange(0, len(elements), 2)
            of_rows = expected_of(function, elements[::2])
            for form in ("plain", "wide, in the middle", "cast from wide"):
                found = evaluated(compiled, arrays[form], rows)
                assert found in (None, of_rows), f"{source} of rows of {block_name}, {form}"
        assert results, f"{source} is refused everywhere"


def test_all_forms_hold_the_same_values() -> None:
    for arrays in ARRAYS.values():
        values = [repr(values_of(array, ELEMENT)) for array in arrays.values()]
        assert len(set(values)) == 1
        for array in arrays.values():
            array.validate(full=True)


def test_each_operation_of_the_package_has_an_example() -> None:
    symbols = operators._PYTHON.keys() | operators._INT_KERNELS.keys()
    assert symbols | operators._FLOAT_KERNELS.keys() == OF_SYMBOLS.keys()
    assert operators._PYTHON_UNARY.keys() == OF_UNARY.keys()
    assert {*methods._METHODS, *methods._BY_PYTHON, "join"} == OF_METHODS.keys()
    assert calls._KNOWN.keys() == OF_FUNCTIONS.keys()


_NO_KERNELS = {
    "list_kernels": {"flattened", "items_at", "lists_of"},
    "number_kernels": {"with_nulls_equal", "rounded_to_int"},
    "lookups": {"table_array"},
    "times": {
        *("is_timestamp", "is_datetime", "micros_of", "of_datetime"),
        *("micros_in", "whole_seconds", "newest", "computed", "moment", "duration", "time_of"),
    },
}
"""What is public in modules of kernels and none."""


def test_each_kernel_of_the_package_is_in_an_example() -> None:
    kernels: list[Any] = [kernel for source in all_sources() for kernel in kernels_in(source)]
    kernels += [kernel for function in (got, looked_up) for kernel in kernels_in_two(function)]
    functions = [one for one in kernels if isinstance(one, types.FunctionType)]
    within = [cell.cell_contents for one in functions for cell in one.__closure__ or ()]
    reached = set(map(id, kernels)) | {
        (kernel.__module__, kernel.__qualname__.partition(".<locals>")[0])
        for kernel in (*functions, *within)
        if isinstance(kernel, types.FunctionType)
    }
    missing = [
        f"{module.__name__}.{name}"
        for module in (list_kernels, number_kernels, lookups, text_kernels, times)
        for name, kernel in vars(module).items()
        if callable(kernel)
        and not name.startswith("_")
        and not inspect.isclass(kernel)
        and getattr(kernel, "__module__", None) == module.__name__
        and name not in _NO_KERNELS.get(module.__name__.rpartition(".")[2], ())
        and id(kernel) not in reached
        and (module.__name__, name) not in reached
    ]
    assert not missing


def all_sources() -> Iterator[Compiled]:
    for texts in EXAMPLES.values():
        for source in texts:
            yield compiled_of(source)[1]


def kernels_in(part: Any, seen: set[int] | None = None) -> Iterator[Any]:
    """The kernels of a compiled function."""
    seen = set() if seen is None else seen
    if id(part) in seen:
        return
    seen.add(id(part))
    if isinstance(part, Apply):
        yield part.kernel
    if isinstance(part, tuple | list):
        for one in part:
            yield from kernels_in(one, seen)
    elif is_dataclass(part):
        for field in fields(part):
            yield from kernels_in(getattr(part, field.name), seen)


def got(x: Element, table: dict[str, int]) -> Any:
    return table.get(x.s, -1), x.t in table


def looked_up(x: Element, table: dict[str, int]) -> Any:
    return table[x.s] if x.s in table else table[""]


PRICES = {text: number for number, text in enumerate(["ab", "", "\u0149", "a\x00B", " x"])}


def _tables(keys: pa.Array, items: pa.Array, count: int) -> pa.Array:
    table = lookups.table_array(keys, items, [0, len(keys)])
    return table.take(pa.array(np.ones(count, np.int64)))


@pytest.mark.parametrize("function", [got, looked_up])
@pytest.mark.parametrize("form", FORMS)
def test_lookups_give_the_same_over_all_forms_of_a_column(
    function: Callable[..., Any], form: str
) -> None:
    shape = Table(dict, STR, INT)
    compiled = compile_function(function, ELEMENT, shape, args=[Argument(1)])
    assert isinstance(compiled, Compiled)
    for name in ("ordinary", "odd"):
        elements = values_of(ARRAYS[name]["plain"], ELEMENT)
        table = _tables(pa.array(list(PRICES)), pa.array(list(PRICES.values())), len(elements))
        output = compiled.evaluate(ARRAYS[name][form], table)
        expected = called(lambda x: function(x, PRICES), elements, ResultKind.MAP)
        assert written(results(compiled, output, len(elements))) == written(expected)


def kernels_in_two(function: Callable[..., Any]) -> Iterator[Any]:
    compiled = compile_function(function, ELEMENT, Table(dict, STR, INT), args=[Argument(1)])
    yield from kernels_in(compiled)


class Person(NamedTuple):
    name: str
    age: int


class Place(NamedTuple):
    name: str
    size: float
    is_near: bool


PERSON = RecordShape(Person, Person._fields, (STR, INT))
PLACE = RecordShape(Place, Place._fields, (STR, FLOAT, BOOL))
EITHER = Union((PERSON, PLACE))
OF_UNION: dict[str, Callable[[Any], Any]] = {
    "a field of both": lambda x: x.name.upper() + x.name.lower(),
    "its class": lambda x: isinstance(x, Person),
    "a field of one": lambda x: x.age * 2 if isinstance(x, Person) else len(x.name),
    "handed on": lambda x: (x.name, x),
}


def union_of(elements: list[Any], make: Make, before: int) -> pa.Array:
    """Elements of two classes, the first ones of another array."""
    every = [Place("Other rows: \u00e9", 0.5, True)] * before + elements
    kinds = [int(isinstance(one, Place)) for one in every]
    places = [kinds[:at].count(kind) for at, kind in enumerate(kinds)]
    members = [
        column([one for one in every if isinstance(one, kind)], shape, make)
        for kind, shape in ((Person, PERSON), (Place, PLACE))
    ]
    union = pa.UnionArray.from_dense(
        pa.array(kinds, pa.int8()), pa.array(places, pa.int32()), members
    )
    return union.slice(before)


@pytest.mark.parametrize("name", OF_UNION)
def test_elements_of_several_classes_give_the_same_in_all_forms(name: str) -> None:
    texts = ["Ab", "", "bB", "AB"]
    elements: list[Any] = [
        Person(texts[at % 4], at) if at % 3 else Place(texts[-at % 4], at / 4, at % 2 == 0)
        for at in range(11)
    ]
    over_columns = compiled(OF_UNION[name], EITHER)
    expected = expected_of(OF_UNION[name], elements)
    for form, make in {"plain": pa.array, **FORMS}.items():
        for before in (0, 3):
            array = union_of(elements, make, before)
            assert evaluated(over_columns, array) == expected, f"{form}, {before} before"
