"""What no trigger has let out of a window comes out when that expires."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.combiners import Largest, MeanCombineFn, SingleInputTupleCombineFn
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampedValue
from apache_beam.utils.windowed_value import PaneInfoTiming
from in_process import StreamingRunner
from in_process_batch import BatchRunner

EARLY, ON_TIME, LATE = (PaneInfoTiming.EARLY, PaneInfoTiming.ON_TIME, PaneInfoTiming.LATE)
DISCARDING, ACCUMULATING = AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING

NEVER_FINISH = {
    "count": Repeatedly(AfterCount(3)),
    "clock": Repeatedly(AfterProcessingTime(1000)),
    "all": Repeatedly(AfterAll(AfterCount(2), AfterProcessingTime(1000))),
    "any": Repeatedly(AfterAny(AfterCount(4), AfterProcessingTime(1000))),
    "late": AfterWatermark(late=AfterCount(3)),
}


class Described(beam.DoFn):
    """Panes as their numbers, timing and whether it is the last one."""

    def process(self, pair: Any, pane: Any = beam.DoFn.PaneInfoParam) -> Any:
        yield sorted(pair[1]), pane.timing, pane.is_last


def numbers(*seconds: int) -> list[TimestampedValue]:
    return [TimestampedValue(second, second) for second in seconds]


def panes(
    events: beam.PCollection, window: Any, trigger: TriggerFn, mode: Any, lateness: int = 0
) -> beam.PCollection:
    return (
        events
        | beam.WindowInto(
            window, trigger=trigger, accumulation_mode=mode, allowed_lateness=lateness
        )
        | beam.WithKeys("key")
        | beam.GroupByKey()
        | beam.ParDo(Described())
    )


def streaming() -> beam.Pipeline:
    flags = ["--streaming", "--allow_unsafe_triggers"]
    return beam.Pipeline(runner=StreamingRunner(), options=PipelineOptions(flags))


def batch() -> beam.Pipeline:
    return beam.Pipeline(runner=BatchRunner(), options=PipelineOptions(["--allow_unsafe_triggers"]))


@pytest.mark.parametrize("window", [FixedWindows(10), GlobalWindows(), Sessions(10)])
@pytest.mark.parametrize("mode", [DISCARDING, ACCUMULATING])
def test_the_rest_of_a_window_is_its_last_pane(window: Any, mode: Any) -> None:
    events = TestStream().add_elements(numbers(1)).add_elements(numbers(2)).add_elements(numbers(3))
    with streaming() as p:
        found = panes(
            p | events.advance_watermark_to_infinity(), window, Repeatedly(AfterCount(2)), mode
        )
        rest = [3] if mode == DISCARDING else [1, 2, 3]
        assert_that(found, equal_to([([1, 2], EARLY, False), (rest, ON_TIME, True)]))


@pytest.mark.parametrize("window", [FixedWindows(10), GlobalWindows(), Sessions(10)])
@pytest.mark.parametrize("mode", [DISCARDING, ACCUMULATING])
def test_a_window_without_anything_new_has_no_further_pane(window: Any, mode: Any) -> None:
    events = TestStream().add_elements(numbers(1)).add_elements(numbers(2))
    with streaming() as p:
        found = panes(
            p | events.advance_watermark_to_infinity(), window, Repeatedly(AfterCount(2)), mode
        )
        assert_that(found, equal_to([([1, 2], EARLY, False)]))


def test_what_is_late_waits_for_its_trigger_until_the_window_expires() -> None:
    events = (
        TestStream()
        .add_elements(numbers(1))
        .advance_watermark_to(12)
        .add_elements(numbers(2))
        .advance_watermark_to(19)
        .add_elements(numbers(3))
        .advance_watermark_to(25)
        .add_elements(numbers(4))
        .advance_watermark_to_infinity()
    )
    with streaming() as p:
        trigger = AfterWatermark(late=AfterCount(5))
        found = panes(p | events, FixedWindows(10), trigger, DISCARDING, lateness=10)
        assert_that(found, equal_to([([1], ON_TIME, False), ([2, 3], LATE, True)]))


@pytest.mark.parametrize(
    ("combine_fn", "outputs"),
    [
        (MeanCombineFn(), ["3.0", "nan"]),
        (SingleInputTupleCombineFn(sum, MeanCombineFn()), ["(6, 3.0)", "(0, nan)"]),
        (Largest(1), ["[3]", "[]"]),
    ],
    ids=["mean", "tuple", "top"],
)
def test_an_empty_pane_is_what_a_combine_makes_of_nothing(combine_fn: Any, outputs: Any) -> None:
    events = TestStream().add_elements([TimestampedValue(3, 1), TimestampedValue(3, 1)])
    with streaming() as p:
        found = (
            p
            | events.advance_watermark_to_infinity()
            | beam.WindowInto(
                FixedWindows(10),
                trigger=AfterWatermark(early=AfterCount(2)),
                accumulation_mode=DISCARDING,
            )
            | beam.WithKeys("key")
            | beam.CombinePerKey(combine_fn)
            | beam.MapTuple(lambda key, output: str(output))
        )
        assert_that(found, equal_to(outputs))


@pytest.mark.parametrize("least", [300, 301])
def test_elements_that_come_as_one_accumulator_are_counted_one_by_one(least: int) -> None:
    events = TestStream().add_elements([TimestampedValue(1, 1)] * 300)
    with streaming() as p:
        found = (
            p
            | events.advance_watermark_to_infinity()
            | beam.WindowInto(
                FixedWindows(10),
                trigger=Repeatedly(AfterCount(least)),
                accumulation_mode=DISCARDING,
            )
            | beam.WithKeys("key")
            | beam.CombinePerKey(sum)
            | beam.Map(lambda pair, pane=beam.DoFn.PaneInfoParam: (pair[1], pane.timing))
        )
        assert_that(found, equal_to([(300, EARLY if least == 300 else ON_TIME)]))


def test_an_accumulator_that_no_trigger_let_out_comes_out() -> None:
    events = TestStream().add_elements(numbers(1, 2)).add_elements(numbers(15))
    with streaming() as p:
        found = (
            p
            | events.advance_watermark_to_infinity()
            | beam.WindowInto(
                FixedWindows(10), trigger=Repeatedly(AfterCount(9)), accumulation_mode=DISCARDING
            )
            | beam.CombineGlobally(sum).without_defaults()
        )
        assert_that(found, equal_to([3, 15]))


@pytest.mark.part(4)
@pytest.mark.parametrize("window", [FixedWindows(10), GlobalWindows(), Sessions(4)])
@pytest.mark.parametrize("trigger", NEVER_FINISH.values(), ids=NEVER_FINISH)
def test_every_element_comes_out_once(window: Any, trigger: TriggerFn) -> None:
    elements = [7 * n % 40 for n in range(29)]
    events = TestStream()
    for at, second in enumerate(elements):
        events = events.add_elements(numbers(second)).advance_processing_time(300)
        if at % 5 == 4:
            events = events.advance_watermark_to(at)
    with streaming() as p:
        found = panes(
            p | events.advance_watermark_to_infinity(), window, trigger, DISCARDING, lateness=100
        )
        values = found | beam.FlatMap(lambda pane: pane[0])
        assert_that(values, equal_to(elements))


@pytest.mark.parametrize("window", [FixedWindows(10), GlobalWindows(), Sessions(4)])
def test_in_batch_as_well(window: Any) -> None:
    elements = [1, 2, 3, 15, 33, 34]
    windows: dict[int, list[int]] = defaultdict(list)
    for second in elements:
        windows[0 if isinstance(window, GlobalWindows) else second // 10].append(second)
    with batch() as p:
        stamped = p | beam.Create(elements) | beam.Map(lambda n: TimestampedValue(n, n))
        found = panes(stamped, window, Repeatedly(AfterCount(3)), DISCARDING) | beam.Map(
            lambda pane: pane[0]
        )
        assert_that(found, equal_to(list(windows.values())))


@pytest.mark.parametrize("pipeline", [streaming, batch])
def test_a_trigger_that_may_lose_data_does_as_beams_own_driver(
    pipeline: Callable[[], beam.Pipeline],
) -> None:
    with pipeline() as p:
        stamped = p | beam.Create([1, 2, 15]) | beam.Map(lambda n: TimestampedValue(n, n))
        found = panes(stamped, FixedWindows(10), AfterCount(2), DISCARDING)
        assert_that(found | beam.Map(lambda pane: pane[0]), equal_to([[1, 2]]))


def test_what_waits_for_the_clock_comes_out_when_its_window_expires() -> None:
    events = TestStream().add_elements(numbers(1)).advance_watermark_to(70)
    with streaming() as p:
        found = panes(
            p | events.advance_processing_time(600),
            FixedWindows(60),
            AfterProcessingTime(600),
            DISCARDING,
        )
        assert_that(found | beam.Map(lambda pane: pane[0]), equal_to([[1]]))
