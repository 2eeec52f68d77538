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
from in_process import Measured, Spark, StreamingRunner, rounds, streaming_pipeline
from in_process_batch import BatchRunner
from random_states import KINDS, Chain, Plan, digest
from remembering import keys

PLANS: dict[str, tuple[Plan, str]] = {
    "an element sets it": ((("", (("event", "a", 40),)),), "a"),
    "at the end of the window": ((("", (("event", "a", 0),)),), "a"),
    "a callback sets it": (
        (("", (("event", "a", -5),)), ("a", (("event", "b", 40),))),
        "ab",
    ),
    "callbacks before and behind the end": (
        (
            ("", (("event", "a", -5),)),
            ("a", (("event", "b", -1),)),
            ("b", (("event", "c", 1),)),
            ("c", (("event", "d", 490),)),
        ),
        "abcd",
    ),
    "for the same time": (
        (
            ("", (("event", "a", 40),)),
            ("a", (("event", "b", 40),)),
            ("b", (("event", "c", 40),)),
        ),
        "abc",
    ),
    "for a time that is over": (
        (("", (("event", "a", 40),)), ("a", (("event", "b", -8),))),
        "ab",
    ),
    "cleared and set again": (
        (
            ("", (("event", "a", -5), ("event", "b", 30))),
            (
                "a",
                (
                    *(("event", "b", None), ("event", "c", 40), ("event", "b", 50)),
                    ("event", "c", None),
                ),
            ),
            ("b", (("event", "c", 60),)),
        ),
        "abc",
    ),
    "by the clock": (
        (
            ("", (("event", "a", -5),)),
            ("a", (("clock", "b", 1000),)),
            ("b", (("clock", "c", 2000),)),
        ),
        "abc",
    ),
    "the clock sets one by the watermark": (
        (("", (("clock", "a", 1000),)), ("a", (("event", "b", 1990),))),
        "ab",
    ),
}
"""Timers, with the order in which they fire; those in event time add to the state."""


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


def expected(kind: str, plan: Plan, order: str) -> Iterator[tuple[str, str, int]]:
    """Findings of the timers: the elements, and what those in event time have added."""
    by_clock = {tag for _, sets in plan for domain, tag, _ in sets if domain == "clock"}
    kept = [(1, 1), (2, 2)]
    for tag in order:
        yield kind, "k", digest((tag, kept))
        if tag not in by_clock:
            kept.append((777, ord(tag)))


def check(numbers: beam.PCollection, kinds: Iterable[str], plan: Plan, order: str) -> None:
    found = []
    for kind in kinds:
        keyed = numbers | f"{kind} keys" >> beam.WithKeys("k")
        placed = keyed | f"{kind} windows" >> beam.WindowInto(FixedWindows(10))
        told = placed | kind >> beam.ParDo(Chain(kind, plan))
        found.append(told | f"of {kind}" >> beam.Map(lambda told, kind=kind: (kind, *told)))
    of_all = [told for kind in kinds for told in expected(kind, plan, order)]
    assert_that(found | beam.Flatten(), equal_to(of_all))


@pytest.mark.part(5)
@rounds(4)
@pytest.mark.parametrize("events", [in_one_step, step_by_step])
@pytest.mark.parametrize(("plan", "order"), PLANS.values(), ids=PLANS)
def test_a_timer_behind_the_end_finds_all_that_there_was(
    plan: Any, order: str, events: Any
) -> None:
    with streaming_pipeline(Spark(attempts=2)) as p:
        check(p | events(), KINDS, plan, order)


@pytest.mark.part(5)
@pytest.mark.parametrize(("plan", "order"), PLANS.values(), ids=PLANS)
def test_a_timer_behind_the_end_finds_the_same_in_batch(plan: Any, order: str) -> None:
    with beam.Pipeline(BatchRunner(), options=PipelineOptions()) as p:
        created = p | beam.Create([1, 2]) | beam.Map(lambda n: TimestampedValue(n, n))
        check(created, ("value", "bag", "ordered", "map"), plan, order)


@pytest.mark.parametrize("kind", ["value", "bag"])
def test_a_timer_behind_the_end_finds_the_same_on_beams_own_runner(kind: str) -> None:
    with beam.Pipeline(FnApiRunner(), options=PipelineOptions()) as p:
        created = p | beam.Create([1, 2]) | beam.Map(lambda n: TimestampedValue(n, n))
        check(created, [kind], *PLANS["a callback sets it"])


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
            _ = placed | kind >> beam.ParDo(Chain(kind, plan))
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
