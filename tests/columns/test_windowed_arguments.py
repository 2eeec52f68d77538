"""Functions that ask for the window or the timestamp, over columns as element by element."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows
from noting import values

from sparkbeam.io import ReadFromArrow

Window, Time = beam.DoFn.WindowParam, beam.DoFn.TimestampParam

COUNT = 500


def read(split: int) -> list[pa.RecordBatch]:
    numbers = pa.array(range(COUNT))
    times = pa.array([700_000 * at - 100_000_000 for at in range(COUNT)])
    keys = pa.array([at % 5 for at in range(COUNT)])
    return [pa.record_batch({"key": keys, "value": numbers, "at": times})]


class Bounds(beam.DoFn):
    """Gives the bounds of the windows of some elements."""

    def process(self, pair: Any, window: Any = Window, time: Any = Time) -> Iterator[Any]:
        if pair[1] % 2:
            yield pair[0], window.start, window.end, window.max_timestamp(), time


class Twice(beam.DoFn):
    """Gives two results, of which one is as late as its window."""

    def process(self, pair: Any, stamp: Any = Time, window: Any = Window) -> list[Any]:
        return [(pair[0], stamp.micros), (pair[1], window.end.micros)]


def counted(pairs: Any) -> Any:
    count = pairs | beam.combiners.Count.Globally().without_defaults()
    return pairs | beam.Map(
        lambda pair, count, window=Window: (pair[0], count, window.end.micros),
        beam.pvalue.AsSingleton(count),
    )


STEPS: dict[str, Callable[[Any], Any]] = {
    "bounds": lambda pairs: pairs | beam.ParDo(Bounds()),
    "twice": lambda pairs: pairs | beam.ParDo(Twice()),
    "maps": lambda pairs: (
        pairs
        | beam.Map(lambda pair, name, window=Window: beam.Row(k=pair[0], n=name, e=window.end), "x")
    ),
    "numbers": lambda pairs: (
        pairs
        | beam.MapTuple(
            lambda key, value, window=Window, time=Time: (
                float(window.start),
                int(window.end) + key,
                window.end.seconds(),
                time.micros - window.start.micros,
                float(time),
            )
        )
    ),
    "filtered": lambda pairs: (
        pairs
        | beam.Filter(lambda pair, window=Window, time=Time: time == window.start or pair[0] == 1)
    ),
    "sums": lambda pairs: (
        pairs
        | beam.CombinePerKey(sum)
        | beam.MapTuple(lambda key, total, window=Window: (key, total, window.end))
    ),
    "stamped": lambda pairs: pairs | beam.Map(lambda pair, time=Time: (*pair, time)),
    "counted": counted,
}
WINDOWS = {
    "sessions": Sessions(2),
    "fixed": FixedWindows(10, 3),
    "odd": SlidingWindows(25, 10),
    "sliding": SlidingWindows(20, 10),
}


@pytest.mark.part(5)
@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("step", STEPS)
def test_results_are_those_of_beams_own_runner(step: str, windows: str) -> None:
    if (windows, step) == ("sessions", "counted"):
        pytest.skip("side inputs have no merging windows")

    def build(p: beam.Pipeline) -> Any:
        rows = p | ReadFromArrow([0], read, timestamp_column="at")
        pairs = rows | "Pair" >> beam.Map(lambda row: (row.key, row.value))
        return STEPS[step](pairs | beam.WindowInto(WINDOWS[windows]))

    found = sorted(map(repr, values(build)))
    assert found
    assert found == sorted(map(repr, values(build, runner=FnApiRunner())))
