"""Pipelines that are slow enough to lose a worker in the middle; see ``test_cluster.py``.

Usage: ``lost_worker.py [pipeline options]``, with a line of JSON on standard
input for each pipeline to run: its ``shape``, the folder for its ``signals``
and the file for its ``outcome``.

The slow stage appends a line to a file in the signals folder for each element
that it takes, for the first time or again.
"""

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

ELEMENTS = 4000
KEYS = 80
PARTS = 8


class Part(beam.DoFn):
    """The numbers of a part; slow enough for all workers to take some of the parts."""

    def process(self, part: int) -> Iterator[tuple[int, int]]:
        time.sleep(0.3)
        for number in range(part, ELEMENTS, PARTS):
            yield number % KEYS, number


class Count(beam.DoFn):
    """Counts elements, and gives the distribution of the numbers in them."""

    def __init__(self, name: str) -> None:
        self._elements = Metrics.counter("lost_worker", name)
        self._numbers = Metrics.distribution("lost_worker", name)

    def process(self, element: tuple[int, int]) -> Iterator[tuple[int, int]]:
        self._elements.inc()
        self._numbers.update(element[1])
        yield element


class Slow(beam.DoFn):
    """Passes numbers on, takes its time, and leaves a sign of each element."""

    def __init__(self, signals: str, seconds: float) -> None:
        self._signals = signals
        self._seconds = seconds
        self._elements = Metrics.counter("lost_worker", "slow")

    def process(
        self, element: tuple[int, Iterable[int]], small: Any = None, large: Any = None
    ) -> Iterator[tuple[int, int]]:
        key, values = element
        for side in (small, large):
            assert side is None or side[key % 10] == key % 10
        with (Path(self._signals) / f"{os.getpid()}").open("a") as signs:
            signs.write(f"{key}\n")
        time.sleep(self._seconds)
        self._elements.inc()
        for value in values:
            yield key, value


def groups(pipeline: beam.Pipeline) -> Any:
    return (
        pipeline
        | beam.Create(range(PARTS))
        | "Part" >> beam.ParDo(Part())
        | "Read" >> beam.ParDo(Count("read"))
        | beam.GroupByKey()
    )


def plain(pipeline: beam.Pipeline, signals: str) -> Any:
    """Two groupings, one behind the other."""
    slow = groups(pipeline) | "Slow" >> beam.ParDo(Slow(signals, 0.05))
    return slow | "Written" >> beam.ParDo(Count("written")) | beam.CombinePerKey(sum)


def shared(pipeline: beam.Pipeline, signals: str) -> Any:
    """A slow stage that two others read, with a side input in memory and one in a file."""
    small = pipeline | "Small" >> beam.Create([(digit, digit) for digit in range(10)])
    large = pipeline | "Large" >> beam.Create(range(40)) | "Pad" >> beam.FlatMap(padded)
    slow = groups(pipeline) | "Slow" >> beam.ParDo(
        Slow(signals, 0.05), beam.pvalue.AsDict(small), beam.pvalue.AsDict(large)
    )
    written = slow | "Written" >> beam.ParDo(Count("written"))
    sums = written | "Sum" >> beam.CombinePerKey(sum)
    largest = written | "Shuffle" >> beam.Reshuffle() | "Max" >> beam.CombinePerKey(max)
    return (
        {"sum": sums, "max": largest}
        | beam.CoGroupByKey()
        | beam.MapTuple(lambda key, found: (key, [*found["sum"], *found["max"]]))
    )


def reshuffled(pipeline: beam.Pipeline, signals: str) -> Any:
    """Elements whose order changes with each attempt, and are spread by their position."""
    return (
        groups(pipeline)
        | "Disorder" >> beam.FlatMapTuple(disordered)
        | beam.Reshuffle()
        | "Slow" >> beam.ParDo(Slow(signals, 0.001))
        | "Written" >> beam.ParDo(Count("written"))
        | beam.CombinePerKey(sum)
    )


def padded(number: int) -> Iterator[tuple[Any, Any]]:
    if number < 10:
        yield number, number
    for line in range(100):
        yield f"{number}-{line}", "." * 4000


def disordered(key: int, values: Iterable[int]) -> list[tuple[int, list[int]]]:
    found = [(key, [value]) for value in values]
    random.Random(os.urandom(8)).shuffle(found)
    return found


SHAPES: dict[str, Callable[[beam.Pipeline, str], Any]] = {
    "plain": plain,
    "shared": shared,
    "reshuffled": reshuffled,
}


def run(shape: str, signals: str, target: str) -> dict[str, Any]:
    """Runs a pipeline; returns what it found, or its error."""
    pipeline = beam.Pipeline(argv=["--runner=sparkbeam.SparkRunner", *sys.argv[1:]])
    _ = (
        SHAPES[shape](pipeline, signals)
        | beam.combiners.ToList()
        | beam.Map(lambda found: Path(target).write_text(json.dumps(sorted(found))))
    )
    try:
        result = pipeline.run()
        result.wait_until_finish()
    except Exception as error:
        return {"error": str(error)}
    found = result.metrics().query()
    return {
        "result": json.loads(Path(target).read_text()),
        "counters": {c.key.metric.name: c.committed for c in found["counters"]},
        "distributions": {
            d.key.metric.name: [
                d.committed.min,
                d.committed.max,
                d.committed.sum,
                d.committed.count,
            ]
            for d in found["distributions"]
        },
    }


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        started = time.monotonic()
        found = run(order["shape"], order["signals"], f"{order['outcome']}.result")
        found["seconds"] = time.monotonic() - started
        partial = Path(f"{order['outcome']}.partial")
        partial.write_text(json.dumps(found))
        partial.rename(order["outcome"])


if __name__ == "__main__":
    main()
