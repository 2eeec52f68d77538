"""Triggers of batch pipelines, which make panes of accumulators and their counts."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from apache_beam.coders import coder_impl
from apache_beam.runners.worker import operations
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.columns.vectors import Micros
from sparkbeam.operators.merge import Merge
from sparkbeam.plan.urns import FIRE
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.rounding import coded, coded_column, coded_end
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.column_accumulators import Totals
from sparkbeam.worker.grouping.counted_panes import CountedPane, CountedPanes, Kind
from sparkbeam.worker.intervals import Intervals
from sparkbeam.worker.steps.combine_phases import CombineOperation, make_phase
from sparkbeam.worker.steps.step import Step


class Fire(Merge):
    """Panes of accumulators."""

    urn = FIRE

    def run(self, step: Step) -> operations.Operation:
        made = make_phase(FireOperation, step)
        (output,) = step.transform.outputs.values()
        made.windowing = step.windowing(output)
        pair = step.factory.get_windowed_coder(output).wrapped_value_coder
        made.accumulator = pair.value_coder().get_impl()
        return made


class FireOperation(CombineOperation):
    """Emitter of the panes of windows."""

    phase = "fire"
    windowing: Windowing
    accumulator: coder_impl.CoderImpl

    def setup(self, data_sampler: Any = None) -> None:
        super().setup(data_sampler)
        self._panes = CountedPanes(self.windowing)

    def process(self, o: WindowedValue) -> None:
        """Emit a key with its aggregate in a window."""
        self.process_block(Block(o, [o.value]))

    def process_block(self, block: Block) -> None:
        """Emit keys with their aggregates in their windows."""
        with self.scoped_process_state:
            counts, alone = self._uncounted(block)
            for kind, rows in self._panes.kinds(counts, partial(_windows, block)):
                some = alone if len(rows) == len(alone) else alone.take(rows)
                for part in self._fired(some, kind):
                    self._emitter.block(part)

    def _uncounted(self, block: Block) -> tuple[Micros, Block]:
        """Return the element count of each accumulator, and the accumulators alone."""
        if isinstance(block.column, Totals):
            counts, totals = self.combine.uncounted(block.column)
            return counts, block.with_column(totals, None)
        counts = np.fromiter((count for _, (count, _) in block.values), np.int64, len(block))
        return counts, block.with_values([(key, one) for key, (_, one) in block.values])

    def _fired(self, block: Block, kind: Kind) -> Iterator[Block]:
        """Yield the panes of windows that all have the same panes."""
        full = self._copies(block, sum(not pane.is_empty for pane in kind))
        for pane in kind:
            some = self._empty(block) if pane.is_empty else next(full)
            yield _as_pane(some, pane)

    def _copies(self, block: Block, count: int) -> Iterator[Block]:
        """Yield copies of the accumulators, as the receiver of an output may change it."""
        if count < 2 or block.column is not None:
            return repeat(block, count)
        encode, decode = self.accumulator.encode, self.accumulator.decode
        encoded = [(key, encode(one)) for key, one in block.values]
        each = ([(key, decode(one)) for key, one in encoded] for _ in range(count))
        return map(block.with_values, each)

    def _empty(self, block: Block) -> Block:
        """Return empty accumulators."""
        create = self.combine.combine_fn.create_accumulator
        try:
            return block.with_values([(key, create()) for key, _ in block.values])
        except Exception as error:
            raise UserCodeFailed(self.combine.label) from error


def _windows(block: Block) -> Iterable[BoundedWindow]:
    """Return the window of each value."""
    if isinstance(block.assigned, Intervals):
        return (window for (window,) in block.assigned.windows())
    (window,) = block.windowing.windows
    return repeat(window, len(block))


def _as_pane(block: Block, pane: CountedPane) -> Block:
    """Return values as those of a pane."""
    template = block.windowing
    time, windows = template.timestamp, template.windows
    stamps: Micros | None = block.time_column() if block.is_stamped else None
    given = block.assigned
    if pane.time is not None:
        time = coded(pane.time)
        stamps = None if given is None else np.full(len(block), time.micros)
    elif pane.is_at_end and isinstance(given, Intervals):
        stamps = coded_column(given.ends - 1)
    elif pane.is_at_end:
        time, stamps = coded_end(windows[0]), None
    values: Any = block.values if block.column is None else block.column
    return Block(WindowedValue(None, time, windows, pane.info), values, stamps, given)
