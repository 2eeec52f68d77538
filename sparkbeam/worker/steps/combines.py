"""Operations on blocks: the map side of a combine."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from apache_beam.coders import coders
from apache_beam.runners.worker import operation_specs, operations
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, Sessions
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.accumulators.choices import choice_of
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.aggregate.aggregates import objects
from sparkbeam.aggregate.canonical_sessions import CanonicalSessions
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.aggregate.ordered_sessions import OrderedSessions
from sparkbeam.plan.combine_columns import CombinePlan, other_stamps
from sparkbeam.plan.grouping import SessionAggregator, stamp_of
from sparkbeam.plan.parsed_stage import combine_fn_of
from sparkbeam.upstream.dofn_handover import InProcessPickle
from sparkbeam.wire.failure import StepFailed, UserCodeFailed
from sparkbeam.wire.rounding import coded_span
from sparkbeam.worker.blocks import Block, BlockLimit
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.group_timestamps import combine_stamps
from sparkbeam.worker.keyed_aggregates import ExtraElements, KeyedAggregates
from sparkbeam.worker.object_sizes import size_of
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.row_formats.key_table import all_immutable
from sparkbeam.worker.row_formats.keys import KeyNames
from sparkbeam.worker.row_formats.pairs import distinct, halves_of
from sparkbeam.worker.slots import parts_of
from sparkbeam.worker.steps.column_tables import (
    MAX_BUFFERED,
    MAX_BUFFERED_BYTES,
    MAX_BYTES,
    MAX_KEYS,
)
from sparkbeam.worker.steps.combine_columns import (
    ColumnCombine,
    Partials,
    other_values,
)
from sparkbeam.worker.steps.combine_windows import own_spans
from sparkbeam.worker.steps.edges import SinkOperation
from sparkbeam.worker.steps.element_tables import (
    ColumnarSessions,
    ElementTable,
    ReducedSessions,
    SessionElements,
    Spans,
    WindowElements,
)
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import column_of

_MEASURED_BYTES = 4 << 20


class _UsersCode:
    """A context in which exceptions are those of a step's user code."""

    def __init__(self, label: str) -> None:
        self._label = label

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception):
            raise UserCodeFailed(self._label) from error


class PrecombineOperation(operations.PGBKCVOperation):
    """The map side of a combine: pairs aggregated by key and window, or by key and session.

    Pairs in columns have their own aggregates (:mod:`.combine_columns`), all others are aggregated
    by a table of elements (:mod:`.element_tables`). Values that may change wait no longer than the
    call that brings them.

    Attributes:
        key_coder: the coder of the keys, which are distinguished by their encodings.
    """

    takes_assigned = True
    """True, as columns keep their assigned windows."""

    readers: list[operations.Operation]
    key_coder: coders.Coder
    windowing: Windowing
    plan: CombinePlan

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])
        self._users_code = _UsersCode(self.name_context.step_name)
        self._names = KeyNames(self.key_coder)
        self._form = form_of(self.combine_fn)
        self._choice = None if self.plan.aggregator else choice_of(self.combine_fn)
        self._combine_stamps = combine_stamps(self.windowing)
        sinks = [reader for reader in self.readers if isinstance(reader, SinkOperation)]
        self._takers = [sink.write for sink in sinks]
        # A name has the timestamp, too, if that matters.
        key = self._names.key
        self._key_of = key if self.plan.stamp is None else (lambda name: key(name[0]))
        self._windows = WindowElements(
            self.combine_fn, self._combine_stamps, self.windowing, self._key_of
        )
        self._sessions: SessionElements | None = None
        self._elements: ElementTable = self._windows
        if self.plan.aggregator is not None:
            self._elements = self._sessions = self._session_table(self.plan.aggregator)
        self._count = 0
        self._bytes = 0
        self._unmeasured = 0
        self._columns: ColumnCombine | None = None
        if self.plan.refusal is None and self._form is not None:
            self._columns = ColumnCombine(self.combine_fn, self._form, self.windowing, self.plan)

    def _session_table(self, kind: SessionAggregator) -> SessionElements:
        # At the end of the window nobody asks for the stamps.
        combine = self.combine_fn, self._combine_stamps or max
        match kind:
            case SessionAggregator.CANONICAL:
                return ReducedSessions(CanonicalSessions(*combine), self._key_of)
            case SessionAggregator.ORDERED:
                return ReducedSessions(OrderedSessions(*combine), self._key_of)
            case SessionAggregator.COLUMNAR:
                return ColumnarSessions(SessionColumns(*combine), self._key_of)

    def process(self, o: WindowedValue) -> None:
        """Add a pair of key and value."""
        self.process_block(Block(o, [o.value]))

    def process_block(self, block: Block) -> None:
        """Add pairs of key and value."""
        with self.scoped_process_state:
            refusal = "" if block.column is None else self._take_columns(block)
            if refusal is None:
                return
            if self._sessions is not None:
                self._take_spans_of(block)
            elif not self._take_parts(block):
                return
            if refusal:
                count_refused(refusal)

    def _take_columns(self, block: Block) -> str | None:
        """Add pairs in columns; return the reason if they are not supported."""
        refusal = self.plan.refusal
        if self._columns is not None:
            with self._users_code:
                refusal = self._columns.take(block)
            if refusal is None and self._columns.are_many:
                self._flush_columns()
        elif refusal is None:
            assert self._choice is not None
            refusal = other_values(self._choice.name)
        if refusal is not None and self._sessions is None and self._combine_stamps is not None:
            return other_stamps(stamp_of(self.windowing))
        return refusal

    def _flush_columns(self) -> None:
        """Aggregate the pairs that wait in columns."""
        assert self._columns is not None
        with self._users_code:
            self._columns.flush_pending()
        if self._columns.are_large:
            self._put_out(self._columns.ready())

    def _take_parts(self, block: Block) -> bool:
        """Add pairs by the windows that they share; return whether any are taken as elements."""
        if isinstance(block.assigned, Sessions):
            # A window for each value: columns of one cost more than they save.
            block = block.with_values(block.values)
        others = [part for part in parts_of(block) if not self._take_chosen(part)]
        for part in others:
            stamps = part.times() if self._combine_stamps is not None else None
            self._take(part.windowing.windows, part.values, stamps)
        return bool(others)

    def _take_chosen(self, block: Block) -> bool:
        """Add the pairs of a column that may be chosen; return False if all have to be added."""
        choice = self._choice
        if choice is None or block.column is None or self._combine_stamps is not None:
            return False
        halves = halves_of(block.column)
        if halves is None or not choice.is_for(halves[1][1]) or halves[1][0].null_count:
            return False
        known = distinct(*halves[0])
        if known is None:
            return False
        places, values = choice.chosen(known[1], halves[1][0])
        keys = known[0].take(places).values()
        pairs = list(zip(keys, column_of(values, halves[1][1]).values(), strict=True))
        self._take(block.windowing.windows, pairs, None, others=len(block) - len(pairs))
        return True

    def _take(
        self,
        windows: Sequence[BoundedWindow],
        pairs: list[Any],
        stamps: list[int] | None,
        *,
        others: int = 0,
    ) -> None:
        """Add pairs one by one, with the number of elements that they stand for."""
        keys, values = zip(*pairs, strict=True)
        names = self._named(keys)
        if self.plan.stamp is not None:
            assert stamps is not None
            names = list(zip(names, stamps, strict=True))
        for window in windows:
            self._windows.add(window, names, values, stamps, others)
        if not self._have_come(values, len(windows)) and not all_immutable(values):
            self._add_up()

    def _take_spans_of(self, block: Block) -> None:
        """Add pairs to sessions one by one."""
        spans, stamps = own_spans(block), block.times()
        if spans is not None:
            starts, ends = spans
            self._take_spans(block.values, (starts.tolist(), ends.tolist()), stamps)
            return
        for window in block.windowing.windows:
            start, end = coded_span(window)
            all_spans = [start] * len(block), [end] * len(block)
            self._take_spans(block.values, all_spans, stamps)

    def _take_spans(self, pairs: list[Any], spans: Spans, stamps: list[int]) -> None:
        """Add pairs with the window of each."""
        assert self._sessions is not None
        keys, values = zip(*pairs, strict=True)
        names = self._named(keys)
        if self._sessions.keeps_values and not all_immutable(values):
            # What may change cannot wait until there is enough for columns.
            self._add_up()
            self._put_out(self._sessions.take())
            self._elements = self._sessions = self._session_table(SessionAggregator.ORDERED)
        with self._users_code:
            self._sessions.add(names, spans, stamps, values)
        self._have_come(values, 1)

    def _have_come(self, values: Sequence[Any], times: int) -> bool:
        """Count values, each in this many windows; return whether all are aggregated now."""
        size = size_of(values[-1])
        if len(values) > 1:
            size = len(values) * max(size, size_of(values[0]))
        self._count += len(values) * times
        self._bytes += size * times
        is_enough = self._count >= MAX_BUFFERED or self._bytes >= MAX_BUFFERED_BYTES
        if is_enough:
            self._add_up()
        return is_enough

    def _named(self, keys: Sequence[Any]) -> Sequence[Hashable]:
        try:
            return self._names.of(keys)
        except Exception as error:
            raise StepFailed(
                self.name_context.step_name, f"the coder {self.key_coder} cannot encode a key"
            ) from error

    def _add_up(self) -> None:
        """Aggregate the waiting elements."""
        with self._users_code:
            self._elements.flush_pending()
        self._unmeasured += self._bytes
        self._count = self._bytes = 0
        if len(self._elements) > MAX_KEYS or self._are_large():
            self._unmeasured = 0
            self._put_out(self._elements.take())

    def _are_large(self) -> bool:
        """Return whether the accumulators take much memory; measured only if they may."""
        if self._unmeasured < _MEASURED_BYTES:
            return False
        self._unmeasured = 0
        return self._elements.size() > MAX_BYTES

    def _put_out(self, found: Iterator[Partials]) -> None:
        """Emit partial results, which user code makes."""
        while True:
            with self._users_code:
                ready = next(found, None)
            if ready is None:
                return
            if isinstance(ready.batch, Block):
                self._put_out_block(ready.batch, ready.count)
            else:
                self._hand_on(ready.batch, ready)

    def _put_out_block(self, block: Block, count: int) -> None:
        """Emit keys with their compacted accumulators, of this many elements of a window."""
        compact = self.combine_fn_compact or (lambda accumulator: accumulator)
        limit = BlockLimit()
        start = 0
        while start < len(block):
            part = slice(start, start + limit.values)
            pairs = [(key, compact(accumulator)) for key, accumulator in block.values[part]]
            limit.learn(pairs)
            self._emitter.block(block.with_part(part, pairs))
            start = part.stop
        self._tell_of(block.windowing, count, len(block))

    def _hand_on(self, some: KeyedAggregates, ready: Partials) -> None:
        """Emit aggregates, those with objects compacted."""
        rows, compact = some.rows, self.combine_fn_compact
        with self._users_code:
            if rows.are_numbers:
                assert self._form is not None
                (accumulator,) = self._form.accumulators(rows.totals[:1], self.combine_fn)
            else:
                totals = rows.totals.tolist()
                if compact is not None:
                    totals = list(map(compact, totals))
                    some = replace(some, rows=replace(rows, totals=objects(totals)))
                accumulator = totals[0]
        pair, windows = (some.first_key(), accumulator), ready.windows
        example = WindowedValue(pair, windows[0].max_timestamp(), windows)
        self._emitter.hand_on(self._takers, some, example, len(some))
        if some.template is not None:
            self._tell_of(some.template, ready.count, len(some))

    def _tell_of(self, template: WindowedValue, count: int, accumulators: int) -> None:
        """Report the elements of a window that accumulators represent beyond one each."""
        if self.windowing.is_default() or count <= accumulators:
            return
        for take in self._takers:
            take(ExtraElements(template, count - accumulators))

    def finish(self) -> None:
        with self.scoped_finish_state:
            if self._columns is not None:
                with self._users_code:
                    self._columns.flush_pending()
                self._put_out(self._columns.ready())
            self._add_up()
            self._put_out(self._elements.take())
        super().finish()


def make_precombine(step: Step, plan: CombinePlan) -> PrecombineOperation:
    """Make the operation that runs the map side of a combine."""
    (output,) = step.transform.outputs.values()
    coder = step.factory.get_windowed_coder(output)
    handed = InProcessPickle((combine_fn_of(step.transform, step.factory.context), [], {}))
    operation = step.combine_operation(
        PrecombineOperation,
        operation_specs.WorkerPartialGroupByKey(handed, None, [coder]),
        step.factory.get_input_windowing(step.transform),
    )
    operation.key_coder = coder.wrapped_value_coder.key_coder()
    operation.windowing = step.windowing(output)
    operation.plan = plan
    return operation
