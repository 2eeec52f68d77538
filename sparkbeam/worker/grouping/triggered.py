"""GroupByKey in streaming: Beam's trigger driver over the records of a shard's state.

Values are stored encoded, in a bag for each key and window. If the stage starts with the merge of a
combine, one accumulator is stored instead.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms import trigger
from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.window import BoundedWindow, Sessions
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.upstream.beam import last_pane
from sparkbeam.wire.rounding import coded
from sparkbeam.wire.rows import COUNT_CELL, Row
from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.grouping.lateness import Lateness, expiry_of
from sparkbeam.worker.grouping.panes import picks_up_the_rest
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.trigger_state import (
    DOMAIN_NAMES,
    EXPIRY,
    RecordCodec,
    TriggerState,
    counted,
    single,
)
from sparkbeam.worker.grouping.trigger_timing import TimedTriggerDriver
from sparkbeam.worker.row_formats.cells import KeyCells
from sparkbeam.worker.row_formats.group_values import RunCoder, ValuesBuilder
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME

_MICROS = attrgetter("timestamp.micros")


class StreamGrouping(ABC):
    """The GroupByKey before a stage, in one shard.

    Args:
        combine_fn: merges the values, which are its accumulators; None keeps them all.
        moment: the current time, updated by the caller.
        by_time: a trigger sees the elements of one timestamp after the other.
        counted: values have the number of their elements before them.

    Attributes:
        dropped_closed: the number of elements in time whose window's trigger had finished
            without them.
    """

    def __init__(
        self,
        coder: coders.WindowedValueCoder,
        windowing: Windowing,
        combine_fn: CombineFn | None,
        state: KeyedState,
        moment: ShardClock,
        *,
        by_time: bool = False,
        counted: bool = False,
    ) -> None:
        pair = coder.wrapped_value_coder
        self._value_coder = pair.value_coder().value_coder() if counted else pair.value_coder()
        self._decode_key = pair.key_coder().get_impl().decode_nested
        stored = coders.WindowedValueCoder(coders.BytesCoder(), coder.window_coder)
        self._cells = KeyCells(stored)
        self._stored_runs = RunCoder(coders.BytesCoder().get_impl())
        self._value_runs = RunCoder(coders.LengthPrefixCoder(self._value_coder).get_impl())
        self._expires = expiry_of(windowing)
        self._lateness = Lateness(windowing)
        self._combine_fn = combine_fn
        self._keyed = state
        self._moment = moment
        self._by_time = by_time
        self._counted = counted
        self.dropped_closed = 0
        self._prepare(coder, windowing)
        if combine_fn is not None:
            combine_fn.setup()

    @abstractmethod
    def _prepare(self, coder: coders.WindowedValueCoder, windowing: Windowing) -> None:
        """Set up what only this kind of grouping needs."""

    @property
    def dropped(self) -> int:
        """Number of elements that came too late."""
        return self._lateness.dropped

    def close(self) -> None:
        """End the use of the CombineFn."""
        if self._combine_fn is not None:
            self._combine_fn.teardown()

    @abstractmethod
    def add(self, rows: list[Row]) -> Iterator[WindowedValue]:
        """Add elements; return the panes that they trigger."""

    @abstractmethod
    def fire(self) -> Iterator[WindowedValue]:
        """Fire the panes due by the watermark, or by the clock; forget expired windows."""

    def fire_blocks(self) -> Iterator[Block]:
        """Yield the panes as blocks."""
        return in_blocks(self.fire())

    def _arrived(
        self, rows: list[Row], others: Sequence[bytes] = ()
    ) -> Iterator[tuple[bytes, list[Block]]]:
        """Yield the elements of each key that are not too late, if there are any.

        Args:
            others: further keys to include, in order.
        """
        watermark = self._moment.input_watermark
        rows = self._without_counts(rows, watermark)
        rows.sort(key=itemgetter(0))
        self._keyed.prefetch(dict.fromkeys(merge((key for key, _, _ in rows), others)))
        blocks, in_time = self._cells.blocks, self._lateness.drop_late
        for key, group in groupby(rows, itemgetter(0)):
            found: list[Block] = []
            for _, _, cell in group:
                for block in blocks(cell):
                    kept = in_time(block, watermark)
                    if kept is not None:
                        found += kept.unstamped()
            if found:
                yield key, found

    def _without_counts(self, rows: list[Row], watermark: int) -> list[Row]:
        kept = []
        for row in rows:
            if row[2][:1] == COUNT_CELL:
                self._lateness.count(*self._cells.counted(row[2]), watermark)
            else:
                kept.append(row)
        return kept

    def _values(self, stored: Iterable[list[bytes]]) -> Any:
        """Return the values of a pane; many values are decoded only when read."""
        builder = ValuesBuilder(self._value_runs)
        for items in stored:
            builder.append(self._stored_runs.encode(items))
        return builder.values()


class TriggerGrouping(StreamGrouping):
    """A grouping with any trigger, which shows Beam's driver no more windows than it needs."""

    def _prepare(self, coder: coders.WindowedValueCoder, windowing: Windowing) -> None:
        self._driver = TimedTriggerDriver(windowing, self._moment)
        self._merges = windowing.windowfn.is_merging()
        self._are_sessions = type(windowing.windowfn) is Sessions
        self._picks_up = picks_up_the_rest(windowing)
        self._accumulates = windowing.accumulation_mode == trigger.AccumulationMode.ACCUMULATING
        self._parts = RecordCodec(
            self._value_coder.get_impl(),
            coder.window_coder.get_impl(),
            self._combine_fn,
            counts=not self._picks_up,
        )

    def add(self, rows: list[Row]) -> Iterator[WindowedValue]:
        for key, blocks in self._arrived(rows):
            with_count = counted if self._counted else single
            elements = [
                element.with_value(with_count(element.value))
                for block in blocks
                for element in block.elements()
            ]
            work = self._added_by_time if self._by_time else self._added
            yield from self._with_key(key, partial(work, elements=elements))

    def fire(self) -> Iterator[WindowedValue]:
        for domain, limit in (
            (EVENT_TIME, self._moment.input_watermark),
            (PROCESSING_TIME, self._moment.processing_limit()),
        ):
            for key in self._keyed.due_keys(domain, limit):
                yield from self._with_key(key, partial(self._fired, domain=domain, limit=limit))

    def _with_key(
        self,
        encoded_key: bytes,
        work: Callable[[TriggerState], Iterator[WindowedValue]],
    ) -> Iterator[WindowedValue]:
        watermark = self._moment.input_watermark
        state = TriggerState(self._keyed.record(encoded_key), self._parts, watermark)
        key: Any = None
        decoded = False
        for pane in work(state):
            if not decoded:
                key, decoded = self._decode_key(encoded_key), True
            yield WindowedValue(
                (key, self._values(pane.value)),
                coded(pane.timestamp),
                pane.windows,
                pane.pane_info,
            )
        state.save(self._expires)

    def _added(self, state: TriggerState, elements: list[WindowedValue]) -> Iterator[WindowedValue]:
        moment = self._moment
        elements = self._of_open_windows(state, elements)
        windows = {window for element in elements for window in element.windows}
        with state.seeing(self._reached(state, windows)):
            panes = self._driver.process_elements(
                state,
                elements,
                Timestamp(micros=moment.output_watermark),
                Timestamp(micros=moment.input_watermark),
            )
            yield from self._noted(state, panes)

    def _added_by_time(
        self, state: TriggerState, elements: list[WindowedValue]
    ) -> Iterator[WindowedValue]:
        """Add elements as if those of a later timestamp had come later, at the same time."""
        elements.sort(key=_MICROS)
        for _, some in groupby(elements, _MICROS):
            yield from self._added(state, list(some))
            yield from self._fired(state, PROCESSING_TIME, self._moment.clock)

    def _of_open_windows(
        self, state: TriggerState, elements: list[WindowedValue]
    ) -> list[WindowedValue]:
        """Return the elements without the windows whose trigger has finished."""
        windows = {window for element in elements for window in element.windows}
        closed = {window for window in windows if state.is_closed(window)}
        if not closed:
            return elements
        left = []
        for element in elements:
            open_ones = tuple(window for window in element.windows if window not in closed)
            self.dropped_closed += element.value[0] * (len(element.windows) - len(open_ones))
            if open_ones:
                left.append(WindowedValue(element.value, element.timestamp, open_ones))
        return left

    def _reached(self, state: TriggerState, windows: set[BoundedWindow]) -> Iterable[BoundedWindow]:
        """Return the windows of a key that windows of new elements may concern."""
        if not self._merges:
            return windows
        return state.overlapping(windows) if self._are_sessions else state.windows()

    def _fired(self, state: TriggerState, domain: int, limit: int) -> Iterator[WindowedValue]:
        while (due := state.record.pop_due(domain, limit)) is not None:
            fire, timer_id, payload = due
            if timer_id == EXPIRY:
                yield from self._closed(state, fire)
            elif (window := state.window_of(payload[0])) is not None:
                window_id, name, _ = payload
                with state.seeing([window]):
                    panes = self._driver.process_timer(
                        window_id,
                        name,
                        DOMAIN_NAMES[domain],
                        Timestamp(micros=fire),
                        state,
                        Timestamp(micros=self._moment.input_watermark),
                    )
                    yield from self._noted(state, panes)

    def _noted(
        self, state: TriggerState, panes: Iterable[WindowedValue]
    ) -> Iterator[WindowedValue]:
        """Record the content that is kept after it has been emitted."""
        for pane in panes:
            if self._accumulates:
                state.has_put_out(pane.windows[0])
            yield pane

    def _closed(self, state: TriggerState, watermark: int) -> Iterator[WindowedValue]:
        """Return the last panes: a window that expires emits what no trigger has emitted.

        If the trigger may lose data, this is only what the clock would still have emitted.
        """
        for window in state.expired(self._expires, watermark):
            if not state.is_waiting(window):
                continue
            if self._picks_up or state.waits_for_the_clock(window):
                with state.seeing([window]):
                    yield last_pane(self._driver, state, window, Timestamp(micros=watermark))
            else:
                self.dropped_closed += state.waiting(window)
