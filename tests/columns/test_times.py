"""Points in time: what functions make of them over columns is what they make of the values."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from apache_beam.transforms.window import TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp
from hypothesis import given
from hypothesis import strategies as st
from in_python import assert_same, compiled, refusal

from sparkbeam.columns import Opaque, RecordShape, ResultKind, Scalar

ZONES = [None, "UTC", "+05:30", "Europe/Berlin", "America/New_York", "Africa/Monrovia"]
UNITS = {"s": 1_000_000, "ms": 1000, "us": 1}
MOMENTS = st.one_of(
    st.integers(-(2**31), 2**33).map(lambda seconds: seconds * 1_000_000),
    st.integers(-(2**53) - 2, 2**53 + 2),
    st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
    st.integers(1_700_000_000_000_000, 1_700_000_000_000_100),
)


DAY = Duration(24 * 60 * 60)


class Stop(NamedTuple):
    number: int
    at: Timestamp | None


DATETIMES: list[Callable[[Any], Any]] = [
    lambda row: row["at"].timestamp(),
    lambda row: TimestampedValue(row["number"], row["at"].timestamp()),
    lambda row: int(row["at"].timestamp() * 1000) + row["number"],
]
TIMESTAMPS: list[Callable[[Any], Any]] = [
    lambda row: TimestampedValue(row["number"], row["at"]),
    lambda row: TimestampedValue(row["number"], Timestamp.of(row["at"])),
    lambda row: row["at"].micros // 1000 + Timestamp.of(row["number"]).micros,
    lambda row: int(row["at"]) + row["at"].seconds(),
    lambda row: float(row["at"]) if -(2**52) < row["at"].micros < 2**52 else 0.0,
    lambda row: float(Timestamp.of(row["number"])),
    lambda row: ((row["at"] - Timestamp(7)) % Duration(60)).micros,
    lambda row: ((3 + row["at"]) % 2.5).micros - (row["at"] - 3).micros,
    lambda row: (5 - Duration(micros=row["number"])).micros,
    lambda row: Duration(row["number"], 1) + DAY > row["at"] - Timestamp.of(2) - 1,
    lambda row: (DAY if row["number"] % 2 else Duration.of(1.5)) == Duration(86400),
]
MADE: list[Callable[[Any], Any]] = [
    lambda row: Stop(row["number"], Timestamp(micros=row["at"].micros + 1)),
    lambda row: (Timestamp(row["number"]), Timestamp(micros=5)),
    lambda row: {"at": Timestamp.of(row["at"]), "n": row["number"]},
    lambda row: Stop(row["number"], Timestamp(row["number"]) if row["number"] % 2 else None),
    lambda row: (max(Timestamp(row["number"]), row["at"]), row["at"] < Timestamp(1_700_000_000)),
    lambda row: (row["at"] == Timestamp(row["number"]), row["at"] >= row["at"]),
    lambda row: TimestampedValue((row["number"], Timestamp(micros=-1)), row["at"]),
    lambda row: (Timestamp(row["number"]), 0)[0].micros,
    lambda row: (Timestamp(row["number"]) if row["number"] > 2 else row["at"], 0),
]


def shape_of(unit: str, zone: str | None, *, is_as_in_arrow: bool) -> RecordShape:
    times = Opaque(pa.timestamp(unit, zone), is_as_in_arrow=is_as_in_arrow)
    return RecordShape(dict, ("at", "number"), (times, Scalar(int)))


def block_of(micros: list[int | None], shape: RecordShape) -> pa.Array:
    kind = shape.fields[0].arrow_type  # type: ignore[union-attr]
    cast = [None if one is None else one // UNITS[kind.unit] for one in micros]
    times = pa.array(cast, pa.int64()).cast(kind)
    return pa.StructArray.from_arrays([times, pa.array(range(len(micros)))], ["at", "number"])


def is_taken(function: Callable[[Any], Any], block: pa.Array, shape: RecordShape) -> bool:
    """Return whether a function runs over columns; if so, it must give what a call gives."""
    return assert_same(compiled(function, shape), function, block, ResultKind.MAP)


@pytest.fixture(
    scope="module", autouse=True, params=["UTC", "Europe/Berlin", "Australia/Lord_Howe"]
)
def local_zone(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@given(
    st.lists(MOMENTS, min_size=1, max_size=8),
    st.sampled_from(list(UNITS)),
    st.sampled_from(ZONES),
    st.sampled_from(DATETIMES),
)
def test_datetimes_are_seconds_as_in_python(
    micros: list[int], unit: str, zone: str | None, function: Callable[[Any], Any]
) -> None:
    shape = shape_of(unit, zone, is_as_in_arrow=True)
    is_taken(function, block_of(list(micros), shape), shape)


@given(
    st.lists(MOMENTS, min_size=1, max_size=8),
    st.sampled_from(list(UNITS)),
    st.sampled_from(ZONES),
    st.sampled_from(TIMESTAMPS),
)
def test_timestamps_are_those_of_beam(
    micros: list[int], unit: str, zone: str | None, function: Callable[[Any], Any]
) -> None:
    shape = shape_of(unit, zone, is_as_in_arrow=False)
    assert is_taken(function, block_of(list(micros), shape), shape)


@given(st.lists(MOMENTS, min_size=1, max_size=8), st.sampled_from(MADE))
def test_timestamps_that_a_function_makes_are_in_its_results(
    micros: list[int], function: Callable[[Any], Any]
) -> None:
    shape = shape_of("us", "UTC", is_as_in_arrow=False)
    assert is_taken(function, block_of(list(micros), shape), shape)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("function", DATETIMES)
def test_times_of_our_days_are_not_refused(function: Callable[[Any], Any], zone: str) -> None:
    shape = shape_of("us", zone, is_as_in_arrow=True)
    micros: list[int | None] = [1_700_000_000_000_000 + 12_345_678 * at for at in range(50)]
    assert is_taken(function, block_of(micros, shape), shape)
    assert not is_taken(function, block_of([*micros, None], shape), shape)


@pytest.mark.parametrize(
    ("function", "unit", "reason"),
    [
        (lambda row: row["at"].isoformat(), "us", "it calls datetime.isoformat"),
        (lambda row: row["at"].timestamp(), "ns", "it calls timestamp[ns, tz=UTC].timestamp"),
        (lambda row: TimestampedValue(1, row["at"]), "us", "it uses timestamp[us, tz=UTC] as a"),
    ],
)
def test_what_else_is_done_with_datetimes_has_a_reason(
    function: Callable[[Any], Any], unit: str, reason: str
) -> None:
    assert refusal(function, shape_of(unit, "UTC", is_as_in_arrow=True)).startswith(reason)


def test_a_timestamp_is_no_number_of_seconds() -> None:
    shape = shape_of("us", None, is_as_in_arrow=False)
    refused = refusal(lambda row: TimestampedValue(1, Timestamp(row["at"])), shape)
    assert refused == "it makes a Timestamp of something other than a number"


def test_a_missing_timestamp_is_compared_by_python() -> None:
    shape = shape_of("us", "UTC", is_as_in_arrow=False)
    assert not is_taken(lambda row: row["at"] == Timestamp(0), block_of([5, None], shape), shape)
