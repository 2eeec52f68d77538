"""Execution of a plan on DataFrames: composed lazily, run in as few Spark jobs as possible.

A stage is ``mapInArrow`` over the exchanged rows of the stages that it reads. A whole pipeline is
one query, with three exceptions:

- A stage with several readers is materialized until the run ends: see
  :mod:`sparkbeam.connectors.materialized_frames`. Its reports are taken from there. Elements that
  wait for side inputs computed from themselves are spilled to files by local workers instead: see
  :mod:`sparkbeam.plan.spilled`.
- A side input is collected before the stages that use it are composed.
- A possibly small side of a join is persisted and measured before the stage that writes the other
  side is composed, if that stage can then do less.

Otherwise the reports of a stage pass through all later stages with the data, and leave the query at
its end.
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
from sparkbeam.batch.side_probe import MeasuredSide, broadcast_bytes
from sparkbeam.batch.small_pipelines import roots_and_others
from sparkbeam.batch.spark_join import joined
from sparkbeam.batch.spilled_rows import SpilledFiles
from sparkbeam.connectors import query_frames, source_frames
from sparkbeam.connectors.delivery import Delivery, table_of_cells
from sparkbeam.connectors.materialized_frames import MaterializedFrame, materialize
from sparkbeam.connectors.parquet_reads import parquet_files
from sparkbeam.connectors.storage import absolute
from sparkbeam.errors import ConfigurationError
from sparkbeam.plan.input_sizes import ReadBytes
from sparkbeam.plan.join_payload import LEFT, RIGHT
from sparkbeam.plan.model import Exchange, Plan, Source, Stage
from sparkbeam.plan.recomputing import uncertain_step
from sparkbeam.plan.row_formats import JoinRows
from sparkbeam.plan.small_sides import SmallSide, small_sides, small_sides_first
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark import session as sessions
from sparkbeam.spark.capabilities import log_refused_settings, require_partitions
from sparkbeam.spark.collect import collected
from sparkbeam.upstream.spark import estimated_bytes
from sparkbeam.wire.environment import Environment
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.output_lines import OutputSpec
from sparkbeam.wire.parquet_splits import ParquetFiles
from sparkbeam.wire.reports import Reporter
from sparkbeam.wire.rows import METRICS_TAG
from sparkbeam.worker.batch.small_pipeline import SmallPipeline
from sparkbeam.worker.batch.stage import StageTask
from sparkbeam.worker.connectors.sink_cells import plain_row
from sparkbeam.worker.connectors.spark_rows import RowSource, SparkRowCells

_TASKS_OF_SIDE = 4
"""Tasks per core that write a side of a join: Spark splits keys along them."""

_SMALL = 1 << 20
"""Bytes of input up to which a task per core is enough for an exchange."""


class BatchExecution:
    """Execution of one plan on one session.

    Args:
        session: the Spark session, classic or Connect.
        parallelism: the number of partitions of a shuffle; None leaves it to Spark.
        temp_location: the folder for files of the run that all workers reach; None for none.
        reporter: receives live progress of the workers, or None.
        output: handling of the workers' output and logs.
        environment: the part of the driver's environment that workers need.
        proceed: called before each Spark job; its exception ends the run.
        describe: called with a description before each Spark job.
        committed: called with the reports of tasks as they come, before the run has ended.
        goes_along: called with the ids of a stage that reads a join and of one that writes a side
            of it, if the first no longer waits for the end of the second, as the other side is
            small.
        reads_files: called with the label of a Spark source whose files the workers read directly.
        number: the number of earlier starts of the run.
        delivered: labels of the sinks written by an earlier start that Spark gave up; this one adds
            its own.
    """

    _side_input_store = SideInputStore

    def __init__(
        self,
        session: Any,
        plan: Plan,
        *,
        parallelism: int | None = None,
        temp_location: str | None = None,
        reporter: Reporter | None = None,
        output: OutputSpec | None = None,
        environment: Environment | None = None,
        reports: FailureReports | None = None,
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
        self._temp_location = temp_location
        self._reporter = reporter
        self._output_spec = output or OutputSpec()
        self._environment = environment or Environment()
        self._reports = reports or FailureReports()
        self._proceed = proceed
        self._describe = describe
        self._run_id = uuid.uuid4().hex
        self._cores = sessions.cores(session)
        # Spark only repairs a loss if the second attempt of a task has the output of the first.
        self._repeatable = sessions.can_lose_executors(session)
        self._output: dict[str, Any] = {}
        self._persisted: dict[str, MaterializedFrame] = {}
        self._open: dict[str, Any] = {}
        self._side_inputs = self._side_input_store(session)
        self._small_sides: list[SmallSide] = []
        self._looks: dict[str, MeasuredSide] = {}
        self._tables: dict[str, Any] = {}
        self._given: dict[str, tuple[RowSource, Any]] = {}
        self._kept = SpilledFiles(sessions.scratch(session))
        log_refused_settings(session)

    def run(self) -> list[bytes]:
        """Execute the plan.

        Returns:
            The reports of all tasks.

        Raises:
            ConfigurationError: the session lacks what the plan needs.
        """
        require_partitions(self._session)
        reports: list[bytes] = []
        try:
            stages, reports = self._run_if_small(self._stages())
            for stage in stages:
                reports += self._collect_side_inputs(stage)
                self._measure_small_sides(stage)
                self._compose(stage)
            if self._open:
                reports += self._finish()
            self._deliver()
        finally:
            self._release()
        return reports

    def _run_if_small(self, stages: list[Stage]) -> tuple[list[Stage], list[bytes]]:
        """Run a small pipeline in one stage of Spark, where it would read a shuffle in one task.

        Returns:
            The stages that are left, and the reports if none are.
        """
        is_one_task = self._parallelism == 1 or (
            self._parallelism is None and sessions.is_adaptive(self._session)
        )
        is_possible = is_one_task and sessions.is_local(self._session) and not self._repeatable
        found = roots_and_others(self._plan) if is_possible else None
        if found is None:
            return stages, []
        roots, others = found
        small = SmallPipeline(
            tuple(map(self._task, roots)), tuple(map(self._task, others)), self._kept.folder
        )
        self._proceed()
        self._describe(f"Runs {'; '.join(stage.name for stage in stages)}")
        rows = impulses(self._session, small.tasks).mapInArrow(
            _named(small, "all stages", roots[0].name), ROW_TYPE
        )
        reports: list[bytes] = collected(rows.select("value")).column(0).to_pylist()
        self._tell(reports)
        count, left = small.left()
        if not left.paths:
            return [], reports
        rows = impulses(self._session, len(left.paths)).mapInArrow(
            _named(left, "rows", roots[0].name), ROW_TYPE
        )
        self._open["small"] = rows.where(sf.col("tag") == METRICS_TAG)
        done = [*roots, *others[:count]]
        for stage in done:
            self._output[stage.id] = rows
            self._persisted[stage.id] = MaterializedFrame(rows)
        return [stage for stage in others if stage not in done], []

    def _release(self) -> None:
        for persisted in self._persisted.values():
            persisted.release()
        for look in self._looks.values():
            look.release()
        self._side_inputs.close()
        self._kept.close()

    def _stages(self) -> list[Stage]:
        """Return the stages in the order of their composition."""
        if all(stage.join is None for stage in self._plan.stages):
            return [*self._plan.stages]
        self._limit = broadcast_bytes(self._session)
        if self._limit < 0:
            return [*self._plan.stages]
        self._small_sides = small_sides(self._plan, self._bytes_of)
        return small_sides_first(self._plan, self._small_sides)

    def _bytes_of(self, source: Source) -> int | None:
        # The tables of a query are not composed yet.
        return None if source.inputs else estimated_bytes(self._table(source))

    def _measure_small_sides(self, stage: Stage) -> None:
        """Measure small sides that are composed and may reduce the work of the stage."""
        written = {port.tag for port in stage.ports}
        for side in self._small_sides:
            if side.reader in self._looks:
                continue
            is_there = all(self._plan.producer(tag).id in self._output for tag in side.tags)
            if is_there and (side.reader == stage.id or not written.isdisjoint(side.others)):
                self._proceed()
                self._describe(f"Measures the {side.side} side of '{side.label}'")
                is_kept = all(self._plan.producer(tag).id in self._persisted for tag in side.tags)
                rows = self._ports(side.tags)
                self._looks[side.reader] = MeasuredSide(side, rows, self._limit, is_kept=is_kept)

    def _compose(self, stage: Stage) -> None:
        """Compose the DataFrame of ``stage``."""
        stage = self._with_measured_join(stage)
        root = self._plan.source_of(stage)
        source, table = (None, None) if root is None else self._source(root)
        task = replace(
            self._task(stage),
            side_inputs={
                (side_input.transform_id, side_input.local_name): self._side_inputs.data(side_input)
                for side_input in stage.side_inputs
            },
            source=source,
            partners=self._partners(stage),
            keeps={
                port.tag: self._kept.folder for port in stage.ports if port.tag in self._plan.kept
            },
            kept=self._spilled_files(stage),
        )
        rows = self._input(stage) if table is None else table
        rows = rows.mapInArrow(_named(task, stage.id, stage.name), ROW_TYPE)
        if self._reads(stage) > 1:
            self._persisted[stage.id] = self._materialize(stage, rows)
            rows = self._persisted[stage.id].rows
            self._open[stage.id] = rows.where(sf.col("tag") == METRICS_TAG)
        else:
            self._open[stage.id] = rows
        self._output[stage.id] = rows

    def _task(self, stage: Stage) -> StageTask:
        """Return the task of a stage without what is only known when its input is composed."""
        return StageTask(
            run_id=self._run_id,
            stage=stage,
            side_inputs={},
            reporter=self._reporter,
            tasks=self._tasks(stage),
            repeatable=self._repeatable,
            output=self._output_spec,
            environment=self._environment,
            reports=self._reports,
            number=self._number,
        )

    def _materialize(self, stage: Stage, rows: Any) -> MaterializedFrame:
        """Keep the rows of a stage for its readers; they compute them again only if that is safe.

        Raises:
            ConfigurationError: it is not safe, and the session keeps no rows.
        """

        def begin() -> None:
            self._proceed()
            self._describe(f"Runs '{stage.name}' for several readers")

        place = self._temp_location
        folder = place and f"{absolute(place)}/sparkbeam-{self._run_id}-{stage.id}"
        found = materialize(self._session, rows, folder, begin)
        if found is not None:
            return found
        uncertain = uncertain_step(self._plan, stage)
        if uncertain is None:
            return MaterializedFrame(rows)
        raise ConfigurationError(
            f"Step '{uncertain}' would run once for each of its readers, with other results or "
            "repeated side effects, as this Spark session has neither persist nor local "
            "checkpoints. Set --temp_location=PATH to a folder that all workers can write to: the "
            "rows are kept there while the pipeline runs."
        )

    def _with_measured_join(self, stage: Stage) -> Stage:
        """Return the stage with the measured sizes of its join."""
        look = self._looks.get(stage.id)
        if look is None or stage.join is None or not look.is_broadcast:
            return stage
        spec = replace(stage.join.spec, broadcast=look.side.side)
        for tag in look.side.others:
            self._goes_along(stage.id, self._plan.producer(tag).id)
        return replace(stage, join=replace(stage.join, spec=spec))

    def _partners(self, stage: Stage) -> dict[int, Any]:
        """Return the keys of the other side by port tag; rows without one are dropped."""
        return {
            port.tag: look.keys
            for look in self._looks.values()
            for port in stage.ports
            if look.keys is not None and port.tag in look.side.others
        }

    def _reads(self, stage: Stage) -> int:
        """Return the number of readers of a stage's rows."""
        return self._plan.reads(stage)

    def _input(self, stage: Stage) -> Any:
        if stage.exchange is Exchange.IMPULSE:
            return impulses(self._session, self._tasks(stage))
        kept = self._spilled_files(stage)
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
            parallelism=self._parallelism or self._partitions(stage),
            tasks=self._spread(stage),
            repeatable=self._repeatable,
        )

    def _spilled_files(self, stage: Stage) -> tuple[str, ...] | None:
        """Return the spilled files of a stage's input; None if Spark has its rows."""
        if self._plan.kept.isdisjoint(stage.inputs):
            return None
        (tag,) = stage.inputs
        if self._plan.producer(tag).id in self._persisted:
            return None
        return self._kept.paths(tag)

    def _tasks(self, stage: Stage) -> int:
        """Return the number of tasks of a stage without inputs."""
        tasks = self._spread(stage) if stage.creates else 1
        if self._parallelism is not None or stage.most_tasks is None:
            return tasks
        return min(tasks, stage.most_tasks)

    def _spread(self, stage: Stage) -> int:
        """Return the number of partitions of a rebalancing exchange."""
        if self._parallelism is not None:
            return self._parallelism
        sides = tuple(port.tag for port in stage.ports if port.format == JoinRows())
        return self._cores * (_TASKS_OF_SIDE if sides and not self._is_small(sides) else 1)

    def _partitions(self, stage: Stage) -> int | None:
        """Return the number of partitions of a shuffle of few rows; None leaves it to Spark.

        A session that is not adaptive would run hundreds of tasks over them.
        """
        if stage.exchange is not Exchange.BY_KEY or sessions.is_adaptive(self._session):
            return None
        return self._cores if self._is_small(stage.inputs) else None

    def _is_small(self, tags: tuple[int, ...]) -> bool:
        """Return whether what is read for some ports is known to be small."""
        size = self._sizes.of(tags)
        return size is not None and size <= _SMALL

    @functools.cached_property
    def _sizes(self) -> ReadBytes:
        return ReadBytes(self._plan, self._bytes_of)

    def _ports(self, tags: Iterable[int]) -> Any:
        """Return the rows of ports; filtered by tag if their stage has other readers."""
        found = []
        together: list[dict[str, list[int]]] = []
        for tag, count in Counter(tags).items():
            root = self._plan.source(tag)
            if root is not None:
                # For a stage that also reads others.
                source, table = self._source(root)
                cells = SparkRowCells(source, tag, self._reports)
                found += [table.mapInArrow(cells, ROW_TYPE)] * count
                continue
            together += [{} for _ in range(count - len(together))]
            for read in together[:count]:
                read.setdefault(self._plan.producer(tag).id, []).append(tag)
        return union(found + [self._rows(*read) for reads in together for read in reads.items()])

    def _rows(self, producer: str, tags: list[int]) -> Any:
        """Return the rows of some ports of a stage, as one read."""
        rows = self._output[producer]
        if producer in self._persisted:
            return rows.where(sf.col("tag").isin(tags))
        del self._open[producer]
        return rows

    def _table(self, root: Source) -> Any:
        """Return the DataFrame of a Spark source."""
        if root.label not in self._tables:
            spec = root.read
            assert spec is not None
            if spec.inputs is None:
                frame = source_frames.timed(self._session, spec, root.label)
            else:
                tables = list(map(self._queried, root.inputs, spec.inputs))
                frame = query_frames.result_of(self._session, spec, tables, root.label)
            self._tables[root.label] = frame
        return self._tables[root.label]

    def _queried(self, tags: tuple[int, ...], schema: str) -> Any:
        """Return a table of a query."""
        source = self._plan.source(tags[0])
        if source is not None:
            return query_frames.as_table(self._table(source), schema)
        rows = self._ports(tags).where(sf.col("tag").isin([*tags])).select("value")
        return table_of_cells(rows, schema)

    def _source(self, root: Source) -> tuple[RowSource, Any]:
        """Return a Spark source as tasks read it, and the DataFrame that feeds them."""
        if root.label not in self._given:
            assert root.read is not None
            spec = root.read.of_workers()
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
        """Return the files that workers read instead of a DataFrame; None if Spark reads them."""
        # Spark refuses to overwrite a table that it knows to be read.
        return parquet_files(
            self._session, lambda: self._table(root), spec, tables=not self._plan.sinks
        )

    def _deliver(self) -> None:
        """Write the rows of Spark's sinks; all their inputs are persisted."""
        for sink in self._plan.sinks:
            if sink.name in self._delivered:
                continue
            self._proceed()
            self._describe(f"Writes '{sink.label}'")
            rows = self._ports(sink.inputs)
            delivery = Delivery(sink, plain_row, self._reports)
            order = (
                [sf.monotonically_increasing_id().alias("position")] if delivery.spec.key else []
            )
            delivery(rows.select(*order, "value"), 0)
            self._delivered.add(sink.name)

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
            self._kept.add_reports(reports)
        self._tell(reports)
        return reports

    def _finish(self) -> list[bytes]:
        """Run all remaining stages and collect their reports."""
        self._proceed()
        self._describe(f"Runs {'; '.join(stage.name for stage in self._plan.stages)}")
        reports: list[bytes] = collected(self._rest()).column(0).to_pylist()
        self._tell(reports)
        return reports

    def _rest(self) -> Any:
        """Return the query that runs all remaining stages."""
        return union(list(self._open.values())).select("value")


def _named(task: Any, stage: str, name: str) -> Any:
    """Return the task as a function named after the stage, for Spark's plans and UI."""
    function: Any = functools.partial(task)
    function.__name__ = shorten(f"{stage}: {name}", 80, placeholder=" …")
    return function


def union(frames: list[Any]) -> Any:
    """Return the union of DataFrames with the same columns."""
    first, *rest = frames
    for frame in rest:
        first = first.unionAll(frame)
    return first
