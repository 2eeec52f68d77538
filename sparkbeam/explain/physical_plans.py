"""Physical plans of the Spark queries that a run consists of."""

import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

from sparkbeam.batch.execution import BatchExecution
from sparkbeam.batch.side_input_collection import SideInputStore
from sparkbeam.connectors.materialized_frames import MaterializedFrame, persisted
from sparkbeam.plan.model import SideInput, Stage
from sparkbeam.wire.side_content import SideInputData


class UnfilledSideInputs(SideInputStore):
    """Side inputs of a dry run: records the queries, holds no data.

    Attributes:
        queries: by the tags of the ports that they would fill.
    """

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.queries: dict[tuple[int, ...], Any] = {}

    def __contains__(self, tag: int) -> bool:
        return any(tag in tags for tags in self.queries)

    def collect(self, rows: Any, tags: Iterable[int]) -> list[bytes]:
        """Record the query; there are no task reports."""
        self.queries[tuple(tags)] = rows
        return []

    def data(self, side_input: SideInput) -> SideInputData:
        """Return no data, which does not affect Spark's plan."""
        return SideInputData()


class Rehearsal(BatchExecution):
    """Batch execution that builds the DataFrames of a run without a Spark job."""

    _side_input_store = UnfilledSideInputs

    def explain(self) -> str:
        """Return Spark's plan of each query, in execution order."""
        try:
            for stage in self._plan.stages:
                self._collect_side_inputs(stage)
                self._compose(stage)
            assert isinstance(self._side_inputs, UnfilledSideInputs)
            queries = []
            for tags, rows in self._side_inputs.queries.items():
                producers = dict.fromkeys(self._plan.producer(tag).id for tag in tags)
                queries.append((f"collects side inputs from {', '.join(producers)}", rows))
            if self._open:
                queries.append(("runs the rest", self._rest()))
            texts = [
                f"Query {number} of {len(queries)} {purpose}\n{_physical_plan(rows)}"
                for number, (purpose, rows) in enumerate(queries, start=1)
            ]
        finally:
            self._release()
        return "\n".join(_without_repetition("\n\n".join(texts).splitlines()))

    def _materialize(self, stage: Stage, rows: Any) -> MaterializedFrame:
        return persisted(self._session, rows) or MaterializedFrame(rows)


def _physical_plan(frame: Any) -> str:
    """Return the output of ``frame.explain()``, on classic sessions and over Spark Connect."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain()
    # The numbers that tell columns of the same name apart are of no use here.
    return _COLUMN_ID.sub(r"\1", printed.getvalue().strip())


_COLUMN_ID = re.compile(r"(\b(?:tag|key|ord|value|id)|\))#\d+L?\b")
_TREE = re.compile(r"[ :+\-]*")
_PERSISTED = "InMemoryRelation"


def _without_repetition(lines: list[str]) -> Iterator[str]:
    """Omit the repeated plan below a persisted DataFrame.

    Spark repeats it wherever the DataFrame is read, which is exponential in a chain of them.
    """
    shown: set[tuple[str, ...]] = set()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        yield line
        depth = _depth(line)
        if not line[depth:].startswith(_PERSISTED):
            continue
        end = number
        while end < len(lines) and lines[end] and _depth(lines[end]) > depth:
            end += 1
        below = tuple(text[depth:] for text in lines[number:end])
        if below in shown:
            yield f"{lines[number][: _depth(lines[number])]}(as above)"
            number = end
        shown.add(below)


def _depth(line: str) -> int:
    """Return the column of the operator, behind the characters that draw the tree."""
    matched = _TREE.match(line)
    return matched.end() if matched else 0
