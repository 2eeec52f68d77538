"""Which key holds a watermark: where its page is large, and in which step it is."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampCombiner
from in_process import rounds, streaming_pipeline

from sparkbeam.observe.collection.stream_tracker import StreamTracker
from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.records import EVENT_TIME, Hold
from sparkbeam.worker.state.store import MemoryMap
from sparkbeam.worker.streaming.oldest import OldestHold

SECOND = 1_000_000


class Shard:
    """A stage whose only key has a record of a size, over several micro-batches."""

    def __init__(self, size: int) -> None:
        self.entries = MemoryMap()
        self._state = ShardState(self.entries)
        self.record = self._state.stage("stage").record(b"key")
        self.record.set(b"cell", b"x" * size)
        self._next()

    def hold(self, micros: int) -> None:
        """The key holds the watermark by a timer, another one than before."""
        self.record.set_timer(b"timer", EVENT_TIME, micros + 1, micros, None)
        self._next()

    def find(self, clock: int) -> Hold | None:
        """What is found in a micro-batch of its own."""
        found = OldestHold(self._state.stage("stage"), self._state, "oldest").find(clock)
        self._next()
        return found

    def _next(self) -> None:
        self._state.save()
        self._state = ShardState(self.entries)
        self.record = self._state.stage("stage").record(b"key")


@pytest.fixture
def large() -> Shard:
    shard = Shard(1 << 20)
    shard.hold(1000)
    return shard


def hold(micros: int) -> Hold:
    return Hold(micros, b"key", is_timer=True, until=micros + 1, id=b"timer")


class TestLargePages:
    def test_one_is_read_once_as_long_as_the_hold_is_the_same(
        self, large: Shard, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert large.find(0) == hold(1000)
        monkeypatch.setattr("sparkbeam.worker.streaming.oldest._MOST_BYTES", 0)
        assert large.find(60 * SECOND) == hold(1000), "it is remembered"

    def test_another_hold_is_looked_for_after_five_seconds(self, large: Shard) -> None:
        assert large.find(SECOND) == hold(1000)
        large.hold(2000)
        assert large.find(2 * SECOND) is None
        assert large.find(6 * SECOND) == hold(2000)
        large.hold(3000)
        assert large.find(10 * SECOND) is None
        assert large.find(11 * SECOND) == hold(3000)

    def test_a_very_large_one_is_not_read(self) -> None:
        shard = Shard(5 << 20)
        shard.hold(1000)
        assert shard.find(0) is None

    def test_a_small_one_is_read_each_time(self) -> None:
        shard = Shard(100)
        for micros in (1000, 2000, 3000):
            shard.hold(micros)
            assert shard.find(0) == hold(micros)

    def test_nothing_holds(self) -> None:
        assert Shard(100).find(0) is None
        assert Shard(1 << 20).find(0) is None


def waits(domain: Any) -> beam.DoFn:
    """A DoFn with a timer by a clock; only one in processing time keeps its elements' timestamp."""

    class Waits(beam.DoFn):
        TIMER = TimerSpec("due", domain)

        def process(
            self, element: tuple[str, str], timer: Any = beam.DoFn.TimerParam(TIMER)
        ) -> Iterator[str]:
            timer.set(100)
            yield element[1]

        @on_timer(TIMER)
        def due(self) -> Iterator[str]:
            yield "due"

    return Waits()


def holders(build: Any, monkeypatch: pytest.MonkeyPatch) -> set[tuple[str, str, str]]:
    """Stage, kind and step of all that held a watermark in some micro-batch."""
    found: set[tuple[str, str, str]] = set()
    note = StreamTracker.record_batch

    def look(tracker: StreamTracker, batch: MicroBatch) -> None:
        note(tracker, batch)
        for stage in tracker.snapshot().stages:
            if stage.holder is not None:
                found.add((stage.name, stage.holder.what, stage.holder.step))

    monkeypatch.setattr(StreamTracker, "record_batch", look)
    pipeline = streaming_pipeline(None, None, "--allow_unsafe_triggers")
    events = TestStream(coder=StrUtf8Coder()).advance_watermark_to(1).add_elements(["a"])
    events = events.advance_watermark_to(5).advance_watermark_to_infinity()
    build(
        pipeline
        | events
        | "Key" >> beam.WithKeys(lambda text: text).with_output_types(tuple[str, str])
    )
    with rounds(1):
        pipeline.run().wait_until_finish()
    return found


def test_of_steps_that_run_fused_it_is_told_whose_timer_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(pairs: Any) -> None:
        _ = pairs | "Event" >> beam.ParDo(waits(TimeDomain.WATERMARK))
        _ = pairs | "Clock" >> beam.ParDo(waits(TimeDomain.REAL_TIME)) | "After" >> beam.Map(str)

    assert holders(build, monkeypatch) == {("Clock + After", "timer", "Clock")}


@pytest.mark.parametrize("combines", [True, False])
def test_a_window_is_that_of_a_combine_or_of_the_grouping_before_the_steps(
    combines: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(pairs: Any) -> None:
        _ = (
            pairs
            | beam.WindowInto(
                FixedWindows(10),
                timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST,
            )
            | "Group" >> (beam.CombinePerKey(max) if combines else beam.GroupByKey())
            | "After" >> beam.Map(str)
        )

    told = ("Group + After", "window", "Group") if combines else ("After", "window", "")
    assert holders(build, monkeypatch) == {told}
