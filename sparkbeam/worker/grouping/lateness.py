"""Late elements, for groupings and stateful DoFns alike."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, GlobalWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.blocks import Block


def expiry_of(windowing: Windowing) -> Callable[[BoundedWindow], int]:
    """Return the *expiry* of a window: the watermark at which its state is forgotten."""
    lateness = windowing.allowed_lateness.micros

    def expiry(window: BoundedWindow) -> int:
        if isinstance(window, GlobalWindow):
            return MAX_MICROS + 1
        return min(window.end.micros + lateness + 1, MAX_MICROS + 1)

    return expiry


def latest_over(watermark: int) -> int:
    """Return the latest expiry of the windows for which elements are too late at a watermark.

    The watermark need only be at a window's end and the allowed lateness, not past it.
    """
    return watermark + 1


class Lateness:
    """Filter for late elements.

    Attributes:
        allowed: the allowed lateness, in microseconds.
        dropped: the number of elements dropped, each counted once per window.
    """

    def __init__(self, windowing: Windowing) -> None:
        self._expires = expiry_of(windowing)
        self.allowed: int = windowing.allowed_lateness.micros
        self._before: tuple[WindowedValue, int, WindowedValue | None] | None = None
        self.dropped = 0

    def in_time(self, blocks: Iterable[Block], watermark: int) -> Iterator[Block]:
        """Yield elements without the windows for which they are too late."""
        for block in blocks:
            kept = self.drop_late(block, watermark)
            if kept is not None:
                yield kept

    def drop_late(self, block: Block, watermark: int) -> Block | None:
        """Return a block without the windows for which it is too late; None if nothing remains."""
        template = block.windowing
        before = self._before
        # Most blocks have the windowing of the one before.
        if before is None or before[0] is not template or before[1] != watermark:
            before = (template, watermark, self._unexpired(template, latest_over(watermark)))
            self._before = before
        kept = before[2]
        if kept is template:
            return block
        left = len(kept.windows) if kept is not None else 0
        self.dropped += (len(template.windows) - left) * len(block)
        return None if kept is None else block.with_windowing(kept)

    def rows_in_time(self, ends: Micros, counts: Micros, watermark: int) -> Positions:
        """Return the positions of the windows that are not too late.

        Args:
            ends: of the windows, in microseconds.
            counts: the number of elements of each.
            watermark: in microseconds.
        """
        # As the expiry of each would say, in numbers that stay within 64 bits.
        if watermark >= MAX_MICROS:
            is_late = np.ones(len(ends), np.bool_)
        else:
            is_late = ends <= max(watermark - self.allowed, MIN_MICROS)
        self.dropped += int(counts[is_late].sum())
        return np.flatnonzero(~is_late)

    def count(self, template: WindowedValue, number: int, watermark: int) -> None:
        """Add the number of elements behind accumulators, beyond one for each."""
        if self._unexpired(template, latest_over(watermark)) is None:
            self.dropped += number

    def _unexpired(self, template: WindowedValue, over: int) -> WindowedValue | None:
        windows = tuple(window for window in template.windows if self._expires(window) > over)
        if len(windows) == len(template.windows):
            return template
        if not windows:
            return None
        return WindowedValue(template.value, template.timestamp, windows, template.pane_info)
