"""A plan on DataFrames: composed lazily, run in as few Spark jobs as there can be.

A stage is ``mapInArrow`` over the exchanged rows of the stages that it reads,
so a whole pipeline is one query, up to three exceptions:

- A stage that several others read is persisted, and released after its last
  reader. Its metrics reports are taken from there. Of what waits for side inputs of the same
  elements, workers on this machine keep files instead: see :mod:`sparkbeam.plan.spilled`.
- A side input is collected before the stages that ask for it are composed.
- A side of a join that may be small is persisted and measured before what writes the other side
  is composed, where less has to run if it is.

Otherwise the metrics reports of a stage travel through all later stages with
the data, and come out at the end.
"""

import functools
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from textwrap import shorten
from typing import Any

from pyspark.sql import functions as sf

from sparkbeam.batch.exchange import ROW_TYPE, exchanged, impulses
from sparkbeam.batch.side_input_collection import SideInputStore
from sparkbeam.batch.side_probe import Look, broadcast_bytes
from sparkbeam.batch.spark_join import joined
from sparkbeam.batch.spilled_rows import KeptFiles
from sparkbeam.connectors import source_frames
from sparkbeam.connectors.delivery import Delivery
from sparkbeam.connectors.parquet_frames import parquet_files
from sparkbeam.plan.join_payload import LEFT, RIGHT
from sparkbeam.plan.model import Exchange, Layout, Plan, Source, Stage
from sparkbeam.plan.small_sides import SmallSide, small_sides, small_sides_first
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark import session as sessions
from sparkbeam.spark.collect import collected
from sparkbeam.upstream.spark import estimated_bytes
from sparkbeam.wire.environment import Environment
from sparkbeam.wire.failure import Reports
from sparkbeam.wire.output_lines import OutputSpec
from sparkbeam.wire.parquet_splits import ParquetFiles
from sparkbeam.wire.reports import Reporter
from sparkbeam.wire.rows import METRICS_TAG
from sparkbeam.worker.batch.stage import StageTask
from sparkbeam.worker.connectors.sink_cells import plain_row
from sparkbeam.worker.connectors.spark_rows import RowCells, RowSource

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
        goes_along: told the ids of a stage that reads a join and of one that writes a side of it,
            where the first no longer waits for the end of the second, as the other side is small.
        reads_files: told the label of a source of Spark's whose files the workers read themselves.
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
        goes_along: Callable[[str, str], None] = lambda *_: None,
        reads_files: Callable[[str], None] = lambda _: None,
        number: int = 0,
        delivered: set[str] | None = None,
    ) -> None:
        self._tell = committed
        self._goes_along = goes_along
        self._reads_files = reads_files
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
        self._small_sides: list[SmallSide] = []
        self._looks: dict[str, Look] = {}
        self._tables: dict[str, Any] = {}
        self._given: dict[str, tuple[RowSource, Any]] = {}
        self._kept = KeptFiles(sessions.scratch(session))

    def run(self) -> list[bytes]:
        """Executes the plan.

        Returns:
            The metrics reports of all tasks.
        """
        reports = []
        try:
            for stage in self._stages():
                reports += self._collect_side_inputs(stage)
                self._look_before(stage)
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
        for look in self._looks.values():
            look.release()
        self._side_inputs.close()
        self._kept.close()

    def _stages(self) -> list[Stage]:
        """The stages in the order in which they are composed."""
        if all(stage.join is None for stage in self._plan.stages):
            return [*self._plan.stages]
        self._limit = broadcast_bytes(self._session)
        if self._limit < 0:
            return [*self._plan.stages]
        self._small_sides = small_sides(self._plan, self._bytes_of)
        return small_sides_first(self._plan, self._small_sides)

    def _bytes_of(self, source: Source) -> int | None:
        return estimated_bytes(self._table(source))

    def _look_before(self, stage: Stage) -> None:
        """Looks at small sides that are there, and without which the stage would do more."""
        written = {port.tag for port in stage.ports}
        for side in self._small_sides:
            if side.reader in self._looks:
                continue
            is_there = all(self._plan.producer(tag).id in self._output for tag in side.tags)
            if is_there and (side.reader == stage.id or not written.isdisjoint(side.others)):
                self._proceed()
                self._describe(f"Looks at the {side.side} side of '{side.label}'")
                is_kept = all(self._plan.producer(tag).id in self._persisted for tag in side.tags)
                rows = self._ports(side.tags)
                self._looks[side.reader] = Look(side, rows, self._limit, is_kept=is_kept)

    def _compose(self, stage: Stage) -> None:
        """Adds the DataFrame of ``stage``."""
        stage = self._settled(stage)
        root = self._plan.source_of(stage)
        source, table = (None, None) if root is None else self._source(root)
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
            partners=self._partners(stage),
            keeps={
                port.tag: self._kept.folder for port in stage.ports if port.tag in self._plan.kept
            },
            kept=self._kept_files(stage),
        )
        rows = self._input(stage) if table is None else table
        rows = rows.mapInArrow(_named(task), ROW_TYPE)
        if self._reads(stage) > 1:
            rows = rows.persist()
            self._persisted[stage.id] = rows
            self._open[stage.id] = rows.where(sf.col("tag") == METRICS_TAG)
        else:
            self._open[stage.id] = rows
        self._output[stage.id] = rows

    def _settled(self, stage: Stage) -> Stage:
        """The stage with what is known by now of the join that it reads."""
        look = self._looks.get(stage.id)
        if look is None or stage.join is None or not look.is_broadcast:
            return stage
        spec = replace(stage.join.spec, broadcast=look.side.side)
        for tag in look.side.others:
            self._goes_along(stage.id, self._plan.producer(tag).id)
        return replace(stage, join=replace(stage.join, spec=spec))

    def _partners(self, stage: Stage) -> dict[int, Any]:
        """The keys that decide what a stage may leave out, by the tags of its ports."""
        return {
            port.tag: look.keys
            for look in self._looks.values()
            for port in stage.ports
            if look.keys is not None and port.tag in look.side.others
        }

    def _reads(self, stage: Stage) -> int:
        """How many times the rows of a stage are read."""
        return self._plan.reads(stage)

    def _input(self, stage: Stage) -> Any:
        if stage.exchange is Exchange.IMPULSE:
            return impulses(self._session, self._tasks(stage))
        kept = self._kept_files(stage)
        if kept is not None:
            return impulses(self._session, max(1, len(kept)))
        if stage.join is not None:
            look = self._looks.get(stage.id)
            left, right = (
                look.rows if look is not None and look.side.side == side else self._ports(tags)
                for side, tags in ((LEFT, stage.join.left), (RIGHT, stage.join.right))
            )
            return joined(self._session, left, right, stage.join.spec, repeatable=self._repeatable)
        rows = self._ports(stage.inputs)
        return exchanged(
            rows,
            stage.exchange,
            parallelism=self._parallelism,
            tasks=self._spread(stage),
            repeatable=self._repeatable,
        )

    def _kept_files(self, stage: Stage) -> tuple[str, ...] | None:
        """The files with all that a stage reads; None where Spark has its rows."""
        if self._plan.kept.isdisjoint(stage.inputs):
            return None
        (tag,) = stage.inputs
        return self._kept.of(tag)

    def _tasks(self, stage: Stage) -> int:
        """In how many tasks a stage that reads nothing runs."""
        if not stage.creates:
            return 1
        tasks = self._spread(stage)
        if self._parallelism is not None or stage.most_tasks is None:
            return tasks
        return min(tasks, stage.most_tasks)

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
            root = self._plan.source(tag)
            if root is not None:
                # For a stage that reads others too.
                source, table = self._source(root)
                cells = RowCells(source, tag, self._reports)
                found += [table.mapInArrow(cells, ROW_TYPE)] * count
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

    def _table(self, root: Source) -> Any:
        """The columns of a source of Spark's."""
        if root.label not in self._tables:
            spec = ReadSpec.unpack(root.payload)
            self._tables[root.label] = source_frames.timed(self._session, spec, root.label)
        return self._tables[root.label]

    def _source(self, root: Source) -> tuple[RowSource, Any]:
        """A source of Spark's as tasks read it, and what Spark hands over to them for that."""
        if root.label not in self._given:
            spec = ReadSpec.unpack(root.payload)
            files = self._files(root, spec)
            if files is None:
                self._given[root.label] = RowSource(root.label, spec), self._table(root)
            else:
                self._reads_files(root.label)
                source = RowSource(root.label, spec.of_files(), files)
                numbers = impulses(self._session, len(files.shares))
                self._given[root.label] = source, numbers
        return self._given[root.label]

    def _files(self, root: Source, spec: ReadSpec) -> ParquetFiles | None:
        """The files that workers read in place of a DataFrame; None where Spark does."""
        # Spark writes over no table that it knows to be read.
        return parquet_files(
            self._session, lambda: self._table(root), spec, tables=not self._plan.sinks
        )

    def _deliver(self) -> None:
        """Writes what goes to Spark's sinks; all that it takes is persisted."""
        for sink in self._plan.sinks:
            if sink.label in self._delivered:
                continue
            self._proceed()
            self._describe(f"Writes '{sink.label}'")
            rows = self._ports(sink.inputs)
            delivery = Delivery(sink, plain_row, self._reports)
            order = [sf.monotonically_increasing_id().alias("place")] if delivery.spec.key else []
            delivery(rows.select(*order, "value"), 0)
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
        if self._plan.kept:
            self._kept.take(reports)
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
