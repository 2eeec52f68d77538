"""Implementations of each strategy of a GroupByKey, in batch and in streaming."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import pyarrow as pa
from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.plan.row_formats import AggregateRows, RowFormat
from sparkbeam.wire.key_packs import read
from sparkbeam.wire.rows import Row, tuples
from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.grouping.combined import CombinedGroups
from sparkbeam.worker.grouping.merging import MergingGroups
from sparkbeam.worker.grouping.panes import Panes
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.triggered import StreamGrouping, TriggerGrouping
from sparkbeam.worker.grouping.windowed import WindowGrouping
from sparkbeam.worker.row_formats.aggregate_rows import sessions
from sparkbeam.worker.row_formats.cells import KeyCells, stripped_coder
from sparkbeam.worker.row_formats.group_pack_reader import PackedGroups
from sparkbeam.worker.row_formats.group_rows import groups

_KEY = itemgetter(0)


@dataclass(frozen=True)
class GroupByInput:
    """Input of a GroupByKey in a task of batch.

    Attributes:
        batches: record batches of rows, sorted by key and order.
        combine: the combine that merges packed accumulators; None of other values.
    """

    batches: Iterator[pa.RecordBatch]
    format: RowFormat
    coder: coders.WindowedValueCoder
    windowing: Windowing
    combine: Combine | None = None

    @property
    def rows(self) -> Iterator[Row]:
        """The rows one by one."""
        return tuples(self.batches)


def _groups(given: GroupByInput) -> Iterator[Block]:
    """Yield groups that fire at the end of their windows, or sessions."""
    of_elements = given.coder, given.windowing
    is_packed, are_aggregates = given.format.packed, isinstance(given.format, AggregateRows)
    if not is_packed:
        if are_aggregates:
            return in_blocks(sessions(given.rows, *of_elements))
        return groups(given.rows, *of_elements)
    if not are_aggregates:
        return PackedGroups(*of_elements).blocks(read(given.batches))
    assert given.combine is not None
    return CombinedGroups(*of_elements, given.combine).blocks(read(given.batches))


def _panes(
    given: GroupByInput, made: Callable[[Windowing], MergingGroups | Panes]
) -> Iterator[WindowedValue]:
    """Gather all elements of a key, and request its panes."""
    decode_key = given.coder.wrapped_value_coder.key_coder().get_impl().decode_nested
    cells = KeyCells(stripped_coder(given.coder))
    of_key = made(given.windowing)
    for encoded_key, group in groupby(given.rows, _KEY):
        elements = [
            element
            for _, _, cell in group
            for block in cells.blocks(cell)
            for element in block.elements()
        ]
        key = decode_key(encoded_key)
        for pane in of_key.of(elements):
            yield pane.with_value((key, pane.value))


BATCH: dict[GroupStrategy, Callable[[GroupByInput], Iterator[Block]]] = {
    GroupStrategy.WINDOWS: _groups,
    GroupStrategy.SESSIONS: _groups,
    GroupStrategy.MERGING: lambda given: (
        _groups(given) if given.format.packed else in_blocks(_panes(given, MergingGroups))
    ),
    GroupStrategy.TRIGGERS: lambda given: in_blocks(_panes(given, Panes)),
}
"""Strategies over all rows of a task."""


STREAMING: dict[GroupStrategy, Callable[..., StreamGrouping]] = {
    GroupStrategy.WINDOWS: WindowGrouping,
    GroupStrategy.SESSIONS: SessionedGrouping,
    GroupStrategy.TRIGGERS: TriggerGrouping,
}
"""Strategies over the stored state of a key."""
