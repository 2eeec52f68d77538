"""Accumulators of many keys, added at once to the stored content of each.

An open window emits nothing as an accumulator arrives: the stored content of its key becomes
another accumulator, or a first one. That needs no object for each key, and pages are processed one
by one. Everything else is left to the code that processes single keys.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rows import BLOCK_CELL, Row
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.state.page import Page
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.records import HELD_BYTES
from sparkbeam.worker.state.stripes import OpenWindow, timer_of

_ONE = b"\0\0\0\1"
_SHORT = 128
"""Bound below which a length takes one byte."""


@dataclass
class Arrivals:
    """Accumulators of one windowing, encoded, by key.

    Attributes:
        windows: the windows of the accumulators, all open.
        by_key: the accumulators in order of arrival.
        refused: the keys with stored content that differs from that of open windows.
    """

    windows: list[OpenWindow]
    by_key: dict[bytes, list[bytes]] = field(default_factory=dict)
    refused: set[bytes] = field(default_factory=set)


class AccumulatorMerger:
    """Merger of accumulators into the stored content of keys.

    Args:
        combined: makes one of several accumulators of a key, all encoded.
        opened: the windows of elements; None if they are not supported.
    """

    def __init__(
        self,
        cells: KeyCells,
        keyed: KeyedState,
        combined: Callable[[list[bytes]], bytes],
        opened: Callable[[WindowedValue], list[OpenWindow] | None],
    ) -> None:
        self._cells = cells
        self._keyed = keyed
        self._combined = combined
        self._opened = opened

    def add(self, rows: list[Row]) -> list[Row]:
        """Add the supported rows; return the others, in order.

        These are all rows of some keys, and those of others in some windows.
        """
        by_head, others = self._sorted_out(rows)
        arrived = [some for some in by_head.values() if some is not None]
        for some in arrived:
            for key in others:
                some.by_key.pop(key, None)
            self._add(some)
        if not others and not any(some.refused for some in arrived):
            return []

        def is_left(row: Row) -> bool:
            if row[0] in others:
                return True
            some = by_head[self._cells.head_of(row[2])[0]]
            return some is None or row[0] in some.refused

        return [row for row in rows if is_left(row)]

    def _sorted_out(self, rows: list[Row]) -> tuple[dict[bytes, Arrivals | None], set[bytes]]:
        """Return the arrivals to add by cell head, and the keys that have anything else."""
        by_head: dict[bytes, Arrivals | None] = {}
        head, start = _ONE, 0
        into: Arrivals | None = None
        others: set[bytes] = set()
        for key, _, cell in rows:
            if not cell.startswith(head):
                if cell[:1] != BLOCK_CELL:
                    others.add(key)
                    continue
                head, template = self._cells.head_of(cell)
                start = len(head)
                into = by_head.get(head)
                if into is None and head not in by_head:
                    into = by_head[head] = self._new(template, by_head.values())
            if into is None:
                others.add(key)
                continue
            length = len(cell) - start - 5
            if cell[start : start + 4] == _ONE and cell[start + 4] == length and length < _SHORT:
                some = [cell[start + 5 :]]
            else:
                some = self._cells.values.decode(cell[start:])
            before = into.by_key.get(key)
            if before is None:
                into.by_key[key] = some
            else:
                before += some
        return by_head, others

    def _new(self, template: WindowedValue, known: Iterable[Arrivals | None]) -> Arrivals | None:
        """Return the target of elements in new windows; None if some of them are known."""
        windows = self._opened(template)
        if windows is None:
            return None
        cells = {window.cell for some in known if some is not None for window in some.windows}
        return None if any(window.cell in cells for window in windows) else Arrivals(windows)

    def _add(self, arrived: Arrivals) -> None:
        """Add to all keys but those that are refused."""
        for page, keys in self._keyed.by_page(list(arrived.by_key)):
            refused = {key for key in keys if not self._is_open(page, key, arrived.windows)}
            if refused:
                arrived.refused |= refused
                keys = [key for key in keys if key not in refused]
            for window in arrived.windows:
                self._add_in(page, keys, arrived.by_key, window)

    @staticmethod
    def _is_open(page: Page, key: bytes, windows: list[OpenWindow]) -> bool:
        """Return whether a key has no stored content but that of these windows."""
        content = page.records.get(key)
        if content is None:
            return True
        if type(content) is not tuple:
            return False
        for window in windows:
            cell = content[0].get(window.cell)
            if cell is not None and cell[1] != window.stamp:
                return False
        return True

    def _add_in(
        self, page: Page, keys: list[bytes], by_key: dict[bytes, list[bytes]], window: OpenWindow
    ) -> None:
        """Add to the window of keys in a page."""
        name, stamp, records, combined = window.cell, window.stamp, page.records, self._combined
        timer = timer_of(window)
        new = 0
        for key in keys:
            some = by_key[key]
            cells, timers, holds, _ = records.get(key) or records.setdefault(key, ({}, {}, {}, {}))
            cell = cells.get(name)
            if cell is not None:
                panes, _, accumulator = cell
                if accumulator is not None:
                    some = [accumulator, *some]
                cells[name] = (panes, stamp, combined(some))
                continue
            new += 1
            cells[name] = (0, stamp, combined(some))
            timers[name] = timer
            holds[name] = window.hold
        page.changed_all(keys, HELD_BYTES * new)
        if new:
            page.scheduled(window.fires, window.hold)
