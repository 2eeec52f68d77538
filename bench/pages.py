"""What a micro-batch reads and writes of the state of many keys, when it changes few of them.

Run with ``python bench/pages.py``. It needs no Spark: state is in memory, and what is counted is
what Spark would be asked for. ``bench/state.py`` has what an access costs.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass

from rich.console import Console
from rich.table import Table

from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.records import EVENT_TIME
from sparkbeam.worker.state.store import MemoryMap
from sparkbeam.worker.task import tune_worker

VALUE_BYTES = 100
PORTION = 100_000


@dataclass(frozen=True)
class Cost:
    """Of one micro-batch.

    Attributes:
        milliseconds: of Python.
        reads, writes: entries of the state store.
        megabytes: what was written.
        times: that is so many times what has changed.
    """

    milliseconds: float
    reads: int
    writes: int
    megabytes: float
    times: float


def key(number: int) -> bytes:
    """A key."""
    return b"key %d" % number


def filled(count: int, *, timers: bool) -> MemoryMap:
    """State of so many keys."""
    entries = MemoryMap()
    for low in range(0, count, PORTION):
        state = ShardState(entries)
        change(state, range(low, min(low + PORTION, count)), timers=timers, time_of=lambda n: n)
        state.save()
    return entries


def change(
    state: ShardState, numbers: Sequence[int], *, timers: bool, time_of: Callable[[int], int]
) -> None:
    """Changes the records of some keys."""
    stage = state.stage("keys")
    stage.prefetch([key(number) for number in numbers])
    for number in numbers:
        record = stage.record(key(number))
        record.set(b"cell", random.randbytes(VALUE_BYTES))
        if timers:
            record.set_timer(b"timer", EVENT_TIME, time_of(number), None, None)


def micro_batch(entries: MemoryMap, count: int, changed: int, *, timers: bool) -> Cost:
    """Changes random keys."""
    numbers = random.sample(range(count), changed)
    reads, writes, put = entries.reads, entries.writes, entries.put_bytes
    start = time.process_time()
    state = ShardState(entries)
    change(state, numbers, timers=timers, time_of=lambda _: random.randrange(1 << 40))
    state.save()
    seconds = time.process_time() - start
    size = changed * (VALUE_BYTES + len(key(count)))
    put = entries.put_bytes - put
    return Cost(
        1000 * seconds, entries.reads - reads, entries.writes - writes, put / 1e6, put / size
    )


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changed", type=int, default=10_000)
    parser.add_argument("--micro_batches", type=int, default=20)
    parser.add_argument("--timers", choices=["no", "yes"], nargs="+", default=["no", "yes"])
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    arguments = parser.parse_args()
    random.seed(1)
    table = Table("keys", "timers", "ms", "reads", "writes", "MB written", "times the change")
    for timers in [with_timers == "yes" for with_timers in arguments.timers]:
        for count in arguments.keys:
            entries = filled(count, timers=timers)
            tune_worker()
            costs = [
                micro_batch(entries, count, arguments.changed, timers=timers)
                for _ in range(arguments.micro_batches)
            ]
            steady = costs[len(costs) // 2 :]
            means = [statistics.mean(column) for column in zip(*map(astuple, steady), strict=True)]
            cells = [f"{mean:,.0f}" for mean in means[:3]] + [f"{mean:.1f}" for mean in means[3:]]
            table.add_row(f"{count:,}", "yes" if timers else "no", *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
