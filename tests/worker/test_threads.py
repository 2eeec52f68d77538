"""A DoFn lives in one thread, from its pickle to its ``teardown``, whatever tasks use it."""

import contextvars
import decimal
import os
import sqlite3
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.userstate import (
    BagStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from waiting import until

from sparkbeam import SparkRunner
from sparkbeam.errors import PipelineFailed
from sparkbeam.worker.steps import bundles, threads

RUNNERS = pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])

HERE = threading.local()


def here() -> str:
    """The name of this thread, which no other one gets after it has ended."""
    if not hasattr(HERE, "name"):
        HERE.name = f"{os.getpid()}-{uuid.uuid4().hex}"
    return str(HERE.name)


class Life:
    """Notes in a file in which thread each part of its life runs."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes
        self._name = ""

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._name = f"{type(self).__name__}-{uuid.uuid4().hex}"
        self.note("loaded")

    def note(self, what: str) -> None:
        """Notes a part of the life."""
        with self._notes.open("a") as lines:
            lines.write(f"{self._name} {what} {here()}\n")


class Lived(Life, beam.DoFn):
    def setup(self) -> None:
        self.note("setup")

    def start_bundle(self) -> None:
        self.note("start_bundle")

    def process(self, element: Any) -> Iterator[Any]:
        self.note("process")
        yield element

    def finish_bundle(self) -> None:
        self.note("finish_bundle")

    def teardown(self) -> None:
        self.note("teardown")


class InBatches(Lived):
    def process_batch(self, batch: np.ndarray) -> Iterator[np.ndarray]:
        self.note("process_batch")
        yield batch

    def infer_output_type(self, input_type: Any) -> Any:
        return input_type


class Finalized(Lived):
    def process(
        self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam
    ) -> Iterator[Any]:
        self.note("process")
        finalizer.register(partial(self.note, "finalized"))
        yield element


class Added(Life, beam.CombineFn):
    def setup(self) -> None:
        self.note("setup")

    def create_accumulator(self) -> int:
        self.note("create_accumulator")
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        self.note("add_input")
        return accumulator + element

    def merge_accumulators(self, accumulators: Any) -> int:
        self.note("merge_accumulators")
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        self.note("extract_output")
        return accumulator

    def teardown(self) -> None:
        self.note("teardown")


class Remembered(Lived):
    BAG = BagStateSpec("bag", VarIntCoder())
    TIMER = TimerSpec("timer", beam.TimeDomain.WATERMARK)

    def process(
        self,
        element: tuple[int, int],
        bag: Any = beam.DoFn.StateParam(BAG),
        timer: Any = beam.DoFn.TimerParam(TIMER),
    ) -> Iterator[Any]:
        self.note("process")
        bag.add(element[1])
        timer.set(Timestamp(100))
        yield element

    @on_timer(TIMER)
    def fire(self) -> None:
        self.note("fire")


class Parts(RestrictionProvider):
    def initial_restriction(self, element: int) -> OffsetRange:
        return OffsetRange(0, element)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: int, restriction: OffsetRange) -> int:
        return restriction.size()


class Split(Lived):
    def process(
        self, element: int, tracker: Any = beam.DoFn.RestrictionParam(Parts())
    ) -> Iterator[int]:
        self.note("process")
        at = 0
        while tracker.try_claim(at):
            yield at
            at += 1


def keyed(number: int) -> tuple[int, int]:
    return number % 4, number


KINDS: dict[str, Any] = {
    "dofn": lambda notes: beam.ParDo(Lived(notes)),
    "batches": lambda notes: (
        beam.Map(np.int64).with_output_types(np.int64)
        | beam.ParDo(InBatches(notes)).with_input_types(np.int64)
    ),
    "finalizer": lambda notes: beam.ParDo(Finalized(notes)),
    "combine": lambda notes: beam.Map(keyed) | beam.CombinePerKey(Added(notes)),
    "values": lambda notes: beam.Map(keyed) | beam.GroupByKey() | beam.CombineValues(Added(notes)),
    "state": lambda notes: (
        beam.Map(keyed).with_output_types(tuple[int, int]) | beam.ParDo(Remembered(notes))
    ),
    "splittable": lambda notes: beam.ParDo(Split(notes)),
}


@pytest.fixture(autouse=True)
def soon_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle processors are torn down soon, and tasks have several bundles."""
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.3)
    monkeypatch.setattr(bundles, "_KEYS_PER_BUNDLE", 1)


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes"
    path.touch()
    return path


def lives(notes: Path) -> dict[str, list[tuple[str, str]]]:
    """What each instance that was used has noted, and in which threads."""
    found = defaultdict(list)
    for line in notes.read_text().splitlines():
        name, what, thread = line.split(" ")
        found[name].append((what, thread))
    return {name: parts for name, parts in found.items() if len(parts) > 1}


def torn_down(notes: Path) -> bool:
    """Whether all that have been set up are torn down."""
    events = [[what for what, _ in parts] for parts in lives(notes).values()]
    return all(each.count("teardown") == each.count("setup") for each in events)


def numbers(p: beam.Pipeline, runner: Any) -> Any:
    """Some numbers in several tasks of a stage; in streaming, in several micro-batches."""
    if runner is not StreamingRunner:
        spread = p | beam.Create(range(12)) | beam.Reshuffle()
        return spread | beam.Map(int).with_output_types(int)
    events = TestStream(VarIntCoder())
    for number in range(4):
        events.add_elements([TimestampedValue(number, number)])
        events.advance_watermark_to(number)
    streamed = p | events.advance_watermark_to_infinity() | beam.WindowInto(FixedWindows(1000))
    return streamed | beam.Map(int).with_output_types(int)


@pytest.mark.part(5)
@RUNNERS
@pytest.mark.parametrize("kind", KINDS)
def test_all_of_a_life_is_in_one_thread(runner: Any, kind: str, notes: Path) -> None:
    with beam.Pipeline(runner(), options=PipelineOptions()) as p:
        _ = numbers(p, runner) | KINDS[kind](notes)
    until(lambda: torn_down(notes))
    found = lives(notes)
    assert found
    for parts in found.values():
        assert len({thread for _, thread in parts}) == 1, parts
        assert parts[0][0] == "loaded"
        if any(what == "setup" for what, _ in parts):
            assert parts[-1][0] == "teardown"


def test_a_dofn_serves_several_tasks(notes: Path) -> None:
    with beam.Pipeline(BatchRunner(), options=PipelineOptions()) as p:
        _ = numbers(p, BatchRunner) | beam.ParDo(Lived(notes))
    (parts,) = lives(notes).values()
    assert [what for what, _ in parts].count("start_bundle") == 2


CONTEXT = contextvars.ContextVar("CONTEXT", default="none")


class Bound(beam.DoFn):
    """Uses what belongs to the thread of its ``setup``."""

    def setup(self) -> None:
        decimal.getcontext().prec = 7
        CONTEXT.set("set")
        self._local = threading.local()
        self._local.text = "kept"
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute("create table pairs (one int, other text)")
        self._connection.execute("insert into pairs values (1, 'found')")

    def process(self, element: int) -> Iterator[str]:
        (row,) = self._connection.execute("select other from pairs")
        share = decimal.Decimal(1) / decimal.Decimal(7)
        yield f"{share} {self._local.text} {CONTEXT.get()} {row[0]}"

    def teardown(self) -> None:
        self._connection.close()


EXPECTED = "0.1428571 kept set found"


@RUNNERS
def test_what_belongs_to_a_thread_is_there(runner: Any, caplog: pytest.LogCaptureFixture) -> None:
    alive = threading.active_count()
    with beam.Pipeline(runner(), options=PipelineOptions()) as p:
        found = numbers(p, runner) | beam.ParDo(Bound()) | beam.Distinct()
        assert_that(found, equal_to([EXPECTED]))
    until(lambda: threading.active_count() <= alive)
    assert "teardown" not in caplog.text
    assert decimal.getcontext().prec == 28


class Torn(beam.DoFn):
    def __init__(self, text: str) -> None:
        self._text = text

    def process(self, element: Any) -> Iterator[Any]:
        yield element

    def teardown(self) -> None:
        raise ValueError(self._text)


@RUNNERS
def test_a_teardown_that_fails_is_a_warning_with_the_label(
    runner: Any,
    notes: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with beam.Pipeline(runner(), options=PipelineOptions()) as p:
        broken = p | beam.Create([1]) | "Broken" >> beam.ParDo(Torn("no way"))
        _ = broken | beam.ParDo(Lived(notes))
    until(lambda: torn_down(notes))
    told = "The teardown of step 'Broken' failed: ValueError: no way"
    until(lambda: told in caplog.messages)
    (record,) = (one for one in caplog.records if one.getMessage() == told)
    assert record.exc_info is None
    assert "Traceback" not in capfd.readouterr().err


class Failing(Lived):
    def process(self, element: Any) -> Iterator[Any]:
        try:
            self.note("process")
            yield element
        finally:
            self.note("closed")


def fail(element: Any) -> None:
    raise ValueError("broken")


@RUNNERS
def test_a_dofn_of_a_task_that_fails_is_torn_down_in_its_thread(runner: Any, notes: Path) -> None:
    alive = threading.active_count()
    p = beam.Pipeline(runner(), options=PipelineOptions())
    _ = p | beam.Create([1]) | beam.ParDo(Failing(notes)) | "Broken" >> beam.Map(fail)
    with pytest.raises(PipelineFailed, match="Step 'Broken' failed: ValueError: broken"):
        p.run().wait_until_finish()
    (parts,) = lives(notes).values()
    assert len({thread for _, thread in parts}) == 1
    assert {"closed", "teardown"} <= {what for what, _ in parts}
    until(lambda: threading.active_count() <= alive)


class Unset(Lived):
    def setup(self) -> None:
        raise ValueError("cannot be set up")


@RUNNERS
def test_a_setup_that_fails_leaves_no_thread(runner: Any, notes: Path) -> None:
    alive = threading.active_count()
    p = beam.Pipeline(runner(), options=PipelineOptions())
    _ = p | beam.Create([1]) | "Unset" >> beam.ParDo(Unset(notes))
    with pytest.raises(PipelineFailed, match="Unset"):
        p.run().wait_until_finish()
    until(lambda: threading.active_count() <= alive)


class Telling(Bound):
    """Tells which instance it is, in which threads it has been, and after how many bundles."""

    def __setstate__(self, state: Any) -> None:
        vars(self).update(state)
        self._name = uuid.uuid4().hex
        self._threads = {here()}
        self._bundles = 0

    def setup(self) -> None:
        super().setup()
        self._threads.add(here())

    def start_bundle(self) -> None:
        self._bundles += 1
        self._threads.add(here())

    def process(self, element: int) -> Iterator[str]:
        self._threads.add(here())
        (text,) = super().process(element)
        yield f"{self._bundles > 1} {len(self._threads)} {text}"


def test_several_tasks_of_a_worker_of_spark_share_a_thread(spark: Any) -> None:
    with beam.Pipeline(SparkRunner(spark), argv=["--spark_parallelism=8"]) as p:
        spread = p | beam.Create(range(64)) | beam.Reshuffle() | beam.ParDo(Telling())
        sums = spread | beam.Map(lambda text: (text, 1)) | beam.CombinePerKey(sum)
        texts = sums | beam.Keys()
        assert_that(texts, equal_to([f"{later} 1 {EXPECTED}" for later in (True, False)]))


def test_micro_batches_of_a_worker_of_spark_share_a_thread(spark: Any) -> None:
    with beam.Pipeline(SparkRunner(spark), options=PipelineOptions(["--streaming"])) as p:
        texts = numbers(p, StreamingRunner) | beam.ParDo(Telling())
        distinct = texts | beam.Map(lambda text: text.split(" ", 1)[1]) | beam.Distinct()
        assert_that(distinct, equal_to([f"1 {EXPECTED}"]))


def stage(number: int) -> Any:
    """Stands for a stage that no bundle is run of."""
    return _Named(f"s{number}")


class _Named:
    steps = 1
    labels = ("Step",)

    def __init__(self, name: str) -> None:
        self.id = self.name = name


@pytest.fixture
def kept() -> threads.IdleThreads:
    return threads.IdleThreads()


def test_a_thread_is_there_for_the_next_task_of_its_stage(kept: threads.IdleThreads) -> None:
    one, other = kept.take("run", stage(0)), kept.take("run", stage(0))
    assert one is not other
    kept.give_back("run", stage(0), one)
    assert kept.take("other run", stage(0)) is not one
    assert kept.take("run", stage(0)) is one
    assert kept.take("run", stage(0)) is not one


def test_only_some_are_kept(kept: threads.IdleThreads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_MAX_KEPT", 2)
    monkeypatch.setattr(threads, "IDLE_SECONDS", 60)
    some = [kept.take("run", stage(number)) for number in range(3)]
    for number, one in enumerate(some):
        kept.give_back("run", stage(number), one)
    assert some[0].wait(60)
    assert not any(one.wait(0.01) for one in some[1:])
    assert kept.take("run", stage(1)) is some[1]
    for one in some[1:]:
        one.end()
