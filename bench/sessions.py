"""Open sessions of one key in streaming: what an element costs by how many there are.

Run with ``python bench/sessions.py``. It needs no Spark: state is in memory, and read and written
in each micro-batch. Beside sessions that are stored in order stand those of Beam's trigger driver.
"""

import argparse
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import IntervalWindow, Sessions
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from contest import Times, draw
from rich.console import Console
from rich.table import Table

from sparkbeam.wire.rows import PLAIN_CELL, Row
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.triggered import StreamGrouping, TriggerGrouping
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap

GAP, APART = 10, 100
PER_MICRO_BATCH = 50
MEASURED = 20 * PER_MICRO_BATCH
"""The last so many elements are measured, micro-batch by micro-batch."""

MOST_DRIVEN = 4000
PROGRAMS: dict[type[StreamGrouping], str] = {
    SessionedGrouping: "sessions in order",
    TriggerGrouping: "Beam's trigger driver",
}
NUMBER = coders.VarIntCoder()
CODER = coders.WindowedValueCoder(coders.TupleCoder([NUMBER, NUMBER]), coders.IntervalWindowCoder())


def row(numbers: list[int]) -> Row:
    """An element for each number, far enough from all others for a session of its own."""
    stored = coders.WindowedValueCoder(coders.BytesCoder(), CODER.window_coder)
    elements = []
    for number in numbers:
        start = Timestamp(number * APART)
        window = IntervalWindow(start, start + GAP)
        elements.append(WindowedValue(NUMBER.encode(number), start, (window,)))
    return NUMBER.encode(1), 0, PLAIN_CELL + KeyCells(stored).elements.encode(elements)


def measured(
    count: int, made: type[StreamGrouping], *, in_order: bool
) -> tuple[list[float], float]:
    """Seconds of a new element while so many sessions are open, and of each that fires.

    Of a new element there is a figure for each micro-batch.

    Args:
        count: how many are open.
        made: groups.
        in_order: the new sessions are behind all others; else they are anywhere between them.
    """
    entries, moment = MemoryMap(), ShardClock()
    moment.input_watermark = moment.output_watermark = -1

    def timed(results: Callable[[StreamGrouping], Iterable[Any]], expected: int = 0) -> float:
        start = time.process_time()
        state = ShardState(entries)
        grouping = made(CODER, Windowing(Sessions(GAP)), None, state.stage("s"), moment)
        assert sum(1 for _ in results(grouping)) == expected
        state.save()
        state.close()
        return time.process_time() - start

    def added(numbers: list[int]) -> float:
        return timed(lambda grouping: grouping.add([row(numbers)]))

    numbers = list(range(count))[::-1] if in_order else random.Random(1).sample(range(count), count)
    measured = min(count // 2, MEASURED)
    last = [numbers[low : low + PER_MICRO_BATCH] for low in range(0, measured, PER_MICRO_BATCH)]
    last = last[::-1] if in_order else last
    added(numbers[measured:])
    each = [added(numbers) / PER_MICRO_BATCH for numbers in last]
    moment.input_watermark = moment.output_watermark = (count + 1) * APART * 1_000_000
    return each, timed(lambda grouping: grouping.fire(), count) / count


def main() -> None:
    """Measures, prints the tables and draws them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", type=Path, help="an SVG file of box plots")
    picture = parser.parse_args().picture
    every: list[Times] = []
    for in_order in (True, False):
        place = "behind all others" if in_order else "anywhere between them"
        columns = ["new element, µs", "each that fires, µs"]
        driver = [f"by the driver: {column}" for column in columns]
        table = Table("open sessions", *columns, *driver, title=f"New sessions {place}")
        for count in (100, 1000, 4000, 10_000, 100_000):
            figures: list[float] = []
            for made, program in PROGRAMS.items():
                if made is TriggerGrouping and count > MOST_DRIVEN:
                    continue
                new, fired = measured(count, made, in_order=in_order)
                figures += [median(new) * 1e6, fired * 1e6]
                every.append(Times(f"a new session {place}, of {program}", f"{count:,}", new))
            table.add_row(f"{count:,}", *(f"{micros:,.0f}" for micros in figures))
        Console().print(table)
    if picture:
        draw(every, picture, "µs")


if __name__ == "__main__":
    main()
