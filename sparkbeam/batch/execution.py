"""A plan on DataFrames: composed lazily, run in as few Spark jobs as there can be.

A stage is ``mapInArrow`` over the exchanged rows of the stages that it reads,
so a whole pipeline is one query, up to two exceptions:

- A stage that several others read is persisted, and released after its last
  reader. Its metrics reports are taken from there.
- A side input is collected before the stages that ask for it are composed.

Otherwise the metrics reports of a stage travel through all later stages with
the data, and come out at the end.
"""

import functools
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from textwrap import shorten
from typing import Any

from pyspark.sql import functions as sf

from sparkbeam import session as sessions
from sparkbeam.batch.exchange import ROW_TYPE, exchanged, impulses
from sparkbeam.batch.joining import joined
from sparkbeam.batch.sideinputs import SideInputStore
from sparkbeam.collecting import collected
from sparkbeam.connectors import frames
from sparkbeam.connectors.delivery import Delivery
from sparkbeam.plan.model import Exchange, Layout, Plan, Source, Stage
from sparkbeam.plan.sparkio import ReadSpec
from sparkbeam.wire.environment import Environment
from sparkbeam.wire.failure import Reports
from sparkbeam.wire.output import OutputSpec
from sparkbeam.wire.reports import Reporter
from sparkbeam.wire.rows import METRICS_TAG
from sparkbeam.worker.batch.stage import StageTask
from sparkbeam.worker.connectors.packing import plain_row
from sparkbeam.worker.connectors.sparkrows import RowCells, RowSource

_TASKS_OF_SIDE = 4
"""So many tasks for each core write a side of a join: Spark divides what has a key between them."""


class BatchExecution:
    """Runs one plan on one session.

    Args:
        session: the Spark session, classic or Connect.
        plan: what to run.
        parallelism: the number of partitions of a shuffle, or None for Spark's choice.
        reporter: where the workers send live progress, or None.
        output: what becomes of what the workers print and log.
        environment: what they take over of the driver's process.
        reports: what the workers make of their failures.
        proceed: called before each Spark job; the run ends with what it raises.
        describe: told before each Spark job what it does.
        committed: called with the reports of tasks as they come, before the run has ended.
        number: how often the run has started before.
        delivered: the labels of the sinks that have what they are to get, from an earlier run
            that Spark gave up; this run adds its own.
    """

    _side_input_store = SideInputStore

    def __init__(
        self,
        session: Any,
        plan: Plan,
        *,
        parallelism: int | None = None,
        reporter: Reporter | None = None,
        output: OutputSpec | None = None,
        environment: Environment | None = None,
        reports: Reports | None = None,
        proceed: Callable[[], None] = lambda: None,
        describe: Callable[[str], None] = lambda _: None,
        committed: Callable[[list[bytes]], None] = lambda _: None,
        number: int = 0,
        delivered: set[str] | None = None,
    ) -> None:
        self._tell = committed
        self._number = number
        self._delivered = set() if delivered is None else delivered
        self._session = session
        self._plan = plan
        self._parallelism = parallelism
        self._reporter = reporter
        self._output_spec = output or OutputSpec()
        self._environment = environment or Environment()
        self._reports = reports or Reports()
        self._proceed = proceed
        self._describe = describe
        self._run_id = uuid.uuid4().hex
        self._cores = sessions.cores(session)
        # Spark repairs a loss only where the second attempt of a task puts out what the first did.
        self._repeatable = sessions.can_lose_executors(session)
        self._output: dict[str, Any] = {}
        self._persisted: dict[str, Any] = {}
        self._open: dict[str, Any] = {}
        self._side_inputs = self._side_input_store(session)

    def run(self) -> list[bytes]:
        """Executes the plan.

        Returns:
            The metrics reports of all tasks.
        """
        reports = []
        try:
            for stage in self._plan.stages:
                reports += self._collect_side_inputs(stage)
                self._compose(stage)
            if self._open:
                reports += self._finish()
            self._deliver()
        finally:
            self._release()
        return reports

    def _release(self) -> None:
        for persisted in self._persisted.values():
            persisted.unpersist()
        self._side_inputs.close()

    def _compose(self, stage: Stage) -> None:
        """Adds the DataFrame of ``stage``."""
        source = _rows_of(self._plan.source_of(stage))
        task = StageTask(
            run_id=self._run_id,
            stage=stage,
            side_inputs={
                (side_input.transform_id, side_input.local_name): self._side_inputs.data(side_input)
                for side_input in stage.side_inputs
            },
            reporter=self._reporter,
            tasks=self._tasks(stage),
            source=source,
            repeatable=self._repeatable,
            output=self._output_spec,
            environment=self._environment,
            reports=self._reports,
            number=self._number,
        )
        rows = self._input(stage) if source is None else self._table(source)
        rows = rows.mapInArrow(_named(task), ROW_TYPE)
        if self._reads(stage) > 1:
            rows = rows.persist()
            self._persisted[stage.id] = rows
            self._open[stage.id] = rows.where(sf.col("tag") == METRICS_TAG)
        else:
            self._open[stage.id] = rows
        self._output[stage.id] = rows

    def _reads(self, stage: Stage) -> int:
        """How many times the rows of a stage are read."""
        return self._plan.reads(stage)

    def _input(self, stage: Stage) -> Any:
        if stage.exchange is Exchange.IMPULSE:
            return impulses(self._session, self._tasks(stage))
        if stage.join is not None:
            left, right = (self._ports(tags) for tags in (stage.join.left, stage.join.right))
            return joined(self._session, left, right, stage.join.spec, repeatable=self._repeatable)
        rows = self._ports(stage.inputs)
        return exchanged(
            rows,
            stage.exchange,
            parallelism=self._parallelism,
            tasks=self._spread(stage),
            repeatable=self._repeatable,
        )

    def _tasks(self, stage: Stage) -> int:
        """In how many tasks a stage that reads nothing runs."""
        return self._spread(stage) if stage.creates else 1

    def _spread(self, stage: Stage) -> int:
        """Over how many tasks a stage is spread whose elements are nobody's."""
        if self._parallelism is not None:
            return self._parallelism
        is_joined = any(port.layout is Layout.JOIN_SIDE for port in stage.ports)
        return self._cores * (_TASKS_OF_SIDE if is_joined else 1)

    def _ports(self, tags: Iterable[int]) -> Any:
        """The rows of ports: of them alone if those of their stages are read elsewhere too."""
        found = []
        together: list[dict[str, list[int]]] = []
        for tag, count in Counter(tags).items():
            source = _rows_of(self._plan.source(tag))
            if source is not None:
                # For a stage that reads others too.
                cells = RowCells(source, tag, self._reports)
                found += [self._table(source).mapInArrow(cells, ROW_TYPE)] * count
                continue
            together += [{} for _ in range(count - len(together))]
            for read in together[:count]:
                read.setdefault(self._plan.producer(tag).id, []).append(tag)
        return union(found + [self._rows(*read) for reads in together for read in reads.items()])

    def _rows(self, producer: str, tags: list[int]) -> Any:
        """The rows of some ports of a stage, read at once."""
        rows = self._output[producer]
        if producer in self._persisted:
            return rows.where(sf.col("tag").isin(tags))
        del self._open[producer]
        return rows

    def _table(self, source: RowSource) -> Any:
        """The columns of a source."""
        return frames.timed(self._session, source.spec, source.label)

    def _deliver(self) -> None:
        """Writes what goes to Spark's sinks; all that it takes is persisted."""
        for sink in self._plan.sinks:
            if sink.label in self._delivered:
                continue
            self._proceed()
            self._describe(f"Writes '{sink.label}'")
            rows = self._ports(sink.inputs)
            Delivery(sink, plain_row, self._reports)(rows.select("value"), 0)
            self._delivered.add(sink.label)

    def _collect_side_inputs(self, stage: Stage) -> list[bytes]:
        missing = sorted(
            {
                tag
                for side_input in stage.side_inputs
                for tag in side_input.sources
                if tag not in self._side_inputs
            }
        )
        if not missing:
            return []
        self._proceed()
        self._describe(f"Collects side inputs of '{stage.name}'")
        rows = self._ports(missing)
        reports = self._side_inputs.collect(rows, missing)
        self._tell(reports)
        return reports

    def _finish(self) -> list[bytes]:
        """Runs what has not run yet, for the metrics that come out of it."""
        self._proceed()
        self._describe(f"Runs {'; '.join(stage.name for stage in self._plan.stages)}")
        table = collected(self._rest())
        reports = [bytes(value) for value in table.column(0).to_pylist()]
        self._tell(reports)
        return reports

    def _rest(self) -> Any:
        """The query whose execution runs what has not run yet."""
        return union(list(self._open.values())).select("value")


def _rows_of(source: Source | None) -> RowSource | None:
    return None if source is None else RowSource(source.label, ReadSpec.unpack(source.payload))


def _named(task: StageTask) -> Any:
    """The task as a function whose name tells the stage in Spark's plans and UI."""
    function: Any = functools.partial(task)
    function.__name__ = shorten(f"{task.stage.id}: {task.stage.name}", 80, placeholder=" …")
    return function


def union(frames: list[Any]) -> Any:
    """All rows of DataFrames with the same columns."""
    first, *rest = frames
    for frame in rest:
        first = first.unionAll(frame)
    return first
