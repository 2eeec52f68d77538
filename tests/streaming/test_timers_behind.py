"""Timers behind the end of their window find its state whole, and take it with them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import BagStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process import Measured, Spark, StreamingRunner, rounds, streaming_pipeline
from in_process_batch import BatchRunner
from random_states import KINDS, Entry, Kept
from remembering import keys

Event, Clock = "event", "clock"
Set = tuple[str, str, int | None]
"""The domain and tag of a timer, and the second for which it is set; None clears it."""


def keeping(kind: str, plan: dict[str, list[Set]]) -> beam.DoFn:
    """A DoFn that keeps all numbers of a key, and all that its timers find there.

    Args:
        kind: of the state.
        plan: the timers that are set by the timer of a tag; by an element with ''.
    """
    spec = KINDS[kind]

    class Keeping(beam.DoFn):
        EVENT = TimerSpec(Event, TimeDomain.WATERMARK)
        CLOCK = TimerSpec(Clock, TimeDomain.REAL_TIME)

        def process(
            self,
            element: tuple[str, int],
            state: Any = beam.DoFn.StateParam(spec),
            event: Any = beam.DoFn.TimerParam(EVENT),
            clock: Any = beam.DoFn.TimerParam(CLOCK),
        ) -> None:
            Kept(kind, state).add(element[1], element[1])
            self._set("", event, clock)

        @on_timer(EVENT)
        def on_event(
            self,
            tag: Any = beam.DoFn.DynamicTimerTagParam,
            state: Any = beam.DoFn.StateParam(spec),
            event: Any = beam.DoFn.TimerParam(EVENT),
            clock: Any = beam.DoFn.TimerParam(CLOCK),
        ) -> Iterator[tuple[str, list[Entry]]]:
            yield tag, Kept(kind, state).entries()
            Kept(kind, state).add(100, 100)
            self._set(tag, event, clock)

        @on_timer(CLOCK)
        def on_clock(
            self,
            tag: Any = beam.DoFn.DynamicTimerTagParam,
            state: Any = beam.DoFn.StateParam(spec),
            event: Any = beam.DoFn.TimerParam(EVENT),
            clock: Any = beam.DoFn.TimerParam(CLOCK),
        ) -> Iterator[tuple[str, list[Entry]]]:
            yield tag, Kept(kind, state).entries()
            self._set(tag, event, clock)

        def _set(self, tag: str, event: Any, clock: Any) -> None:
            for domain, other, second in plan.get(tag, ()):
                timer = event if domain == Event else clock
                if second is None:
                    timer.clear(dynamic_timer_tag=other)
                else:
                    timer.set(Timestamp(second), dynamic_timer_tag=other)

    return Keeping()


PLANS: dict[str, tuple[dict[str, list[Set]], list[str]]] = {
    "an element sets it": ({"": [(Event, "a", 50)]}, ["a"]),
    "at the end of the window": ({"": [(Event, "a", 10)]}, ["a"]),
    "a callback sets it": ({"": [(Event, "a", 5)], "a": [(Event, "b", 50)]}, ["a", "b"]),
    "a callback of a callback sets it": (
        {"": [(Event, "a", 5)], "a": [(Event, "b", 9)], "b": [(Event, "c", 11)]},
        ["a", "b", "c"],
    ),
    "one behind sets another": (
        {"": [(Event, "a", 12)], "a": [(Event, "b", 50)], "b": [(Event, "c", 500)]},
        ["a", "b", "c"],
    ),
    "for the same time": (
        {"": [(Event, "a", 50)], "a": [(Event, "b", 50)], "b": [(Event, "c", 50)]},
        ["a", "b", "c"],
    ),
    "for a time that is over": (
        {"": [(Event, "a", 50)], "a": [(Event, "b", 2)]},
        ["a", "b"],
    ),
    "cleared and set again": (
        {
            "": [(Event, "a", 5), (Event, "b", 40)],
            "a": [(Event, "b", None), (Event, "c", 50), (Event, "b", 60), (Event, "c", None)],
            "b": [(Event, "c", 70)],
        },
        ["a", "b", "c"],
    ),
    "by the clock": ({"": [(Event, "a", 5), (Clock, "b", 1000)]}, ["a", "b"]),
    "a callback sets one by the clock": (
        {"": [(Event, "a", 5)], "a": [(Clock, "b", 1000)], "b": [(Clock, "c", 2000)]},
        ["a", "b", "c"],
    ),
    "the clock sets one by the watermark": (
        {"": [(Clock, "a", 1000)], "a": [(Event, "b", 2000)]},
        ["a", "b"],
    ),
}


def in_one_step() -> TestStream:
    both = [TimestampedValue(1, 1), TimestampedValue(2, 2)]
    return TestStream(coder=VarIntCoder()).add_elements(both).advance_watermark_to_infinity()


def step_by_step() -> TestStream:
    """The watermark gets to each of the times of interest, the clock to two of them."""
    events = TestStream(coder=VarIntCoder())
    for number in (1, 2):
        events = events.add_elements([TimestampedValue(number, number)])
    for second in (6, 10, 11, 30):
        events = events.advance_watermark_to(second)
    events = events.advance_processing_time(1500).advance_watermark_to(55)
    events = events.advance_processing_time(1500).advance_watermark_to(400)
    return events.advance_watermark_to_infinity()


def expected(
    kind: str, plan: dict[str, list[Set]], order: list[str]
) -> list[tuple[str, list[Entry]]]:
    """What the timers find: the elements, and what those by the watermark have added."""
    by_clock = {tag for sets in plan.values() for domain, tag, _ in sets if domain == Clock}
    found: list[tuple[str, list[Entry]]] = []
    kept = [(1, 1), (2, 2)]
    for tag in order:
        found.append((tag, sorted(set(kept) if kind in ("set", "map") else kept)))
        if tag not in by_clock:
            kept.append((100, 100))
    return found


def check(numbers: beam.PCollection, kinds: Iterable[str], plan: Any, order: list[str]) -> None:
    found = []
    for kind in kinds:
        keyed = numbers | f"{kind} keys" >> beam.WithKeys("k")
        placed = keyed | f"{kind} windows" >> beam.WindowInto(FixedWindows(10))
        told = placed | kind >> beam.ParDo(keeping(kind, plan))
        found.append(told | f"of {kind}" >> beam.Map(lambda told, kind=kind: (kind, *told)))
    of_all = [(kind, *told) for kind in kinds for told in expected(kind, plan, order)]
    assert_that(found | beam.Flatten(), equal_to(of_all))


@pytest.mark.part(5)
@rounds(4)
@pytest.mark.parametrize("events", [in_one_step, step_by_step])
@pytest.mark.parametrize(("plan", "order"), PLANS.values(), ids=PLANS)
def test_a_timer_behind_the_end_finds_all_that_there_was(
    plan: Any, order: list[str], events: Any
) -> None:
    with streaming_pipeline(Spark(attempts=2)) as p:
        check(p | events(), KINDS, plan, order)


@pytest.mark.part(5)
@pytest.mark.parametrize(("plan", "order"), PLANS.values(), ids=PLANS)
def test_a_timer_behind_the_end_finds_the_same_in_batch(plan: Any, order: list[str]) -> None:
    with beam.Pipeline(BatchRunner(), options=PipelineOptions()) as p:
        created = p | beam.Create([1, 2]) | beam.Map(lambda n: TimestampedValue(n, n))
        check(created, ("value", "bag", "ordered", "map"), plan, order)


@pytest.mark.parametrize("kind", ["value", "bag"])
def test_a_timer_behind_the_end_finds_the_same_on_beams_own_runner(kind: str) -> None:
    with beam.Pipeline(FnApiRunner(), options=PipelineOptions()) as p:
        created = p | beam.Create([1, 2]) | beam.Map(lambda n: TimestampedValue(n, n))
        check(created, [kind], *PLANS["a callback of a callback sets it"])


@pytest.mark.part(5)
@rounds(1)
@pytest.mark.parametrize("plan", [plan for plan, _ in PLANS.values()], ids=PLANS)
def test_the_last_timer_takes_all_state_with_it(plan: Any, tmp_path: Path) -> None:
    spark = Measured(keys)
    events = TestStream(coder=VarIntCoder()).add_elements([TimestampedValue(1, 1)])
    events = events.advance_watermark_to(7).advance_processing_time(3000)
    events = events.advance_watermark_to(9).advance_watermark_to(2500)
    with streaming_pipeline(spark, tmp_path) as p:
        pairs = p | events.advance_watermark_to(2501).advance_watermark_to_infinity()
        placed = pairs | beam.WithKeys("k") | beam.WindowInto(FixedWindows(10))
        for kind in ("value", "bag", "ordered", "map"):
            _ = placed | kind >> beam.ParDo(keeping(kind, plan))
    assert [bool(count) for count in spark.found] == [True] * 4 + [False] * 3


class Beside(beam.DoFn):
    """Gives the sums of its side inputs at the end of the window."""

    KEPT = BagStateSpec("kept", VarIntCoder())
    DUE = TimerSpec("due", TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[str, int],
        one: Any,
        two: Any,
        three: Any,
        window: Any = beam.DoFn.WindowParam,
        kept: Any = beam.DoFn.StateParam(KEPT),
        due: Any = beam.DoFn.TimerParam(DUE),
    ) -> None:
        for side in (one, two, three):
            kept.add(sum(side))
        due.set(window.max_timestamp())

    @on_timer(DUE)
    def fire(self, kept: Any = beam.DoFn.StateParam(KEPT)) -> Iterator[list[int]]:
        yield sorted(kept.read())


@pytest.mark.parametrize("runner", [StreamingRunner(), BatchRunner()], ids=["streaming", "batch"])
@pytest.mark.parametrize(
    ("main", "side", "found"),
    [(FixedWindows(10), GlobalWindows(), 7), (GlobalWindows(), FixedWindows(10), 0)],
)
def test_timers_are_in_the_windows_of_the_main_input(
    runner: Any, main: Any, side: Any, found: int
) -> None:
    with beam.Pipeline(runner, options=PipelineOptions()) as p:
        pairs = p | beam.Create([("k", 1)]) | "main" >> beam.WindowInto(main)
        placed = p | "numbers" >> beam.Create([3, 4]) | "side" >> beam.WindowInto(side)
        # Beam's SDK may take any of the inputs for the main one.
        same = [beam.Map(lambda m: m).with_output_types(Any) for _ in range(3)]
        sides = [beam.pvalue.AsIter(placed | f"{n}" >> each) for n, each in enumerate(same)]
        assert_that(pairs | beam.ParDo(Beside(), *sides), equal_to([[found] * 3]))
