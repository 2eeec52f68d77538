"""Plain functions over blocks that are columns, where they can be compiled."""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from sparkbeam.columns import Compiled, DataDependent, FallBack, Refused, member_of
from sparkbeam.columns.python_types import Shape
from sparkbeam.plan.pardo_functions import ALONE, Arguments, over_columns, suited
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.value_columns import Column, column_of

_LOG = logging.getLogger(__name__)


class ColumnFunction:
    """Function that is evaluated over columns instead of being called.

    Args:
        process: of a DoFn that is a function of the element and further arguments; None if it
            has to be called.
        why: gives the reason for that.
        may_stamp: True if results may have their own timestamps.
    """

    def __init__(
        self,
        process: Callable[..., Any] | None,
        why: Callable[[], str],
        *,
        may_stamp: bool,
        arguments: Arguments = ALONE,
    ) -> None:
        self._process = process
        self._why = why
        self._arguments = arguments
        self._may_stamp = may_stamp
        self._compiled: dict[tuple[Shape, ...], Compiled | Refused | DataDependent] = {}

    def over(self, block: Block, *further: Column) -> Block | None:
        """Return the results for a block; None if it has to go element by element."""
        column = block.column
        if column is None:
            return None
        try:
            return self._over(column, further, block)
        except FallBack as refusal:
            reason = str(refusal)
        except Exception:
            # Its elements tell whether that is an error of the user's code.
            _LOG.warning("A function cannot be evaluated over columns.", exc_info=True)
            reason = "an internal error of the runner"
        count_refused(reason)
        return None

    def _over(self, column: Column, further: tuple[Column, ...], block: Block) -> Block:
        shapes = column.shape, *(argument.shape for argument in further)
        compiled = self._compiled.get(shapes)
        if compiled is None:
            compiled = self._compiled[shapes] = self._compile(*shapes)
        if isinstance(compiled, DataDependent):
            arrays = [argument.array for argument in further]
            of_block = compiled.compiled_for(column.array, *arrays)
            compiled = suited(of_block, may_stamp=self._may_stamp)
        if isinstance(compiled, Refused):
            raise FallBack(compiled.reason)
        if compiled.is_timestamped and len(block.windowing.windows) != 1:
            raise FallBack("it sets the timestamps of windowed elements")
        return _applied(compiled, column, [argument.array for argument in further], block)

    def _compile(self, shape: Shape, *further: Shape) -> Compiled | Refused | DataDependent:
        if self._process is None:
            return Refused(self._why())
        sides = further[: self._arguments.sides]
        return over_columns(
            self._process, shape, *sides, arguments=self._arguments, may_stamp=self._may_stamp
        )


def _applied(compiled: Compiled, column: Column, further: list[pa.Array], block: Block) -> Block:
    if compiled.is_filter:
        rows = compiled.selected_rows(column.array, *further)
        if compiled.outcome != column.shape:
            (code,) = compiled.members
            member = column_of(member_of(column.array, code, rows), compiled.outcome)
            return block.with_column(member, rows)
        return block if len(rows) == len(block) else block.take(rows)
    output = compiled.evaluate(column.array, *further)
    values = column_of(output.values, compiled.result)
    if output.times is not None:
        return Block(GLOBAL, values, np.asarray(output.times, np.int64))
    return block.with_column(values, output.rows)
