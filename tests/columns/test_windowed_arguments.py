"""Functions that ask for the window or the timestamp, over columns as element by element."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
    WindowFn,
)

from sparkbeam import SparkRunner

Window, Time = beam.DoFn.WindowParam, beam.DoFn.TimestampParam

NUMBERS = [(at % 5, at, at * 0.7 - 100) for at in range(2000)]


class Bounds(beam.DoFn):
    """Gives the bounds of the windows of some elements."""

    def process(self, pair: Any, window: Any = Window, time: Any = Time) -> Iterator[Any]:
        if pair[1] % 2:
            yield pair[0], window.start, window.end, window.max_timestamp(), time


class Twice(beam.DoFn):
    """Gives two results, of which one is as late as its window."""

    def process(self, pair: Any, stamp: Any = Time, window: Any = Window) -> list[Any]:
        return [(pair[0], stamp.micros), (pair[1], window.end.micros)]


def maps(pairs: Any) -> Any:
    return pairs | beam.Map(
        lambda pair, name, window=Window: beam.Row(key=pair[0], name=name, end=window.end), "x"
    )


def numbers(pairs: Any) -> Any:
    return pairs | beam.MapTuple(
        lambda key, value, window=Window, time=Time: (
            float(window.start),
            int(window.end) + key,
            window.end.seconds(),
            time.micros - window.start.micros,
            float(time),
        )
    )


def filtered(pairs: Any) -> Any:
    return pairs | beam.Filter(
        lambda pair, window=Window, time=Time: time == window.start or pair[0] == 1
    )


def sums(pairs: Any) -> Any:
    return (
        pairs
        | beam.CombinePerKey(sum)
        | beam.MapTuple(lambda key, total, window=Window: (key, total, window.end))
    )


def counted(pairs: Any) -> Any:
    count = pairs | beam.combiners.Count.Globally().without_defaults()
    return pairs | beam.Map(
        lambda pair, count, window=Window: (pair[0], count, window.end.micros),
        beam.pvalue.AsSingleton(count),
    )


def stamped(pairs: Any) -> Any:
    return pairs | beam.Map(lambda pair, time=Time: (*pair, time))


STEPS: dict[str, Callable[[Any], Any]] = {
    "bounds": lambda pairs: pairs | beam.ParDo(Bounds()),
    "twice": lambda pairs: pairs | beam.ParDo(Twice()),
    "maps": maps,
    "numbers": numbers,
    "filtered": filtered,
    "sums": sums,
    "stamped": stamped,
    "counted": counted,
}
WINDOWS: dict[str, WindowFn] = {
    "sessions": Sessions(2),
    "fixed": FixedWindows(10, 3),
    "odd": SlidingWindows(25, 10),
    "sliding": SlidingWindows(20, 10),
}


def pairs_in(pipeline: beam.Pipeline, window_fn: WindowFn) -> Any:
    return (
        pipeline
        | beam.Create(NUMBERS)
        | beam.Map(lambda row: TimestampedValue((row[0], row[1]), row[2]))
        | beam.WindowInto(window_fn)
    )


def results(runner: Any, folder: Path, window_fn: WindowFn, names: list[str]) -> dict[str, Any]:
    with beam.Pipeline(runner) as pipeline:
        pairs = pairs_in(pipeline, window_fn)
        for name in names:
            found = pairs | name >> beam.ptransform_fn(lambda rows, name=name: STEPS[name](rows))()
            texts = found | f"{name} texts" >> beam.Map(repr)
            _ = texts | f"{name} kept" >> beam.io.WriteToText(str(folder / name))
    return {
        name: sorted(line for file in folder.glob(f"{name}-*") for line in file.open())
        for name in names
    }


@pytest.mark.long("half a minute; in process it is a property")
@pytest.mark.part(4)  # The other ones are between them.
@pytest.mark.parametrize("windows", WINDOWS)
def test_results_are_those_of_beams_own_runner(spark: Any, tmp_path: Path, windows: str) -> None:
    names = [name for name in STEPS if (windows, name) != ("sessions", "counted")]
    found: list[dict[str, Any]] = []
    for runner in (SparkRunner(spark), "FnApiRunner"):
        folder = tmp_path / str(len(found))
        folder.mkdir()
        found.append(results(runner, folder, WINDOWS[windows], names))
    ours, theirs = found
    for name in names:
        assert ours[name] == theirs[name], name
        assert ours[name], name
