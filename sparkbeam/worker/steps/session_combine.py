"""The map side of a combine over sessions; it emits one accumulator per session."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import BoundedWindow, IntervalWindow, Sessions
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.aggregate.aggregates import objects
from sparkbeam.aggregate.aggregator import Stamps
from sparkbeam.aggregate.canonical_sessions import CanonicalSessions
from sparkbeam.aggregate.ordered_sessions import OrderedSessions
from sparkbeam.columns import NotExact
from sparkbeam.columns.python_types import Shape
from sparkbeam.columns.vectors import Micros
from sparkbeam.plan.combine_columns import by_elements, in_another_order
from sparkbeam.plan.grouping import SessionAggregator
from sparkbeam.windows.vectorized_form import Kind, Numbers
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.rounding import coded_span
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.row_formats.key_table import all_immutable
from sparkbeam.worker.row_formats.pairs import are_numbers, distinct, plain_pairs
from sparkbeam.worker.steps.combines import PrecombineOperation, make_precombine
from sparkbeam.worker.steps.edges import SinkOperation
from sparkbeam.worker.steps.session_tables import (
    ColumnarTable,
    ReducedTable,
    SessionTable,
    Spans,
    joined_parts,
)
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import Column, column_of

_BYTES_IN_COLUMNS = 40
"""Bytes of a pair in columns while it waits: five numbers."""

_END_OF_TIME = MAX_TIMESTAMP.micros
_HANDED_ON = 1000
"""Number of sessions emitted at once if their accumulators are objects."""

_Gathered = defaultdict[tuple[Shape, pa.DataType, Kind], list[tuple[Any, ...]]]
"""Keys, starts, ends, stamps and numbers of pairs, by the kinds of keys and numbers."""


def _table(kind: SessionAggregator, combine_fn: beam.CombineFn, stamps: Stamps) -> SessionTable:
    match kind:
        case SessionAggregator.CANONICAL:
            return ReducedTable(CanonicalSessions(combine_fn, stamps))
        case SessionAggregator.ORDERED:
            return ReducedTable(OrderedSessions(combine_fn, stamps))
        case SessionAggregator.COLUMNAR:
            return ColumnarTable(combine_fn, stamps)


class SessionCombineOperation(PrecombineOperation):
    """Combine of the values of each session known so far.

    Attributes:
        aggregator: combines sessions.
        readers: the operations that take the accumulators.
    """

    aggregator: SessionAggregator
    readers: list[Any]

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._takers = [reader.process_aggregates for reader in self.readers]
        self._sessions = self._table(self.aggregator)
        self._gathered: _Gathered = defaultdict(list)

    def _make_columns(self) -> None:
        """Make no columns: sessions have their own tables."""

    def _table(self, kind: SessionAggregator) -> SessionTable:
        # At the end of the window nobody asks for the stamps.
        return _table(kind, self.combine_fn, self._combine_stamps or max)

    def _take_block(self, block: Block) -> None:
        spans = _spans(block)
        if spans is None:
            refusal: str | None = "its elements share their windows"
            stamps = block.times()
            for window in block.windowing.windows:
                self._take_in(window, block.values, stamps)
        elif (refusal := self._take_pairs(block, spans)) is not None:
            starts, ends = spans
            self._take_apart(block.values, (starts.tolist(), ends.tolist()), block.times())
        if refusal is not None and block.column is not None:
            count_refused(refusal)

    def _take_in(self, window: BoundedWindow, pairs: list[Any], stamps: list[int]) -> None:
        start, end = coded_span(window)
        self._take_apart(pairs, ([start] * len(pairs), [end] * len(pairs)), stamps)

    def _take_pairs(self, block: Block, spans: tuple[Micros, Micros]) -> str | None:
        """Add pairs in columns; return why they have to be added one by one."""
        table = self._sessions
        if not isinstance(table, ColumnarTable):
            if self.aggregator is SessionAggregator.COLUMNAR:
                return "some of its values may change"
            return by_elements(self.aggregator, self._form)
        numbers = self._gather(block, spans)
        if numbers is None:
            try:
                pairs, numbers = self._numbered(block)
            except NotExact as refusal:
                return str(refusal)
            names = self._named(pairs.keys)
            table.add_columns(names, pairs.places, *spans, block.time_column(), numbers)
        self._have_come(len(block), len(block) * _BYTES_IN_COLUMNS)
        if block.column is not None and self._form is not None:
            reason = in_another_order(self._form, numbers.dtype)
            if reason is not None:
                count_refused(reason)
        return None

    def _gather(self, block: Block, spans: tuple[Micros, Micros]) -> Numbers | None:
        """Let pairs in columns wait for others, whose keys are found together with theirs.

        Returns:
            Their numbers; None if the pairs are not supported.
        """
        if self._form is None:
            return None
        with self._users_code():
            pairs = plain_pairs(block.column, self._form)
        if pairs is None:
            return None
        # Copies, as times may be a part of a whole batch of rows; often each window starts at one.
        starts, ends, stamps = *spans, block.time_column()
        times = np.array(stamps)
        begins = times if starts is stamps else np.array(starts)
        gathered = pairs.copied_keys(), begins, np.array(ends), times, pairs.numbers
        self._gathered[pairs.kind].append(gathered)
        return pairs.numbers

    def _name_gathered(self) -> None:
        """Add the gathered pairs to the table."""
        gathered, self._gathered = self._gathered, defaultdict(list)
        for (shape, *_), parts in gathered.items():
            assert isinstance(self._sessions, ColumnarTable)
            keys, *columns = zip(*parts, strict=True)
            together = pa.concat_arrays(keys)
            if are_numbers(together, shape):
                numbers = together.cast(pa.int64()).to_numpy()
                self._sessions.of_numbers.add(numbers, *joined_parts(*columns))
                continue
            found = distinct(together, shape)
            each = column_of(together, shape), np.arange(len(together))
            of_keys, places = found or each
            names = self._named(of_keys.values())
            starts, ends, stamps, numbers = joined_parts(*columns)
            self._sessions.add_columns(names, places, starts, ends, stamps, numbers)

    def _take_apart(self, pairs: list[Any], spans: Spans, stamps: list[int]) -> None:
        """Add pairs with the window of each."""
        keys, values = zip(*pairs, strict=True)
        names = self._named(keys)
        if self._sessions.keeps_values and not all_immutable(values):
            # What may change cannot wait until there is enough for columns.
            self._put_out()
            self._sessions = self._table(SessionAggregator.ORDERED)
        try:
            self._sessions.add(names, spans, stamps, values)
        except Exception as error:
            raise UserCodeFailed(self.name_context.step_name) from error
        self._has_come(values, 1)

    def _settle(self) -> None:
        self._name_gathered()
        self._sessions.settle()
        self._keys = len(self._sessions)

    def _size(self) -> int:
        return self._sessions.size()

    def _put_out(self) -> None:
        self._name_gathered()
        self._keys = self._unmeasured = 0
        for names, found in self._made_of(self._sessions.take()):
            keys = names if isinstance(names, Column) else list(map(self._names.key, names))
            step = len(found) if found.are_numbers else _HANDED_ON
            for begin in range(0, len(found), step):
                self._hand_on(KeyedAggregates(keys, found.part(slice(begin, begin + step))))

    def _hand_on(self, some: KeyedAggregates) -> None:
        """Emit sessions with compacted accumulators."""
        rows, compact = some.rows, self.combine_fn_compact
        with self._users_code():
            if not rows.are_numbers:
                totals = rows.totals.tolist()
                if compact is not None:
                    totals = list(map(compact, totals))
                some = replace(some, rows=replace(rows, totals=objects(totals)))
                accumulator = totals[0]
            else:
                assert self._form is not None
                (accumulator,) = self._form.accumulators(rows.totals[:1], self.combine_fn)
        window = IntervalWindow(*(Timestamp(micros=int(at[0])) for at in (rows.starts, rows.ends)))
        example = WindowedValue((some.first_key(), accumulator), window.start, (window,))
        self._emitter.hand_on(self._takers, some, example, len(some))


def _spans(block: Block) -> tuple[Micros, Micros] | None:
    """Return the starts and ends of each element's windows; None if all share theirs."""
    match block.assigned:
        case Intervals() as given:
            return given.starts, given.ends
        case Sessions() as window_fn:
            gap, starts = window_fn.gap_size.micros, block.time_column()
            # The end of time is one for all.
            return starts, np.minimum(starts, _END_OF_TIME - gap) + gap
    assert block.assigned is None
    return None


def make_session_combine(step: Step) -> SessionCombineOperation:
    """Make the operation that combines sessions before the shuffle."""
    operation = make_precombine(SessionCombineOperation, step)
    sinks: list[SinkOperation] = operation.readers
    (operation.aggregator,) = {sink.aggregator for sink in sinks if sink.aggregator is not None}
    return operation
