"""The panes of windows of which only the element counts are known.

In batch all elements of a window are there before its first pane. A trigger distinguishes windows
by the counts that they reach, and by their ends if it depends on the clock. Therefore Beam's
trigger driver runs once for all windows that reach the same count, or for each window.
"""

import copy
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    BoundedWindow,
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    TimestampCombiner,
)
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import PaneInfo, WindowedValue

from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.worker.grouping.panes import Panes
from sparkbeam.worker.grouping.triggers import asks_the_clock, counts_of

_STAMP = Timestamp(micros=MIN_TIMESTAMP.micros + 1000)
"""Timestamp that a pane has only if it comes from its elements."""


class CountedPane(NamedTuple):
    """A pane of some windows.

    Attributes:
        is_empty: none of the elements are in it.
        time: its timestamp, if that is neither the end nor that of the elements.
    """

    info: PaneInfo
    is_empty: bool
    is_at_end: bool
    time: Timestamp | None


Kind = tuple[CountedPane, ...]
"""All panes of a window, in their order."""


class CountedPanes:
    """Panes of windows by their element counts.

    Args:
        windowing: with a trigger that is not the default one.
    """

    def __init__(self, windowing: Windowing) -> None:
        self._is_global = isinstance(windowing.windowfn, GlobalWindows)
        self._is_at_end = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
        # Each window is shown alone, so that there is nothing for a WindowFn to merge.
        alone = copy.copy(windowing)
        alone.windowfn = GlobalWindows() if self._is_global else FixedWindows(10)
        self._panes = Panes(alone)
        self._counts = [1, *counts_of(windowing.triggerfn)]
        self._asks_the_clock = asks_the_clock(windowing.triggerfn)
        self._known: dict[int, Kind] = {}

    def kinds(
        self, counts: Micros, windows: Callable[[], Iterable[BoundedWindow]]
    ) -> Iterator[tuple[Kind, Positions]]:
        """Yield windows with the same panes, by position.

        Args:
            counts: the number of elements of each window.
            windows: gives them, for a trigger that asks the clock.
        """
        reached = np.searchsorted(self._counts, counts, side="right") - 1
        if len(reached) == 1 and not self._asks_the_clock:
            yield self._of_all(int(reached[0])), np.zeros(1, np.intp)
        elif not self._asks_the_clock:
            for place in np.unique(reached).tolist():
                yield self._of_all(place), np.flatnonzero(reached == place)
        else:
            yield from self._by_the_clock(reached, windows())

    def _by_the_clock(
        self, reached: Positions, windows: Iterable[BoundedWindow]
    ) -> Iterator[tuple[Kind, Positions]]:
        """Yield each window by itself."""
        rows: defaultdict[Kind, list[int]] = defaultdict(list)
        for row, (place, window) in enumerate(zip(reached.tolist(), windows, strict=True)):
            rows[self._of(place, window)].append(row)
        for kind, some in rows.items():
            yield kind, np.array(some)

    def _of_all(self, place: int) -> Kind:
        """Return the panes of all windows that reach a count."""
        known = self._known.get(place)
        if known is None:
            window = GlobalWindow() if self._is_global else IntervalWindow(0, 10)
            known = self._known[place] = self._of(place, window)
        return known

    def _of(self, place: int, window: BoundedWindow) -> Kind:
        panes = self._panes.of_one(window, _STAMP, self._counts[place])
        return tuple(self._counted_pane(pane, window) for pane in panes)

    def _counted_pane(self, pane: WindowedValue, window: BoundedWindow) -> CountedPane:
        at_end = pane.timestamp == window.max_timestamp() and not self._is_at_end
        is_given = pane.timestamp in (_STAMP, window.max_timestamp())
        time = None if is_given else pane.timestamp
        return CountedPane(pane.pane_info, not pane.value, at_end, time)
