"""What is told of a streaming query while it runs."""

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import StrUtf8Coder, VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import FixedWindows, TimestampCombiner, TimestampedValue
from apache_beam.utils.timestamp import MAX_TIMESTAMP
from golden_files import Golden, sections
from in_process import DURATIONS, Spark
from in_process import streaming_pipeline as pipeline
from remembering import Remembering

from sparkbeam.observe.collection.stream_tracker import StreamTracker
from sparkbeam.observe.figures.micro_batch import MicroBatch, MicroBatchStage
from sparkbeam.observe.figures.progress import StageProgress, StageState, StreamingProgress
from sparkbeam.observe.page.view import of_query
from sparkbeam.observe.sinks.runner_metrics import runner_metrics
from sparkbeam.streaming.status import status
from sparkbeam.wire.reports import ElementCounts

SECOND = 1_000_000


def at(*stamps: int) -> list[TimestampedValue]:
    """Numbers, each at the second that it names."""
    return [TimestampedValue(stamp, stamp) for stamp in stamps]


def grouped(p: beam.Pipeline) -> None:
    events = TestStream(coder=VarIntCoder()).add_elements(at(3, 5)).advance_watermark_to(7)
    events = events.advance_watermark_to(12).advance_watermark_to_infinity()
    earliest = TimestampCombiner.OUTPUT_AT_EARLIEST
    windows = "Windows" >> beam.WindowInto(FixedWindows(10), timestamp_combiner=earliest)
    pairs = p | events | windows | beam.WithKeys("k")
    _ = pairs | beam.GroupByKey() | "After" >> beam.Map(str)


def lingering(p: beam.Pipeline) -> None:
    events = TestStream(coder=StrUtf8Coder())
    events = events.add_elements([TimestampedValue(word * 1000, 5) for word in "abc"])
    events = events.advance_watermark_to(11).advance_watermark_to(30)
    keyed = (
        p
        | events.advance_watermark_to_infinity()
        | beam.WindowInto(FixedWindows(10), allowed_lateness=5)
        | beam.WithKeys(lambda word: word[0])
    )
    _ = keyed | "Group" >> beam.GroupByKey() | "Grouped" >> beam.Map(str)
    _ = keyed | "Remember" >> beam.ParDo(Remembering())


def waiting(p: beam.Pipeline) -> None:
    events = TestStream().add_elements(at(1), tag="main").advance_watermark_to_infinity(tag="main")
    events = events.add_elements(at(2), tag="side").advance_watermark_to_infinity(tag="side")
    found = p | events
    side = beam.pvalue.AsList(found["side"] | "windows" >> beam.WindowInto(FixedWindows(10)))
    main = found["main"] | beam.WindowInto(FixedWindows(10))
    _ = main | "Waits" >> beam.Map(lambda n, seen: (n, seen), seen=side)


def late(p: beam.Pipeline) -> None:
    events = TestStream(coder=VarIntCoder()).add_elements(at(1)).advance_watermark_to(13)
    events = events.add_elements(at(2, 3)).add_elements(at(4, 15)).advance_watermark_to_infinity()
    windows = p | events | "Windows" >> beam.WindowInto(FixedWindows(10))
    _ = windows | beam.WithKeys("k") | beam.GroupByKey() | "After" >> beam.Map(str)


def twice(p: beam.Pipeline) -> None:
    events = TestStream(coder=VarIntCoder()).add_elements(at(1, 2)).add_elements(at(3))
    _ = p | events.advance_watermark_to_infinity() | "Twice" >> beam.FlatMap(lambda n: [n, n])


def waits(domain: Any) -> beam.DoFn:
    """A DoFn with a timer by a clock; only one in processing time keeps its elements' timestamp."""

    class Waits(beam.DoFn):
        TIMER = TimerSpec("due", domain)

        def process(
            self, element: tuple[str, int], timer: Any = beam.DoFn.TimerParam(TIMER)
        ) -> Iterator[int]:
            timer.set(100)
            yield element[1]

        @on_timer(TIMER)
        def due(self) -> Iterator[int]:
            yield 0

    return Waits()


def holders(p: beam.Pipeline) -> None:
    events = TestStream(coder=VarIntCoder()).advance_watermark_to(1).add_elements(at(1))
    events = events.advance_watermark_to(5).advance_watermark_to_infinity()
    pairs = p | events | "Key" >> beam.WithKeys("k").with_output_types(tuple[str, int])
    _ = pairs | "Event" >> beam.ParDo(waits(TimeDomain.WATERMARK))
    _ = pairs | "Clock" >> beam.ParDo(waits(TimeDomain.REAL_TIME)) | "After" >> beam.Map(str)
    earliest = TimestampCombiner.OUTPUT_AT_EARLIEST
    windows = beam.WindowInto(FixedWindows(10), timestamp_combiner=earliest)
    windowed = pairs | windows
    _ = windowed | "Combine" >> beam.CombinePerKey(max) | "Combined" >> beam.Map(str)
    _ = windowed | "Group" >> beam.GroupByKey() | "Grouped" >> beam.Map(str)


def line_of(stage: StageProgress) -> str:
    marks = [
        f"{name} {'the end' if mark == MAX_TIMESTAMP else mark.micros // SECOND}"
        for name, mark in (
            ("at", stage.input_watermark),
            ("output at", stage.output_watermark),
            ("held at", stage.hold),
        )
        if mark is not None
    ]
    counts = f"{stage.elements} elements, {stage.keys} keys in {stage.state_bytes // 1000} KB"
    held = [f"held by {stage.holder.what} of {stage.holder.step!r}"] if stage.holder else []
    late = [f"{stage.dropped_late} late"] if stage.dropped_late else []
    return f"  {stage.name}: {', '.join([*marks, counts, *held, *late])}"


@pytest.mark.parametrize("build", [grouped, lingering, waiting, late, twice, holders])
def test_each_micro_batch_tells_of_its_stages(
    build: Callable[[beam.Pipeline], None], snapshots: list[StreamingProgress], golden: Golden
) -> None:
    with pipeline() as p:
        build(p)
    assert [snapshot.micro_batch for snapshot in snapshots] == list(range(1, 1 + len(snapshots)))
    assert all(snapshot.per_second >= 0 for snapshot in snapshots)
    for each in snapshots:
        assert each.dropped_late == sum(stage.dropped_late for stage in each.stages)
    texts = {str(each.micro_batch): map(line_of, each.stages) for each in snapshots}
    golden(f"progress of {build.__name__}.txt", sections(texts))


def test_a_test_stream_is_not_behind(snapshots: list[StreamingProgress]) -> None:
    events = TestStream(coder=VarIntCoder()).advance_watermark_to(5).add_elements(at(7))
    with pipeline() as p:
        p | events.advance_watermark_to_infinity() | beam.Map(str)
    assert {snapshot.lag_seconds for snapshot in snapshots} == {None}


def test_the_end_is_told() -> None:
    p = pipeline()
    p | beam.Create([1, 2, 3]) | beam.Map(str)
    result: Any = p.run()
    result.wait_until_finish()
    progress = result.progress()
    assert progress.state is StageState.DONE
    assert sum(stage.elements for stage in progress.stages) > 0
    assert all(stage.output_watermark == MAX_TIMESTAMP for stage in progress.stages)


def test_a_run_that_finds_all_done_tells_what_the_one_before_did(tmp_path: Any) -> None:
    spark = Spark()
    told = []
    for _ in range(2):
        p = pipeline(spark, tmp_path)
        p | beam.Create([1, 2, 3]) | beam.Map(str)
        result: Any = p.run()
        result.wait_until_finish()
        told.append(result.progress())
    first, second = told
    assert first.micro_batch > 0
    assert second.micro_batch == first.micro_batch
    assert second.stages == first.stages


# The phases.

OF_SPARK = {name: millis / 1000 for name, millis in DURATIONS.items()}
OF_SINK = {"stages", "collecting", "feedback"}


def test_it_is_told_what_a_micro_batch_spent_its_time_on(tmp_path: Any) -> None:
    p = pipeline(None, tmp_path)
    p | beam.Create([1, 2, 3]) | beam.Map(str)
    result: Any = p.run()
    result.wait_until_finish()
    progress = result.progress()
    assert progress.phases.keys() == OF_SPARK.keys() | OF_SINK
    assert OF_SPARK.items() <= progress.phases.items()
    assert 0 < sum(progress.phases[name] for name in OF_SINK) < progress.phases["addBatch"]
    pushed = {metric.name: metric.value for metric in runner_metrics(progress, 0)}
    named = {"latest_offset_ms", "wal_commit_ms", "add_batch_ms", "commit_offsets_ms"}
    assert {pushed[name] for name in named} == set(DURATIONS.values())
    assert {f"{name}_ms" for name in OF_SINK} <= pushed.keys()
    (shown,) = (text for label, text in of_query(progress) if label == "phases")
    assert shown.startswith("latestOffset 1 ms, walCommit 2 ms, addBatch 3,000 ms (stages ")
    assert shown.endswith("), commitOffsets 4 ms")
    assert (
        status(str(tmp_path)).progress.phases == progress.phases
    )  # The last sign of life has them.


def test_without_a_sign_of_life_a_checkpoint_tells_the_phases_of_its_own(tmp_path: Any) -> None:
    with pipeline(None, tmp_path) as p:
        p | beam.Create([1, 2, 3]) | beam.Map(str)
    (tmp_path / "sparkbeam" / "driver.json").unlink()
    assert status(str(tmp_path)).progress.phases.keys() == {"stages", "collecting"}


# The tracker.


def batch(number: int, second: float, elements: int, mark: float | None = None) -> MicroBatch:
    """A micro-batch of one second that ends at a second."""
    return MicroBatch(
        number=number,
        ended=int(second * SECOND),
        duration=SECOND,
        elements=elements,
        source_watermark=None if mark is None else int(mark * SECOND),
        stages={},
    )


def tracked(*batches: MicroBatch, now: float = 0.0) -> StreamingProgress:
    tracker = StreamTracker(EMPTY, clock=lambda: now)
    for each in batches:
        tracker.record_batch(each)
    return tracker.snapshot()


EMPTY: Any = SimpleNamespace(stages=())


def test_nothing_is_known_before_the_first_micro_batch() -> None:
    assert tracked() == StreamingProgress()


def test_the_lag_grows_while_nothing_comes() -> None:
    last = batch(1, 100.0, 10, mark=98.0)
    assert [tracked(last, now=now).lag_seconds for now in (100.0, 104.0)] == [2.0, 6.0]


def test_a_rate_counts_what_has_come_since_an_earlier_micro_batch() -> None:
    assert tracked(batch(1, 1.0, 100)).per_second == 100
    assert tracked(batch(1, 1.0, 100), batch(2, 5.0, 100)).per_second == 25


@pytest.mark.parametrize("count", [2, 3, 10, 100])
@pytest.mark.parametrize("seconds", [0.1, 1.0, 3.0, 30.0])
def test_the_rate_of_a_paced_source_is_its_pace(count: int, seconds: float) -> None:
    """However long micro-batches take, and whatever the first one had to catch up with."""
    paced = round(500 * seconds)
    batches = [batch(0, 0.0, 7_000), *(batch(n, n * seconds, paced) for n in range(1, count))]
    assert tracked(*batches).per_second == pytest.approx(500)


def test_a_rate_is_that_of_the_last_micro_batches() -> None:
    before = [batch(number, number, 1_000_000) for number in range(1, 20)]
    after = [batch(number, number, 10) for number in range(20, 40)]
    progress = tracked(*before, *after)
    assert progress.per_second == 10
    assert (progress.micro_batch, progress.batch_seconds) == (39, 1.0)


def test_a_stage_that_is_in_no_micro_batch_has_no_figures() -> None:
    plan: Any = SimpleNamespace(stages=(SimpleNamespace(id="s1", name="New"),))
    tracker = StreamTracker(plan)
    tracker.record_batch(batch(1, 1.0, 100))
    assert tracker.snapshot().stages == (StageProgress("New", StageState.RUNNING),)


def test_a_summary_travels_as_json() -> None:
    stage = MicroBatchStage(ElementCounts(1, 2), ElementCounts(3, 4), 5, -6, 7, 8, 9)
    whole = MicroBatch(1, 2, 3, 4, None, {"s": stage})
    assert MicroBatch.from_content(json.loads(json.dumps(whole.content()))) == whole
