"""GroupByKey in streaming where a window fires once at its end, and then for late elements.

This is the default trigger with windows that do not merge, the most frequent case by far. The
output is that of Beam's trigger driver, in a tenth of the time. A record has one cell for each
window, with the number of panes so far, the timestamp of the next one, and an accumulator.
Accumulators of open windows are added for many keys at once: numbers of a vectorized form in
columns (``stripe_store.py``), others one by one (``accumulator_merger.py``).
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.wire.rounding import coded_hold
from sparkbeam.wire.rows import TOTALS_CELL, Row
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.grouping.accumulator_merger import AccumulatorMerger
from sparkbeam.worker.grouping.lateness import latest_over
from sparkbeam.worker.grouping.stored import StoredGrouping
from sparkbeam.worker.grouping.stripe_store import StripeStore, windows_to_records
from sparkbeam.worker.state.records import EVENT_TIME, Record
from sparkbeam.worker.state.stripes import OpenWindow

CELL = b"window:"
"""Prefix of the name of a window's cell; the encoded window follows."""

EXPIRY = b"expiry:"
"""Prefix of the timer that forgets the window."""

VALUES = b"values:"
"""Prefix of the bag of the window's values."""

_MOST_KNOWN = 1000

_Cell = tuple[int, int | None, bytes | None]
"""Number of panes, combined timestamp in microseconds, and accumulator."""


class WindowGrouping(StoredGrouping):
    """A grouping with the default trigger, and windows that do not merge."""

    def _prepare(self, coder: coders.WindowedValueCoder, windowing: Windowing) -> None:
        super()._prepare(coder, windowing)
        self._window_coder = coder.window_coder
        self._windows: dict[BoundedWindow, _Window] = {}
        self._by_cell: dict[bytes, _Window] = {}
        self._of_templates: dict[int, tuple[WindowedValue, list[_Window]]] = {}
        self._known_stamps: dict[tuple[_Window, int | None, int], int | None] = {}
        self._known_at: int | None = None
        self._together = AccumulatorMerger(self._cells, self._keyed, self._combined, self._opened)
        self._striped: StripeStore | None = None
        if self._combine is not None and self._combine.form is not None:
            self._keyed.thaw = partial(windows_to_records, self._encoded_numbers)
            self._striped = StripeStore(
                self._cells, self._keyed, self._combine, self._decode_key, self._opened
            )

    def add(self, rows: list[Row]) -> Iterator[WindowedValue]:
        watermark = self._moment.input_watermark
        if self._known_at != self._moment.output_watermark:
            self._known_at = self._moment.output_watermark
            self._known_stamps.clear()
        if self._combine_fn is not None:
            rows = self._together.add(self._without_totals(self._without_counts(rows, watermark)))
        for key, blocks in self._arrived(rows):
            gathered: dict[_Window, list[Block]] = {}
            for block in blocks:
                for known in self._windows_of(block.windowing):
                    gathered.setdefault(known, []).append(block)
            record = self._keyed.record(key)
            for known, some in gathered.items():
                self._add(record, known, some)
                if known.end <= watermark:
                    yield self._pane(self._decode_key(key), record, known, on_time=False)

    def _without_totals(self, rows: list[Row]) -> list[Row]:
        """Return rows of single keys, whose numbers cannot be added for many keys at once."""
        cells = [row[2] for row in rows if row[2][:1] == TOTALS_CELL]
        if not cells:
            return rows
        assert self._striped is not None
        rows = [row for row in rows if row[2][:1] != TOTALS_CELL]
        for left in self._striped.add(cells):
            rows += left.rows(self._cells, self._encoded_numbers)
        return rows

    def _opened(self, template: WindowedValue) -> list[OpenWindow] | None:
        """Return the windows of elements, if all are open and hold the watermark at one time."""
        watermark, found = self._moment.input_watermark, []
        for known in self._windows_of(template):
            stamp = self._stamp_with(known, None, template)
            if (
                known.end <= watermark
                or stamp is None
                or self._stamp_with(known, stamp, template) != stamp
            ):
                return None
            found.append(
                OpenWindow(known.cell, min(known.end, MAX_MICROS), stamp, coded_hold(stamp))
            )
        return found or None

    def fire_blocks(self) -> Iterator[Block]:
        if self._striped is not None:
            yield from self._striped.fire(self._moment.input_watermark, self._only_pane)
        yield from in_blocks(self.fire())

    def _only_pane(self, window: OpenWindow) -> WindowedValue | None:
        """Return the pane of a window that is forgotten when it fires, without its value."""
        known = self._of_cell(window.cell)
        if known.expiry > latest_over(self._moment.input_watermark):
            return None
        return self._new_pane(None, None, known.window, known.latest, window.stamp, 0, on_time=True)

    def fire(self) -> Iterator[WindowedValue]:
        watermark = self._moment.input_watermark
        for encoded_key in self._keyed.due_keys(EVENT_TIME, watermark):
            record = self._keyed.record(encoded_key)
            key = self._decode_key(encoded_key)
            while (due := record.pop_due(EVENT_TIME, watermark)) is not None:
                _, timer_id, _ = due
                if timer_id.startswith(EXPIRY):
                    self._forget(record, timer_id[len(EXPIRY) :])
                else:
                    yield self._pane(key, record, self._of_cell(timer_id), on_time=True)

    def _add(self, record: Record, window: "_Window", blocks: list[Block]) -> None:
        cell: _Cell | None = record.get(window.cell)
        if cell is None:
            cell = (0, None, None)
            if window.end > self._moment.input_watermark:
                record.set_timer(window.cell, EVENT_TIME, min(window.end, MAX_MICROS), None, None)
        panes, held, accumulator = cell
        stamp = held
        for block in blocks:
            stamp = self._stamp_with(window, stamp, block.windowing)
        values = [value for block in blocks for value in block.values]
        if self._combine_fn is None:
            record.bag(VALUES + window.cell).append(values)
        else:
            accumulator = self._combined(values if accumulator is None else [accumulator, *values])
        record.set(window.cell, (panes, stamp, accumulator))
        if stamp != held:
            record.set_hold(window.cell, None if stamp is None else coded_hold(stamp))

    def _pane(self, key: Any, record: Record, window: "_Window", *, on_time: bool) -> WindowedValue:
        panes, stamp, accumulator = record.get(window.cell)
        values: Any
        if self._combine_fn is None:
            values = self._values([list(record.bag(VALUES + window.cell))])
        else:
            values = [] if accumulator is None else [self._decode(accumulator)]
        if window.expiry <= latest_over(self._moment.input_watermark):
            record.clear_timer(EXPIRY + window.cell)
            self._forget(record, window.cell)
        else:
            self._keep(record, window, panes + 1, accumulator)
        return self._new_pane(
            key, values, window.window, window.latest, stamp, panes, on_time=on_time
        )

    def _keep(
        self, record: Record, window: "_Window", panes: int, accumulator: bytes | None
    ) -> None:
        """Store what late elements need."""
        if not self._accumulates:
            accumulator = None
            record.bag(VALUES + window.cell).clear()
        record.set(window.cell, (panes, None, accumulator))
        record.set_hold(window.cell, None)
        if window.expiry <= MAX_MICROS and record.timer(EXPIRY + window.cell) is None:
            record.set_timer(EXPIRY + window.cell, EVENT_TIME, window.expiry, None, None)

    def _forget(self, record: Record, cell: bytes) -> None:
        record.pop(cell)
        record.set_hold(cell, None)
        if self._combine_fn is None:
            record.bag(VALUES + cell).clear()

    def _stamp_with(
        self, window: "_Window", held: int | None, template: WindowedValue
    ) -> int | None:
        """Return the timestamp combined with one more; for most keys it does not change."""
        case = window, held, template.timestamp_micros
        try:
            return self._known_stamps[case]
        except KeyError:
            if len(self._known_stamps) >= _MOST_KNOWN:
                self._known_stamps.clear()
            stamp = self._stamps.assign_output_time(window.window, template.timestamp)
            found = self._known_stamps[case] = self._stamp(window.window, [held], [stamp])
            return found

    def _windows_of(self, template: WindowedValue) -> "list[_Window]":
        """Return the windows of elements; most elements share one windowing object."""
        found = self._of_templates.get(id(template))
        if found is None or found[0] is not template:
            if len(self._of_templates) >= _MOST_KNOWN:
                self._of_templates.clear()
            found = template, [self._known(window) for window in template.windows]
            self._of_templates[id(template)] = found
        return found[1]

    def _known(self, window: BoundedWindow) -> "_Window":
        known = self._windows.get(window)
        if known is None:
            known = _Window(window, CELL + self._window_coder.encode(window), self._expires(window))
            self._windows[window] = self._by_cell[known.cell] = known
        return known

    def _of_cell(self, cell: bytes) -> "_Window":
        known = self._by_cell.get(cell)
        return known or self._known(self._window_coder.decode(cell[len(CELL) :]))


class _Window:
    """Properties of a window that are needed repeatedly; times are in microseconds."""

    __slots__ = ("cell", "end", "expiry", "latest", "window")

    def __init__(self, window: BoundedWindow, cell: bytes, expiry: int) -> None:
        self.window = window
        self.cell = cell
        self.end: int = window.end.micros
        self.latest: Timestamp = window.max_timestamp()
        self.expiry = expiry
