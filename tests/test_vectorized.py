"""CombineFns over columns of one's own give what they give to elements."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows
from hypothesis import given, settings
from hypothesis import strategies as st
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from noting import found, note, noted
from plans import planned

from sparkbeam import PipelineFailed, VectorizedCombineFn
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.columns.python_types import INT
from sparkbeam.explain.aggregations import aggregations
from sparkbeam.io import ReadFromArrow
from sparkbeam.worker.value_columns import column_of_values

ROWS = 60
LARGE = 1 << 20


class Moments(VectorizedCombineFn):
    """How many ints there are, their sum, and that of their squares."""

    accumulator_type = pa.struct(
        {"count": pa.int64(), "sums": pa.struct({"x": pa.int64(), "xx": pa.int64()})}
    )

    def reduce_batch(self, groups: Any, values: pa.Array, count: int) -> pa.Array | None:
        if values.type != pa.int64() or values.null_count:
            return None
        numbers = values.to_numpy()
        if len(numbers) and np.abs(numbers).max() > LARGE:
            return None
        return self._added(groups, [np.ones_like(numbers), numbers, numbers**2], count)

    def merge_batch(self, groups: Any, accumulators: pa.Array, count: int) -> pa.Array:
        counts, sums = accumulators.flatten()
        parts = [part.to_numpy() for part in (counts, *sums.flatten())]
        return self._added(groups, parts, count)

    def extract_batch(self, accumulators: pa.Array) -> pa.Array:
        counts, sums = accumulators.flatten()
        parts = [part.to_numpy() for part in (counts, *sums.flatten())]
        return pa.array(parts[2] * 1000 + parts[1] * 10 + parts[0])

    def _added(self, groups: Any, parts: list[Any], count: int) -> pa.Array:
        totals = [np.zeros(count, np.int64) for _ in parts]
        for total, part in zip(totals, parts, strict=True):
            np.add.at(total, groups, part)
        sums = pa.StructArray.from_arrays(
            list(map(pa.array, totals[1:])), fields=list(self.accumulator_type.field("sums").type)
        )
        return self.accumulators(totals[0], sums)


class Ordered(Moments):
    is_ordered = True


class Lenient(Moments):
    """Counts what the columns refuse as 1."""

    def add_inputs(self, mutable_accumulator: Any, elements: Any, *_: Any, **__: Any) -> Any:
        known = [x if type(x) is int and abs(x) <= LARGE else 1 for x in elements]
        return super().add_inputs(mutable_accumulator, known)


class Greatest(VectorizedCombineFn):
    accumulator_type = pa.float64()

    def reduce_batch(self, groups: Any, values: pa.Array, count: int) -> pa.Array | None:
        return self.merge_batch(groups, values.cast(pa.float64()), count)

    def merge_batch(self, groups: Any, accumulators: pa.Array, count: int) -> pa.Array:
        most = np.full(count, -np.inf)
        np.maximum.at(most, groups, accumulators.to_numpy())
        return self.accumulators(most)

    def extract_batch(self, accumulators: pa.Array) -> pa.Array:
        return accumulators


class Spread(VectorizedCombineFn):
    """Least and greatest, of which there may be none, and how many."""

    accumulator_type = pa.struct({"least": pa.float64(), "most": pa.float64(), "count": pa.int64()})

    def reduce_batch(self, groups: Any, values: pa.Array, count: int) -> pa.Array | None:
        numbers = values.cast(pa.float64())
        ones = pa.array(np.ones(len(values), np.int64))
        each = pa.StructArray.from_arrays([numbers, numbers, ones], ["least", "most", "count"])
        return self.merge_batch(groups, each, count)

    def merge_batch(self, groups: Any, accumulators: pa.Array, count: int) -> pa.Array:
        of_least, of_most, of_count = (part.to_numpy() for part in accumulators.flatten())
        least, most, counts = np.full(count, np.inf), np.full(count, -np.inf), np.zeros(count, int)
        np.minimum.at(least, groups, of_least)
        np.maximum.at(most, groups, of_most)
        np.add.at(counts, groups, of_count)
        return self.accumulators(least, most, counts)

    def extract_batch(self, accumulators: pa.Array) -> pa.Array:
        return accumulators


class Event(NamedTuple):
    key: int
    value: int


def events(part: int) -> Iterator[pa.RecordBatch]:
    for batch in range(2):
        numbers = np.arange(ROWS) * 7 + part * 13 + batch
        yield pa.record_batch(
            {
                "key": pa.array(numbers % 4),
                "value": pa.array(numbers % 11 - 5),
                "at": pa.array(numbers * 900_000, pa.timestamp("us")),
            }
        )


WINDOWS: dict[str, Callable[[], beam.PTransform]] = {
    "global": lambda: beam.Map(lambda event: event),
    "fixed": lambda: beam.WindowInto(FixedWindows(30)),
    "sliding": lambda: beam.WindowInto(SlidingWindows(60, 20)),
    "sessions": lambda: beam.WindowInto(Sessions(2)),
}
COMBINES: dict[str, Callable[[beam.CombineFn], Callable[[Any], Any]]] = {
    "per key": lambda fn: lambda pairs: pairs | "Combine" >> beam.CombinePerKey(fn),
    "globally": lambda fn: (
        lambda pairs: (
            pairs | beam.Values() | "Combine" >> beam.CombineGlobally(fn).without_defaults()
        )
    ),
}


def results(runner: Any, windows: str, how: str, fn: beam.CombineFn) -> tuple[list[str], Any]:
    p = beam.Pipeline(runner)
    pairs = (
        p
        | ReadFromArrow([0, 1], events, Event, timestamp_column="at")
        | "Windows" >> WINDOWS[windows]()
        | "Pairs" >> beam.Map(lambda event: (event.key, event.value))
    )
    _ = COMBINES[how](fn)(pairs) | "Note" >> beam.Map(note)
    found.clear()
    result = p.run()
    result.wait_until_finish()
    return sorted(repr(element_and_place[:3]) for element_and_place in found), result


FNS = {
    "moments": Moments(),
    "in order": Ordered(),
    "greatest": Greatest(),
    "a struct with floats": Spread(),
}


@pytest.mark.part(5)
@pytest.mark.parametrize(
    ("runner", "windows", "how"),
    [
        *((BatchRunner, windows, how) for windows in WINDOWS for how in COMBINES),
        *((StreamingRunner, windows, "per key") for windows in ("fixed", "sliding", "sessions")),
    ],
)
@pytest.mark.parametrize("fn", FNS)
def test_it_gives_what_another_runner_gives(fn: str, runner: Any, windows: str, how: str) -> None:
    expected, _ = results(FnApiRunner(), windows, how, FNS[fn])
    got, result = results(runner(), windows, how, FNS[fn])
    assert got == expected
    steps = [step for stage in result.summary().stages for step in stage.steps]
    assert not any(step.refused for step in steps if step.label.endswith("Precombine"))


class Scaled(Greatest):
    def add_inputs(
        self, mutable_accumulator: Any, elements: Any, factor: int = 1, **kwargs: Any
    ) -> Any:
        return super().add_inputs(mutable_accumulator, [factor * x for x in elements])


def in_the_end(how: Callable[[Any], Any], runner: Any) -> list[str]:
    rows = ReadFromArrow([0, 1], events, Event, timestamp_column="at")
    pairs = "Pairs" >> beam.Map(lambda event: (event.key, event.value))
    return noted(lambda p: how(p | rows | pairs), runner=runner)


HOW: dict[str, Callable[[Any], Any]] = {
    "an argument": lambda pairs: pairs | beam.CombinePerKey(Scaled(), 3),
    "an argument by its name": lambda pairs: pairs | beam.CombinePerKey(Scaled(), factor=3),
    "a side input": lambda pairs: (
        pairs
        | beam.CombinePerKey(Scaled(), beam.pvalue.AsSingleton(pairs.pipeline | beam.Create([4])))
    ),
    "fanout": lambda pairs: pairs | beam.CombinePerKey(Moments()).with_hot_key_fanout(3),
    "a default": lambda pairs: (
        pairs
        | beam.Filter(lambda pair: pair[0] > 9)
        | beam.Values()
        | beam.CombineGlobally(Moments())
    ),
    "with others": lambda pairs: (
        pairs
        | beam.CombinePerKey(
            beam.combiners.SingleInputTupleCombineFn(Moments(), Greatest(), Spread(), max)
        )
    ),
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_it_is_a_combine_fn_as_any_other(how: Callable[[Any], Any]) -> None:
    assert in_the_end(how, BatchRunner()) == in_the_end(how, FnApiRunner())


def test_an_explanation_says_that_it_is_over_columns() -> None:
    pairs = ReadFromArrow([0], events, Event) | beam.Map(lambda e: (e.key, e.value))
    told = aggregations(planned(lambda p: p | pairs | beam.CombinePerKey(Moments())))
    assert "Moments has a vectorized form" in " ".join(told.split())


VALUES = st.one_of(st.integers(-9, 9), st.just(LARGE * 3), st.none(), st.floats(0, 1))


@settings(max_examples=80, deadline=None)
@given(
    blocks=st.lists(
        st.lists(st.tuples(st.integers(0, 3), VALUES), min_size=1, max_size=8), max_size=6
    ),
    is_apart=st.booleans(),
)
def test_any_split_into_blocks_gives_the_same(blocks: Any, is_apart: bool) -> None:
    fn = Lenient()
    form = form_of(fn)
    assert form is not None
    known: dict[int, Any] = {}
    expected: dict[int, Any] = {}
    for block in blocks:
        for key, value in block:
            before = expected.get(key, fn.create_accumulator())
            expected[key] = fn.add_input(before, value)
        keys, values = map(list, zip(*block, strict=True))
        numbers = form.numbers(values)
        if numbers is None:
            for key, value in block:
                known[key] = fn.add_input(known.get(key, fn.create_accumulator()), value)
            continue
        names, places, counts = np.unique(keys, return_inverse=True, return_counts=True)
        if is_apart:
            totals = form.add_apart(numbers, places, counts)
        else:
            order = np.argsort(places, kind="stable")
            firsts = np.cumsum(counts) - counts
            totals = form.add_in_order(numbers[order], firsts, merges=False)
        assert totals is not None
        for key, new in zip(names.tolist(), form.accumulators(totals, fn), strict=True):
            known[key] = fn.merge_accumulators([known.get(key, fn.create_accumulator()), new])
    assert known == expected
    assert [fn.extract_output(one) for one in known.values()] == [
        fn.extract_output(expected[key]) for key in known
    ]


@pytest.mark.parametrize(
    "values",
    [[1, None], [True, False], ["a", None], [1.5], [b"a"], [None], [(1, "a"), (2, None)]],
)
def test_values_are_of_one_type_in_columns_and_elements(values: list[Any]) -> None:
    seen = []

    class Seen(Greatest):
        def reduce_batch(self, groups: Any, values: pa.Array, count: int) -> None:
            seen.append(values)

    fn = Seen()
    form = form_of(fn)
    assert form is not None
    assert form.numbers(values) is None
    column = column_of_values([value for value in values if value is not None] or values)
    if column is not None and not any(isinstance(value, tuple) for value in values):
        assert form.numbers_of(column.array, column.shape) is None
        assert seen[0].type == seen[1].type
    assert len(seen[0]) == len(values)


def test_narrow_columns_are_widened() -> None:
    form = form_of(Greatest())
    assert form is not None
    found = form.numbers_of(pa.array([3, 4], pa.int8()).dictionary_encode(), INT)
    assert found is not None
    assert found.tolist() == [3.0, 4.0]


def wrong(name: str, **methods: Any) -> Any:
    """Return a CombineFn with wrong methods."""
    return type(name, (Greatest,), methods)()


def broken(self: Any, groups: Any, values: pa.Array, count: int) -> pa.Array:
    if count:
        raise KeyError("mine")
    return pa.array([], pa.float64())


WRONG: list[tuple[Any, str]] = [
    (
        wrong("Short", reduce_batch=lambda self, groups, values, n: pa.array([0.0] * (n + 1))),
        r"Short\.reduce_batch returned \d+ values, not \d+",
    ),
    (
        wrong("Ints", reduce_batch=lambda self, groups, values, n: pa.array([0] * n)),
        r"Ints\.reduce_batch returned int64, but its accumulator_type is double",
    ),
    (
        wrong(
            "Nulls",
            reduce_batch=lambda self, groups, values, n: pa.array([0.0] * n),
            merge_batch=lambda self, groups, found, n: pa.nulls(n, pa.float64()),
        ),
        r"Nulls\.merge_batch returned nulls",
    ),
    (
        wrong("Lists", extract_batch=lambda self, found: found.to_pylist()),
        r"Lists\.extract_batch must return a pyarrow\.Array, not a list",
    ),
    (wrong("Broken", reduce_batch=broken), "mine"),
]


@pytest.mark.parametrize(("fn", "message"), WRONG)
@pytest.mark.parametrize("windows", ["fixed", "sessions"])
def test_what_is_wrong_names_the_step(fn: Any, message: str, windows: str) -> None:
    with pytest.raises(PipelineFailed, match=message) as failure:
        results(BatchRunner(), windows, "per key", fn)
    assert "Combine" in str(failure.value)
