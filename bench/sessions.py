"""Open sessions of one key in streaming: what an element costs by how many there are.

Run with ``python bench/sessions.py``. It needs no Spark: state is in memory, and read and written
in each micro-batch. Beside sessions that are stored in order stand those of Beam's trigger driver.
"""

import random
import time
from statistics import median

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import IntervalWindow, Sessions
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from rich.console import Console
from rich.table import Table

from sparkbeam.wire.rows import PLAIN_CELL, Row
from sparkbeam.worker.grouping.moment import Moment
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.triggered import SessionGrouping, StreamGrouping
from sparkbeam.worker.layouts.cells import KeyCells
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap

GAP, APART = 10, 100
PER_MICRO_BATCH = 50
MEASURED = 20 * PER_MICRO_BATCH
"""The last so many elements are measured, micro-batch by micro-batch."""

MOST_DRIVEN = 4000
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


def measured(count: int, made: type[StreamGrouping], *, in_order: bool) -> tuple[float, ...]:
    """Microseconds of a new element while so many sessions are open, and of each that fires.

    Args:
        count: how many are open.
        made: groups.
        in_order: the new sessions are behind all others; else they are anywhere between them.
    """
    entries, moment = MemoryMap(), Moment()
    moment.input_watermark = moment.output_watermark = -1

    def added(numbers: list[int]) -> float:
        start = time.process_time()
        state = ShardState(entries)
        grouping = made(CODER, Windowing(Sessions(GAP)), None, state.stage("s"), moment)
        assert not list(grouping.add([row(numbers)]))
        state.save()
        state.close()
        return time.process_time() - start

    numbers = list(range(count))[::-1] if in_order else random.Random(1).sample(range(count), count)
    measured = min(count // 2, MEASURED)
    last = [numbers[low : low + PER_MICRO_BATCH] for low in range(0, measured, PER_MICRO_BATCH)]
    last = last[::-1] if in_order else last
    added(numbers[measured:])
    each = median(map(added, last)) / PER_MICRO_BATCH
    moment.input_watermark = moment.output_watermark = (count + 1) * APART * 1_000_000
    start = time.process_time()
    state = ShardState(entries)
    grouping = made(CODER, Windowing(Sessions(GAP)), None, state.stage("s"), moment)
    assert sum(1 for _ in grouping.fire()) == count
    state.save()
    state.close()
    return each * 1e6, (time.process_time() - start) / count * 1e6


def main() -> None:
    """Measures and prints the tables."""
    for in_order in (True, False):
        columns = ["new element, µs", "each that fires, µs"]
        driver = [f"by the driver: {column}" for column in columns]
        title = "behind all others" if in_order else "anywhere between them"
        table = Table("open sessions", *columns, *driver, title=f"New sessions {title}")
        for count in (100, 1000, 4000, 10_000, 100_000):
            found = measured(count, SessionedGrouping, in_order=in_order)
            if count <= MOST_DRIVEN:
                found += measured(count, SessionGrouping, in_order=in_order)
            table.add_row(f"{count:,}", *(f"{micros:,.0f}" for micros in found))
        Console().print(table)


if __name__ == "__main__":
    main()
