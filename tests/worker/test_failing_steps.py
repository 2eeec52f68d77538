"""Whatever of a step fails, the step is named and no other of its stage, in batch and streaming."""

import operator
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.io import iobase
from apache_beam.io.range_trackers import OffsetRangeTracker
from apache_beam.transforms import window
from failing import failure_of
from positions import Positions

pytestmark = pytest.mark.usefixtures("by_value")


class UpTo:
    """Works up to the method that fails."""

    _error: type[Exception] = ValueError

    def __init__(self, fails: str) -> None:
        self.fails = fails

    def _at(self, method: str) -> None:
        if self.fails == method:
            raise self._error(f"no {method}")


class Counting(UpTo, beam.CombineFn):
    def setup(self) -> None:
        self._at("setup")

    def create_accumulator(self) -> int:
        self._at("create_accumulator")
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        self._at("add_input")
        return accumulator + 1

    def merge_accumulators(self, accumulators: Any) -> int:
        self._at("merge_accumulators")
        return sum(accumulators)

    def compact(self, accumulator: int) -> int:
        self._at("compact")
        return accumulator

    def extract_output(self, accumulator: int) -> int:
        self._at("extract_output")
        return accumulator


class Source(UpTo, iobase.BoundedSource):
    """Ten numbers."""

    _error = OSError

    def estimate_size(self) -> int:
        self._at("estimate_size")
        return 80

    def split(self, size: Any, start_position: Any = None, stop_position: Any = None) -> Any:
        self._at("split")
        yield iobase.SourceBundle(1, self, 0, 10)

    def get_range_tracker(self, start: Any, stop: Any) -> Any:
        self._at("get_range_tracker")
        return OffsetRangeTracker(start or 0, stop or 10)

    def read(self, tracker: Any) -> Iterator[int]:
        for number in range(10):
            if not tracker.try_claim(number):
                return
            if number == 5:
                self._at("read")
            yield number


class Assigning(window.NonMergingWindowFn):
    """One window, which windows of a main input are not mapped to."""

    def assign(self, context: Any) -> Any:
        if context.element is None:
            raise ValueError("no window")
        return [window.IntervalWindow(0, 10)]

    def get_window_coder(self) -> Any:
        return IntervalWindowCoder()


class Choosing(Assigning):
    """No window at all where there is no element."""

    def assign(self, context: Any) -> Any:
        return [window.IntervalWindow(0, 10)] if context.element else []


class Loading(beam.DoFn):
    """Cannot be loaded where bundles run."""

    def __init__(self) -> None:
        self.state = "kept"

    def __setstate__(self, state: Any) -> None:
        if "IN_A_BUNDLE" in os.environ:
            raise ValueError("cannot be loaded")
        vars(self).update(state)

    def process(self, element: Any) -> Any:
        yield element


@pytest.mark.parametrize("fails", [name for name in vars(Counting) if not name.startswith("_")])
def test_a_combine_that_fails_is_named_and_not_the_one_beside_it(
    fails: str, failure: Callable[..., Any]
) -> None:
    def build(p: beam.Pipeline) -> None:
        pairs = p | beam.Create([("a", 1), ("b", 2)]) | beam.WindowInto(window.FixedWindows(10))
        for label in ("Before", "After"):
            _ = pairs | label >> beam.CombinePerKey(sum) | f"{label} last" >> beam.Map(str)
        _ = pairs | "Count" >> beam.CombinePerKey(Counting(fails)) | "Last" >> beam.Map(str)

    error = failure(build)
    assert error.label.partition("/")[0] == "Count"
    assert f"ValueError: no {fails}" in str(error)


@pytest.mark.parametrize(
    "step",
    [
        beam.CombinePerKey(sum),
        beam.CombinePerKey(min),
        beam.CombinePerKey(beam.combiners.MeanCombineFn()),
        beam.CombinePerKey(beam.combiners.TopCombineFn(2)),
        beam.CombineGlobally(sum).without_defaults(),
        beam.Map(sum),
        beam.FlatMap(len),
        beam.Filter(float),
        beam.MapTuple(operator.truediv),
        beam.WithKeys(operator.itemgetter(7)),
        beam.GroupBy(operator.attrgetter("name")),
        beam.WindowInto(window.SlidingWindows(10, 5)) | beam.Map(abs),
        beam.Map(operator.add, 1),
    ],
    ids=lambda step: step.label,
)
def test_what_fails_in_no_code_of_the_user_shows_none_of_this_package(
    step: Any, failure: Callable[..., Any]
) -> None:
    def build(p: beam.Pipeline) -> None:
        pairs = p | beam.Create([("a", 1), ("a", "b"), ("a", 2.0)]).with_output_types(Any)
        _ = pairs | "Fails" >> step | "Last" >> beam.Map(str)

    assert failure(build).label.partition("/")[0] == "Fails"


@pytest.mark.parametrize("fails", [name for name in vars(Source) if not name.startswith("_")])
def test_a_source_that_fails_is_named(fails: str, failure: Callable[..., Any]) -> None:
    error = failure(
        lambda p: (
            p
            | "Fetch" >> beam.io.Read(Source(fails))
            | "Double" >> beam.Map(lambda number: 2 * number)
            | "Last" >> beam.Map(str)
        )
    )
    assert error.label.partition("/")[0] == "Fetch"
    assert f"OSError: no {fails}" in str(error)


class Asking(beam.DoFn):
    def process(self, element: Any, side: Any) -> Any:
        yield element


class Splitting(beam.DoFn):
    def process(
        self,
        element: Any,
        side: Any,
        tracker: Any = beam.DoFn.RestrictionParam(Positions(1)),
    ) -> Any:
        if tracker.try_claim(0):
            yield element


ASKING = {
    "function": lambda side: beam.Map(lambda pair, _: pair, beam.pvalue.AsList(side)),
    "dict": lambda side: beam.Map(lambda pair, _: pair, beam.pvalue.AsDict(side)),
    "DoFn": lambda side: beam.ParDo(Asking(), beam.pvalue.AsIter(side)),
    "splittable": lambda side: beam.ParDo(Splitting(), beam.pvalue.AsList(side)),
    "combine": lambda side: beam.CombinePerKey(
        lambda values, _: sum(values), beam.pvalue.AsList(side)
    ),
}


@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("window_fn", [Assigning, Choosing])
def test_a_window_of_a_side_input_that_fails_is_named_with_the_step_that_asks(
    asking: str, window_fn: Any, failure: Callable[..., Any]
) -> None:
    def build(p: beam.Pipeline) -> None:
        pairs = p | beam.Create([("a", 1), ("b", 2)])
        side = pairs | "One window" >> beam.WindowInto(window_fn()) | "Side" >> beam.Map(tuple)
        _ = pairs | "Ask" >> ASKING[asking](side) | "Last" >> beam.Map(str)

    error = failure(build)
    assert error.label.partition("/")[0] == "Ask"
    assert "gives no window: it is called with the end of a window of the main input" in str(error)
    assert {Assigning: "ValueError: no window", Choosing: "IndexError"}[window_fn] in str(error)
    assert "windows that depend only on the timestamp" in str(error)


def test_a_dofn_that_cannot_be_loaded_is_named(
    failure: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "sparkbeam.worker.steps.processor.remember_windows",
        lambda *_: monkeypatch.setenv("IN_A_BUNDLE", "yes"),
    )
    error = failure(
        lambda p: (
            p
            | beam.Create(["a", "b"])
            | "First" >> beam.Map(str)
            | "Load" >> beam.ParDo(Loading())
            | "Last" >> beam.Map(str)
        )
    )
    assert error.label == "Load"
    assert "ValueError: cannot be loaded" in str(error)


class Text(beam.DoFn):
    """Forgets the list around its result."""

    def process(self, element: Any) -> Any:
        return str(element)


FAILING: dict[str, tuple[Any, str]] = {
    "below a step with a side input": (
        lambda pairs: (
            pairs
            | beam.Map(lambda pair, zero: (pair, zero), zero=zero_beside(pairs))
            | "Fails" >> beam.MapTuple(lambda pair, zero: pair[1] / zero)
        ),
        "ZeroDivisionError",
    ),
    "an iteration that ends": (
        lambda pairs: pairs | "Fails" >> beam.Map(lambda pair: next(n for n in pair[1:] if n > 3)),
        "StopIteration",
    ),
    "a text in place of results": (
        lambda pairs: pairs | "Fails" >> beam.ParDo(Text()),
        "Returning a str",
    ),
}


def zero_beside(pairs: Any) -> Any:
    return beam.pvalue.AsSingleton(pairs.pipeline | "zero" >> beam.Create([0]))


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_over_a_block_is_named(name: str, tmp_path: Path) -> None:
    build, message = FAILING[name]
    error = failure_of(True, lambda p: build(p | beam.Create([("a", 1)] * 20)), tmp_path)
    assert error.label == "Fails"
    assert message in str(error)


@pytest.mark.parametrize("order", ["AB", "BA"])
def test_a_key_over_columns_that_cannot_be_encoded_is_named_with_its_own_steps(
    order: str, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"name": ["a"] * 10, "n": list(range(10))}), tmp_path / "rows.parquet")

    def build(p: beam.Pipeline) -> None:
        rows = p | beam.io.ReadFromParquet(str(tmp_path / "rows.parquet"))
        keys = {"A": lambda row: (row["n"], row["n"]), "B": lambda row: (row["name"], row["n"])}
        for name in order:
            pairs = rows | f"Key {name}" >> beam.Map(keys[name]).with_output_types(tuple[int, int])
            _ = pairs | f"Sum {name}" >> beam.CombinePerKey(sum) | f"Last {name}" >> beam.Map(str)

    error = failure_of(False, build, tmp_path)
    assert error.label == "Key B"
    assert "cannot encode an element" in str(error)


def test_a_coder_that_cannot_decode_is_told_with_the_step_that_reads(
    failure: Callable[..., Any],
) -> None:
    class Forgetful(beam.coders.Coder):
        def encode(self, value: object) -> bytes:
            return b"odd"

        def decode(self, encoded: bytes) -> object:
            raise ValueError("cannot decode this")

        def is_deterministic(self) -> bool:
            return True

    class Even:
        pass

    beam.coders.registry.register_coder(Even, Forgetful)
    error = failure(
        lambda p: (
            p
            | beam.Create([1])
            | "Make" >> beam.Map(lambda n: (n, Even())).with_output_types(tuple[int, Even])
            | beam.GroupByKey()
            | "Read" >> beam.MapTuple(lambda _, values: list(values))
            | "Last" >> beam.Map(str)
        )
    )
    assert error.label == "Read"
    assert "cannot decode" in str(error)
    assert "with_output_types" in str(error)
