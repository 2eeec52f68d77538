"""The map side of a combine over columns: pairs are aggregated by key and window, or to sessions.

Pairs of windows that share time slices are aggregated by slice, unless the order of values matters,
as in a sum of floats: then by window.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, GlobalWindows, IntervalWindow, Sessions
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.accumulators.vectorized_accumulator import VectorizedAccumulator
from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import SessionColumns, WindowColumns
from sparkbeam.columns.vectors import Micros
from sparkbeam.plan.combine_columns import OTHER_SLICES, CombinePlan, in_another_order
from sparkbeam.wire.rounding import coded_column
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.group_timestamps import combine_stamps
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.row_formats.pairs import PlainPairs, are_numbers, are_told_apart, halves_of
from sparkbeam.worker.slices import moments_of, slices_of
from sparkbeam.worker.slots import parts_of, runs_of
from sparkbeam.worker.steps.column_tables import ColumnTable, SessionTable, WindowTable
from sparkbeam.worker.steps.combine_windows import (
    NumberedWindows,
    SlicedWindows,
    own_spans,
    slice_numbers,
    template_of,
)
from sparkbeam.worker.value_columns import Column

OTHER_KEYS = "keys cannot be compared over columns"
"""Reason why pairs are taken as elements."""

_OBJECTS = 1000
"""Number of sessions emitted at once if their accumulators are objects."""


@dataclass(frozen=True)
class Partials:
    """Partial results to emit.

    Attributes:
        batch: the aggregates, or a block of accumulators of one window.
        count: the number of elements in those of a block, or of aggregates with a template.
        windows: those of the first aggregate.
    """

    batch: KeyedAggregates | Block
    count: int = 0
    windows: tuple[BoundedWindow, ...] = ()


class ColumnCombine:
    """Hash aggregate of pairs in columns."""

    def __init__(
        self,
        combine_fn: beam.CombineFn,
        form: VectorizedAccumulator,
        windowing: Windowing,
        plan: CombinePlan,
    ) -> None:
        self._form = form
        self._windowing = windowing
        self._plan = plan
        stamps = combine_stamps(windowing)
        self._is_stamped = stamps is not None
        self._sessions = SessionColumns(combine_fn, stamps or max)
        self._windows = WindowColumns(combine_fn, stamps or max)
        self._are_sessions = isinstance(windowing.windowfn, Sessions)
        self._slices = slices_of(windowing.windowfn) or moments_of(windowing.windowfn)
        self._sliced = SlicedWindows(self._slices) if self._slices else None
        self._clear()

    def _clear(self) -> None:
        self._tables: dict[Any, ColumnTable] = {}
        self._others = NumberedWindows(
            are_slices=isinstance(self._windowing.windowfn, GlobalWindows)
        )

    @property
    def are_many(self) -> bool:
        """True if there are enough waiting pairs to aggregate."""
        return any(table.are_many for table in self._tables.values())

    @property
    def are_large(self) -> bool:
        """True if the aggregates should be emitted."""
        return any(table.is_large for table in self._tables.values())

    def take(self, block: Block) -> str | None:
        """Add pairs; return the reason if they are not supported."""
        pairs = self._pairs(block.column)
        if isinstance(pairs, str):
            return pairs
        if self._plan.aggregator is not None:
            return self._take_sessions(block, pairs)
        if self._are_sessions:
            reason = in_another_order(self._form, pairs.numbers.dtype)
            if reason is not None:
                return reason
        if self._sliced is not None:
            assert self._slices is not None
            numbers = slice_numbers(block, self._slices, self._windowing)
            if numbers is not None:
                self._add(block, pairs, numbers, self._sliced)
                return None
        if self._are_sessions or (self._is_stamped and not self._others.are_slices):
            return OTHER_SLICES
        self._take_windows(block, pairs)
        return None

    def _pairs(self, column: Column | None) -> PlainPairs | str:
        """Return the pairs of a column, or the reason if they are not supported."""
        if column is None:
            return "its elements are not columns"
        halves = halves_of(column)
        if halves is None:
            return OTHER_KEYS
        (keys, shape), values = halves
        keys = _decoded(keys)
        if not are_told_apart(keys, shape):
            return OTHER_KEYS
        numbers = self._form.numbers_of(*values)
        if numbers is None:
            return other_values(self._form.name)
        return PlainPairs(keys, shape, numbers)

    def _take_sessions(self, block: Block, pairs: PlainPairs) -> str | None:
        spans = own_spans(block)
        if spans is None:
            return "its elements share their windows"
        key = pairs.kind, are_numbers(pairs.keys, pairs.shape)
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = SessionTable(self._sessions, pairs.shape)
        # Copies, as times may be a part of a whole batch of rows; often each window starts at one.
        (starts, ends), times = spans, block.time_column()
        stamps = np.array(times)
        begins = stamps if starts is times else np.array(starts)
        table.add(pairs.copied_keys(), begins, np.array(ends), stamps, pairs.numbers)
        reason = in_another_order(self._form, pairs.numbers.dtype)
        if reason is not None:
            count_refused(reason)
        return None

    def _take_windows(self, block: Block, pairs: PlainPairs) -> None:
        """Add pairs to each of their windows."""
        for part in parts_of(block):
            some = pairs if part is block else self._pairs(part.column)
            assert isinstance(some, PlainPairs)
            for window in part.windowing.windows:
                numbers = np.full(len(part), self._others.number(window))
                self._add(part, some, numbers, self._others)

    def _add(
        self, block: Block, pairs: PlainPairs, numbers: Micros, windows: NumberedWindows
    ) -> None:
        times = coded_column(block.time_column()) if self._is_stamped else np.zeros_like(numbers)
        ones = np.ones(len(numbers), np.int64)
        keys, totals = pairs.copied_keys(), pairs.numbers
        if windows.is_shared and self._form.needs_order(totals.dtype):
            rows, numbers, windows = windows.whole(numbers)
            keys, times = keys.take(pa.array(rows)), times[rows]
            totals, ones = totals[rows], ones[rows]
        key = pairs.kind, windows
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = WindowTable(self._windows, windows, pairs.shape)
        table.add(keys, numbers, times, totals, ones)

    def flush_pending(self) -> None:
        """Aggregate the waiting pairs."""
        for table in self._tables.values():
            table.flush_pending()

    def ready(self) -> Iterator[Partials]:
        """Yield all settled aggregates and forget them."""
        tables = self._tables.values()
        self._clear()
        for table in tables:
            for windows, found in table.take():
                if windows is None:
                    yield from ready_sessions(found.keys, found.rows)
                else:
                    yield from self._of_windows(windows, found)

    def _of_windows(self, windows: NumberedWindows, found: KeyedAggregates) -> Iterator[Partials]:
        """Yield slices as they are if the readers take them, else windows."""
        plan = self._plan
        if found.rows.are_numbers and windows.are_slices and plan.take_slices:
            yield Partials(found, windows=windows.starting_at(int(found.rows.starts[0])))
            return
        if windows.is_shared:
            # Their sums may be beyond 64 bits.
            rows, windows = self._in_windows(found.rows)
            found = replace(found, rows=rows)
        take_numbers = found.rows.are_numbers and plan.take_windows
        if not take_numbers and isinstance(found.keys, Column):
            found = replace(found, keys=found.keys.values())
        for some in self._by_window(windows, found):
            assert some.template is not None
            if take_numbers:
                yield Partials(some, some.count(), tuple(some.template.windows))
            else:
                yield Partials(self._block(some), some.count())

    def _by_window(
        self, windows: NumberedWindows, found: KeyedAggregates
    ) -> Iterator[KeyedAggregates]:
        """Yield the aggregates of each window, with a template."""
        rows = found.rows
        for first, chosen in runs_of(rows.starts):
            (window,) = windows.starting_at(int(rows.starts[first]))
            part = rows if chosen is None else rows.part(chosen)
            yield KeyedAggregates(found.keys, part, template_of(window, self._windowing))

    def _block(self, found: KeyedAggregates) -> Block:
        """Return accumulators of one window."""
        rows, template = found.rows, found.template
        assert template is not None
        assert isinstance(found.keys, list)
        keys = map(found.keys.__getitem__, rows.keys.tolist())
        pairs = list(zip(keys, self._windows.accumulators(rows), strict=True))
        return Block(template, pairs, rows.stamps if self._is_stamped else None)

    def _in_windows(self, found: Aggregates) -> tuple[Aggregates, NumberedWindows]:
        """Return the aggregates of windows, made of slices that they share."""
        assert self._slices is not None
        assert self._sliced is not None
        places, numbers, windows = self._sliced.whole(self._slices.numbers_at(found.starts))
        starts, ends = windows.spans(numbers)
        each = replace(found.part(places), starts=starts, ends=ends)
        return self._windows.merge(each, in_runs=False), windows


def other_values(name: str) -> str:
    """Return the reason why values are no numbers of a form, or none to choose from."""
    return f"values are not supported by {name} over columns"


def ready_sessions(keys: list[Any] | Column, rows: Aggregates) -> Iterator[Partials]:
    """Yield sessions to emit, sorted by key, in parts if their accumulators are objects."""
    step = len(rows) if rows.are_numbers else _OBJECTS
    for begin in range(0, len(rows), step):
        some = rows.part(slice(begin, begin + step))
        first, last = int(some.keys[0]), int(some.keys[-1])
        batch = KeyedAggregates(keys[first : last + 1], some.with_keys(some.keys - first))
        times = (Timestamp(micros=int(column[0])) for column in (some.starts, some.ends))
        yield Partials(batch, windows=(IntervalWindow(*times),))


def _decoded(keys: pa.Array) -> pa.Array:
    """Return keys without dictionaries, as those of other batches of rows differ."""
    if pa.types.is_dictionary(keys.type):
        return keys.dictionary_decode()
    if pa.types.is_struct(keys.type) and keys.type.num_fields and not keys.null_count:
        parts = [keys.field(at) for at in range(keys.type.num_fields)]
        decoded = list(map(_decoded, parts))
        if any(one is not other for one, other in zip(parts, decoded, strict=True)):
            return pa.StructArray.from_arrays(decoded, [field.name for field in keys.type])
    return keys
