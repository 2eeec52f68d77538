"""Plain functions over blocks that are columns, where they can be compiled."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkbeam.columns import Compiled, NotExact, Refused
from sparkbeam.columns.shapes import Shape
from sparkbeam.plan.functions import over_columns
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.columns import Column, column_of


class ColumnFunction:
    """A function that is evaluated over columns instead of being called.

    Args:
        process: of a DoFn that is a function of the element alone.
        may_stamp: results may bring a timestamp of their own.

    Attributes:
        refused: of how many blocks it was called for each element all the same, by why.
    """

    def __init__(self, process: Callable[[Any], Any], *, may_stamp: bool) -> None:
        self._process = process
        self._may_stamp = may_stamp
        self._compiled: dict[Shape, Compiled | Refused] = {}
        self.refused: Counter[str] = Counter()

    def over(self, block: Block) -> Block | None:
        """The results for a block; None if it has to go element by element."""
        column = block.column
        if column is None:
            return None
        compiled = self._compiled.get(column.shape)
        if compiled is None:
            compiled = self._compiled[column.shape] = over_columns(
                self._process, column.shape, may_stamp=self._may_stamp
            )
        if isinstance(compiled, Refused):
            self.refused[compiled.reason] += 1
            return None
        if compiled.is_timestamped and len(block.windowing.windows) != 1:
            return None
        try:
            return _applied(compiled, column, block)
        except NotExact as refusal:
            self.refused[str(refusal)] += 1
            return None


def _applied(compiled: Compiled, column: Column, block: Block) -> Block:
    if compiled.is_filter:
        rows = compiled.kept(column.array)
        return block if len(rows) == len(block) else block.taken(rows)
    output = compiled.evaluate(column.array)
    values = column_of(output.values, compiled.result)
    if output.times is not None:
        return Block(GLOBAL, values, np.asarray(output.times, np.int64))
    return block.with_column(values, output.rows)
