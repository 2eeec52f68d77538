"""Memory of the Python workers: each works through far more than it may hold.

Run with ``python bench/memory.py``. Each task runs in a session of its own; the
table gives the largest peak of resident memory of any Python worker, as Linux
keeps it for each process (``VmHWM``).
"""

import argparse
import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import psutil
from apache_beam.pvalue import AsMultiMap
from rich.console import Console
from rich.table import Table

from sparkbeam import SparkRunner, session
from sparkbeam.options import SparkBeamOptions

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


TASKS: dict[str, tuple[Callable[[beam.Pipeline, int], None], int]] = {
    "one key, iterated twice": (big_group, 1024),
    "one element emits all": (big_element, 1024),
    "side input, read by key": (big_side_input, 500),
}


def worker_peaks() -> list[float]:
    """The peak of each Python worker below this process, in MiB."""
    peaks = []
    for process in psutil.Process().children(recursive=True):
        try:
            if "sparkbeam.worker.daemon" in process.cmdline():
                status = Path(f"/proc/{process.pid}/status").read_text()
                (peak,) = [line for line in status.splitlines() if line.startswith("VmHWM")]
                peaks.append(int(peak.split()[1]) / 1024)
        except (psutil.NoSuchProcess, FileNotFoundError, ValueError):
            continue
    return peaks


def measure(task: str, megabytes: int) -> None:
    """Runs one task and prints its time and the largest peak."""
    logging.disable(logging.WARNING)
    spark = session.obtain(SparkBeamOptions(["--spark_master=local[2]"]))
    pipeline = beam.Pipeline(runner=SparkRunner(spark))
    TASKS[task][0](pipeline, megabytes)
    start = time.perf_counter()
    pipeline.run().wait_until_finish()
    print(f"{time.perf_counter() - start:.1f} {max(worker_peaks()):.0f}")


def main() -> None:
    """Runs all tasks and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--percent", type=int, default=100, help="of the full sizes")
    parser.add_argument("--task", choices=list(TASKS), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        measure(arguments.task, TASKS[arguments.task][1] * arguments.percent // 100)
        return
    table = Table(title="Peak resident memory of a Python worker, 2 cores")
    for column in ("task", "size, MiB", "seconds", "peak, MiB"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for task, (_, megabytes) in TASKS.items():
        command = [sys.executable, __file__, "--percent", str(arguments.percent), "--task", task]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds, peak = lines.strip().splitlines()[-1].split()
        table.add_row(task, str(megabytes * arguments.percent // 100), seconds, peak)
    Console().print(table)


if __name__ == "__main__":
    main()
