"""Memory of the Python workers: each works through far more than it may hold.

Run with ``python bench/memory.py``. Each task runs in a session of its own; the
table gives the largest peak of resident memory of any Python worker, as Linux
keeps it for each process (``VmHWM``), and beside it the peak of a process that runs the same with
Beam's FnApiRunner.
"""

import argparse
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apache_beam as beam
import numpy as np
import psutil
from apache_beam.pvalue import AsMultiMap
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.window import FixedWindows, GlobalWindows, TimestampedValue
from rich.console import Console
from rich.table import Table

from sparkbeam import SparkRunner
from sparkbeam.options.spark_options import SparkBeamOptions
from sparkbeam.spark import session

MB = 1 << 20
VALUE_BYTES = 10_000


def values(count: int, start: int = 0) -> Iterator[bytes]:
    """Distinct values of :data:`VALUE_BYTES` each."""
    for number in range(start, start + count):
        yield number.to_bytes(8, "big") * (VALUE_BYTES // 8)


def check(name: str, expected: Any) -> beam.PTransform:
    """Fails where an element is not as expected."""

    def same(found: Any) -> None:
        assert found == expected, (found, expected)

    return f"Check {name}" >> beam.Map(same)


def big_group(pipeline: beam.Pipeline, megabytes: int) -> None:
    """One key with all the values, iterated twice."""
    parts = 50
    count = megabytes * MB // VALUE_BYTES // parts

    def twice(group: tuple[str, Iterable[bytes]]) -> tuple[int, int]:
        first = sum(map(len, group[1]))
        return first, len({value[:8] for value in group[1]})

    _ = (
        pipeline
        | beam.Create(range(parts))
        | "Values" >> beam.FlatMap(lambda part: (("k", v) for v in values(count, part * count)))
        | beam.GroupByKey()
        | "Twice" >> beam.Map(twice)
        | check("group", (parts * count * VALUE_BYTES, parts * count))
    )


def big_element(pipeline: beam.Pipeline, megabytes: int) -> None:
    """One element that emits all the values."""
    count = megabytes * MB // VALUE_BYTES
    _ = (
        pipeline
        | beam.Create([None])
        | "Emit" >> beam.FlatMap(lambda _: values(count))
        | beam.Reshuffle()
        | "Length" >> beam.Map(len)
        | beam.CombineGlobally(sum)
        | check("element", count * VALUE_BYTES)
    )


def big_side_input(pipeline: beam.Pipeline, megabytes: int) -> None:
    """A side input of all the values, read by key."""
    parts = 50
    count = megabytes * MB // VALUE_BYTES // parts
    keys = 5000
    side = (
        pipeline
        | "Parts" >> beam.Create(range(parts))
        | "Values"
        >> beam.FlatMap(
            lambda part: (
                ((part * count + number) % keys, value)
                for number, value in enumerate(values(count, part * count))
            )
        )
    )

    def look_up(key: int, side: Any) -> int:
        return sum(map(len, side[key]))

    _ = (
        pipeline
        | beam.Create(range(keys))
        | "Look up" >> beam.Map(look_up, AsMultiMap(side))
        | beam.CombineGlobally(sum)
        | check("side input", parts * count * VALUE_BYTES)
    )


def large_value(number: int) -> Any:
    """An array, a dict, a Row or an object of 1 MiB."""
    data = bytes(MB)
    kinds = (
        np.zeros(MB, np.uint8),
        {"data": data},
        beam.Row(data=data),
        SimpleNamespace(data=data),
    )
    return kinds[number % len(kinds)]


def length(value: Any) -> int:
    """The bytes in what :func:`large_value` gives."""
    match value:
        case np.ndarray():
            return int(value.nbytes)
        case dict():
            return len(value["data"])
    return len(value.data)


class Total(beam.CombineFn):
    """The sum of the lengths of large values."""

    def create_accumulator(self) -> int:
        """Nothing yet."""
        return 0

    def add_input(self, total: int, value: Any) -> int:
        """Adds a value."""
        return total + length(value)

    def merge_accumulators(self, totals: Iterable[int]) -> int:
        """Adds sums."""
        return sum(totals)

    def extract_output(self, total: int) -> int:
        """The sum."""
        return total


def large_values(pipeline: beam.Pipeline, megabytes: int) -> None:
    """Values of 1 MiB each go from one function to the next."""
    made = pipeline | beam.Create(range(50)) | beam.FlatMap(lambda _: range(megabytes // 50))
    lengths = made | "Make" >> beam.Map(large_value) | "Length" >> beam.Map(length)
    _ = lengths | beam.CombineGlobally(sum) | check("lengths", megabytes // 50 * 50 * MB)


def combined_values(pipeline: beam.Pipeline, megabytes: int) -> None:
    """Values of 1 MiB each are combined by key."""
    made = pipeline | beam.Create(range(50)) | beam.FlatMap(lambda _: range(megabytes // 50))
    pairs = made | "Make" >> beam.Map(lambda number: ("key", large_value(number)))
    total = megabytes // 50 * 50 * MB
    _ = pairs | beam.CombinePerKey(Total()) | check("total", ("key", total))


def many_windows(pipeline: beam.Pipeline, megabytes: int) -> None:
    """Elements of 1,000 bytes, each in a window of its own, grouped."""
    part = megabytes * MB // 1000 // 50
    made = (
        pipeline
        | beam.Create(range(50))
        | beam.FlatMap(lambda at: range(at * part, (at + 1) * part))
        | "Stamp" >> beam.Map(lambda n: TimestampedValue((n % 10, bytes(1000)), n))
        | beam.WindowInto(FixedWindows(1))
        | beam.GroupByKey()
        | "Count" >> beam.Map(lambda group: len(list(group[1])))
        | "Global" >> beam.WindowInto(GlobalWindows())
    )
    _ = made | beam.CombineGlobally(sum) | check("windows", 50 * part)


TASKS: dict[str, tuple[Callable[[beam.Pipeline, int], None], int]] = {
    "one key, iterated twice": (big_group, 1024),
    "one element emits all": (big_element, 1024),
    "side input, read by key": (big_side_input, 500),
    "values of 1 MiB, mapped": (large_values, 2500),
    "values of 1 MiB, combined": (combined_values, 2500),
    "400,000 windows": (many_windows, 400),
}


def peak(process: int) -> float:
    """The peak of a process, in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def worker_peaks() -> list[float]:
    """The peak of each Python worker below this process, in MiB."""
    peaks = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "sparkbeam.worker.daemon" in process.cmdline():
                peaks.append(peak(process.pid))
        except (psutil.NoSuchProcess, FileNotFoundError, ValueError):
            continue
    return peaks


def measure(task: str, megabytes: int, *, beams_own: bool) -> None:
    """Runs one task, in a session of its own, and prints its time and the largest peak."""
    logging.disable(logging.WARNING)
    spark = None if beams_own else session.obtain(SparkBeamOptions(["--spark_master=local[2]"]))
    pipeline = beam.Pipeline(runner=FnApiRunner() if spark is None else SparkRunner(spark))
    TASKS[task][0](pipeline, megabytes)
    start = time.perf_counter()
    pipeline.run().wait_until_finish()
    peaks = [peak(os.getpid())] if spark is None else worker_peaks()
    print(f"{time.perf_counter() - start:.1f} {max(peaks):.0f}", flush=True)
    if spark is not None:
        spark.stop()  # Which ends its workers.


def main() -> None:
    """Runs all tasks and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--percent", type=int, default=100, help="of the full sizes")
    parser.add_argument("--task", choices=list(TASKS), nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--beams_own", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    for task in arguments.task or ():
        megabytes = TASKS[task][1] * arguments.percent // 100
        measure(task, megabytes, beams_own=arguments.beams_own)
    if arguments.task:
        return
    table = Table(title="Peak resident memory of a Python worker, 2 cores")
    for column in ("task", "size, MiB", "seconds", "peak, MiB", "FnApiRunner", "peak, MiB"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for task, (_, megabytes) in TASKS.items():
        row = [task, str(megabytes * arguments.percent // 100)]
        for flags in ([], ["--beams_own"]):
            command = [sys.executable, __file__, "--percent", str(arguments.percent)]
            command += ["--task", task, *flags]
            lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            row += lines.strip().splitlines()[-1].split()
        table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
