"""What observing costs: pipelines with everything on beside the same with everything off, in turns.

    python bench/observing.py
    python bench/observing.py --part batch --turns 3 --elements 500000

On are the progress on a terminal, the live page with somebody who looks each second, and pushes
over HTTP, to Graphite and to Prometheus, which is scraped; all who take that are in another process
on the same machine (``observers.py``). A stream that is observed has a checkpoint location, where
it leaves signs of life. Batch is the grouping of ``batch.py``; the stream is the
windowed count of ``streaming.py``, micro-batches of 200,000 elements as fast as they are taken, so
that there is no pause to hide in. Each turn runs one pipeline without and one with all that, in an
order that changes from turn to turn, in one warm session. The table has medians of the turns: of
the seconds, of the seconds of all cores that driver, JVM and workers have taken, and of the ratios
within the turns. What the others take is not among the latter, and is in the time of the clock.
"""

import argparse
import contextlib
import logging
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import apache_beam as beam
import psutil
from apache_beam.options.pipeline_options import PipelineOptions
from batch import group
from observers import Observers
from streaming import ROWS, WARM_UPS, reading, started, windowed_count

from sparkbeam import SparkRunner

OFF = ("--spark_progress=off",)
PARTS = ("batch", "stream")


class Turn(NamedTuple):
    """What a pipeline has taken.

    Attributes:
        seconds: of the batch, or of a micro-batch in the median.
        cpu: seconds of all cores for it, of driver, JVM and workers.
    """

    seconds: float
    cpu: float


class Bench:
    """Runs the contestants.

    Args:
        spark: the session.
        observers: who observes.
        elements: of the batch.
        batches: how many micro-batches are measured in a turn.
    """

    def __init__(self, spark: Any, observers: Observers, elements: int, batches: int) -> None:
        self._spark = spark
        self._observers = observers
        self._elements = elements
        self._batches = batches

    def batch(self, observed: bool) -> Turn:
        """A batch, from its construction to its end."""
        before, start = self._cpu(), time.perf_counter()
        with self._stderr(observed):
            pipeline = beam.Pipeline(SparkRunner(self._spark), options=self._options(observed))
            group(pipeline, self._elements)
            pipeline.run().wait_until_finish()
        return Turn(time.perf_counter() - start, self._cpu() - before)

    def stream(self, observed: bool) -> Turn:
        """Some micro-batches of a stream, after the first ones."""
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        signs = [f"--checkpoint_location={folder.name}/checkpoint"] if observed else []
        options = self._options(observed, "--streaming", *signs)
        with folder, self._stderr(observed):
            pipeline = beam.Pipeline(SparkRunner(self._spark), options=options)
            windowed_count(pipeline | reading(ROWS))
            result: Any = pipeline.run()
            try:
                self._wait(result, WARM_UPS)
                before = self._cpu()
                first, start = result.progress().micro_batch, time.perf_counter()
                last = self._wait(result, first + self._batches)
                seconds = time.perf_counter() - start
                cpu = self._cpu() - before
            finally:
                result.cancel()
                result.wait_until_finish()
        return Turn(seconds / (last - first), cpu / (last - first))

    @staticmethod
    def _wait(result: Any, number: int) -> int:
        """Waits for a micro-batch; gives the number of the last one."""
        while (found := result.progress().micro_batch) < number:
            if result.state != "RUNNING":
                raise RuntimeError("The stream has ended early.")
            time.sleep(0.005)
        return int(found)

    def _options(self, observed: bool, *more: str) -> PipelineOptions:
        return PipelineOptions([*(self._observers.options if observed else OFF), *more])

    def _stderr(self, observed: bool) -> Any:
        return self._observers.watching() if observed else contextlib.nullcontext()

    def _cpu(self) -> float:
        """Seconds of all cores of this process and those below it, without the observers."""
        total = 0.0
        own = psutil.Process()
        for process in (own, *own.children(recursive=True)):
            if process.pid != self._observers.pid:
                with contextlib.suppress(psutil.Error):
                    total += sum(process.cpu_times()[:2])
        return total


def measured(run: Callable[[bool], Turn], turns: int) -> dict[bool, list[Turn]]:
    """Both contestants in turns, after one of each that does not count."""
    found: dict[bool, list[Turn]] = {False: [], True: []}
    for turn in range(turns + 1):
        for observed in (False, True) if turn % 2 else (True, False):
            result = run(observed)
            if turn:
                found[observed].append(result)
    return found


def row(part: str, found: dict[bool, list[Turn]]) -> str:
    """A row in Markdown."""
    cells = [part]
    for field in range(len(Turn._fields)):
        off, on = ([turn[field] for turn in found[observed]] for observed in (False, True))
        ratio = statistics.median(b / a for a, b in zip(off, on, strict=True))
        cells += [f"{statistics.median(off):.2f}", f"{statistics.median(on):.2f}"]
        cells.append(f"{(ratio - 1) * 100:+.1f} %")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Runs all and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, action="append", help="all if not given")
    parser.add_argument("--turns", type=int, default=9, help="that are measured")
    parser.add_argument("--elements", type=int, default=5_000_000, help="of the batch")
    parser.add_argument("--batches", type=int, default=10, help="micro-batches of each turn")
    parser.add_argument("--period", type=float, default=1.0, help="s from one push to the next")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    observers = Observers(arguments.period)
    try:
        bench = Bench(started(), observers, arguments.elements, arguments.batches)
        print(
            "| | off, s | on, s | | off, s of CPU | on, s of CPU | |\n|---|---|---|---|---|---|---|"
        )
        for part in arguments.part or PARTS:
            found = measured(getattr(bench, part), arguments.turns)
            print(row(part, found), flush=True)
        print("\n" + ", ".join(f"{count:,} {kind}" for kind, count in observers.counts().items()))
    finally:
        observers.close()


if __name__ == "__main__":
    main()
