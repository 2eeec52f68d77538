"""The layers as Spark operators.

Spark starts separate Python processes that only request the state schema of an operator. Therefore
nothing of Beam is imported before there are rows, and a task travels as bytes.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from sparkbeam.common.display_text import line, shortened
from sparkbeam.wire.messages import SCHEMA, Message, messages
from sparkbeam.worker.spark_connection import hurry_task
from sparkbeam.worker.state.store import spark_map

if TYPE_CHECKING:
    from sparkbeam.plan.spark_io import ReadSpec
    from sparkbeam.worker.streaming.tasks import LayerTask

_OUTPUT = SparkRow(*SCHEMA.names)

_SHOWN = 80

_FRAME_ROWS = 10_000
_FRAME_BYTES = 16 << 20


class TickLayer:
    """The first layer over ticks: the function for ``mapInArrow``.

    Spark's plans and pages call it by the steps that it runs.
    """

    def __init__(self, task: "LayerTask") -> None:
        self._task = pickle.dumps(task)
        steps = ", ".join(f"{stage.id}: {stage.name}" for stage in task.stages)
        self.__name__ = line(shortened(f"layer 0 {steps}".strip(), _SHOWN))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from sparkbeam.worker.streaming.layer import SourceLayerRun

        hurry_task()
        rows = (
            row
            for batch in batches
            for row in messages(zip(*batch.to_pydict().values(), strict=True))
        )
        yield from _batches(SourceLayerRun(pickle.loads(self._task)).run(rows))


class RowsLayer:
    """The first layer over the rows of one of Spark's sources: the function for ``mapInArrow``.

    Args:
        time: gives the timestamp of all rows of a micro-batch; None if they have their own.
    """

    def __init__(
        self,
        task: "LayerTask",
        label: str,
        spec: "ReadSpec",
        tag: int,
        time: Callable[[int], int | None] | None = None,
    ) -> None:
        self._task = pickle.dumps((task, label, spec, tag, time))
        self.__name__ = line(shortened(f"layer 0 of {label}", _SHOWN))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from sparkbeam.worker.streaming.layer import SourceLayerRun

        hurry_task()
        task, label, spec, tag, time = pickle.loads(self._task)
        yield from _batches(SourceLayerRun(task).read(label, spec, tag, batches, time))


def _batches(rows: Iterator[Message]) -> Iterator[pa.RecordBatch]:
    columns = list(zip(*rows, strict=True))
    if columns:
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)
        ]
        yield pa.record_batch(arrays, schema=SCHEMA)


class ShardLayer(StatefulProcessor):
    """The processor for ``transformWithState`` over rows grouped by shard."""

    def __init__(self, task: "LayerTask") -> None:
        self._task = pickle.dumps(task)

    def init(self, handle: Any) -> None:
        self._state = handle.getMapState("state", "key binary", "value binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N803
        return (_OUTPUT(*message) for message in self._run(key, rows))

    def _run(self, key: Any, rows: Iterable[Sequence[Any]]) -> Iterator[Message]:
        from sparkbeam.worker.state.pages import ShardState
        from sparkbeam.worker.streaming.layer import ShardLayerRun

        (shard,) = key
        state = ShardState(spark_map(self._state))
        task = pickle.loads(self._task)
        yield from ShardLayerRun(task, int(shard), state).run(messages(rows))
        state.close()
        if task.check is not None:
            task.check()

    def close(self) -> None:
        """Do nothing, as the shard's state belongs to Spark."""


class PandasShardLayer(ShardLayer):
    """The processor for ``transformWithStateInPandas``, where Spark passes no rows."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N803
        return _frames(self._run(key, chain.from_iterable(map(_rows_of_frame, rows))))


def _rows_of_frame(frame: Any) -> Iterator[tuple[Any, ...]]:
    return zip(*(frame[name].tolist() for name in SCHEMA.names), strict=True)


def _frames(rows: Iterator[Message]) -> Iterator[Any]:
    """Yield DataFrames of a limited size; a column of one must fit into an Arrow array."""
    waiting: list[Message] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row.value)
        if size >= _FRAME_BYTES or len(waiting) >= _FRAME_ROWS:
            yield _frame(waiting)
            waiting, size = [], 0
    if waiting:
        yield _frame(waiting)


def _frame(rows: list[Message]) -> Any:
    import pandas as pd

    *numbers, values = zip(*rows, strict=True)
    columns = [np.array(column, np.int32) for column in numbers]
    cells = pd.Series(values, dtype=object)
    return pd.DataFrame(dict(zip(SCHEMA.names, [*columns, cells], strict=True)))
