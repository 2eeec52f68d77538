"""Columns that are shuffled come out as the coders of their declared types would decode them."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
)
from apache_beam.utils.timestamp import Timestamp
from bids import Bid, Doubling
from elementwise import as_elements
from noting import noted
from random_aggregations import limits

from sparkbeam.io import ReadFromArrow


class Reading(NamedTuple):
    number: int
    small: int
    unsigned: int
    ratio: float
    is_on: bool
    name: str
    data: bytes
    maybe: int | None
    fee: Decimal
    time: Timestamp


class Doubled:
    """A declared type whose coder does not give back what it takes."""


class Fee:
    """A declared type of decimals."""


class Time:
    """A declared type of timestamps."""


coders.registry.register_coder(Doubled, Doubling)
coders.registry.register_coder(Fee, coders.DecimalCoder)
coders.registry.register_coder(Time, coders.TimestampCoder)

DECLARED: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "ints": (int, lambda row: row.number),
    "narrow ints": (int, lambda row: row.small),
    "unsigned ints": (int, lambda row: row.unsigned),
    "ints as floats": (float, lambda row: row.small),
    "bools as ints": (int, lambda row: row.is_on),
    "bools": (bool, lambda row: row.is_on),
    "floats": (float, lambda row: row.ratio),
    "texts": (str, lambda row: row.name),
    "bytes": (bytes, lambda row: row.data),
    "ints or None": (int | None, lambda row: row.maybe),
    "anything": (Any, lambda row: row.maybe),
    "pairs": (tuple[int | None, bytes], lambda row: (row.maybe, row.data)),
    "nested pairs": (
        tuple[int, tuple[str, float]],
        lambda row: (row.number, (row.name, row.ratio)),
    ),
    "decimals": (Fee, lambda row: row.fee),
    "timestamps": (Time, lambda row: row.time),
    "a decimal and a timestamp": (tuple[Fee, Time], lambda row: (row.fee, row.time)),
    "pairs of anything": (Any, lambda row: (row.maybe, (row.data, row.ratio))),
    "a NamedTuple": (Bid, lambda row: Bid(row.name, row.maybe, row.ratio)),
    "Rows as a NamedTuple": (
        Bid,
        lambda row: beam.Row(user=row.name, price=row.maybe, ratio=row.ratio),
    ),
    "a NamedTuple as anything": (Any, lambda row: Bid(row.name, row.maybe, row.ratio)),
    "a NamedTuple in a pair": (
        tuple[bool, Bid],
        lambda row: (row.is_on, Bid(row.name, row.maybe, row.ratio)),
    ),
    "Rows": (Any, lambda row: beam.Row(a=row.number, b=row.maybe)),
    "dicts": (Any, lambda row: {"a": row.maybe, "b": {"c": row.name}}),
    "lists": (Any, lambda row: [row.number, row.small]),
    "a coder of the user's": (Doubled, lambda row: row.small),
}
AS_KEYS = [name for name in DECLARED if name not in ("Rows", "dicts", "lists")]


class EvenAndOdd(NonMergingWindowFn):
    """Windows that depend on the element, too."""

    def assign(self, context: Any) -> list[IntervalWindow]:
        start = 100 * (context.element.small % 2)
        return [IntervalWindow(start, start + 100)]

    def get_window_coder(self) -> Any:
        return IntervalWindowCoder()


WINDOWS = {
    "by element": EvenAndOdd(),
    "global": GlobalWindows(),
    "sliding": SlidingWindows(0.02, 0.01),
    "sessions": Sessions(0.003),
    "finer than a millisecond": FixedWindows(0.0015),
    "fine sessions": Sessions(0.0015),
}


def read(split: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
    values = {
        "number": pa.array([0, -5, (1 << 63) - 1, -(1 << 63)]),
        "small": pa.array([0, -5, 300, 7], pa.int16()),
        "unsigned": pa.array([0, 5, 300, (1 << 63) - 1], pa.uint64()),
        "ratio": pa.array([math.nan, -0.0, math.inf, 0.1]),
        "is_on": pa.array([True, False, True, True]),
        "name": pa.array(["", "\0", "zoë", ""]).dictionary_encode(),
        "data": pa.array([b"", b"\xff", b"\0" * 200, b""]),
        "maybe": pa.array([None, 1, None, 3 + split]),
        "fee": pa.array(map(Decimal, ("1.10", "0.00", "-7.25", "0.00"))),
        "time": pa.array([999, 5000, 0, 1], pa.timestamp("us")),
        "at": pa.array([0, 1000, 2500, 7001]),
    }
    yield pa.record_batch({name: values[name] for name in columns})


SCHEMA = next(read(0, [*Reading._fields, "at"])).schema


def shuffled(p: beam.Pipeline) -> Any:
    """Results of shuffles of all declared types, and of all windows."""
    rows = p | ReadFromArrow([0, 1], read, Reading, timestamp_column="at", schema=SCHEMA)
    texts = []
    for name, (kind, function) in DECLARED.items():
        values = rows | name >> beam.Map(function).with_output_types(kind)
        texts.append(as_texts(f"{name}: moved", values | f"{name}: moved" >> beam.Reshuffle()))
        keyed = values | f"{name}: with a key" >> beam.WithKeys(1)
        groups = keyed | f"{name}: grouped" >> beam.GroupByKey()
        texts.append(
            as_texts(f"{name}: groups", groups | f"{name}: sorted" >> beam.MapTuple(in_order))
        )
        if name in AS_KEYS:
            of_keys = beam.Map(lambda one: (one, 1)).with_output_types(
                tuple.__class_getitem__((kind, int))
            )
            ones = values | f"{name}: as keys" >> of_keys
            groups = ones | f"{name}: by key" >> beam.GroupByKey()
            found = groups | f"{name}: added" >> beam.MapTuple(added)
            texts.append(as_texts(f"{name}: keys", found))
            if name != "Rows as a NamedTuple":  # Beam's own combines hash keys.
                sums = ones | f"{name}: sum" >> beam.CombinePerKey(sum)
                texts.append(as_texts(f"{name}: sums", sums))
    for name, window_fn in WINDOWS.items():
        some = rows | f"{name}: windows" >> beam.WindowInto(window_fn)
        pairs = some | f"{name}: pairs" >> beam.Map(lambda row: (row.is_on, row.small))
        texts.append(as_texts(f"{name}: moved", pairs | f"{name}: moved" >> beam.Reshuffle()))
        sums = (
            pairs | f"{name}: by key" >> beam.GroupByKey() | f"{name}: sums" >> beam.MapTuple(added)
        )
        texts.append(as_texts(f"{name}: sums", sums | f"{name}: moved on" >> beam.Reshuffle()))
    return texts | beam.Flatten()


def as_texts(label: str, values: Any) -> Any:
    """Values as texts in the global window, with all that belongs to them."""
    placed = values | f"{label}: texts" >> beam.ParDo(Placed(), label)
    return placed | f"{label}: all" >> beam.WindowInto(GlobalWindows())


class Placed(beam.DoFn):
    def process(
        self,
        value: Any,
        label: str,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[str]:
        yield f"{label}: {type(value).__name__} {value!r} {time} {window} {pane}"


def in_order(key: Any, values: Any) -> Any:
    return key, sorted(map(repr, values))


def added(key: Any, values: Any) -> Any:
    return key, sum(values)


def test_shuffles_give_what_coders_decode(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = as_elements(monkeypatch, lambda: noted(shuffled))
    assert len(expected) > 200
    for small in (0, 2):
        with limits(small):
            assert noted(shuffled) == expected
