"""Open sessions of one key in streaming: what a micro-batch costs by how many there are.

Run with ``python bench/sessions.py``. It needs no Spark: state is in memory.
"""

import random
import time

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import IntervalWindow, Sessions
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from rich.console import Console
from rich.table import Table

from sparkbeam.wire.rows import PLAIN_CELL, Row
from sparkbeam.worker.grouping.moment import Moment
from sparkbeam.worker.grouping.triggered import SessionGrouping
from sparkbeam.worker.layouts.cells import KeyCells
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import MemoryMap

GAP, APART = 10, 100
PER_MICRO_BATCH = 50
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


def measured(count: int) -> tuple[float, float]:
    """Seconds until so many sessions are open, and to fire them all."""
    entries, moment = MemoryMap(), Moment()
    moment.input_watermark = moment.output_watermark = -1

    def grouping(state: ShardState) -> SessionGrouping:
        return SessionGrouping(CODER, Windowing(Sessions(GAP)), None, state.stage("s"), moment)

    numbers = random.Random(1).sample(range(count), count)
    start = time.process_time()
    for low in range(0, count, PER_MICRO_BATCH):
        state = ShardState(entries)
        assert not list(grouping(state).add([row(numbers[low : low + PER_MICRO_BATCH])]))
        state.save()
    opened = time.process_time()
    moment.input_watermark = moment.output_watermark = (count + 1) * APART * 1_000_000
    state = ShardState(entries)
    assert len(list(grouping(state).fire())) == count
    state.save()
    return opened - start, time.process_time() - opened


def main() -> None:
    """Measures and prints the table."""
    table = Table("sessions of a key", "to open them, s", "to fire them, s")
    for count in (500, 1000, 2000, 4000):
        table.add_row(f"{count:,}", *(f"{seconds:.2f}" for seconds in measured(count)))
    Console().print(table)


if __name__ == "__main__":
    main()
