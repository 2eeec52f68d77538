"""Combines whose trigger counts elements: added up before the shuffle, with the same panes."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to, is_empty
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from plans import translated

from sparkbeam.explain.aggregations import aggregations

TRIGGERS: dict[str, TriggerFn] = {
    "one": Repeatedly(AfterCount(1)),
    "few": Repeatedly(AfterCount(4)),
    "many": AfterCount(1000),
    "some": AfterCount(9),
    "soon": AfterWatermark(early=AfterCount(1), late=AfterCount(1)),
    "early": AfterWatermark(early=AfterCount(3), late=AfterCount(2)),
    "all": Repeatedly(AfterAll(AfterCount(4), AfterProcessingTime(3))),
    "any": Repeatedly(AfterAny(AfterCount(40), AfterProcessingTime(3))),
    "each": AfterEach(AfterCount(3), AfterCount(5)),
}
WINDOWS: list[WindowFn] = [
    GlobalWindows(),
    FixedWindows(10),
    SlidingWindows(10, 5),
    Sessions(4),
]


class Merging(beam.CombineFn):
    """Sorted values and their number; changes what it is given, as it may."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, mutable: list[int], element: int) -> list[int]:
        mutable.append(element)
        return mutable

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        first, *others = accumulators
        for other in others:
            first.extend(other)
        return first

    def extract_output(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(sorted(accumulator))


def described(
    element: Any,
    window: Any = beam.DoFn.WindowParam,
    stamp: Any = beam.DoFn.TimestampParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> str:
    return f"{element} {window} {stamp} {pane}"


def elements(p: beam.Pipeline) -> Any:
    times = [number * number % 37 for number in range(60)]
    pairs = [(key, time) for key in "abc" for time in times[ord(key) % 7 :]]
    created = p | beam.Create(pairs)
    return created | beam.Map(lambda pair: TimestampedValue(pair, pair[1] + ord(pair[0])))


def run(build: Any) -> None:
    options = PipelineOptions(["--allow_unsafe_triggers", "--spark_parallelism=3"])
    with beam.Pipeline(BatchRunner(), options=options) as p:
        build(p)


@pytest.mark.parametrize(
    ("mode", "stamp"),
    [
        (AccumulationMode.DISCARDING, TimestampCombiner.OUTPUT_AT_EOW),
        (AccumulationMode.ACCUMULATING, TimestampCombiner.OUTPUT_AT_EARLIEST),
    ],
)
@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: type(window).__name__)
def test_panes_are_those_of_the_group(window: WindowFn, mode: Any, stamp: Any) -> None:
    def build(p: beam.Pipeline) -> None:
        stamped, each = elements(p), []
        for name, trigger in TRIGGERS.items():
            windowed = stamped | name >> beam.WindowInto(
                window, trigger=trigger, accumulation_mode=mode, timestamp_combiner=stamp
            )
            whole = windowed | f"group {name}" >> beam.GroupByKey()
            whole |= f"whole {name}" >> beam.MapTuple(
                lambda key, values: (key, tuple(sorted(values)))
            )
            lifted = windowed | f"lifted {name}" >> beam.CombinePerKey(Merging())
            for count, panes in ((1, lifted), (-1, whole)):
                texts = panes | f"{name} {count}" >> beam.Map(described)
                counted = beam.Map(lambda text, name, count: ((name, text), count), name, count)
                each.append(texts | f"of {name} {count}" >> counted)
        told = each | beam.Flatten() | "anew" >> beam.WindowInto(GlobalWindows())
        counts = told | "counted" >> beam.CombinePerKey(sum)
        assert_that(counts | beam.Filter(lambda pair: pair[1]), is_empty())
        some = counts | beam.combiners.Count.Globally() | beam.Map(bool)
        assert_that(some, equal_to([True]), "some")

    run(build)


@pytest.mark.blocks(reason="Beam's own merge hands on a list without accumulators")
@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])
def test_a_pane_of_a_stream_may_be_empty(mode: Any) -> None:
    stream = TestStream().add_elements([TimestampedValue(("a", 3), 1)]).advance_watermark_to(2)
    options = PipelineOptions(["--streaming", "--allow_unsafe_triggers"])
    with beam.Pipeline(StreamingRunner(), options=options) as p:
        windowed = (
            p
            | stream.advance_watermark_to_infinity()
            | beam.WindowInto(FixedWindows(10), trigger=TRIGGERS["soon"], accumulation_mode=mode)
        )
        last = () if mode == AccumulationMode.DISCARDING else (3,)
        found = windowed | beam.CombinePerKey(Merging())
        assert_that(found, equal_to([("a", (3,)), ("a", last)]))


def test_two_combines_of_the_same_elements() -> None:
    def build(p: beam.Pipeline) -> None:
        windowed = elements(p) | beam.WindowInto(
            GlobalWindows(),
            trigger=Repeatedly(AfterCount(2)),
            accumulation_mode=AccumulationMode.DISCARDING,
        )
        least = windowed | "min" >> beam.CombinePerKey(min)
        most = windowed | "max" >> beam.CombinePerKey(max)
        assert_that(least, equal_to([(key, 0) for key in "abc"]), "least")
        assert_that(most, equal_to([(key, 36) for key in "abc"]), "most")

    run(build)


@pytest.mark.parametrize("trigger", [TRIGGERS[name] for name in ("one", "few", "early", "all")])
def test_all_combines_add_up_before_the_shuffle(trigger: TriggerFn) -> None:
    def build(p: beam.Pipeline) -> None:
        windowed = elements(p) | beam.WindowInto(
            GlobalWindows(), trigger=trigger, accumulation_mode=AccumulationMode.DISCARDING
        )
        _ = windowed | beam.CombinePerKey(Merging())

    _, plan = translated(build)
    assert "elements to accumulators, in a table in memory" in aggregations(plan)
