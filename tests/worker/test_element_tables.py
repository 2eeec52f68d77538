"""Elements that wait before a shuffle are added up in their order."""

from typing import Any

from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    TimestampCombiner,
)

from sparkbeam.worker.blocks import Block
from sparkbeam.worker.steps.element_tables import WindowElements


def key_of(name: Any) -> Any:
    return name.lower()


def taken(table: WindowElements) -> dict[Any, Any]:
    """Key and accumulator of each window, with its number of elements."""
    table.flush_pending()
    found = {}
    for ready in table.take():
        assert isinstance(ready.batch, Block)
        found[ready.batch.windowing.windows] = ready.batch.values, ready.count
    return found


def test_values_of_a_key_stay_in_their_order() -> None:
    table = WindowElements(ToListCombineFn(), None, Windowing(GlobalWindows()), key_of)
    window = GlobalWindow()
    table.add(window, ["A", "B", "A"], [1, 2, 3], None, 0)
    table.flush_pending()
    assert len(table) == 2
    table.add(window, ["A"], [0], None, 5)
    assert taken(table) == {(window,): ([("a", [1, 3, 0]), ("b", [2])], 9)}
    assert taken(table) == {}


def test_windows_have_timestamps_if_these_matter() -> None:
    of = Windowing(FixedWindows(10), timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST)
    table = WindowElements(ToListCombineFn(), min, of, key_of)
    table.add(IntervalWindow(0, 10), ["A", "B", "A"], [1, 2, 3], [7, 5, 3], 0)
    table.flush_pending()
    (ready,) = table.take()
    assert isinstance(ready.batch, Block)
    assert ready.batch.values == [("a", [1, 3]), ("b", [2])]
    assert ready.batch.stamps == [3, 5]
    assert ready.count == 3
