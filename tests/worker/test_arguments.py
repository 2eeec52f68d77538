"""Functions with side inputs and other arguments give over blocks and columns what Beam gives."""

import math
from collections.abc import Callable
from itertools import cycle
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.pvalue import AsDict, AsIter, AsList, AsSingleton
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.typehints import Optional
from elementwise import as_elements
from hypothesis import given
from hypothesis import strategies as st
from noting import noted, values
from whole import examples

from sparkbeam.errors import PipelineFailed
from sparkbeam.io import ReadFromArrow
from sparkbeam.operators import registry
from sparkbeam.operators.arguments import FunctionWithArguments
from sparkbeam.plan.pardo_functions import ALONE
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.steps.column_functions import ColumnFunction
from sparkbeam.worker.value_columns import Column

pytestmark = pytest.mark.blocks(reason="Beam's own operations get no columns")

Build = Callable[[beam.PCollection[Any]], Any]


class Bid(NamedTuple):
    user: str
    price: Optional[int]  # type: ignore[valid-type]
    ratio: float


def batches(count: int) -> list[pa.RecordBatch]:
    rows = [
        {
            "user": f"u{n % 5}",
            "price": None if n == 57 else (n * 37) % 101,
            "ratio": [0.5, -0.0, math.nan, n / 4][n % 4],
            "at": n * 1_000_000,
        }
        for n in range(count)
    ]
    return [pa.RecordBatch.from_pylist(rows)] if rows else []


def in_windows(bids: Any, window_fn: Any, view: Any = AsSingleton, combine: Any = max) -> Any:
    """Elements in windows, and a side input of what is in each."""
    windowed = bids | beam.WindowInto(window_fn)
    known = windowed | "known" >> beam.Filter(lambda bid: bid.price is not None)
    prices = known | "prices" >> beam.Map(lambda bid: bid.price)
    return known, view(prices | beam.CombineGlobally(combine).without_defaults())


def highest(window_fn: Any, **more: Any) -> Build:
    def build(bids: Any) -> Any:
        windowed, most = in_windows(bids, window_fn, **more)
        return windowed | beam.Filter(lambda bid, price: bid.price == price, most)

    return build


def in_list(bids: Any) -> Any:
    windowed, most = in_windows(bids, FixedWindows(20), view=AsList)
    return windowed | beam.Filter(lambda bid, prices: bid.price in prices, most)


def of_dict(bids: Any) -> Any:
    ratios = bids | "pairs" >> beam.Map(lambda bid: (bid.user, bid.ratio))
    firsts = ratios | beam.CombinePerKey(beam.combiners.CountCombineFn())
    return bids | beam.Map(lambda bid, of_user: (bid.user, of_user[bid.user]), AsDict(firsts))


def dict_of(*values: Any) -> Build:
    """Lookups of these values, by how many characters a user has."""
    found = dict(enumerate(values))

    def looked_up(bid: Any, of_size: dict[int, Any]) -> Any:
        one = of_size[len(bid.user) % 2]
        return bid.user, one is None, bool(one), one and True

    def build(bids: Any) -> Any:
        pairs = (
            bids | "one" >> beam.combiners.Count.Globally() | beam.FlatMap(lambda _: found.items())
        )
        return bids | "Look up" >> beam.Map(looked_up, AsDict(pairs))

    return build


def different(bids: Any) -> Any:
    windowed, most = in_windows(bids, FixedWindows(20), combine=lambda prices: max(prices) << 60)
    return windowed | beam.Map(lambda bid, most: (bid.user, most), most)


def twice(bids: Any) -> Any:
    windowed, most = in_windows(bids, FixedWindows(30))
    least = AsSingleton(
        windowed
        | "again" >> beam.Map(lambda bid: bid.price)
        | "least" >> beam.CombineGlobally(min).without_defaults()
    )
    return windowed | beam.FlatMap(
        lambda bid, most, least, more: [most, (bid.price - least + more)] if bid.price else [],
        most,
        least,
        3,
    )


class Limit:
    def __init__(self, of: float) -> None:
        self.of = of


PIPELINES: dict[str, Build] = {
    "highest in fixed windows": highest(FixedWindows(20)),
    "highest in sliding windows": highest(SlidingWindows(20, 10)),
    "highest of all": highest(GlobalWindows()),
    "a mean": highest(FixedWindows(2), combine=beam.combiners.MeanCombineFn()),
    "a tuple": lambda bids: (
        bids | beam.Map(lambda bid, pair: (bid.user, pair[0] + len(bid.user), pair[1]), (1, "x"))
    ),
    "a list": in_list,
    "an iterable": lambda bids: (
        bids
        | beam.Map(
            lambda bid, more: (bid.user, sorted(more)),
            AsIter(bids | "users" >> beam.Map(lambda bid: bid.user) | beam.Distinct()),
        )
    ),
    "a dict": of_dict,
    "a dict of tuples or None": dict_of((1, "x"), None),
    "a dict of bools or None": dict_of(None, True),
    "several": twice,
    "by name": lambda bids: bids | beam.Map(lambda bid, more: bid.ratio + more, more=2),
    "one of several by name": lambda bids: (
        bids
        | beam.FlatMap(
            lambda bid, most, least=3, *, more: [(most(bid.user), least, more, bid.user)],
            len,
            more=AsSingleton(bids | beam.combiners.Count.Globally()),
        )
        | beam.Map(lambda found, by: (by(found[3]), *found[1:]), by=len)
    ),
    "in the place of a default": lambda bids: (
        bids
        | beam.Map(lambda bid, times=2, more=3: (bid.user, len(bid.user) * times + more), 5)
        | "by name" >> beam.MapTuple(lambda user, total, more=1: (user, total - more), more=4)
        | "all" >> beam.Filter(lambda pair, least=(1, 2): pair[1] > least[1])
    ),
    "a class": lambda bids: bids | beam.Filter(lambda bid, limit: bid.ratio < limit.of, Limit(3)),
    "a huge int": lambda bids: bids | beam.Map(lambda bid, more: more + len(bid.user), 1 << 70),
    "half of a pair": lambda bids: (
        bids | beam.Map(lambda bid, more: (bid.user, len(more)), "\ud800")
    ),
    "None": lambda bids: bids | beam.Map(lambda bid, more: (more, bid.price == more), None),
    "stamped": lambda bids: (
        bids
        | beam.Map(lambda bid, more: TimestampedValue(bid.ratio, more), 7)
        | beam.WindowInto(FixedWindows(5))
    ),
    "a generator": lambda bids: bids | beam.FlatMap(repeated, 2),
    "a side input in the global window": lambda bids: (
        bids
        | beam.WindowInto(SlidingWindows(20, 10))
        | beam.Map(
            lambda bid, count: (bid.user, count),
            AsSingleton(bids | beam.combiners.Count.Globally()),
        )
    ),
    "values that differ from window to window": different,
    "behind sessions": lambda bids: (
        bids
        | beam.Map(lambda bid: (bid.user, 1)).with_output_types(tuple[str, int])
        | beam.WindowInto(Sessions(3))
        | beam.CombinePerKey(sum)
        | beam.Map(lambda pair, more: (pair[0], pair[1] + more), 5)
    ),
}
IN_ELEMENTS = {
    *("an iterable", "a huge int", "values that differ from window to window"),
    "a dict of tuples or None",
}


def repeated(bid: Any, times: int) -> Any:
    yield bid.user, 1
    if times > 1:
        yield bid.user, times


def results(build: Build) -> list[str]:
    bids = ReadFromArrow([70, 0, 3], batches, Bid, timestamp_column="at")
    return noted(lambda p: build(p | bids))


@pytest.mark.part(5)
@pytest.mark.parametrize("name", PIPELINES)
def test_arguments_over_blocks_give_what_beams_own_operation_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluated: list[bool] = []
    over = ColumnFunction.over

    def watched(self: ColumnFunction, block: Block, *sides: Column, **more: Any) -> Block | None:
        result = over(self, block, *sides, **more)
        if self._arguments != ALONE:
            evaluated.append(result is not None)
        return result

    monkeypatch.setattr(ColumnFunction, "over", watched)
    blocks = results(PIPELINES[name])
    assert blocks
    assert any(evaluated) == (name not in IN_ELEMENTS)
    without = tuple(one for one in registry.OPERATORS if one is not FunctionWithArguments)
    monkeypatch.setattr(registry, "OPERATORS", without)
    assert blocks == results(PIPELINES[name])


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(),
    st.text(st.characters(), max_size=3),
    st.binary(max_size=3),
)
FUNCTIONS: list[Callable[[Any, Any], Any]] = [
    lambda bid, more: (bid.user, bid.price == more),
    lambda bid, more: bid.price + more,
    lambda bid, more: (more, bid) if bid.ratio < 1 else more,
    lambda bid, more: f"{bid.user} {more}",
    lambda bid, more: bid.ratio * more,
]


LOOKUPS: list[Callable[[Any, Any], Any]] = [
    lambda bid, more: (bid.user, more[bid.user]),
    lambda bid, more: more[bid.price % 3],
    lambda bid, more: more.get(bid.user),
    lambda bid, more: (more.get(bid.price, bid.price), bid.user),
    lambda bid, more: (more[bid.user], 1) if bid.user in more else (bid.user, 0),
    lambda bid, more: bid.price not in more,
    lambda bid, more: more["u1"][0],
    lambda bid, more: (bid.ratio in more, more.get(True), more is None),
    lambda bid, more: (len(more), bool(more)),
]
keys = st.sampled_from(["u0", "u1", "u2", "u3", "u4", 0, 1, 2, 37, 74, True, 1.0, None, b"u0"])
KEYS: list[list[Any]] = [
    [f"u{n}" for n in range(5)],
    [0, 1, 2],
    [37, 74, 74],
    ["u1", "u1"],
    [],
]
VALUES: list[list[Any]] = [["a", "ü"], [1, 2**62], [2**64], [(1, "x"), (2, "y")], [None], [1, ""]]
known_keys = st.sampled_from(KEYS)
tables: st.SearchStrategy[Any] = st.one_of(
    st.builds(
        lambda known, values: dict(zip(known, cycle(values), strict=False)),
        known_keys,
        st.sampled_from(VALUES),
    ),
    st.dictionaries(keys, plain, max_size=6),
    st.builds(lambda kind, known: kind(known), st.sampled_from([list, set, frozenset]), known_keys),
    st.lists(keys, max_size=4),
)


@examples(10)
@given(
    more=tables,
    number=st.sampled_from(range(len(LOOKUPS))),
    view=st.sampled_from([AsSingleton, None]),
)
def test_what_is_looked_up_is_what_python_finds(more: Any, number: int, view: Any) -> None:
    is_what_python_gives(LOOKUPS[number], more, "side input" if view else "by position")


@pytest.mark.parametrize("window_fn", [FixedWindows(20), SlidingWindows(20, 10)])
def test_each_window_has_a_dict_of_its_own(window_fn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(bids: Any) -> Any:
        windowed = bids | beam.WindowInto(window_fn)
        pairs = windowed | "pairs" >> beam.Map(lambda bid: (bid.user, bid.ratio))
        counts = pairs | beam.combiners.Count.PerKey() | beam.Filter(lambda pair: pair[0] != "u3")
        return windowed | beam.Map(
            lambda bid, counts: (bid.user, counts.get(bid.user, -1), bid.user in counts),
            AsDict(counts),
        )

    blocks = results(build)
    assert blocks == as_elements(monkeypatch, lambda: results(build))


def test_a_key_that_is_not_there_fails_as_in_python() -> None:
    with pytest.raises(PipelineFailed, match=r"Step 'asks'.*KeyError: 'u1'"):
        results(lambda bids: bids | "asks" >> beam.Map(lambda bid, of: of[bid.user], {"u0": 1}))


@examples(10)
@given(
    more=plain | st.tuples(plain, plain),
    number=st.sampled_from(range(len(FUNCTIONS))),
    way=st.sampled_from(["by position", "by name", "side input"]),
)
def test_any_argument_gives_what_python_gives(more: Any, number: int, way: str) -> None:
    is_what_python_gives(FUNCTIONS[number], more, way)


def is_what_python_gives(function: Callable[[Any, Any], Any], more: Any, way: str) -> None:
    """Compares what a step puts out that gets the argument in some way."""
    rows = [(batch.slice(0, 40), batch) for batch in batches(70)]
    (_, batch) = rows[0]
    names = list(Bid._fields)
    bids = [Bid(*map(row.__getitem__, names)) for row in batch.to_pylist()]
    try:
        expected = [repr(function(bid, more)) for bid in bids]
    except Exception:
        expected = []

    def build(p: beam.Pipeline) -> Any:
        read = p | ReadFromArrow([70], batches, Bid, timestamp_column="at")
        if not expected:
            read = read | beam.Filter(lambda bid: False)
        given: Any = more
        if way == "side input":
            made = p | beam.Create([0]) | beam.Map(lambda _: more).with_output_types(Any)
            given = AsSingleton(made)
        args, kwargs = ((), {"more": given}) if way == "by name" else ((given,), {})
        return read | "with" >> beam.Map(function, *args, **kwargs)

    assert sorted(map(repr, values(build))) == sorted(expected)


def test_a_side_input_that_cannot_be_read_fails_as_the_step() -> None:
    with pytest.raises(PipelineFailed, match=r"Step 'asks'.*more than one element"):
        results(lambda bids: bids | "asks" >> beam.Map(lambda bid, more: more, AsSingleton(bids)))


def test_an_argument_that_cannot_be_taken_fails_as_in_python() -> None:
    with pytest.raises(PipelineFailed, match=r"Step 'adds'.*TypeError"):
        results(lambda bids: bids | "adds" >> beam.Map(lambda bid, more: bid.user + more, 1))
