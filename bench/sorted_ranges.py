"""The part ``range`` of sorted_state.py: what 1,000 entries out of a buffer cost."""

import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from apache_beam.coders import coders
from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from rich.table import Table
from state import two_batches

from sparkbeam.coders import OrderedIntCoder
from sparkbeam.state import SortedMultimapStateSpec
from sparkbeam.worker.keyed.maps import SortedMultimapState
from sparkbeam.worker.keyed.state_cells import Cell
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.store import PipelinedSparkMap

RANGE = 1000
TURNS = 9
VALUE = b"x" * 20
SORTED = SortedMultimapStateSpec("sorted", OrderedIntCoder(), coders.BytesCoder())


def state_of(record: Any) -> SortedMultimapState:
    """A sorted multimap in a record."""
    return SortedMultimapState(SORTED, Cell(record, b"cell", b"", lambda record, window: None))


def on_sorted(count: int, work: Callable[[SortedMultimapState], None]) -> Callable[[Any], None]:
    """A task that works on a sorted buffer."""

    def task(store: Any) -> None:
        shard = ShardState(PipelinedSparkMap(store))
        state = state_of(shard.stage(str(count)).record(b"key"))
        work(state)
        state.commit()
        shard.save()

    return task


def fill(count: int) -> Callable[[Any], None]:
    """A task that makes a sorted buffer."""

    def work(state: SortedMultimapState) -> None:
        for number in range(count):
            state.put(number, VALUE)

    return on_sorted(count, work)


def read(count: int, turn: int) -> Callable[[Any], None]:
    """A task that reads its first entries, after so many turns."""

    def work(state: SortedMultimapState) -> None:
        assert len(list(state.entries_until(last(turn)))) == RANGE

    return on_sorted(count, work)


def remove(count: int, turn: int) -> Callable[[Any], None]:
    """A task that removes them."""
    return on_sorted(count, lambda state: state.remove_until(last(turn)))


def last(turn: int) -> int:
    """The last of the entries that are read and removed in a turn."""
    return RANGE * (turn + 1) - 1


def fill_plain(count: int) -> Callable[[Any], None]:
    """A task that makes a map of PySpark's."""

    def task(store: Any) -> None:
        for number in range(count):
            store.updateValue((number.to_bytes(8, "big"),), (VALUE,))

    return task


def read_plain(turn: int) -> Callable[[Any], None]:
    """A task that reads its first entries: by a walk through all of them, as it has no ranges."""

    def task(store: Any) -> None:
        limit = last(turn).to_bytes(8, "big")
        found = sorted(
            (bytes(key[0]), bytes(value[0]))
            for key, value in store.iterator()
            if bytes(key[0]) <= limit
        )
        assert len(found) == RANGE

    return task


def remove_plain(turn: int) -> Callable[[Any], None]:
    """A task that removes them."""

    def task(store: Any) -> None:
        for number in range(RANGE * turn, RANGE * (turn + 1)):
            store.removeKey((number.to_bytes(8, "big"),))

    return task


Task = tuple[str, str, Callable[[Any], None]]
"""Its name, the map state that it uses, what it does."""


class Measure(StatefulProcessor):
    """Fills buffers and maps of some sizes in the first micro-batch, measures in the second."""

    def __init__(self, sorted_sizes: list[int], plain_sizes: list[int]) -> None:
        self._sizes = sorted_sizes
        self._plain = plain_sizes

    def fills(self) -> Iterator[Task]:
        """What the first micro-batch does."""
        for count in self._sizes:
            yield f"fill {count}", "sorted", fill(count)
        for count in self._plain:
            yield f"fill plain {count}", f"plain{count}", fill_plain(count)

    def turns(self) -> Iterator[Task]:
        """What the second one does, all sizes in turn."""
        for turn in range(TURNS):
            for count in self._sizes:
                yield f"read {count}", "sorted", read(count, turn)
                yield f"remove {count}", "sorted", remove(count, turn)
            for count in self._plain:
                yield f"read plain {count}", f"plain{count}", read_plain(turn)
                yield f"remove plain {count}", f"plain{count}", remove_plain(turn)

    def init(self, handle: Any) -> None:
        """Makes the maps."""
        names = ["sorted", *(f"plain{count}" for count in self._plain)]
        self._maps = {
            name: handle.getMapState(name, "key binary", "value binary") for name in names
        }

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Iterator[Row]:
        """Runs the tasks of the micro-batch."""
        first = [row.step for row in rows] == [0]
        for name, store, task in self.fills() if first else self.turns():
            start = time.perf_counter()
            task(self._maps[store])
            yield Row(task=name, seconds=time.perf_counter() - start)

    def close(self) -> None:
        """There is nothing to close."""


def spread(seconds: list[float]) -> str:
    """Milliseconds: the median, and from the least to the most."""
    least, middle, most = (
        f"{1e3 * value:,.1f}" for value in (min(seconds), median(seconds), max(seconds))
    )
    return f"{middle} ({least} to {most})"


def ranges(spark: Any, sorted_sizes: list[int], plain_sizes: list[int]) -> Table:
    """The part ``range``."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    found = two_batches(spark, Measure(sorted_sizes, plain_sizes))
    table = Table("buffer", "entries", f"read {RANGE:,}, ms", f"remove {RANGE:,}, ms", "fill, s")
    for kind, sizes in (("", sorted_sizes), ("plain ", plain_sizes)):
        for count in sizes:
            table.add_row(
                "MapState of PySpark" if kind else "sorted multimap",
                f"{count:,}",
                spread(found[f"read {kind}{count}"]),
                spread(found[f"remove {kind}{count}"]),
                f"{found[f'fill {kind}{count}'][0]:.1f}",
            )
    return table
