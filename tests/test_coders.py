"""Coders for the keys of sorted state: their bytes stand in the order of the values."""

import datetime
import decimal
import math
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from apache_beam.coders import coders
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.utils.timestamp import Timestamp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkbeam.coders import (
    Descending,
    OrderedBoolCoder,
    OrderedBytesCoder,
    OrderedDateCoder,
    OrderedDatetimeCoder,
    OrderedDecimalCoder,
    OrderedFloatCoder,
    OrderedIntCoder,
    OrderedOptionalCoder,
    OrderedStrCoder,
    OrderedTimestampCoder,
    OrderedTupleCoder,
    ordered_coder,
    preserves_order,
)


class Place(NamedTuple):
    city: str
    floor: int | None


Rank = Callable[[Any], Any]
"""Gives what Python compares in the place of a value."""


class Turned:
    """Stands in the other order."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> Any:
        return self.value == other.value

    def __lt__(self, other: Any) -> Any:
        return other.value < self.value


def itself(value: Any) -> Any:
    return value


NUMBERS = st.integers() | st.integers(-300, 300) | st.integers().map(lambda number: number**99)
ZONES = st.sampled_from(
    [datetime.timezone(datetime.timedelta(hours=hours)) for hours in (-5, 0, 9)]
)
PLAIN: list[tuple[coders.Coder, st.SearchStrategy[Any], Rank]] = [
    (OrderedBoolCoder(), st.booleans(), itself),
    (OrderedIntCoder(), NUMBERS, itself),
    (OrderedFloatCoder(), st.floats(allow_nan=False), itself),
    (OrderedDecimalCoder(), st.decimals(allow_nan=False), itself),
    (OrderedStrCoder(), st.text(st.characters(), max_size=6), itself),
    (
        OrderedBytesCoder(),
        st.binary(max_size=6) | st.sampled_from([b"\0", b"\0\0", b"\0\1"]),
        itself,
    ),
    (OrderedDateCoder(), st.dates(), itself),
    (OrderedDatetimeCoder(), st.datetimes(), itself),
    (
        OrderedTimestampCoder(),
        st.integers(-(2**63), 2**63 - 1).map(lambda micros: Timestamp(micros=micros)),
        itself,
    ),
]


def optional(inner: tuple[coders.Coder, st.SearchStrategy[Any], Rank]) -> Any:
    coder, values, rank = inner

    def none_first(value: Any) -> Any:
        return (False,) if value is None else (True, rank(value))

    return OrderedOptionalCoder(coder), st.none() | values, none_first


def descending(inner: tuple[coders.Coder, st.SearchStrategy[Any], Rank]) -> Any:
    coder, values, rank = inner
    return Descending(coder), values, lambda value: Turned(rank(value))


def pair(*inner: tuple[coders.Coder, st.SearchStrategy[Any], Rank]) -> Any:
    ranks = [rank for _, _, rank in inner]
    return (
        OrderedTupleCoder(*(coder for coder, _, _ in inner)),
        st.tuples(*(values for _, values, _ in inner)),
        lambda value: tuple(rank(item) for rank, item in zip(ranks, value, strict=True)),
    )


KINDS = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: (
        inner.map(optional)
        | inner.map(descending)
        | st.lists(inner, max_size=3).map(lambda some: pair(*some))
    ),
    max_leaves=4,
)


def check(kind: Any, one: Any, other: Any) -> None:
    coder, _, rank = kind
    encoded = coder.encode(one), coder.encode(other)
    assert (encoded[0] < encoded[1]) == (rank(one) < rank(other))
    assert (encoded[0] == encoded[1]) == (rank(one) == rank(other))
    assert [rank(coder.decode(data)) for data in encoded] == [rank(one), rank(other)]
    assert encoded[0] == encoded[1] or not encoded[1].startswith(encoded[0])


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: repr(kind[0]))
def test_order_is_that_of_the_values(kind: Any) -> None:
    @settings(max_examples=80)
    @given(kind[1], kind[1])
    def compare(one: Any, other: Any) -> None:
        check(kind, one, other)

    compare()


@settings(max_examples=100)
@given(st.data())
def test_order_of_what_is_nested_too(data: st.DataObject) -> None:
    kind = data.draw(KINDS)
    check(kind, data.draw(kind[1]), data.draw(kind[1]))


@settings(max_examples=40)
@given(st.datetimes(timezones=ZONES), st.datetimes(timezones=ZONES))
def test_instants_of_all_time_zones(one: datetime.datetime, other: datetime.datetime) -> None:
    utc = datetime.UTC
    try:
        instants = one.astimezone(utc), other.astimezone(utc)
    except OverflowError:
        return
    check((OrderedDatetimeCoder(), None, lambda value: value), *instants)
    coder = OrderedDatetimeCoder()
    assert [coder.decode(coder.encode(value)) for value in (one, other)] == [*instants]


@example(2**40_000)
@settings(max_examples=20)
@given(st.integers(2**1000, 2**9000))
def test_numbers_of_thousands_of_digits(number: int) -> None:
    kind = OrderedIntCoder(), None, itself
    for other in (-number, number + 1, 2**1015, 2**1016, -(2**1016) - 1):
        check(kind, number, other)
        check(kind, -number, other)


def test_zero_has_no_sign() -> None:
    coder = OrderedFloatCoder()
    assert coder.encode(-0.0) == coder.encode(0.0)
    assert math.copysign(1, coder.decode(coder.encode(-0.0))) == 1


def test_equal_decimals_are_one_key() -> None:
    coder = OrderedDecimalCoder()
    assert coder.encode(decimal.Decimal("-1.0")) == coder.encode(decimal.Decimal("-1.000"))
    assert coder.encode(decimal.Decimal("-0")) == coder.encode(decimal.Decimal("0.00"))


def test_named_tuples_come_back_as_they_are() -> None:
    coder = ordered_coder(Place)
    assert isinstance(coder.decode(coder.encode(Place("Ulm", None))), Place)
    assert coder.encode(Place("Ulm", None)) < coder.encode(Place("Ulm", -3))


@pytest.mark.parametrize(
    ("kind", "coder"),
    [
        (int, OrderedIntCoder()),
        (tuple[str, Timestamp], OrderedTupleCoder(OrderedStrCoder(), OrderedTimestampCoder())),
        (float | None, OrderedOptionalCoder(OrderedFloatCoder())),
        (bytes | None, OrderedOptionalCoder(OrderedBytesCoder())),
    ],
)
def test_the_coder_of_a_type(kind: Any, coder: Any) -> None:
    assert ordered_coder(kind) == coder


def test_coders_tell_whether_they_keep_the_order() -> None:
    class Own(coders.Coder):
        preserves_order = True

    kept = [Own(), coders.BytesCoder(), coders.StrUtf8Coder(), coders.BooleanCoder()]
    assert all(map(preserves_order, [*kept, Descending(OrderedIntCoder())]))
    lost = [
        coders.VarIntCoder(),
        coders.FloatCoder(),
        coders.TimestampCoder(),
        coders.PickleCoder(),
    ]
    assert not any(map(preserves_order, lost))


def test_coders_travel() -> None:
    coder = Descending(
        OrderedTupleCoder(OrderedOptionalCoder(OrderedIntCoder()), OrderedStrCoder())
    )
    assert pickle.loads(cloudpickle.dumps(coder)) == coder
    assert coder != Descending(OrderedTupleCoder(OrderedIntCoder(), OrderedStrCoder()))
