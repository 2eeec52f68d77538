"""A program that starts again over its checkpoint when its code has changed; in process."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import golden
import pytest
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.metrics.metric import Metrics, MetricsFilter
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    StateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from in_process import Crash, Point, Spark, rounds, streaming_pipeline
from lines import Lines
from positions import Positions

from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.observe.figures.progress import StageProgress
from sparkbeam.observe.page.watch import CheckpointView
from sparkbeam.plan.fingerprint import STATE_FORMAT
from sparkbeam.streaming.status import status
from sparkbeam.upstream.spark import has_row_state

Build = Callable[[beam.PCollection], beam.PCollection]
"""Numbers to texts."""

NUMBERS = 6


class Program:
    """Starts once with some code and, after a crash halfway, again with other code.

    Attributes:
        result: of the last start.
    """

    result: Any

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._out = Lines(folder / "out")
        self._spark = Spark(self._reach)
        self._crashes_at = [NUMBERS // 2]

    def _reach(self, point: Point) -> None:
        if self._crashes_at and point == (self._crashes_at[0], "committed"):
            self._crashes_at.pop(0)
            raise Crash("Halfway.")

    def run(self, *builds: Build) -> list[str]:
        """What has come out of all of them, one after the other."""
        *before, last = builds
        self._crashes_at = [2 * place + 1 for place in range(len(before))]
        for build in before:
            with pytest.raises(PipelineFailed, match="Halfway"):
                self.start(build)
        self.start(last)
        return sorted(self._out.read())

    def start(self, build: Build) -> None:
        events = TestStream(coder=VarIntCoder())
        for number in range(NUMBERS):
            events = events.add_elements([TimestampedValue(number, number)])
            events = events.advance_watermark_to(number)
        events = events.advance_watermark_to_infinity()
        pipeline = streaming_pipeline(self._spark, self._folder)
        _ = build(pipeline | "Events" >> events) | "Note" >> beam.Map(self._out.note)
        self.result = pipeline.run()
        self.result.wait_until_finish()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    with rounds(2):
        yield Program(tmp_path)


def summed(label: str, do: Callable[[int], tuple[str, int]]) -> Build:
    return lambda numbers: (
        numbers
        | label >> beam.Map(do)
        | "Window" >> beam.WindowInto(FixedWindows(100))
        | "Sum" >> beam.CombinePerKey(sum)
    )


def counting_step(spec: StateSpec | None = None) -> beam.ParDo:
    """Tells at the end of time how many numbers there were, by a state and a timer."""
    state = spec or CombiningValueStateSpec("count", combine_fn=sum)
    timer = TimerSpec("end", TimeDomain.WATERMARK)

    class Count(beam.DoFn):
        def process(
            self,
            element: tuple[str, int],
            count: Any = beam.DoFn.StateParam(state),
            end: Any = beam.DoFn.TimerParam(timer),
        ) -> Iterator[Any]:
            count.add(1)
            end.set(1000)
            yield from ()

        @on_timer(timer)
        def told(self, count: Any = beam.DoFn.StateParam(state)) -> Iterator[str]:
            yield f"count {count.read()}"

    return beam.ParDo(Count())


def counting(label: str, spec: StateSpec | None = None) -> Build:
    return lambda numbers: (
        numbers | "Key" >> beam.Map(lambda number: ("all", number)) | label >> counting_step(spec)
    )


def test_what_a_function_does_may_change(program: Program) -> None:
    before = summed("Key", lambda number: ("all", 1))
    after = summed("Key", lambda number: ("all", 100))
    (total,) = program.run(before, after)
    (count,) = {n for n in range(NUMBERS + 1) if f"('all', {n + 100 * (NUMBERS - n)})" == total}
    assert 0 < count < NUMBERS, "some were counted before, and the others after"


def test_steps_before_a_shuffle_may_come_and_go(program: Program) -> None:
    def without(numbers: beam.PCollection) -> beam.PCollection:
        return summed("Key", lambda number: ("all", 1))(numbers)

    def with_more(numbers: beam.PCollection) -> beam.PCollection:
        return without(numbers | "Keep" >> beam.Filter(lambda number: True))

    assert program.run(without, with_more) == [f"('all', {NUMBERS})"]


@pytest.mark.parametrize("kind", ["sum", "state"])
def test_cells_of_a_notebook_and_lines_do_not_count(program: Program, kind: str) -> None:
    if kind == "sum":
        before = summed("[3]: Map(<lambda at 17.py:99>)", lambda number: ("all", 1))
        after = summed("[11]: Map(<lambda at 99.py:100>)", lambda number: ("all", 1))
        assert program.run(before, after) == [f"('all', {NUMBERS})"]
    else:
        before, after = counting("[3]: Count"), counting("[11]: Count")
        assert program.run(before, after) == [f"count {NUMBERS}"]


def test_steps_keep_their_state_when_others_move_to_another_line(program: Program) -> None:
    def build(lines: tuple[int, int]) -> Build:
        def both(numbers: beam.PCollection) -> beam.PCollection:
            first, second = (f"Map(<lambda at a.py:{line}>)" for line in lines)
            numbers = numbers | beam.WindowInto(FixedWindows(100))
            ones = numbers | first >> beam.Map(lambda number: ("one", 1))
            tens = numbers | second >> beam.Map(lambda number: ("ten", 10))
            return (
                ones | f"{first} sum" >> beam.CombinePerKey(sum),
                tens | f"{second} sum" >> beam.CombinePerKey(sum),
            ) | beam.Flatten()

        return both

    found = program.run(build((98, 99)), build((99, 100)))
    assert found == [f"('one', {NUMBERS})", f"('ten', {10 * NUMBERS})"]


def test_another_coder_of_a_state_ends_before_anything_is_lost(program: Program) -> None:
    before = counting("Count", BagStateSpec("count", VarIntCoder()))
    after = counting("Count", BagStateSpec("count", BytesCoder()))
    with pytest.raises(ConfigurationError) as caught:
        program.run(before, after)
    text = str(caught.value)
    assert "step 'Count': its state 'count' was bag of varint and is bag of bytes" in text
    assert "Undo the change, or start with another --checkpoint_location" in text


def test_state_of_another_format_is_refused_with_the_remedy(
    program: Program, tmp_path: Path
) -> None:
    build = counting("Count")
    with pytest.raises(PipelineFailed, match="Halfway"):
        program.start(build)
    stored = tmp_path / "sparkbeam" / "pipeline.json"
    content = json.loads(stored.read_text())
    stored.write_text(json.dumps(content | {"format": 1, "versions": {"sparkbeam": "0.0.1"}}))
    with pytest.raises(ConfigurationError) as caught:
        program.start(build)
    assert "has the format 1, written by sparkbeam 0.0.1, but this version reads" in str(
        caught.value
    )
    assert "Drain it with the version that wrote it" in str(caught.value)


def test_other_versions_go_on_and_are_told_once(
    program: Program, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build = counting("Count")
    with pytest.raises(PipelineFailed, match="Halfway"):
        program.start(build)
    stored = tmp_path / "sparkbeam" / "pipeline.json"
    content = json.loads(stored.read_text())
    content["versions"]["Beam"] = "2.1.0"
    stored.write_text(json.dumps(content))
    program.start(build)
    assert "by other versions and continues: Beam 2.1.0 is now" in caplog.text
    assert json.loads(stored.read_text())["versions"]["Beam"] == beam.__version__


def doubtful(number: Any) -> Any:
    if number < 0:
        raise ValueError(number)
    return number


EDITS = (
    "a step before",
    "dead letters before",
    "a branch",
    "a step between",
    "dead letters behind",
    "a flatten",
    "a side output",
    "an output of a stateful step",
)


def edited(*edits: str, reads: bool = False) -> Build:
    """A pipeline with sums by window and a count, edited so that its state can stay."""

    def build(numbers: beam.PCollection) -> beam.PCollection:
        out = []
        if reads:
            numbers |= "Read" >> beam.ParDo(Read())
        if "a step before" in edits:
            numbers |= "Look" >> beam.Filter(lambda number: True)
        if "dead letters before" in edits:
            numbers, bad = numbers | "Check" >> beam.Map(doubtful).with_exception_handling()
            out.append(bad | "Bad" >> beam.Map(str))
        pairs = numbers | "Key" >> beam.Map(lambda number: ("all", number))
        if "a branch" in edits:
            _ = pairs | "A branch" >> beam.Map(lambda pair: None)
        groups = pairs | "Window" >> beam.WindowInto(FixedWindows(2)) | "Group" >> beam.GroupByKey()
        if "a step between" in edits:
            groups |= "Between" >> beam.Map(lambda group: group)
        sums = groups | "Sum" >> beam.MapTuple(lambda key, values: sum(values))
        sums |= "All windows" >> beam.WindowInto(GlobalWindows())
        if "dead letters behind" in edits:
            sums, bad = sums | "Check again" >> beam.Map(doubtful).with_exception_handling()
            out.append(bad | "Bad sums" >> beam.Map(str))
        if "a side output" in edits:
            parts = sums | "Part" >> beam.ParDo(Parts()).with_outputs("odd", main="all")
            _ = parts.odd | "Odd" >> beam.Map(lambda number: None)
            sums = parts["all"]
        count = counting_step()
        if "an output of a stateful step" in edits:
            parts = pairs | "Count" >> count.with_outputs("none", main="counts")
            counts = parts.counts
            _ = parts.none | "None" >> beam.Map(lambda number: None)
        else:
            counts = pairs | "Count" >> count
        out += [sums | beam.Map(lambda number: f"sum {number}"), counts]
        if "a flatten" in edits:
            _ = (sums, counts) | "Both" >> beam.Flatten() | "Look at both" >> beam.Map(id)
        return tuple(out) | "All" >> beam.Flatten()

    return build


class Read(beam.DoFn):
    """What it reads waits in state for the next micro-batch."""

    @beam.DoFn.unbounded_per_element()
    def process(
        self, number: Any, tracker: Any = beam.DoFn.RestrictionParam(Positions(1))
    ) -> Iterator[Any]:
        if tracker.try_claim(0):
            yield number


class Parts(beam.DoFn):
    def process(self, number: int) -> Iterator[Any]:
        yield number
        if number % 2:
            yield beam.pvalue.TaggedOutput("odd", number)


EXPECTED = sorted(["count 6", *(f"sum {n + n + 1}" for n in range(0, NUMBERS, 2))])


@pytest.mark.part(3)
@pytest.mark.parametrize("edit", EDITS)
def test_steps_and_outputs_that_keep_nothing_come_and_go(program: Program, edit: str) -> None:
    assert program.run(edited(), edited(edit), edited()) == EXPECTED


def test_what_has_been_read_finds_its_readers_behind_new_steps_and_outputs(
    program: Program,
) -> None:
    builds = edited(reads=True), edited(*EDITS[:4], reads=True), edited(*EDITS, reads=True)
    assert program.run(*builds) == EXPECTED


def test_what_has_been_read_is_not_lost_with_its_reader(program: Program) -> None:
    with pytest.raises(
        ConfigurationError, match=r"data that step 'Read' has read.* would have no reader"
    ):
        program.run(edited("dead letters before", reads=True), edited(reads=True))


def test_all_of_them_come_and_go_at_once(program: Program) -> None:
    assert program.run(edited(), edited(*EDITS), edited(), edited(*EDITS)) == EXPECTED


def test_one_takes_the_place_of_another(program: Program) -> None:
    assert program.run(*(edited(*EDITS[at::2]) for at in (0, 1))) == EXPECTED


# What is told of steps.


def totals(program: Program) -> dict[str, Any]:
    """How many elements each step has put out by now."""
    steps = (step for stage in program.result.summary().stages for step in stage.steps)
    return {step.label: step.elements_out for step in steps}


def of_stages(stages: Iterable[StageProgress]) -> dict[str, Any]:
    """How many elements have gone into the stage of each step, where that is one."""
    found = [(label, each) for each in stages for label in each.name.split(" + ")]
    counts = Counter(label for label, _ in found)
    return {label: each.elements for label, each in found if counts[label] == 1}


def common(one: dict[str, Any], other: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parts of both that the other one has too, of what the program has named."""
    names = {name for name in one.keys() & other.keys() if "/" not in name}
    return {name: one[name] for name in names}, {name: other[name] for name in names}


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Program:
    program = Program(tmp_path_factory.mktemp("unchanged"))
    program.run(edited())
    return program


@pytest.mark.parametrize("edits", [EDITS[:1], EDITS], ids=["one", "all"])
@pytest.mark.parametrize("order", [1, -1], ids=["come", "go"])
def test_totals_stay_with_their_steps(
    program: Program, unchanged: Program, tmp_path: Path, edits: tuple[str, ...], order: int
) -> None:
    """Whatever numbers stages and PCollections have in the changed program."""
    program.run(*[edited(), edited(*edits)][::order])
    told = program.result.progress().stages
    for found, expected in (
        common(totals(program), totals(unchanged)),
        common(of_stages(told), of_stages(unchanged.result.progress().stages)),
    ):
        assert len(found) > 2
        assert found == expected
    assert of_stages(status(str(tmp_path)).progress.stages) == of_stages(told)
    page = CheckpointView(str(tmp_path)).content()
    shown = {label: int(out) for s in page["stages"] for label, _, out, *_ in s["steps"]}
    assert shown == totals(program)


def test_a_counter_of_a_step_that_is_gone_stays(program: Program) -> None:
    def count(number: Any) -> bool:
        Metrics.counter("test", "counted").inc()
        return True

    program.run(lambda numbers: edited()(numbers | "Look" >> beam.Filter(count)), edited())
    (counter,) = program.result.metrics().query(MetricsFilter().with_name("counted"))["counters"]
    assert (counter.key.step, counter.committed) == ("Look", 2)


# A checkpoint that was written before, of the state format that stands.


@rounds(golden.ROUNDS)
@pytest.mark.skipif(not has_row_state(), reason="the checkpoint has the state of rows")
def test_the_stored_checkpoint_is_gone_on_from(tmp_path: Path) -> None:
    found, expected = golden.resume(golden.STORED, tmp_path)
    assert len(expected) > 20
    assert found == sorted(expected)


def test_it_is_of_the_format_that_is_written() -> None:
    pipeline = json.loads(golden.STORED.read_text())["files"]["sparkbeam/pipeline.json"]
    assert json.loads(pipeline)["format"] == STATE_FORMAT
