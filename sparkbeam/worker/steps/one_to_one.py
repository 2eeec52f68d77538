"""One result for each value of a block."""

from collections.abc import Callable, Iterator
from typing import Any

from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.worker.blocks import LOOK, Block, BlockLimit, is_heavy
from sparkbeam.worker.row_formats.key_table import IMMUTABLE
from sparkbeam.worker.steps.ownership import OF_A_RESULT, may_wait


class OneToOne:
    """A user function that is called for one value after the other.

    Args:
        limit: the number of results that wait for each other.
        makes_new: True if each result is made of the element and objects with no other owner.
    """

    def __init__(
        self,
        function: Callable[[Any], Any],
        label: str,
        limit: BlockLimit,
        *,
        makes_new: bool = False,
    ) -> None:
        self._function = function
        self._label = label
        self._makes_new = makes_new
        self._limit = limit

    def over(self, block: Block) -> Iterator[Block]:
        """Yield the results for one part of a block after the other.

        A part ends with a result that the next call may change.
        """
        values = block.values
        start = 0
        while start < len(values):
            results: list[Any] = []
            end = min(start + self._limit.values, len(values))
            while (at := start + len(results)) < end:
                may_go_on = self._apply(values[at : min(at + LOOK, end)], results)
                if not may_go_on or is_heavy(results):
                    break
            part = slice(start, start + len(results))
            yield block.with_part(part, results)
            start = part.stop

    def _apply(self, values: list[Any], block: list[Any]) -> bool:
        """Add results to a block, up to one that may not wait; return False if there is one."""
        function, append = self._function, block.append
        try:
            if self._makes_new:
                block.extend(map(function, values))
                return True
            for value in values:
                result = function(value)
                append(result)
                if type(result) in IMMUTABLE:
                    continue
                if type(result) is tuple:
                    for item in result:
                        if type(item) not in IMMUTABLE:
                            break
                    else:
                        continue
                    item = None  # Or else there is one reference more.
                if not may_wait(result, value, OF_A_RESULT):
                    return False
        except Exception as error:
            raise UserCodeFailed(self._label) from error
        return True
