"""Blocks of columns that travel between stages are what their elements would be, encoded."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.coders import coder_impl
from apache_beam.coders.coders import GlobalWindowCoder, IntervalWindowCoder
from apache_beam.transforms.window import (
    FixedWindows,
    IntervalWindow,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue
from bids import Bid, Doubling
from hypothesis import given
from hypothesis import strategies as st
from noting import noted

from sparkbeam.columns import FallBack, Shape, shape_of
from sparkbeam.io import ReadFromArrow
from sparkbeam.worker.blocks import GLOBAL, Assigned, Block
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.row_formats.column_cells import ColumnCoder
from sparkbeam.worker.slots import parts_of
from sparkbeam.worker.value_columns import column_of

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")


class Person(NamedTuple):
    name: str
    age: int


coders.registry.register_coder(Person, coders.RowCoder)

ANY = coders.FastPrimitivesCoder()
BIDS = pa.array(
    [
        {"user": "ann", "price": 1 << 62, "ratio": math.nan},
        {"user": "zoë", "price": None, "ratio": -0.0},
    ]
)
PAIRS = pa.array([{"0": 1, "1": b"x"}, {"0": -(1 << 63), "1": b""}])
WINDOWED = IntervalWindowCoder()


def elements(block: Block) -> list[Any]:
    """All that there is to elements, told apart by their types too."""
    return [
        (repr(one.value), type(one.value), one.windows, one.timestamp_micros, one.pane_info)
        for part in parts_of(block)
        for one in part.elements()
    ]


def encoded(coder: coders.Coder, block: Block, windows: coders.Coder | None = None) -> Block | None:
    """A block that has been encoded and decoded."""
    whole = coders.WindowedValueCoder(coder, windows or GlobalWindowCoder())
    try:
        cell = ColumnCoder(whole).encode(block)
    except FallBack:
        return None
    return ColumnCoder(whole).decode(cell)


def refuse(*_: Any) -> bytes:
    raise FallBack("nothing is encoded")


def block_of(array: pa.Array, shape: Shape) -> Block:
    return Block(GLOBAL, column_of(array, shape))


KEPT: dict[str, tuple[coders.Coder, pa.Array, Any]] = {
    "ints": (coders.VarIntCoder(), pa.array([0, -5, (1 << 63) - 1]), None),
    "narrow ints": (coders.VarIntCoder(), pa.array([0, -5], pa.int16()), None),
    "floats": (coders.FloatCoder(), pa.array([math.nan, -0.0, math.inf]), None),
    "bools": (coders.BooleanCoder(), pa.array([True, False]), None),
    "text": (coders.StrUtf8Coder(), pa.array(["", "\0", "zoë"]), None),
    "a dictionary of text": (coders.StrUtf8Coder(), pa.array(["a", "b"]).dictionary_encode(), None),
    "anything": (ANY, pa.array([1, None, 3]), None),
    "ints or None": (coders.NullableCoder(coders.VarIntCoder()), pa.array([1, None, 3]), None),
    "pairs of ints or None and bytes": (
        coders.TupleCoder([coders.NullableCoder(coders.VarIntCoder()), coders.BytesCoder()]),
        pa.array([{"0": None, "1": b"x"}, {"0": 1, "1": b""}]),
        tuple,
    ),
    "pairs": (coders.TupleCoder([coders.VarIntCoder(), coders.BytesCoder()]), PAIRS, tuple),
    "pairs of anything": (ANY, PAIRS, tuple),
    "a row with a field that may be None": (coders.registry.get_coder(Bid), BIDS, Bid),
    "a NamedTuple as anything": (ANY, BIDS, Bid),
    "Rows": (ANY, BIDS, beam.Row),
    "Rows, of which it makes NamedTuples": (coders.registry.get_coder(Bid), BIDS, beam.Row),
    "nothing": (coders.VarIntCoder(), pa.array([], pa.int64()), None),
}


@pytest.mark.parametrize("name", KEPT)
def test_columns_come_back_where_the_coder_gives_them_back(name: str) -> None:
    coder, array, kind = KEPT[name]
    for part in (array, array.slice(1)):
        block = block_of(part, shape_of(array.type, kind))
        back = encoded(coder, block)
        assert back is not None
        assert [one[2:] for one in elements(back)] == [one[2:] for one in elements(block)]
        by_coder = [coder.decode(coder.encode(value)) for value in block.values]
        assert list(map(repr, back.values)) == list(map(repr, by_coder))
        assert list(map(type, back.values)) == list(map(type, by_coder))


REFUSED: dict[str, tuple[coders.Coder, pa.Array, Any]] = {
    "ints as floats": (coders.FloatCoder(), pa.array([1, 2]), None),
    "bools as ints": (coders.VarIntCoder(), pa.array([True]), None),
    "unsigned ints": (coders.VarIntCoder(), pa.array([1 << 63], pa.uint64()), None),
    "None where there is to be none": (coders.VarIntCoder(), pa.array([1, None]), None),
    "None in a field": (
        coders.registry.get_coder(Person),
        pa.array([{"name": None, "age": 1}]),
        Person,
    ),
    "another class": (
        coders.registry.get_coder(Person),
        pa.array([{"user": "a", "price": 1, "ratio": 1.0}]),
        Bid,
    ),
    "a tuple of another length": (coders.TupleCoder([coders.VarIntCoder()]), PAIRS, tuple),
    "a coder of the user's": (Doubling(), pa.array([1]), None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_elements_are_encoded_where_the_coder_may_change_them(name: str) -> None:
    coder, array, kind = REFUSED[name]
    assert encoded(coder, block_of(array, shape_of(array.type, kind))) is None


millis = st.integers(-(10**12), 10**12)
ASSIGNED: dict[str, WindowFn] = {
    "fixed": FixedWindows(7, 3),
    "sliding": SlidingWindows(6, 2, 1),
    "sessions": Sessions(5),
}


@pytest.mark.parametrize("name", ASSIGNED)
@given(stamps=st.lists(millis, min_size=1))
def test_windows_that_are_assigned_come_back(name: str, stamps: list[int]) -> None:
    micros = np.array(stamps) * 1000
    block = Block(GLOBAL, column_of(pa.array(stamps), shape_of(pa.int64())), micros, ASSIGNED[name])
    back = encoded(coders.VarIntCoder(), block, WINDOWED)
    assert back is not None
    assert elements(back) == elements(block)
    assert elements(back) == by_elements(block)


def by_elements(block: Block) -> list[Any]:
    """What elements are that have been encoded one by one."""
    coder = coders.WindowedValueCoder(coders.VarIntCoder(), WINDOWED).get_impl()
    once: coder_impl.CoderImpl = coder
    ones = [
        once.decode(once.encode(element)) for part in parts_of(block) for element in part.elements()
    ]
    return [
        (repr(one.value), type(one.value), one.windows, one.timestamp_micros, one.pane_info)
        for one in ones
    ]


def test_a_window_of_each_and_a_pane_come_back() -> None:
    pane = PaneInfo(True, False, PaneInfoTiming.ON_TIME, 0, 0)
    template = WindowedValue(None, Timestamp(0), (), pane)
    windows = Intervals(np.array([0, 5000]), np.array([9000, 7000]))
    stamps = np.array([8000, 6000])
    block = Block(template, column_of(pa.array([1, 2]), shape_of(pa.int64())), stamps, windows)
    back = encoded(coders.VarIntCoder(), block, WINDOWED)
    assert back is not None
    assert elements(back) == elements(block) == by_elements(block)


def test_shared_windows_come_back() -> None:
    windows = (IntervalWindow(0, 10), IntervalWindow(5, 15))
    template = WindowedValue(None, Timestamp(7), windows)
    block = Block(template, column_of(pa.array([1, 2]), shape_of(pa.int64())))
    back = encoded(coders.VarIntCoder(), block, WINDOWED)
    assert back is not None
    assert elements(back) == by_elements(block)


FINE: dict[str, tuple[int, Assigned | None]] = {
    "a timestamp": (1, None),
    "a timestamp in a window": (1, FixedWindows(10)),
    "a window": (1000, FixedWindows(0.0015)),
    "a gap": (1000, Sessions(0.0015)),
    "an interval": (1000, Intervals(np.array([1]), np.array([2000]))),
    "the end of time": ((1 << 63) - 808, None),
}


@pytest.mark.parametrize("name", FINE)
def test_what_a_coder_rounds_is_encoded_element_by_element(name: str) -> None:
    stamp, assigned = FINE[name]
    column = column_of(pa.array([1]), shape_of(pa.int64()))
    block = Block(GLOBAL, column, np.array([stamp]), assigned)
    assert encoded(coders.VarIntCoder(), block, WINDOWED) is None


def people(count: int) -> list[pa.RecordBatch]:
    rows = [{"name": f"p{n % 9}", "age": n, "at": n * 1500} for n in range(count)]
    return [pa.RecordBatch.from_pylist(rows)]


def bids(count: int) -> list[pa.RecordBatch]:
    rows = [
        {"user": f"p{n % 7}", "price": n or None, "ratio": n / 2, "at": n * 1000}
        for n in range(count)
    ]
    return [pa.RecordBatch.from_pylist(rows)]


def read(p: Any, kind: Any, make: Callable[[int], Any]) -> Any:
    return p | f"Read {kind.__name__}" >> ReadFromArrow(
        [40, 9000, 3], make, kind, timestamp_column="at"
    )


def is_bid(element: Any) -> bool:
    return isinstance(element, Bid)


def joined(p: Any) -> Any:
    """Query 8 of Nexmark: two classes of events in one PCollection, taken apart, and joined."""
    both = (read(p, Person, people), read(p, Bid, bids)) | beam.Flatten() | beam.Reshuffle()
    events = both | beam.WindowInto(FixedWindows(0.02))
    names = events | "people" >> beam.Filter(lambda event: not is_bid(event))
    of_bids = events | "bids" >> beam.Filter(is_bid)
    return (
        {
            "ages": names | "by name" >> beam.Map(lambda person: (person.name, person.age)),
            "ratios": of_bids | "by user" >> beam.Map(lambda bid: (bid.user, bid.ratio)),
        }
        | beam.CoGroupByKey()
        | beam.MapTuple(lambda key, group: (key, [sorted(values) for values in group.values()]))
    )


def highest(p: Any) -> Any:
    """Query 7: elements beside what is highest in their window."""
    windowed = read(p, Bid, bids) | beam.WindowInto(FixedWindows(0.05))
    ratios = windowed | "ratios" >> beam.Map(lambda bid: bid.ratio)
    most = ratios | beam.CombineGlobally(max).without_defaults()
    return windowed | beam.Filter(
        lambda bid, ratio: bid.ratio == ratio, beam.pvalue.AsSingleton(most)
    )


def twice(p: Any) -> Any:
    ages = read(p, Person, people) | "ages" >> beam.Map(lambda person: person.age)
    others = ages | beam.Filter(lambda age: age % 3 == 0)
    return (ages, others, ages, others) | beam.Flatten() | beam.Map(str)


PIPELINES: dict[str, Callable[[Any], Any]] = {
    "reshuffled": lambda p: (
        read(p, Person, people)
        | beam.Filter(lambda person: person.age != 4)
        | beam.WindowInto(SlidingWindows(0.02, 0.01))
        | beam.Reshuffle()
        | beam.Map(lambda person: (person.age, person))
    ),
    "reshuffled in sessions": lambda p: (
        read(p, Bid, bids)
        | beam.Map(lambda bid: (bid.user, bid.ratio)).with_output_types(tuple[str, float])
        | beam.WindowInto(Sessions(0.003))
        | beam.CombinePerKey(max)
        | beam.Reshuffle()
    ),
    "several classes": lambda p: (
        (read(p, Person, people), read(p, Bid, bids))
        | beam.Flatten()
        | beam.Reshuffle()
        | beam.Filter(lambda event: is_bid(event) or event.age % 2 == 0)
    ),
    "joined": joined,
    "highest": highest,
    "read twice": twice,
}


@pytest.mark.part(5)
@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_over_cells_of_columns_give_what_elements_give(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    decode = ColumnCoder.decode

    def watched(self: ColumnCoder, cell: bytes) -> Block:
        block = decode(self, cell)
        decoded.append(len(block))
        return block

    monkeypatch.setattr(ColumnCoder, "decode", watched)
    over = noted(PIPELINES[name])
    assert over
    assert decoded
    monkeypatch.setattr(ColumnCoder, "encode", refuse)
    assert over == noted(PIPELINES[name])


def test_first_cells_of_a_reshuffle_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that few elements spread over all tasks."""
    monkeypatch.setattr(ColumnCoder, "encode", lambda *_: pytest.fail("in one cell"))
    assert noted(lambda p: read(p, Person, lambda _: people(40)) | beam.Reshuffle())
