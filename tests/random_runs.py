"""Runs the pipelines of :mod:`random_pipelines` and :mod:`random_panes`, and compares."""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from unittest import mock

import apache_beam as beam
import random_pipelines
from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from in_process import Crash, Point, Spark, rounds, streaming_pipeline
from in_process_batch import BatchRunner
from random_aggregations import Aggregations, by_the_driver, limits
from random_panes import Panes
from random_pipelines import FOUND, Add, Case, Step, Timeline

from sparkbeam import SparkRunner
from sparkbeam.errors import PipelineFailed

Found = dict[str, list[Any]]

_UNSAFE = "--allow_unsafe_triggers"
_SHRINKING_SECONDS = 60.0
_IN_ONE_STAGE = (None, 2_000, 1 << 20)
"""Bytes up to which a pipeline runs in one stage, by the kind of limits."""


@dataclass(frozen=True)
class How:
    """The way in which a pipeline runs as a streaming query.

    Attributes:
        rounds: how many steps of time a micro-batch has at most.
        attempts: how often each micro-batch runs.
        crashes: about one of so many points is one where the query crashes; 0 for none.
        created: the elements are there from the start, in place of a timeline.
    """

    rounds: int = 200
    attempts: int = 1
    crashes: int = 0
    created: bool = False


def how(chance: random.Random) -> How:
    return How(
        rounds=chance.choice([1, 2, 5, 200]),
        attempts=chance.choice([1, 1, 2]),
        crashes=chance.choice([0, 0, 0, 4]),
        created=chance.random() < 0.1,
    )


class Falling:
    """Lets a query crash at points chosen at random, once at each of them."""

    def __init__(self, one_of: int) -> None:
        self._one_of = one_of
        self.points: set[Point] = set()

    def __call__(self, point: Point) -> None:
        if not self._one_of or point in self.points:
            return
        if random.Random(repr(point)).randrange(self._one_of) == 0:
            self.points.add(point)
            raise Crash(f"At {point}.")


@dataclass
class Trial:
    """A pipeline that is run and compared.

    Attributes:
        case: the pipeline.
        way: how it runs as a streaming query.
        beams: on Beam's own runner, too.
        spark: the session on which it is a streaming query; without one, in process.
        crashes: how often the query has crashed.
        left: how many pages of state there are in the end.
    """

    case: Case | Panes | Aggregations
    way: How
    beams: bool = False
    spark: Any = field(default=None, compare=False, repr=False)
    crashes: int = field(default=0, compare=False)
    left: int = field(default=0, compare=False)

    def problem(self) -> str:
        """What is wrong, or differs; '' if nothing does."""
        try:
            match self.case:
                case Panes():
                    return self._wrong(self.case)
                case Aggregations():
                    return self._wrong_results(self.case)
                case _:
                    return self._differences(self.case)
        except Exception as error:
            return f"{type(error).__name__}: {str(error)[:800]}"

    def smallest(self) -> "Trial":
        """The same without what is not needed for it to be wrong in the same way."""
        until = time.monotonic() + _SHRINKING_SECONDS
        found, kind = self, _kind(self.problem())
        while True:
            for less in found._less():
                if time.monotonic() > until:
                    return found
                if _kind(less.problem()) == kind:
                    found = less
                    break
            else:
                return found

    def _wrong(self, panes: Panes) -> str:
        batch = in_batch(lambda p: panes.build(p, streaming=False)).get("panes", [])
        if problem := panes.wrong(batch, None):
            return f"in batch: {problem}"
        found, result = self._as_stream(lambda p: panes.build(p, streaming=True))
        if problem := panes.wrong(found.get("panes", []), late_elements(result)):
            return f"in streaming: {problem}"
        return ""

    def _wrong_results(self, made: Aggregations) -> str:
        if problem := wrong_in_batch(made):
            return problem
        with by_the_driver():
            build = partial(made.build, streaming=True, columns=False)
            driven, of_driver = self._as_stream(build, How())
        with limits(made.small):
            found, result = self._as_stream(partial(made.build, streaming=True))
        if self.left and made.window.ends:
            return f"{self.left} pages of state are left"
        if late_elements(result) != late_elements(of_driver):
            return f"{late_elements(result)} elements were late, not {late_elements(of_driver)}"
        problem = differing(driven.get("0", []), found.get("0", []), "streaming")
        if made.is_in_time and not problem:
            problem = differing(made.expected(), without_panes(found), "in time")
        return problem

    def _differences(self, case: Case) -> str:
        batch = in_batch(lambda p: case.build(p, streaming=False))
        streaming = not self.way.created
        found, _ = self._as_stream(lambda p: case.build(p, streaming=streaming))
        problem = _compared(batch, found, "streaming")
        if not problem and self.beams and case.is_for_all:
            own = in_batch(lambda p: case.build(p, streaming=False), FnApiRunner())
            problem = _compared(batch, own, "Beam's own runner")
        return problem

    def _as_stream(
        self, build: Callable[[beam.Pipeline], Any], way: How | None = None
    ) -> tuple[Found, Any]:
        """What a pipeline finds as a streaming query, and its result."""
        FOUND.clear()
        way = way or self.way
        if self.spark is not None:
            return self._on_spark(build)
        falling = Falling(way.crashes)
        spark = Spark(falling, attempts=way.attempts)
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            rounds(way.rounds),
        ):
            while True:
                self.crashes = len(falling.points)
                try:
                    with streaming_pipeline(spark, folder, _UNSAFE) as p:
                        build(p)
                    self.left = pages_of(spark)
                    return dict(FOUND), p.result
                except PipelineFailed:
                    if len(falling.points) == self.crashes:
                        raise

    def _on_spark(self, build: Callable[[beam.Pipeline], Any]) -> tuple[Found, Any]:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            rounds(self.way.rounds),
            mock.patch.object(random_pipelines, "FOLDER", [folder]),
        ):
            options = PipelineOptions([_UNSAFE, "--streaming"])
            with beam.Pipeline(SparkRunner(self.spark), options=options) as p:
                build(p)
            return random_pipelines.left(folder), p.result

    # What is smaller.

    def _less(self) -> Iterator["Trial"]:
        way, case = self.way, self.case
        for simple in (How(), How(rounds=1), replace(way, crashes=0), replace(way, attempts=1)):
            if _size(simple) < _size(way):
                yield replace(self, way=simple)
        if isinstance(case, Aggregations):
            for fewer in case.fewer():
                yield replace(self, case=fewer)
            return
        if isinstance(case, Panes):
            for shorter in _shorter(case.timeline):
                yield replace(self, case=replace(case, timeline=shorter))
            return
        for steps in _fewer_steps(case):
            yield replace(self, case=replace(case, steps=steps))
        for number, timeline in enumerate(case.timelines):
            for shorter in _shorter(timeline):
                timelines = (*case.timelines[:number], shorter, *case.timelines[number + 1 :])
                yield replace(self, case=replace(case, timelines=timelines))


def in_batch(
    build: Callable[[beam.Pipeline], Any], runner: Any = None, flags: Iterable[str] = ()
) -> Found:
    """What a pipeline finds as a batch."""
    FOUND.clear()
    with beam.Pipeline(runner or BatchRunner(), options=PipelineOptions([_UNSAFE, *flags])) as p:
        build(p)
    return dict(FOUND)


def wrong_in_batch(made: Aggregations) -> str:
    """Return the problem with aggregations in batch; '' if there is none."""
    build = partial(made.build, streaming=False)
    with limits(made.small):
        found = in_batch(build, BatchRunner(small=_IN_ONE_STAGE[made.small]), made.flags)
    return differing(made.expected(), without_panes(found), "batch")


def pages_of(spark: Spark) -> int:
    """Return the number of entries of the state that are not of directories of pages."""
    (checkpoint,) = spark.checkpoints.values()
    names = [name for entries in checkpoint.state.values() for name in entries]
    return sum(name != b"root" and name[2:3] != b"d" for name in names)


def late_elements(result: Any) -> int:
    """How many elements the steps of a pipeline have dropped, each in so many windows."""
    wanted = MetricsFilter().with_namespace("sparkbeam").with_name("dropped_due_to_lateness")
    return sum(counter.committed for counter in result.metrics().query(wanted)["counters"])


def without_panes(found: Found) -> list[Any]:
    return [result for result, _ in found.get("0", [])]


def differing(expected: Iterable[Any], found: Iterable[Any], name: str) -> str:
    """Return the difference of results; '' if there is none."""
    ours, theirs = Counter(expected), Counter(found)
    missing, more = sorted((ours - theirs).elements()), sorted((theirs - ours).elements())
    return f"{name}: missing {missing[:3]}, too many {more[:3]}" if missing or more else ""


def _compared(batch: Found, other: Found, name: str) -> str:
    for label in sorted({*batch, *other}, key=int):
        ours, theirs = Counter(batch.get(label, [])), Counter(other.get(label, []))
        if ours != theirs:
            return (
                f"step {label}: only in batch {sorted((ours - theirs).elements())[:4]}, "
                f"only in {name} {sorted((theirs - ours).elements())[:4]}"
            )
    return ""


def _kind(problem: str) -> str:
    """By what a problem is known, whatever numbers are in it."""
    return " ".join(word for word in problem.split(":")[0].split() if word.isalpha())


def _size(way: How) -> int:
    return (way.rounds != 200) + (way.attempts > 1) + (way.crashes > 0) + way.created


def _fewer_steps(case: Case) -> Iterator[tuple[Step, ...]]:
    """The steps without one that is not read, or whose readers may read its input instead."""
    sources = len(case.timelines)
    windows = case.windows()
    for number in reversed(range(len(case.steps))):
        at, instead = sources + number, case.steps[number].inputs[0]
        is_read = any(at in other.inputs for other in case.steps)
        if is_read and windows[at] != windows[instead]:
            continue

        def moved(old: int, at: int = at, instead: int = instead) -> int:
            return instead if old == at else old - (old > at)

        yield tuple(
            replace(other, inputs=tuple(map(moved, other.inputs)))
            for place, other in enumerate(case.steps)
            if place != number
        )


def _shorter(timeline: Timeline) -> Iterator[Timeline]:
    for at, event in enumerate(timeline):
        yield timeline[:at] + timeline[at + 1 :]
        if isinstance(event, Add):
            for part in _fewer(event.elements):
                yield (*timeline[:at], Add(part), *timeline[at + 1 :])


def _fewer(some: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if len(some) > 1:
        half = len(some) // 2
        yield from (some[:half], some[half:])
    if 2 < len(some) <= 8:
        yield from (some[:n] + some[n + 1 :] for n in range(len(some)))
