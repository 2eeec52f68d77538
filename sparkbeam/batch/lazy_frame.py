"""A plan as a lazy DataFrame."""

from dataclasses import replace
from typing import Any

from pyspark.sql import functions as sf

from sparkbeam.batch.execution import BatchExecution, union
from sparkbeam.connectors.delivery import Delivery
from sparkbeam.plan.model import Plan, Source, Stage
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark.capabilities import require_partitions
from sparkbeam.wire.parquet_splits import ParquetFiles
from sparkbeam.worker.connectors.sink_cells import plain_row


class LazyExecution(BatchExecution):
    """Composition of the DataFrame of a plan's only sink; takes the arguments of a run.

    Only side inputs are collected. Data with several readers is persisted, so that they see the
    same elements, and stays persisted, as the DataFrame is used later. Metrics are dropped, and
    failures appear in Spark's text.
    """

    def __init__(self, session: Any, plan: Plan, **named: Any) -> None:
        # No file outlives the query that collects side inputs.
        super().__init__(session, replace(plan, kept=frozenset()), **named)

    def dataframe(self) -> Any:
        """Return the rows of the sink, with its schema.

        The DataFrame needs this object, and the files of large side inputs, as long as it is used.
        """
        require_partitions(self._session)
        if any(stage.side_inputs for stage in self._plan.stages):
            self._compose_all()
            self._forget()
        self._reports = self._reports.spoken()
        self._compose_all()
        (sink,) = self._plan.sinks
        ports = [self._ports([tag]).where(sf.col("tag") == tag) for tag in sink.inputs]
        return Delivery(sink, plain_row, self._reports).rows(union(ports).select("value"))

    def close(self) -> None:
        """Release the persisted rows, if there is no DataFrame."""
        self._release()

    def _compose_all(self) -> None:
        for stage in self._plan.stages:
            self._collect_side_inputs(stage)
            self._compose(stage)

    def _forget(self) -> None:
        """Reset the composition, for new DataFrames of the same stages."""
        for rows in self._persisted.values():
            rows.release()
        for composed in (self._output, self._persisted, self._open, self._tables, self._given):
            composed.clear()

    def _files(self, root: Source, spec: ReadSpec) -> ParquetFiles | None:
        # The files may have changed when the DataFrame is used.
        return None

    def _reads(self, stage: Stage) -> int:
        # Only the sink, or a query, reads it: its metrics are dropped.
        own = {port.tag for port in stage.ports}
        (sink,) = self._plan.sinks
        dropped = sum(tag in own for tag in sink.inputs) + self._plan.queries_of(stage)
        return super()._reads(stage) - dropped
