"""Grouping evaluators by their names in the plan."""

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import Evaluator
from sparkbeam.wire.key_packs import CellsRead
from sparkbeam.wire.row_packs import Unpacked
from sparkbeam.wire.rows import Row
from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.grouping.combined import combined_sessions, combined_totals
from sparkbeam.worker.grouping.merging import MergingGroups
from sparkbeam.worker.grouping.packed import packed_groups
from sparkbeam.worker.grouping.panes import Panes
from sparkbeam.worker.grouping.sessioned import SessionedGrouping
from sparkbeam.worker.grouping.triggered import (
    MergingGrouping,
    SessionGrouping,
    StreamGrouping,
    TriggerGrouping,
)
from sparkbeam.worker.grouping.windowed import WindowGrouping
from sparkbeam.worker.layouts.cells import KeyCells, stripped_coder
from sparkbeam.worker.layouts.groups import global_groups, stamped_groups, windowed_groups
from sparkbeam.worker.layouts.session_rows import sessions
from sparkbeam.worker.layouts.total_rows import totals_groups

_KEY = itemgetter(0)

Groups = Callable[[Iterator[Row], coders.WindowedValueCoder, Windowing], Iterator[Block]]
"""Function that groups rows sorted by key, of elements with a coder and a windowing."""


def _of_each_key(panes: type[MergingGroups | Panes]) -> Groups:
    """Gather all elements of a key, and request its panes."""

    def made(
        rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
    ) -> Iterator[WindowedValue]:
        decode_key = coder.wrapped_value_coder.key_coder().get_impl().decode_nested
        cells = KeyCells(stripped_coder(coder))
        of_key = panes(windowing)
        for encoded_key, group in groupby(rows, _KEY):
            elements = [
                element
                for _, _, cell in group
                for block in cells.blocks(cell)
                for element in block.elements()
            ]
            key = decode_key(encoded_key)
            for pane in of_key.of(elements):
                yield pane.with_value((key, pane.value))

    return lambda *read: in_blocks(made(*read))


BATCH: dict[Evaluator, Groups] = {
    Evaluator.GLOBAL: global_groups,
    Evaluator.WINDOWED: windowed_groups,
    Evaluator.STAMPED: stamped_groups,
    Evaluator.TOTALS: totals_groups,
    Evaluator.SESSIONS: lambda *read: in_blocks(sessions(*read)),
    Evaluator.SESSION_TOTALS: lambda *read: in_blocks(sessions(*read)),
    Evaluator.MERGING: _of_each_key(MergingGroups),
    Evaluator.PANES: _of_each_key(Panes),
}
"""Evaluators over all elements of a key at once."""

Combines = Callable[
    [Iterator[Unpacked], coders.WindowedValueCoder, Windowing, Combine], Iterator[Block]
]
"""Function that groups and combines rows that come in packs."""

COMBINED: dict[Evaluator, Combines] = {
    Evaluator.TOTALS: combined_totals,
    Evaluator.SESSION_TOTALS: combined_sessions,
}
"""Evaluators over columns, if the combine has a vectorized form."""

IN_PACKS: dict[
    Evaluator,
    Callable[[Iterator[CellsRead], coders.WindowedValueCoder, Windowing], Iterator[Block]],
] = {Evaluator.PACKED: packed_groups}
"""Evaluators over rows with many keys each."""

STREAMING: dict[Evaluator, type[StreamGrouping]] = {
    Evaluator.STORED_WINDOWS: WindowGrouping,
    Evaluator.STORED_SESSIONS: SessionedGrouping,
    Evaluator.DRIVEN_WINDOWS: TriggerGrouping,
    Evaluator.DRIVEN_SESSIONS: SessionGrouping,
    Evaluator.DRIVEN_MERGING: MergingGrouping,
}
"""Evaluators over the stored state of a key."""
