"""Groups of merging windows that fire once: one call of the WindowFn for each key.

Beam's trigger driver merges windows with each batch of elements and keeps state for later panes. In
batch, with the default trigger, all elements of a key are there and there is one pane.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, IntervalWindow, WindowFn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.canonical_sessions import Merges
from sparkbeam.wire.rounding import coded, coded_span
from sparkbeam.worker.group_timestamps import ON_TIME, stamps_of
from sparkbeam.worker.row_formats.group_packs import SPAN


def merged_spans(window_fn: WindowFn, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Return each key with the window that remains after merging, by the key with its window.

    Args:
        keys: keys, each followed by a :data:`SPAN`, all of some keys.
    """
    by_key: dict[bytes, list[bytes]] = defaultdict(list)
    for key in keys:
        by_key[key[: -SPAN.size]].append(key)
    into: dict[bytes, bytes] = {}
    for bare, several in by_key.items():
        windows = [_window(SPAN.unpack(key[-SPAN.size :])) for key in several]
        merges = Merges(windows)
        window_fn.merge(merges)
        for key, window in zip(several, windows, strict=True):
            into[key] = bare + SPAN.pack(*coded_span(merges.result(window)))
    return into


def _window(span: tuple[int, int]) -> BoundedWindow:
    start, end = span
    return IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))


class MergingGroups:
    """Groups of a key."""

    def __init__(self, windowing: Windowing) -> None:
        self._window_fn = windowing.windowfn
        self._stamps = stamps_of(windowing)

    def of(self, elements: list[WindowedValue]) -> Iterator[WindowedValue]:
        """Yield the list of values of each window that remains after merging."""
        by_window: dict[BoundedWindow, list[WindowedValue]] = defaultdict(list)
        for element in elements:
            for window in element.windows:
                by_window[window].append(element)
        merges = Merges(list(by_window))
        self._window_fn.merge(merges)
        groups: dict[BoundedWindow, list[WindowedValue]] = defaultdict(list)
        for window, members in by_window.items():
            groups[merges.result(window)] += members
        for window, members in groups.items():
            values = [member.value for member in members]
            yield WindowedValue(values, self._stamp(window, members), (window,), ON_TIME)

    def _stamp(self, window: BoundedWindow, members: list[WindowedValue]) -> Timestamp:
        assigned = (self._stamps.assign_output_time(window, member.timestamp) for member in members)
        return coded(self._stamps.merge(window, assigned))
