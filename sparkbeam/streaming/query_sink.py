"""The sink of a query: delivers to Spark's sinks, and writes the feedback for the source."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

from sparkbeam.connectors.materialized_frames import MaterializedFrame, materialize
from sparkbeam.observe.collection.micro_batch_summary import summary
from sparkbeam.observe.figures.partitions import PartitionProgress
from sparkbeam.observe.figures.phases import (
    COLLECTING,
    DELIVERY,
    FEEDBACK,
    STAGES,
    Phases,
    Stopwatch,
)
from sparkbeam.plan.layers import Topology
from sparkbeam.spark.collect import collected
from sparkbeam.streaming import partition_notes
from sparkbeam.streaming.callbacks import Callbacks
from sparkbeam.streaming.committed_reports import Committed, busiest
from sparkbeam.streaming.feedback import Feedback, FeedbackFiles
from sparkbeam.streaming.generation import OwnFiles, unless_taken
from sparkbeam.streaming.source_offsets import SourceOffsets
from sparkbeam.streaming.source_watermarks import SourceClock, newest_seen, spark_sources
from sparkbeam.streaming.spark_sinks import SparkSinks
from sparkbeam.streaming.stored_names import StoredNames
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.messages import (
    FINALIZERS_TAG,
    REPORT_TAG,
    SEEN_TAG,
    STATUS_TAG,
    TICK_TAG,
    Finalizers,
    load,
)
from sparkbeam.wire.reports import TaskReport
from sparkbeam.wire.timestamps import MAX_MICROS, now_micros

WORD = "IF(tag < 0, value, NULL) AS value"
"""Column with the control messages of a micro-batch."""


@dataclass
class _Said:
    """Control messages of a micro-batch.

    Attributes:
        tick: its tick; None without one.
        seen: the latest timestamps of the partitions of each Spark source.
        finalizers: tokens of callbacks to call once the micro-batch is committed.
    """

    tick: Any = None
    statuses: list[Any] = field(default_factory=list)
    seen: list[tuple[int, Any]] = field(default_factory=list)
    reports: list[bytes] = field(default_factory=list)
    finalizers: list[Finalizers] = field(default_factory=list)

    @classmethod
    def from_table(cls, table: Any) -> Self:
        """Parse rows of ``tag`` and ``value``."""
        said = cls()
        for tag, value in zip(*table.to_pydict().values(), strict=True):
            if tag == REPORT_TAG:
                said.reports.append(value)
            elif tag == TICK_TAG:
                said.tick = load(value)
            elif tag == STATUS_TAG:
                said.statuses.append(load(value))
            elif tag == SEEN_TAG:
                part = load(value)
                said.seen.append((part.tag, part.newest))
            elif tag == FINALIZERS_TAG:
                said.finalizers.append(load(value))
        return said


class QuerySink:
    """Function for ``foreachBatch``.

    Spark calls it on the driver. Over Spark Connect that is the server: it is pickled before its
    first call.

    Args:
        files: the driver's own under the checkpoint of the query, as seen where Spark calls it.

    Attributes:
        number: of the tick of the last received micro-batch; 0 before the first.
        phases: that number with the timings of the micro-batch, once its feedback is written.
    """

    def __init__(self, topology: Topology, files: OwnFiles, reports: FailureReports) -> None:
        self._topology = topology
        self._names = StoredNames(topology.plan)
        self._files = files
        self._spark_sinks = SparkSinks(topology.plan.sinks, files, reports)
        self._clocks = tuple(map(SourceClock.from_source, spark_sources(topology.plan)))
        self._feedback = FeedbackFiles(files)
        self._offsets = SourceOffsets(topology.plan, self._feedback)
        self._since = now_micros()
        self._committed = Committed()
        self.number = 0
        self.phases: tuple[int, Phases] = (0, {})
        self._watch = Stopwatch()
        self._callbacks = Callbacks()

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Process the rows of a micro-batch.

        Raises:
            WorkerFailure: a sink failed; see :mod:`sparkbeam.wire.failure`.
            CheckpointTaken: there is a newer driver over the checkpoint.
        """
        self._files.check()  # Nothing has run yet.
        with unless_taken(self._files.check):  # Files may be gone if taken.
            self._deliver(batch, batch_id)
        self._files.check()  # Spark commits next.

    def close(self) -> None:
        """Disconnect from sources, once the query has ended."""
        self._offsets.close()

    def _deliver(self, batch: Any, batch_id: int) -> None:
        self._watch = Stopwatch()
        self._offsets.read(batch_id + 1)
        if not self._spark_sinks:
            with self._watch.within(STAGES):
                table = collected(batch.select("tag", "value"))
            self._take(table)
            return
        rows = self._materialize(batch, batch_id)
        try:
            # Rows for Spark's sinks stay off the driver.
            with self._watch.within(STAGES):
                table = collected(rows.rows.selectExpr("tag", WORD))
            present = {tag for tag in table.column("tag").to_pylist() if tag >= 0}
            with self._watch.within(DELIVERY):
                self._spark_sinks.deliver(rows.rows, present, batch_id)
        finally:
            rows.release()
        self._take(table)

    def _materialize(self, batch: Any, batch_id: int) -> MaterializedFrame:
        """Keep the rows of a micro-batch for the sinks: its layers run once."""
        folder = f"{self._files.checkpoint}/sparkbeam/kept/{batch_id}"
        found = materialize(batch.sparkSession, batch, folder)
        assert found is not None
        return found

    def _partitions(self) -> tuple[PartitionProgress, ...]:
        """Return the status of the partitions of sources that note it."""
        return tuple(
            partition
            for clock in self._clocks
            if clock.tells_ends
            for partition in partition_notes.noted(self._files, clock.tag, clock.label)
        )

    def _take(self, table: Any) -> None:
        """Process the control messages of a micro-batch."""
        with self._watch.within(COLLECTING):
            feedback = self._summed_up(_Said.from_table(table))
        if feedback is None:
            return
        summary = {**feedback.summary, "phases": self._watch.phases}
        with self._watch.within(FEEDBACK):
            self._feedback.write(replace(feedback, summary=summary))
        self.phases = feedback.number, self._watch.phases

    def _summed_up(self, said: _Said) -> Feedback | None:
        """Return the feedback for the source; None if the micro-batch had no tick."""
        tick = said.tick
        if tick is None:
            return None
        stages = [stage for status in said.statuses for stage in status.stages.values()]
        ended = all(mark >= MAX_MICROS for mark in tick.rounds[-1].watermarks.values())
        finished = ended and all(
            stage.output_watermark >= MAX_MICROS and stage.due is None for stage in stages
        )
        due = min((stage.due for stage in stages if stage.due is not None), default=None)
        if tick.number != self.number + 1:
            # The first micro-batch of this run: there may be an earlier one.
            before = self._feedback.read(tick.number - 1)
            self._committed = self._names.committed(before)
            self._callbacks = Callbacks(before.finalizers if before else ())
        self.number = tick.number
        self._callbacks.after(said.finalizers)
        reports = [self._names.stored(TaskReport.parse(report)) for report in said.reports]
        new = Committed().plus(reports)
        self._committed = self._committed.without_written().plus(new.by_stage.values())
        figures = summary(
            self._topology,
            tick,
            said.statuses,
            new.by_stage,
            self._committed.by_stage,
            busy=busiest(reports),
            partitions=self._partitions(),
            since=self._since,
            now=now_micros(),
        )
        self._since = figures.ended
        seen = newest_seen(self._clocks, said.seen)
        return Feedback(
            number=tick.number,
            finished=finished and not self._callbacks.waiting,
            due=due,
            reports=self._committed.store(),
            seen=seen,
            summary=figures.content(),
            finalizers=self._callbacks.waiting,
            waits=any(stage.waits for stage in stages),
            hidden=self._offsets.hidden(seen),
            empty=not any(stage.keys or stage.state_bytes for stage in stages),
        )
