"""A program that starts again over its checkpoint when its code has changed; in process."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    StateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from in_process import Crash, Point, Spark, StreamingRunner

from sparkbeam.errors import ConfigurationError, PipelineFailed
from sparkbeam.streaming import source

Build = Callable[[beam.PCollection], beam.PCollection]
"""Numbers to texts."""

NUMBERS = 6


class Program:
    """Starts once with some code and, after a crash halfway, again with other code."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spark = Spark(self._reach)
        self._crashes = True

    def _reach(self, point: Point) -> None:
        if self._crashes and point == (NUMBERS // 2, "committed"):
            self._crashes = False
            raise Crash("Halfway.")

    def run(self, before: Build, after: Build) -> list[str]:
        """What has come out of both."""
        with pytest.raises(PipelineFailed, match="Halfway"):
            self.start(before)
        self.start(after)
        return sorted(self._out.read_text().splitlines()) if self._out.exists() else []

    @property
    def _out(self) -> Path:
        return self._folder / "out"

    def start(self, build: Build) -> None:
        out = self._out

        def note(text: Any) -> None:
            with out.open("a") as lines:
                lines.write(f"{text}\n")

        events = TestStream(coder=VarIntCoder())
        for number in range(NUMBERS):
            events = events.add_elements([TimestampedValue(number, number)])
            events = events.advance_watermark_to(number)
        events = events.advance_watermark_to_infinity()
        flags = ["--streaming", f"--checkpoint_location={self._folder}"]
        pipeline = beam.Pipeline(
            runner=StreamingRunner(self._spark), options=PipelineOptions(flags)
        )
        _ = build(pipeline | "Events" >> events) | "Note" >> beam.Map(note)
        pipeline.run().wait_until_finish()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(source, "_MOST_ROUNDS", 2)
    return Program(tmp_path)


def summed(label: str, do: Callable[[int], tuple[str, int]]) -> Build:
    return lambda numbers: (
        numbers
        | label >> beam.Map(do)
        | "Window" >> beam.WindowInto(FixedWindows(100))
        | "Sum" >> beam.CombinePerKey(sum)
    )


def counting(label: str, spec: StateSpec | None = None) -> Build:
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

    return lambda numbers: (
        numbers | "Key" >> beam.Map(lambda number: ("all", number)) | label >> beam.ParDo(Count())
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
    assert "has the format 1, written by sparkbeam 0.0.1, and this version reads" in str(
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
    assert "by other versions, and goes on: Beam 2.1.0 is now" in caplog.text
    assert json.loads(stored.read_text())["versions"]["Beam"] == beam.__version__
