"""A plan as one Structured Streaming query: source, layers, sink."""

import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as sf

from sparkbeam import session as sessions
from sparkbeam.errors import ConfigurationError
from sparkbeam.options import AVAILABLE_NOW
from sparkbeam.plan.fingerprint import differences, fingerprint
from sparkbeam.plan.layers import topology
from sparkbeam.plan.model import Plan
from sparkbeam.streaming.clocks import spark_sources
from sparkbeam.streaming.committed import Committed
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.files import files
from sparkbeam.streaming.source import SourceSpec, TickSource
from sparkbeam.streaming.spark_sinks import SparkSinks
from sparkbeam.streaming.spark_sources import newest_seen, source_rows
from sparkbeam.streaming.summary import MicroBatch, summary
from sparkbeam.worker.logs import LogLevels
from sparkbeam.worker.streaming.layer import layer_tasks
from sparkbeam.worker.streaming.operators import FirstLayer, ShardLayer
from sparkbeam.worker.streaming.rows import DDL, REPORT_TAG, SEEN_TAG, STATUS_TAG, TICK_TAG, load
from sparkbeam.worker.streaming.times import MAX_MICROS

_POLL_SECONDS = 0.02
_PIPELINE = "pipeline.json"
_MOST_DIFFERENCES = 5


class StreamingExecution:
    """Runs one plan as a query on one session.

    Args:
        session: the Spark session; the query runs in one of its own beside it.
        plan: what to run.
        checkpoint: where offsets, state and feedback are kept; None for a temporary folder.
        shards: into how many shards the keys are divided; None for the number of cores.
        trigger: when micro-batches start, as ``--trigger`` says.
        max_batch_elements: about how many elements of unbounded sources a micro-batch reads.
        levels: what the workers log.
        proceed: called now and then; the run ends with what it raises.
        committed: called with all reports so far when a micro-batch has done its work.
        observed: called with the figures of each micro-batch when it has done its work.

    Raises:
        ConfigurationError: there is no checkpoint location where one is needed.
    """

    def __init__(
        self,
        session: Any,
        plan: Plan,
        checkpoint: str | None,
        *,
        shards: int | None = None,
        trigger: str | None = None,
        max_batch_elements: int | None = None,
        levels: LogLevels | None = None,
        proceed: Callable[[], None] = lambda: None,
        committed: Callable[[list[bytes]], None] = lambda _: None,
        observed: Callable[[MicroBatch], None] = lambda _: None,
    ) -> None:
        if checkpoint is None and not sessions.is_local(session):
            raise ConfigurationError(
                "A streaming pipeline on a cluster needs --checkpoint_location: "
                "a folder on storage that the driver and all executors share."
            )
        count = shards or sessions.cores(session)
        self._session = sessions.for_streaming(session, count)
        self._topology = topology(plan)
        self._temporary = None if checkpoint else tempfile.mkdtemp(prefix="sparkbeam-")
        self._checkpoint: str = checkpoint or self._temporary or ""
        self._files = files(self._checkpoint)
        self._feedback = FeedbackFiles(self._checkpoint)
        self._shards = _shards(self._session, count)
        self._sinks = SparkSinks(plan, self._files)
        self._trigger = trigger
        self._max_batch_elements = max_batch_elements
        self._levels = levels
        self._proceed = proceed
        self._tell = committed
        self._observe = observed
        self._since = _now()
        self._committed = Committed()
        self._number = 0
        self._finished_batch: int | None = None

    def run(self) -> list[bytes]:
        """Executes the plan until nothing is left to do.

        Returns:
            The metrics reports of all tasks.
        """
        self._check_checkpoint()
        query = (
            self._rows()
            .writeStream.foreachBatch(self._sink)
            .option("checkpointLocation", self._checkpoint)
            .trigger(**self._trigger_arguments())
            .start()
        )
        try:
            while query.isActive and not self._is_done(query):
                self._proceed()
                query.awaitTermination(_POLL_SECONDS)
        finally:
            query.stop()
            if self._temporary is not None:
                shutil.rmtree(self._temporary, ignore_errors=True)
        error = query.exception()
        if error is not None:
            raise error
        return self._committed.reports()

    def _trigger_arguments(self) -> dict[str, Any]:
        if self._trigger is None:
            return {"processingTime": "0 seconds"}
        if self._trigger == AVAILABLE_NOW:
            return {"availableNow": True}
        return {"processingTime": self._trigger}

    def _check_checkpoint(self) -> None:
        """Sees to it that the checkpoint, if there is one, is of this pipeline.

        Raises:
            ConfigurationError: the pipeline has changed so that its state does not fit.
        """
        now = fingerprint(self._topology, len(self._shards))
        stored = self._files.read(_PIPELINE)
        if stored is None:
            self._files.write(_PIPELINE, json.dumps(now).encode())
            return
        found = differences(json.loads(stored), now)
        if found:
            raise ConfigurationError(
                f"--checkpoint_location={self._checkpoint} holds the state of another pipeline: "
                f"{'; '.join(found[:_MOST_DIFFERENCES])}. "
                "Undo the change, or start with another --checkpoint_location."
            )

    def _is_done(self, query: Any) -> bool:
        """Whether the last micro-batch has been committed."""
        if self._finished_batch is None:
            # An earlier run may have done all; then there is no micro-batch at all.
            last = self._feedback.finished()
            if last is None or not _is_idle(query):
                return False
            self._committed = Committed(last.reports)
            self._observe(MicroBatch.of(last.summary))
            return True
        progress = query.lastProgress
        return progress is not None and progress["batchId"] >= self._finished_batch

    def _rows(self) -> Any:
        spec = SourceSpec.of(self._topology.plan, self._checkpoint)
        self._session.dataSource.register(TickSource)
        rows = (
            self._session.readStream.format(TickSource.name()).option("spec", spec.option()).load()
        )
        first, *later = layer_tasks(
            uuid.uuid4().hex, self._topology, self._shards, self._max_batch_elements, self._levels
        )
        plan = self._topology.plan
        for source in spark_sources(plan):
            rows = rows.unionAll(
                source_rows(
                    self._session,
                    source,
                    shard=self._shards[0],
                    depth=self._topology.depth,
                )
            )
        rows = rows.mapInArrow(FirstLayer(first), DDL)
        for task in later:
            rows = rows.groupBy("shard").transformWithState(ShardLayer(task), DDL, "Append", "None")
        return rows

    def _sink(self, batch: Any, batch_id: int) -> None:
        if not self._sinks:
            self._take(batch.select("tag", "value").toArrow(), batch_id)
            return
        batch.persist()
        try:
            # What is for Spark's sinks does not come to the driver.
            word = sf.when(sf.col("tag") < 0, sf.col("value"))
            table = batch.select("tag", word.alias("value")).toArrow()
            present = {tag for tag in table.column("tag").to_pylist() if tag >= 0}
            self._sinks.deliver(batch, present, batch_id)
        finally:
            batch.unpersist()
        self._take(table, batch_id)

    def _take(self, table: Any, batch_id: int) -> None:
        """Takes in what a micro-batch says of itself."""
        tick = None
        statuses = []
        seen = []
        reports = []
        for tag, value in zip(*table.to_pydict().values(), strict=True):
            if tag == REPORT_TAG:
                reports.append(value)
            elif tag == TICK_TAG:
                tick = load(value)
            elif tag == STATUS_TAG:
                statuses.append(load(value))
            elif tag == SEEN_TAG:
                seen.append(load(value))
        if tick is None:
            return
        stages = [stage for status in statuses for stage in status.stages.values()]
        ended = all(mark >= MAX_MICROS for mark in tick.rounds[-1].watermarks.values())
        finished = ended and all(
            stage.output_watermark >= MAX_MICROS and stage.due is None for stage in stages
        )
        due = min((stage.due for stage in stages if stage.due is not None), default=None)
        self._commit(tick.number, reports)
        batch = summary(
            self._topology,
            tick,
            statuses,
            Committed().plus(reports).by_stage,
            self._committed.by_stage,
            since=self._since,
            now=_now(),
        )
        self._since = batch.ended
        feedback = Feedback(
            number=tick.number,
            finished=finished,
            due=due,
            reports=self._committed.store(),
            seen=newest_seen(seen),
            summary=batch.content(),
        )
        self._feedback.write(feedback)
        self._observe(batch)
        if finished:
            self._finished_batch = batch_id

    def _commit(self, number: int, reports: list[bytes]) -> None:
        """Adds the reports of a micro-batch to those of all before, also of earlier runs."""
        if number != self._number + 1:
            before = self._feedback.read(number - 1)
            self._committed = Committed(before.reports if before is not None else "")
        self._number = number
        self._committed = self._committed.plus(reports)
        self._tell(self._committed.reports())


def _now() -> int:
    return time.time_ns() // 1000


def _is_idle(query: Any) -> bool:
    """Whether the query has looked for data and found none."""
    return query.status["message"] == "Waiting for data to arrive"


def _shards(session: Any, count: int) -> tuple[int, ...]:
    """Numbers for shards that Spark's hash sends to different partitions each."""
    (row,) = session.sql(
        f"SELECT transform(sequence(0, {64 * count}), i -> pmod(hash(int(i)), {count}))"
    ).collect()
    of_partition: dict[int, int] = {}
    for number, partition in enumerate(row[0]):
        of_partition.setdefault(partition, number)
    return tuple(of_partition[partition] for partition in range(count))
