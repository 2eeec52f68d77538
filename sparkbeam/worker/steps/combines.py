"""Operations on blocks: the map side of a combine."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from apache_beam.coders import coders
from apache_beam.runners import common
from apache_beam.runners.worker import operation_specs, operations
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow, Sessions
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns import NotExact
from sparkbeam.plan.combine_columns import ALONE as SESSIONS_ALONE
from sparkbeam.plan.combine_columns import NO_FORM, other_stamps
from sparkbeam.plan.grouping import stamp_of, tells_stamps
from sparkbeam.plan.parsed_stage import combine_fn_of
from sparkbeam.plan.row_formats import AggregateRows
from sparkbeam.upstream.dofn_handover import Handed
from sparkbeam.windows.choices import choice_of
from sparkbeam.windows.vectorized_form import Numbers
from sparkbeam.windows.vectorized_forms import form_of
from sparkbeam.wire.failure import StepFailed, UserCodeFailed
from sparkbeam.wire.rounding import coded_end
from sparkbeam.worker.blocks import GLOBAL, Block, BlockLimit
from sparkbeam.worker.emitter import Emitter
from sparkbeam.worker.group_timestamps import combine_stamps
from sparkbeam.worker.keyed_aggregates import ExtraElements, KeyedAggregates
from sparkbeam.worker.object_sizes import size_of
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.row_formats.key_table import all_immutable
from sparkbeam.worker.row_formats.keys import KeyNames
from sparkbeam.worker.row_formats.pairs import Pairs, distinct, halves_of, pairs_of
from sparkbeam.worker.slots import parts_of
from sparkbeam.worker.steps.combine_columns import ColumnCombine
from sparkbeam.worker.steps.combine_tables import CombineTable
from sparkbeam.worker.steps.edges import SinkOperation
from sparkbeam.worker.steps.step import Step
from sparkbeam.worker.value_columns import column_of

_Made = TypeVar("_Made")

MAX_KEYS = 100_000
"""Maximum number of accumulators before they are emitted."""

MAX_BUFFERED = 200_000
"""Number of values that wait to be aggregated together."""

_MAX_BUFFERED_BYTES = 32 << 20
_MAX_BYTES = 64 << 20
_MEASURED_BYTES = 4 << 20


class PrecombineOperation(operations.PGBKCVOperation):
    """The map side of a combine: values gathered by key and aggregated in runs.

    Values that may change wait no longer than the call that brings them.

    Attributes:
        readers: the operations that take the accumulators.
        key_coder: the coder of the keys, which are distinguished by their encodings.
        windowing: of the elements.
    """

    takes_assigned = True
    """True, as columns keep their assigned windows."""

    readers: list[operations.Operation]
    key_coder: coders.Coder
    windowing: Windowing

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._emitter = Emitter(self.readers, self.receivers[0])
        self._names = KeyNames(self.key_coder)
        self._form = form_of(self.combine_fn)
        self._choice = choice_of(self.combine_fn)
        self._is_global = self.windowing.is_default()
        self._combine_stamps = combine_stamps(self.windowing)
        self._stamp = _stamp_told(self.windowing, self.readers)
        self._tables: defaultdict[BoundedWindow | None, CombineTable] = defaultdict(
            lambda: CombineTable(self.combine_fn, self._form)
        )
        self._waiting: dict[BoundedWindow | None, CombineTable] = {}
        self._count = 0
        self._bytes = 0
        self._keys = 0
        self._unmeasured = 0
        self._refusal = ""
        self._columns = self._make_columns()

    def _make_columns(self) -> ColumnCombine | None:
        """Return the table that gathers pairs in columns; None if pairs stay elements."""
        if self._form is None:
            self._refusal = NO_FORM
            return None
        if self._stamp is not None:
            self._refusal = other_stamps(self._stamp)
            return None
        sinks = [reader for reader in self.readers if isinstance(reader, SinkOperation)]
        all_take = len(sinks) == len(self.readers)
        columns = ColumnCombine(self.combine_fn, self._form, self.windowing)
        if columns.are_sessions and not (all_take and all(sink.takes_numbers for sink in sinks)):
            self._refusal = SESSIONS_ALONE
            return None
        self._takers = [sink.process_aggregates for sink in sinks]
        self._take_slices = all_take and (
            columns.are_sessions or all(sink.port.format == AggregateRows() for sink in sinks)
        )
        self._take_windows = (
            all_take and not columns.is_stamped and all(sink.takes_numbers for sink in sinks)
        )
        return columns

    def process(self, o: WindowedValue) -> None:
        """Add a pair of key and value."""
        self.process_block(Block(o, [o.value]))

    def process_block(self, block: Block) -> None:
        """Add pairs of key and value."""
        with self.scoped_process_state:
            self._take_block(block)

    def _take_block(self, block: Block) -> None:
        refusal = self._take_gathered(block)
        if refusal is None:
            return
        if block.column is not None and isinstance(block.assigned, Sessions):
            # A window for each value: columns of one cost more than they save.
            count_refused(refusal)
            block = block.with_values(block.values)
        refusals = list(filter(None, map(self._take_part, parts_of(block))))
        if refusals and block.column is not None:
            count_refused(refusals[0])

    def _take_part(self, block: Block) -> str | None:
        """Add pairs that share their windows; return why they are added as elements."""
        if self._take_chosen(block):
            return None
        refusal = self._take_columns(block)
        if refusal is not None:
            stamps = block.times() if self._combine_stamps is not None else None
            self._take(block.windowing.windows, block.values, stamps)
        return refusal

    def _take_gathered(self, block: Block) -> str | None:
        """Add pairs gathered in columns; return the reason if they are not supported."""
        columns = self._columns
        if columns is None:
            return self._refusal
        with self._users_code():
            refusal = columns.take(block)
        if refusal is None and columns.are_many:
            self._settle_columns()
        return refusal

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
        keys = known[0].taken(places).values()
        pairs = list(zip(keys, column_of(values, halves[1][1]).values(), strict=True))
        self._take(block.windowing.windows, pairs, None, others=len(block) - len(pairs))
        return True

    def _settle_columns(self) -> None:
        """Aggregate the pairs that wait in columns."""
        columns = self._columns
        if columns is None:
            return
        with self._users_code():
            is_exact = columns.settle()
        if not is_exact or columns.are_large:
            self._put_out_settled(columns)
        if not is_exact:
            assert self._form is not None
            self._refusal = f"{self._form.name} is not exact over columns"
            count_refused(self._refusal)
            if not columns.are_sessions:  # For these there is no other way over columns.
                self._columns = None
            for windows, pairs, stamps in columns.waiting():
                self._take(windows, pairs, stamps)

    def _put_out_settled(self, columns: ColumnCombine) -> None:
        for found in columns.settled():
            if self._take_slices and not columns.is_by_window(found):
                self._emitter.hand_on(self._takers, found, columns.example(found), len(found))
                continue
            if self._take_windows:
                self._put_out_windows(columns, found)
                continue
            for block, count in self._made_of(columns.groups(found)):
                self._put_out_block(block, count)

    def _put_out_windows(self, columns: ColumnCombine, found: KeyedAggregates) -> None:
        """Emit the numbers of keys, window by window."""
        example = columns.example(found)
        for some in self._made_of(columns.by_window(found)):
            self._emitter.hand_on(self._takers, some, example, len(some))
            assert some.template is not None
            self._tell_of(some.template, some.count(), len(some))

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

    def _take_columns(self, block: Block) -> str | None:
        """Add pairs in columns; return why they have to be added one by one."""
        if self._combine_stamps is not None:
            return other_stamps(stamp_of(self.windowing))
        try:
            pairs, numbers = self._numbered(block)
        except NotExact as refusal:
            return str(refusal)
        names = self._named(pairs.keys)
        windows = (None,) if self._is_global else block.windowing.windows
        with self._users_code():
            for window in windows:
                table = self._waiting[window] = self._tables[window]
                table.gather_numbers(names, pairs.places, numbers)
        self._have_come(
            len(block) * len(windows), (numbers.nbytes + pairs.places.nbytes) * len(windows)
        )
        return None

    def _numbered(self, block: Block) -> tuple[Pairs, Numbers]:
        """Return the pairs of a column and their values in the vectorized form.

        Raises:
            NotExact: there are none.
        """
        form = self._form
        if block.column is None:
            raise NotExact("its elements are no columns")
        if form is None:
            choice = self._choice
            if choice is None:
                raise NotExact(NO_FORM)
            raise NotExact(f"values are not for {choice.name} over columns")
        pairs = pairs_of(block.column)
        if pairs is None:
            raise NotExact("keys are not told apart over columns")
        with self._users_code():
            numbers = form.numbers_of(pairs.values, pairs.shape)
        if numbers is None:
            raise NotExact(f"values are not for {form.name} over columns")
        return pairs, numbers

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
        if self._stamp is not None:
            assert stamps is not None
            names = list(zip(names, stamps, strict=True))
        for window in (None,) if self._is_global else windows:
            table = self._waiting[window] = self._tables[window]
            with self._users_code():
                table.gather(names, values)
                table.count += others
            if stamps is not None:
                assert self._combine_stamps is not None
                table.combine_times(names, stamps, self._combine_stamps)
        if not self._has_come(values, len(windows)) and not all_immutable(values):
            self._add_up()

    def _has_come(self, values: Sequence[Any], times: int) -> bool:
        """Count values, each in this many windows; return whether all are aggregated now."""
        size = size_of(values[-1])
        if len(values) > 1:
            size = len(values) * max(size, size_of(values[0]))
        return self._have_come(len(values) * times, size * times)

    def _have_come(self, count: int, size: int) -> bool:
        """Count this many values and bytes; return whether all are aggregated now."""
        self._count += count
        self._bytes += size
        is_enough = self._count >= MAX_BUFFERED or self._bytes >= _MAX_BUFFERED_BYTES
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
        with self._users_code():
            self._settle()
        self._unmeasured += self._bytes
        self._count = self._bytes = 0
        if self._keys > MAX_KEYS or self._are_large():
            self._put_out()

    def _settle(self) -> None:
        """Aggregate the waiting values into accumulators."""
        for table in self._waiting.values():
            table.add_up()
        self._waiting.clear()
        self._keys = sum(len(table.accumulators) for table in self._tables.values())

    def _are_large(self) -> bool:
        """Return whether the accumulators take much memory; measured only if they may."""
        if self._unmeasured < _MEASURED_BYTES:
            return False
        self._unmeasured = 0
        return self._size() > _MAX_BYTES

    def _size(self) -> int:
        """Return the approximate size of the accumulators in bytes."""
        return size_of([table.accumulators for table in self._tables.values()])

    def _made_of(self, found: Iterator[_Made]) -> Iterator[_Made]:
        """Yield the accumulators, which user code makes."""
        while True:
            with self._users_code():
                made = next(found, None)
            if made is None:
                return
            yield made

    @contextmanager
    def _users_code(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            raise UserCodeFailed(self.name_context.step_name) from error

    def _put_out(self) -> None:
        tables = list(self._tables.items())
        self._tables.clear()
        self._keys = self._unmeasured = 0
        for window, table in tables:
            template = GLOBAL
            if window is not None:
                template = WindowedValue(None, coded_end(window), (window,))
            names = map(self._names.key, self._without_stamps(table.accumulators))
            pairs = list(zip(names, table.accumulators.values(), strict=True))
            stamps = [table.stamps[name] for name in table.accumulators] if table.stamps else None
            self._put_out_block(Block(template, pairs, stamps), table.count)

    def _without_stamps(self, names: Iterable[Any]) -> Iterable[Hashable]:
        """Return the names of keys without the timestamps that they have if these matter."""
        return names if self._stamp is None else (name for name, _ in names)

    def _tell_of(self, template: WindowedValue, count: int, accumulators: int) -> None:
        """Report the elements of a window that accumulators represent beyond one each."""
        if self._is_global or count <= accumulators:
            return
        for reader in self.readers:
            if isinstance(reader, SinkOperation):
                reader.process_aggregates(ExtraElements(template, count - accumulators))

    def finish(self) -> None:
        with self.scoped_finish_state:
            self._settle_columns()
            if self._columns is not None:
                self._put_out_settled(self._columns)
            self._add_up()
            self._put_out()
        super().finish()


_Kind = TypeVar("_Kind", bound=PrecombineOperation)


def make_precombine(kind: type[_Kind], step: Step) -> _Kind:
    """Create the operation that runs the map side of a combine."""
    (output,) = step.transform.outputs.values()
    coder = step.factory.get_windowed_coder(output)
    operation: _Kind = step.factory.augment_oldstyle_op(
        kind(
            common.NameContext(step.label, step.id),
            operation_specs.WorkerPartialGroupByKey(
                Handed((combine_fn_of(step.transform, step.factory.context), [], {})),
                None,
                [coder],
            ),
            step.factory.counter_factory,
            step.factory.state_sampler,
            step.factory.get_input_windowing(step.transform),
        ),
        step.label,
        step.consumers,
    )
    (operation.readers,) = step.consumers.values()
    operation.key_coder = coder.wrapped_value_coder.key_coder()
    operation.windowing = step.windowing(output)
    return operation


def _stamp_told(windowing: Windowing, readers: list[operations.Operation]) -> str | None:
    """Return the timestamp of a group if readers distinguish elements by timestamp; else None."""
    sinks = (reader for reader in readers if isinstance(reader, SinkOperation))
    are_stored = any(sink.port.format.stored for sink in sinks)
    return stamp_of(windowing) if are_stored and tells_stamps(windowing) else None
