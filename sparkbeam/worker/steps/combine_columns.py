"""The map side of a combine over columns: pairs are aggregated by key and time slice.

If the order of values matters, as in a sum of floats, and windows share their slices, pairs are
aggregated by key and window instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    BoundedWindow,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.columns.order import arranged, sums_of
from sparkbeam.columns.python_types import Shape
from sparkbeam.columns.vectors import Micros
from sparkbeam.plan.combine_columns import OTHER_SLICES, in_another_order
from sparkbeam.windows.vectorized_form import Form, Numbers
from sparkbeam.wire.rounding import coded_column, coded_end
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.group_timestamps import combine_stamps
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.row_formats.pairs import plain_pairs
from sparkbeam.worker.slices import Moments, moments_of, slices_of
from sparkbeam.worker.slots import runs_of
from sparkbeam.worker.steps.column_totals import ColumnTotals, Gathered
from sparkbeam.worker.value_columns import Column, column_of

_Kind = tuple[Shape, pa.DataType, Any]


class _Part(NamedTuple):
    """Kind of the pairs of a table, and whether it holds them by window."""

    kind: _Kind
    is_by_window: bool


class ColumnCombine:
    """Pairs gathered in columns.

    Args:
        combine_fn: merges accumulators.
        form: its vectorized form.
        windowing: of the pairs.

    Attributes:
        are_sessions: the windows are those of sessions before they merge.
        is_stamped: True if a reader needs the timestamps of the aggregates.
    """

    def __init__(self, combine_fn: beam.CombineFn, form: Form, windowing: Windowing) -> None:
        self._combine_fn = combine_fn
        self._form = form
        self._is_default = windowing.is_default()
        self._is_global = isinstance(windowing.windowfn, GlobalWindows)
        self._window_fn = windowing.windowfn
        self._slices = slices_of(windowing.windowfn) or moments_of(windowing.windowfn)
        self.are_sessions = isinstance(self._slices, Moments)
        self._is_shared = self._slices is not None and self._slices.count > 1
        self.is_stamped = combine_stamps(windowing) is not None
        self._stamps = np.minimum if combine_stamps(windowing) is min else np.maximum
        self._tables: dict[_Part, ColumnTotals] = {}

    @property
    def are_many(self) -> bool:
        """True if there are enough waiting pairs to aggregate."""
        return any(table.are_many for table in self._tables.values())

    @property
    def are_large(self) -> bool:
        """True if the aggregates take much memory."""
        return any(table.is_large for table in self._tables.values())

    def take(self, block: Block) -> str | None:
        """Add pairs; return the reason if this table does not support them."""
        slices = self._slices_of(block)
        if slices is None:
            return OTHER_SLICES
        pairs = plain_pairs(block.column, self._form)
        if pairs is None or not self._is_exact(pairs.numbers[:1]):
            return f"values are not for {self._form.name} over columns"
        if self.are_sessions:
            reason = in_another_order(self._form, pairs.numbers.dtype)
            if reason is not None:
                return reason
        times = coded_column(block.time_column()) if self.is_stamped else np.zeros_like(slices)
        ones = np.ones(len(slices), np.int64)
        some = Gathered(pairs.copied_keys(), slices, times, pairs.numbers, ones)
        is_by_window = self._is_shared and self._form.needs_order(pairs.numbers.dtype)
        part = _Part(pairs.kind, is_by_window)
        table = self._tables.get(part)
        if table is None:
            spans = partial(self._spans, are_windows=is_by_window)
            table = ColumnTotals(self._form, self._stamps, pairs.shape, spans)
            self._tables[part] = table
        table.add(self._by_window(some) if is_by_window else some)
        return None

    def _is_exact(self, numbers: Numbers) -> bool:
        """Return whether numbers of this type can be added exactly."""
        return self._form.add_in_order(numbers, np.zeros(1, np.intp), merges=False) is not None

    def _by_window(self, some: Gathered) -> Gathered:
        """Return the pairs once for each of their windows, in their order."""
        assert self._slices is not None
        places, windows = self._slices.in_windows(some.slices)
        return Gathered(
            some.keys.take(pa.array(places)),
            windows,
            some.stamps[places],
            some.numbers[places],
            some.counts[places],
        )

    def _slices_of(self, block: Block) -> Micros | None:
        """Return each element's slice number; None if some are not in whole slices."""
        if self._is_global:
            return np.zeros(len(block), np.int64)
        slices = self._slices
        if slices is None:
            return None
        match block.assigned:
            case None:
                return slices.shared(block.windowing.windows, len(block))
            case Intervals() as given:
                return slices.of_intervals(given)
            case window_fn if window_fn != self._window_fn:
                return None
        return slices.numbers(block.time_column())

    def settle(self) -> bool:
        """Aggregate the waiting pairs; return False if some cannot be added exactly, and wait."""
        settled = [table.settle() for table in self._tables.values()]
        return all(settled)

    def settled(self) -> list[KeyedAggregates]:
        """Return the aggregates and forget them; waiting pairs keep waiting."""
        return [some for table in self._tables.values() for some in table.take()]

    def waiting(self) -> Iterator[tuple[Sequence[BoundedWindow], list[Any], list[int] | None]]:
        """Yield the waiting pairs with their windows and their timestamps in microseconds."""
        for ((shape, _, _), is_by_window), table in self._tables.items():
            for some in table.waiting():
                values = self._form.values(some.numbers)
                pairs = list(zip(column_of(some.keys, shape).values(), values, strict=True))
                for first, rows in runs_of(some.slices):
                    chosen = range(len(pairs)) if rows is None else rows.tolist()
                    stamps = some.stamps.tolist() if self.is_stamped else None
                    yield (
                        self._windows(int(some.slices[first]), is_one=is_by_window),
                        [pairs[at] for at in chosen],
                        None if stamps is None else [stamps[at] for at in chosen],
                    )

    def is_by_window(self, found: KeyedAggregates) -> bool:
        """Return whether aggregates belong to windows that share slices, rather than to slices."""
        if not self._is_shared:
            return False
        assert self._slices is not None
        return bool(found.rows.ends[0] - found.rows.starts[0] == self._slices.size)

    def example(self, found: KeyedAggregates) -> WindowedValue:
        """Return the first aggregate, as an element."""
        (accumulator,) = self._form.accumulators(found.rows.totals[:1], self._combine_fn)
        slices, number = self._slices, 0
        if slices is not None:
            number = int(slices.numbers_at(found.rows.starts[:1])[0])
        windows = self._windows(number, is_one=self.is_by_window(found))
        pair = found.first_key(), accumulator
        return WindowedValue(pair, windows[0].max_timestamp(), windows)

    def by_window(self, found: KeyedAggregates) -> Iterator[KeyedAggregates]:
        """Yield the aggregates of each window, with a template."""
        rows = found.rows
        if self._is_shared and not self.is_by_window(found):
            rows = self._in_windows(rows)
        for first, chosen in runs_of(rows.starts):
            template = self._template(int(rows.starts[first]), int(rows.ends[first]))
            part = rows if chosen is None else rows.part(chosen)
            yield KeyedAggregates(found.keys, part, template)

    def groups(self, found: KeyedAggregates) -> Iterator[tuple[Block, int]]:
        """Yield blocks of accumulators by window, and the element count of each accumulator."""
        assert isinstance(found.keys, Column)
        keys = found.keys.values()
        for some in self.by_window(found):
            rows = some.rows
            accumulators = self._form.accumulators(rows.totals, self._combine_fn)
            names = map(keys.__getitem__, rows.keys.tolist())
            pairs = list(zip(names, accumulators, strict=True))
            stamps = rows.stamps if self.is_stamped else None
            assert some.template is not None
            yield Block(some.template, pairs, stamps), some.count()

    def _in_windows(self, found: Aggregates) -> Aggregates:
        """Return the aggregates of windows, made of slices that they share."""
        assert self._slices is not None
        places, first = self._slices.in_windows(self._slices.numbers_at(found.starts))
        sorted_rows = arranged(found.keys[places], first)
        order, firsts = sorted_rows.order, sorted_rows.firsts()
        spans = self._spans(sorted_rows.second, are_windows=True)
        each = replace(
            found.part(places[order]), keys=sorted_rows.first, starts=spans[0], ends=spans[1]
        )
        totals = self._form.add_in_order(each.totals, firsts, merges=True)
        if totals is None:
            return each
        assert each.counts is not None
        stamps = self._stamps.reduceat(each.stamps, firsts)
        return replace(
            each.part(firsts), stamps=stamps, totals=totals, counts=sums_of(each.counts, firsts)
        )

    def _spans(self, numbers: Micros, *, are_windows: bool) -> tuple[Micros, Micros]:
        """Return the starts and ends of slices, or of the windows that begin with them."""
        slices = self._slices
        if slices is None:
            return numbers, numbers
        starts = slices.starts(numbers)
        is_whole = are_windows or slices.count == 1
        return starts, starts + (slices.size if is_whole else slices.length)

    def _windows(self, number: int, *, is_one: bool) -> tuple[BoundedWindow, ...]:
        """Return the windows of a slice, or the one that begins with it."""
        if self._slices is None:
            return GLOBAL.windows
        return (self._slices.window(number),) if is_one else self._slices.windows(number)

    def _template(self, start: int, end: int) -> WindowedValue:
        """Return a windowed value with a window, at its end."""
        if self._is_default:
            return GLOBAL
        window: BoundedWindow = GlobalWindow()
        if self._slices is not None:
            window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
        return WindowedValue(None, coded_end(window), (window,))
