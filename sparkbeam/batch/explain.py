"""Spark's own view of a plan: the physical plans of the queries that a run consists of."""

import contextlib
import io
import re
from collections.abc import Iterable
from typing import Any

from sparkbeam.plan.model import SideInput
from sparkbeam.worker.sideinputs import SideInputData


class UnfilledSideInputs:
    """Stands in for the side inputs where nothing runs: notes the queries, holds no data.

    Attributes:
        queries: for the ports of each collection, the DataFrame that would fill them.
    """

    def __init__(self) -> None:
        self.queries: dict[tuple[int, ...], Any] = {}

    def __contains__(self, tag: int) -> bool:
        return any(tag in tags for tags in self.queries)

    def collect(self, rows: Any, tags: Iterable[int]) -> list[bytes]:
        """Notes the query; there are no metrics reports."""
        self.queries[tuple(tags)] = rows
        return []

    def data(self, side_input: SideInput) -> SideInputData:
        """Nothing, whatever the side input."""
        return SideInputData()

    def close(self) -> None:
        """There is nothing to remove."""


def physical_plan(frame: Any) -> str:
    """What ``frame.explain()`` prints, over a classic session or Spark Connect."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain()
    return _EXPRESSION_ID.sub("", printed.getvalue().strip())


_EXPRESSION_ID = re.compile(r"(?<=\w)#\d+L?\b")
