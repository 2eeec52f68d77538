import enum
import functools
import math
import operator
import re
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st
from in_python import (
    ELEMENT,
    FLOAT,
    INT,
    STR,
    Element,
    Inner,
    assert_same,
    called,
    column,
    compiled,
    refusal,
    results,
    written,
)

from sparkbeam.columns import (
    Compiled,
    FallBack,
    Keyed,
    RecordShape,
    Refused,
    ResultKind,
    Scalar,
    Shape,
    Union,
    compile_function,
    member_of,
    shape_of,
)
from sparkbeam.columns.python_values import values_of
from sparkbeam.worker.value_columns import column_of

ELEMENTS = [
    Element(
        at,
        at - 1,
        at / 2,
        -float(at),
        "aé"[: at % 3] + str(at),
        f" {at}\x1c",
        b"ab"[: at % 3],
        at % 2 == 0,
        at > 2,
        Inner(at * 7, "s"),
        (at, "p"),
        beam.Row(u=float(at), v=at % 3 == 0),
        {"i": at, "s": "é" * (at % 2)},
    )
    for at in range(-4, 5)
]
SKIP = 3
NAMES = frozenset(["a1", "aé2"])
TABLE: dict[Any, Any] = {1: 2}
CHOSEN: set[Any] = {1, 2.0, "a1", None}
LISTED: list[Any] = [True, "aé2", 0.5, b"a"]


def gives(function: Any, *values: Any, shape: Shape | None = None) -> list[Any]:
    """What a function gives for values of one type, compared with calling it."""
    shape = shape or shape_of_values(values)
    over_columns = compiled(function, shape)
    assert assert_same(over_columns, function, list(values), ResultKind.MAP)
    return values_of(over_columns.evaluate(column([*values], shape)).values, over_columns.result)


def shape_of_values(values: tuple[Any, ...]) -> Shape:
    """The type of values, of which some may be None; a dict is a record of ints."""
    first = next(value for value in values if value is not None)
    if isinstance(first, dict):
        return RecordShape(dict, tuple(first), (INT,) * len(first))
    return Scalar(type(first))


def total(x: Element, rate: int = 2, *, extra: int = 1) -> int:
    return x.a * rate + extra


def with_early_return(x: Element) -> int:
    if x.a < 0:
        return -1
    if x.a == 0 or x.b > 2:
        y = x.a * 10
    elif x.p:
        y = 7
    else:
        return x.b
    y += 1
    return y


def calls_another(x: Element) -> int:
    return total(x, extra=4) + with_early_return(x)


def through_a_tuple(x: Element) -> Any:
    found = "none"
    for prefix, size in (("a", 1), ("aé", x.a), (x.t, 3)):
        if size > 2:
            continue
        if x.s.startswith("a") and prefix in ("a", "é"):
            return prefix, size
        found += prefix
    return found, size


def up_to_one(x: Element) -> int:
    total = 0
    for one in [x.a, x.b, *x.pair[:1]]:
        if one > 2:
            break
        total += one
    else:
        total -= 10
    return total


def tries_each(x: Element) -> int:
    for one in (x.a, x.b):
        try:
            if one > 1:
                return one
        except ValueError:
            if one < 0:
                continue
            raise
    return 0


def yields_each(x: Element) -> Any:
    for one in (x.a, x.b, 7):
        if one > 1:
            yield one
            for text in (x.s, "b"):
                if one % 2:
                    break
                yield len(text)
    if one == 7:
        yield one


class Kind(enum.Enum):
    SALE = "a1"
    OTHER = 3


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    FIRST = "a1"


LEVELS = frozenset([Level.LOW, Level.HIGH])

SPACE: dict[str, Any] = {}
exec("def checks(x):\n    assert x.a > -100, 'too small'\n    return x.a", SPACE)
checks = SPACE["checks"]  # Here pytest would make something else of the assertion.


class Price(NamedTuple):
    amount: int
    currency: str = "EUR"

    def in_cents(self) -> int:
        return self.amount * 100

    @property
    def is_large(self) -> bool:
        return self.amount > 2


PRICE = RecordShape(Price, Price._fields, (INT, STR))


class Rates:
    factor = 3

    def __init__(self, rate: int) -> None:
        self.rate = rate

    def apply(self, x: Element) -> int:
        return x.a * self.rate + self.factor

    def __call__(self, x: Element) -> int:
        return self.apply(x)


MAPPED = [
    lambda x: x,
    lambda x: (x.a is None, x.inner is not None, not x.a, not x.s, not x.y),
    lambda x: (x.a in CHOSEN, x.s in NAMES, x.f not in LISTED, x.p in LISTED, x.a in TABLE),
    lambda x: (2 in CHOSEN, x.a > 0 and CHOSEN and x.b in CHOSEN, CHOSEN is not None, not LISTED),
    lambda x: (x.s == Kind.SALE.value, Kind.OTHER.value + x.a, Kind.SALE.name, x.s != Word.FIRST),
    lambda x: (x.a == Level.LOW, x.a in (Level.LOW, Level.HIGH), x.a >= Level.HIGH, x.b in LEVELS),
    lambda x: (x.f < Level.HIGH, x.s in (Word.FIRST, Kind.SALE.name), Level.LOW in LEVELS),
    through_a_tuple,
    up_to_one,
    tries_each,
    lambda x: (type(x.a if x.p else None) is int, type(x.row) is beam.Row, type(x.pair) is tuple),
    lambda x: beam.Row(name=x.s, twice=beam.Row(two=x.a * 2)),
    lambda x: ((*x.pair, x.a), x.pair + x.pair, x.pair[:1], x[0], x.pair == (1, "p")),
    lambda x: (min((x.a, x.b)), max([x.f, x.g]), max(x.pair[:1]), sum((x.a, x.b, x.p)), sum([3])),
    lambda x: {"a": x.a, "inner": {"s": x.s, "pair": x.pair}},
    lambda x: ({}, {"none": None}),
    lambda x: (beam.Row(a=x.a, **x.item), {"a": x.a}["a"], {"a": x.a}.get("b")),
    lambda x: x.item if x.p else {"i": 0, "s": x.s},
    lambda x: (x.item.get("i"), x.item.get("none"), x.item.get("none", x.a)),
    lambda x: ("i" in x.item, "none" not in x.item, 3 in x.item, len(x.item), not x.item),
    lambda x: {**x.item, "i": x.b, "new": x.f},
    lambda x: (Inner(**x.item), Inner(s=x.s, i=x.a), x.inner._replace(s=x.t), x.row.u + x.row.v),
    lambda x: (isinstance(x.item, dict), x.inner or None, (x and x.a) or 0),
    lambda x: (x.inner if x.p else None) and x.inner.i,
    lambda x: TimestampedValue((x.a, x.s), x.f),
    lambda x: TimestampedValue(x.a, Timestamp(micros=x.b * 7)) if x.p else TimestampedValue(0, 1),
    lambda x: 5,
    lambda x: None,
    lambda x: (),
    lambda x: (x.a, (None, (2, b"a"))),
    lambda x: (1, "a") if x.p else x.pair,
    lambda x: beam.Row(),
    with_early_return,
    calls_another,
    checks,
    total,
    functools.partial(total, rate=5),
    functools.partial(lambda rate, x: x.a * rate, 3),
    operator.attrgetter("inner.i"),
    operator.attrgetter("a", "s"),
    operator.itemgetter(0, -2),
    Rates(4).apply,
    Rates(5),
    lambda x: str.upper(x.inner.s),
    lambda x: getattr(x, "a") + getattr(x.inner, "i"),  # noqa: B009
]
"""Functions that neither :mod:`operations` has nor :mod:`writing` writes."""


@pytest.mark.parametrize("function", MAPPED)
def test_a_function_gives_what_it_gives_when_it_is_called(function: Any) -> None:
    whole, block, part = compiled(function), column(ELEMENTS, ELEMENT), ELEMENTS[2:5]
    assert assert_same(whole, function, ELEMENTS, ResultKind.MAP)
    assert len(whole.evaluate(block.slice(0, 0)).values) == 0
    expected = written(called(function, part, ResultKind.MAP))
    for output in (whole.evaluate(block.slice(2, 3)), whole.evaluate(block, rows=np.arange(2, 5))):
        assert written(results(whole, output, 3)) == expected


def only_some(x: Element) -> Any:
    if x.a > 0:
        yield x.s
    if x.p:
        yield x.t


def stops_early(x: Element) -> Any:
    yield x.a
    if x.a < 0:
        return
    y = x.a * 2
    yield y


class KeepFn(beam.DoFn):
    def __init__(self, least: int) -> None:
        super().__init__()
        self._least = least

    def process(self, element: Element) -> Any:
        if element.a >= self._least:
            yield element.s, element.a


FLAT = [
    only_some,
    stops_early,
    yields_each,
    KeepFn(1).process,
    lambda x: [x] if x.p else [],
    lambda x: [x.a, x.b],
    lambda x: (x.a,) if x.p else None,
    lambda x: [x.a] if x.p else [x.b, 0],
    lambda x: [x.inner, Inner(x.a, "b"), None],
    lambda x: [None] if x.p else [x.inner],
    lambda x: [(1, "a")] if x.p else [x.pair],
    lambda x: [],
    lambda x: [TimestampedValue(x.a, x.b)],
    lambda x: x.inner[:1],
]


@pytest.mark.parametrize("function", FLAT)
def test_a_function_may_give_any_number_of_results(function: Any) -> None:
    assert assert_same(
        compiled(function, form=ResultKind.FLAT), function, ELEMENTS, ResultKind.FLAT
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.a % SKIP == 0,
        lambda x: x.p and x.a,
        lambda x: x.s or x.inner,
        lambda x: x.a > 0 and "é" in x.s,
        lambda x: True,
    ],
)
def test_a_filter_takes_anything_for_true_or_false(function: Any) -> None:
    kept = compiled(function, form=ResultKind.FILTER)
    assert kept.is_filter
    assert assert_same(kept, function, ELEMENTS, ResultKind.FILTER)
    rows = kept.selected_rows(column(ELEMENTS, ELEMENT), rows=np.array([1, 2, 3, 8]))
    assert rows.tolist() == [at for at in (1, 2, 3, 8) if function(ELEMENTS[at])]


@pytest.mark.parametrize(
    "transform",
    [
        beam.Map(lambda x: x.a + 1),
        beam.Map(total, 3, extra=4),
        beam.Map(lambda x, more: x.a + more, 3),
        beam.MapTuple(lambda *fields: fields[0]),
        beam.Filter(lambda x: x.p),
        beam.Filter(lambda x, least: x.a > least, 1),
        beam.FlatMap(lambda x: [x.a, x.b]),
        beam.FlatMap(only_some),
        beam.ParDo(KeepFn(0)),
    ],
)
def test_what_beam_makes_of_a_function_is_compiled(transform: Any) -> None:
    process, args, kwargs = transform.fn.process, transform.args, transform.kwargs
    whole = compile_function(process, ELEMENT, form=ResultKind.FLAT, args=args, kwargs=kwargs)
    assert isinstance(whole, Compiled), whole
    assert assert_same(whole, lambda x: process(x, *args, **kwargs), ELEMENTS, ResultKind.FLAT)


def test_fields_by_name_make_rows() -> None:
    fields: dict[str, Any] = {"a": operator.attrgetter("a"), "double": lambda x: x.b * 2}
    rows = compile_function(fields, ELEMENT)
    assert isinstance(rows, Compiled)
    assert assert_same(rows, lambda x: beam.Row(a=x.a, double=x.b * 2), ELEMENTS, ResultKind.MAP)


def test_parts_make_pairs_of_a_key_and_a_list() -> None:
    parts = Keyed(Inner, (lambda x: x.a, operator.attrgetter("s")), (lambda x: x.b, Rates(2)))
    pairs = compile_function(parts, ELEMENT)
    assert isinstance(pairs, Compiled)
    expected = [(Inner(x.a, x.s), [x.b, Rates(2)(x)]) for x in ELEMENTS]
    found = pairs.evaluate(column(ELEMENTS, ELEMENT)).values
    assert repr(column_of(found, pairs.result).values()) == repr(expected)
    for keys, values in (((len,), (len,)), ((len, len), (open,))):
        assert isinstance(compile_function(Keyed(Inner, keys, values), ELEMENT), Refused)


def test_a_class_is_a_function_too() -> None:
    pairs = RecordShape(tuple, ("0", "1"), (INT, STR))
    unpacked = compiled(lambda pair: Price(*pair), pairs)
    block = [(1, "a"), (2, "b")]
    assert assert_same(unpacked, lambda pair: Price(*pair), block, ResultKind.MAP)


def test_methods_and_properties_of_a_namedtuple_are_followed() -> None:
    prices = [Price(1), Price(5, "USD")]
    for function in (
        lambda p: p.in_cents(),
        lambda p: (p.is_large, p.currency),
        lambda p: Price(p.amount),
        lambda p: Price.in_cents(p),
    ):
        assert assert_same(compiled(function, PRICE), function, prices, ResultKind.MAP)


LEAST, LARGEST = -(2**63), 2**63 - 1
TO_INT = (int, round, math.floor, math.ceil, math.trunc)
LETTERS = ("aB1", "straße", "İI", "Σσς", "ǆ", "\U0001f600")
ZEROS = (0.0, -0.0, math.nan, 1.0, -1.0)
LINES = ("a,1,", "é,2,x,y")


def checks_small(x: int) -> int:
    if x > 10:
        raise ValueError(f"{x} is too large")
    return x


def parse(x: str) -> tuple[str, int]:
    name, number, _ = x.split(",", 2)
    return name, int(number)


def in_vain(x: int) -> int:
    _ = 1 // x
    return 1


EVALUATED: list[tuple[Any, ...]] = [
    (lambda x: (x % 3, x // 3), LEAST, LARGEST),
    *((function, -(2.0**63), 0.5, 1.5, 2.5, -0.5) for function in TO_INT),
    (lambda x: (x == 1, x != 1, x or 0, 0 if x is None else x + 1), 1, None),
    (lambda x: (x in (1, None), x == x, not x), 1, None, 0),
    (lambda x: x in ("a", None), "a", None),
    # Ints and floats compare exactly.
    (lambda x: x == 2.0, 2, 3, 2**53),
    (lambda x: x + 0.0, 2**53 + 1, 2**62 + 1),
    (lambda x: x == 2**53 + 1 if x > 5 else False, 2**53 + 1),
    # Signs of zero and NaN stay.
    (lambda x: (-x, x * -1, x + 0, min(x, 0.0), max(x, -0.0), x or -0.0, abs(x)), *ZEROS),
    (lambda x: (x == x, x != x, x < 1, bool(x), x in (0.0, 1)), *ZEROS),
    (lambda x: (x % 3.0, x // 3.0, x % -3.0), 0.0, -0.0, 5.5, -5.5, -1e-300),
    (lambda x: 0 / x, 5, -5),
    (lambda x: round(x, 2), 2.675, -0.004, 1e22),
    (lambda x: (x.upper(), x.lower(), x.title()), *LETTERS),
    (parse, *LINES),
    (lambda x: checks_small(x), 1, 2),
    # Branches are evaluated for the elements that take them.
    (lambda x: 10 // x if x > 0 else 10 // -x if x < 0 else 0, 0, 2, -2),
    (lambda x: (x > 0 and 10 // x > 3, x == 0 or 10 // x > 3), 0, 2, 5),
    (lambda x: x is not None and x + 1 > 2, None, 2),
    *((lambda x: x, *values) for values in ((True, None), (b"", b"\xff"), ("", None))),
]
"""Functions, each with values of one type."""


@pytest.mark.parametrize("case", EVALUATED)
def test_values_of_one_type_give_what_python_gives(case: tuple[Any, ...]) -> None:
    gives(*case)


BY_REASON: dict[str, list[tuple[Any, ...]]] = {
    "an int exceeds 64 bits": [
        *((function, LARGEST) for function in (lambda x: x + 1, lambda x: x * 2, lambda x: x << 1)),
        (lambda x: x**2, LARGEST),
        *((function, LEAST) for function in (lambda x: -x, abs, lambda x: x // -1)),
        *((function, LEAST) for function in (lambda x: x % -1, lambda x: x - 1)),
        *((function, value) for function in TO_INT for value in (2.0**63, -(2.0**64))),
    ],
    "it divides or rounds a value that is not finite": [
        (function, value) for function in TO_INT for value in (math.nan, math.inf)
    ],
    "it divides by zero": [
        *((function, 1, 0) for function in (lambda x: 1 // x, lambda x: 1 % x, lambda x: 1 / x)),
        (lambda x: 1.5 // x, 1, 0),
        (lambda x: 1 / x, -0.0),
        (in_vain, 1, 0),
    ],
    "a value is None": [
        *((function, 1, None) for function in (lambda x: x + 1, lambda x: x < 1, lambda x: -x)),
        *((function, 1, None) for function in (lambda x: +x, abs, int, str)),
        (str, "a", None),
        (lambda x: x["i"], {"i": 1}, None),
        (lambda x: "i" in x, {"i": 1}, None),
    ],
    "an int without an exact float is divided or combined with a float": [
        (lambda x: x == 2.0, 2**53 + 1),
        (lambda x: x / 3, 2**53 + 1),
    ],
    "it parses a number not in plain decimal notation": [
        *((int, text) for text in ("", " 1", "1_000", "\u0663", "1\n", "1" * 19, "x")),
        *((float, text) for text in ("", "nan", "inf", "1e999", "\u0663")),
    ],
    ".*a different length.*": [(parse, "a,1")],
    ".*beyond the end of a list": [(lambda x: x.split(",")[3], "a,1")],
    ".*fewer characters.*": [(lambda x: x[1], "a")],
    "it raises an exception": [(lambda x: checks_small(x), 1, 100)],
    "bytes are not valid UTF-8": [
        (lambda x: x.decode(), wrong)
        for wrong in (b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xc3")
    ],
}
"""Functions and the values over which a block is refused, by the reason."""


@pytest.mark.parametrize("reason", BY_REASON)
def test_what_columns_cannot_hold_or_python_raises_is_refused(reason: str) -> None:
    for function, *values in BY_REASON[reason]:
        shape = shape_of_values(tuple(values))
        with pytest.raises(FallBack) as refused:
            compiled(function, shape).evaluate(column(values, shape))
        assert re.fullmatch(reason, str(refused.value)), (values, str(refused.value))


def test_a_field_of_none_is_refused_even_if_nobody_wants_it() -> None:
    function = compiled(lambda x: (x.inner.i, 1)[1])
    without = ELEMENTS[1]._replace(inner=None)  # type: ignore[arg-type]
    block = column([ELEMENTS[0], without], ELEMENT)
    with pytest.raises(FallBack, match="a value is None"):
        function.evaluate(block)
    assert len(function.evaluate(block, rows=np.array([0])).values) == 1


@given(st.lists(st.integers(-(10**7), 10**7)), st.integers(0, 22), st.integers(0, 4))
def test_floats_are_rounded_to_digits_as_in_python(
    numbers: list[int], digits: int, shift: int
) -> None:
    values = [float(f"{number}e-{digits + shift}") for number in numbers]
    odd = [math.nan, math.inf, -0.0, 0.5, 2.675, 1e300, -5e-324, 1e15 + 0.3]
    for some in (values, odd):
        space: dict[str, Any] = {}
        exec(f"function = lambda x: round(x, {digits})", space)
        assert assert_same(
            compiled(space["function"], FLOAT), space["function"], some, ResultKind.MAP
        )


def test_elements_of_several_classes_are_told_apart() -> None:
    union = pa.UnionArray.from_dense(
        pa.array([0, 1, 0, 1], pa.int8()),
        pa.array([0, 0, 1, 1], pa.int32()),
        [column([Price(1), Price(2, "x")], PRICE), column([Inner(3, "a"), Inner(4, "b")], INNER_)],
    )
    shape = shape_of(union.type, (Price, Inner))
    assert isinstance(shape, Union)
    values = values_of(union, shape)
    cases = [
        (lambda x: isinstance(x, Inner), ResultKind.FILTER),
        (lambda x: isinstance(x, Inner) and x.i > 3, ResultKind.FILTER),
        (lambda x: x.amount if isinstance(x, Price) else x.i, ResultKind.MAP),
        (lambda x: isinstance(x, (int, Price)), ResultKind.MAP),
        (lambda x: type(x) is Inner, ResultKind.FILTER),
        (lambda x: x.i if type(x) == Inner else x.amount, ResultKind.MAP),  # noqa: E721
        (lambda x: type(x) is not Price and x.i > 3, ResultKind.FILTER),
        (lambda x: type(x) is int, ResultKind.MAP),
        (lambda x: x, ResultKind.MAP),
        (lambda x: x is None, ResultKind.MAP),
    ]
    for function, form in cases:
        whole = compiled(function, shape, form=form)
        for part in (union, union.slice(1, 2)):
            found = results(whole, whole.evaluate(part), len(part))
            assert written(found) == written(called(function, values_of(part, shape), form))
    some = compiled(lambda x: isinstance(x, Inner) and x.i > 3, shape, form=ResultKind.FILTER)
    rows = some.selected_rows(union.slice(1, 3))
    assert some.members == (1,)
    assert compiled(lambda x: type(x) is Inner, shape, form=ResultKind.FILTER).members == (1,)
    assert values_of(member_of(union.slice(1, 3), 1, rows), INNER_) == [Inner(4, "b")]
    assert compiled(lambda x: isinstance(x, Inner) or x, shape, form=ResultKind.FILTER).members == (
        0,
        1,
    )
    amounts = compiled(lambda x: x.amount, shape)
    with pytest.raises(FallBack, match="no attribute amount"):
        amounts.evaluate(union)
    assert amounts.evaluate(union, rows=np.array([0, 2])).values.to_pylist() == [1, 2]
    assert len(values) == 4


INNER_ = RecordShape(Inner, ("i", "s"), (INT, STR))


@pytest.mark.parametrize(
    ("array", "function"),
    [
        (pa.array([1, None, 3], pa.int16()), lambda x: x or 0),
        (pa.array([1, 2], pa.uint64()), lambda x: x + 1),
        (pa.array([1.5, 2.5], pa.float32()), lambda x: x * 2),
        (pa.array(["a", None, "a"]).dictionary_encode(), lambda x: x == "a"),
        (pa.array(["a", "b"], pa.large_string()), lambda x: x + "!"),
        (pa.array([b"a"], pa.large_binary()), lambda x: x + b"!"),
        (pa.array([None, None]), lambda x: x is None),
        (pa.array([1, None], pa.timestamp("us")), lambda x: x if x is not None else None),
        (pa.array([[1], None], pa.list_(pa.int64())), lambda x: (x, x is None)),
    ],
)
def test_columns_have_many_types(array: pa.Array, function: Any) -> None:
    shape = shape_of(array.type)
    assert assert_same(compiled(function, shape), function, array, ResultKind.MAP)


def test_records_of_other_widths_are_joined() -> None:
    array = pa.array(
        [{"amount": 1, "currency": "a"}],
        pa.struct([("amount", pa.int32()), ("currency", pa.string())]),
    )

    def function(x: Price) -> list[Price]:
        return [x, Price(x.amount + 1)]

    found = compiled(function, shape_of(array.type, Price), form=ResultKind.FLAT).evaluate(array)
    assert values_of(found.values, PRICE) == function(Price(1, "a"))


def test_an_unsigned_int_may_be_too_large() -> None:
    array = pa.array([2**63], pa.uint64())
    with pytest.raises(FallBack):
        compiled(lambda x: x + 1, INT).evaluate(array)


def test_structs_are_what_the_type_says() -> None:
    arrow = pa.struct([("amount", pa.int32()), ("currency", pa.string())])
    assert shape_of(arrow) == RecordShape(beam.Row, ("amount", "currency"), (INT, STR))
    assert shape_of(arrow, Price) == PRICE
    assert shape_of(arrow, tuple[int, str]) == RecordShape(tuple, ("0", "1"), (INT, STR))
    nested = pa.struct([("0", pa.int64()), ("1", arrow)])
    assert shape_of(nested, tuple[int, Price | None]) == RecordShape(
        tuple, ("0", "1"), (INT, PRICE)
    )


class Odd(Price):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = Price.__hash__


class Hiding(Price):
    @property
    def amount(self) -> int:
        return 0


def test_a_namedtuple_that_brings_its_own_behaviour_is_respected() -> None:
    with pytest.raises(Exception, match="cannot represent"):
        shape_of(pa.struct([("amount", pa.int64()), ("currency", pa.string())]), Odd)
    hiding = RecordShape(Hiding, Price._fields, (INT, STR))
    function = operator.attrgetter("amount")
    assert assert_same(compiled(function, hiding), function, [Hiding(1)], ResultKind.MAP)
    assert refusal(lambda x: Odd(x), INT) == "it calls test_compile.Odd"


class Settings:
    def __init__(self, skip: int) -> None:
        self.skip = skip


def test_a_variable_that_changes_refuses_the_blocks_after_that() -> None:
    settings, rate = Settings(3), 2

    def function(x: int) -> int:
        return x * settings.skip * rate

    whole = compiled(function, INT)
    assert whole.evaluate(pa.array([1])).values.to_pylist() == [6]
    settings.skip = 4
    with pytest.raises(FallBack, match="skip has changed"):
        whole.evaluate(pa.array([1]))
    settings.skip, rate = 3, 5
    with pytest.raises(FallBack, match="rate has changed"):
        whole.evaluate(pa.array([1]))


@pytest.mark.parametrize("container", [{1, 2}, [1, 2], {1: "a", 2: "b"}])
def test_a_container_that_changes_refuses_the_blocks_after_that(container: Any) -> None:
    def function(x: int) -> bool:
        return x in container

    whole = compiled(function, INT)
    for _ in range(2):
        assert whole.evaluate(pa.array([1, 3])).values.to_pylist() == [True, False]
    change = getattr(container, "add", None) or getattr(container, "append", None)
    if change is None:
        container[3] = "c"
    else:
        change(3)
    with pytest.raises(FallBack, match=f"a {type(container).__name__} has changed"):
        whole.evaluate(pa.array([1]))
    assert gives(function, 1, 3, 4) == [True, True, False]


def test_a_function_that_is_replaced_refuses_the_blocks_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = compiled(lambda x: checks_small(x) + len(str(x)), INT)
    assert whole.evaluate(pa.array([1])).values.to_pylist() == [2]
    monkeypatch.setitem(globals(), "len", lambda text: 7)
    with pytest.raises(FallBack, match="len has changed"):
        whole.evaluate(pa.array([1]))
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "checks_small", abs)
    with pytest.raises(FallBack, match="checks_small has changed"):
        whole.evaluate(pa.array([1]))


def test_a_class_that_changes_refuses_the_blocks_after_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Local(NamedTuple):
        amount: int

    shape = RecordShape(Local, ("amount",), (INT,))
    whole = compiled(lambda x: Local(x.amount), shape)
    block = column([Local(1)], shape)
    assert values_of(whole.evaluate(block).values, shape) == [Local(1)]
    monkeypatch.setattr(Local, "amount", property(lambda local: 7))
    with pytest.raises(FallBack, match="amount has changed"):
        whole.evaluate(block)
