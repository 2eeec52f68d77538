"""A stage as the function that Spark calls: Arrow batches in, Arrow batches out.

The bundle runs in the thread of the stage's DoFns and hands its output over a
bounded queue, so rows leave while it runs: one element may emit far more than
fits into memory.
"""

import contextlib
import heapq
import itertools
import os
import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.runners.common import ENCODED_IMPULSE_VALUE

from sparkbeam.plan.model import Exchange, Stage
from sparkbeam.plan.row_formats import KeyedRows, RowFormat
from sparkbeam.wire.environment import Environment
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.heap import WORKER_HEAP
from sparkbeam.wire.output_lines import OutputSpec
from sparkbeam.wire.reports import Reporter
from sparkbeam.wire.rows import METRICS_TAG, PLAIN_CELL, Row, RowBuffer, tuples
from sparkbeam.wire.side_content import SideInputData
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker import captured_output, finalizers, logs, tally
from sparkbeam.worker.batch.collected_side_inputs import CollectedSideInputs
from sparkbeam.worker.batch.commit_receipts import CommitReceipts
from sparkbeam.worker.batch.spilling import SpilledRows, spilled_batches
from sparkbeam.worker.blocks import joined
from sparkbeam.worker.connectors.spark_rows import RowSource
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.grouping.strategies import BATCH, GroupByInput
from sparkbeam.worker.keyed.batch_records import MemoryRecords
from sparkbeam.worker.modules import enter
from sparkbeam.worker.output_socket import OUTPUT_SOCKET
from sparkbeam.worker.row_formats.keyed_rows import KeyedSource
from sparkbeam.worker.spark_connection import Connection
from sparkbeam.worker.steps.bundles import Bundles, delay_of, portions
from sparkbeam.worker.steps.edges import SourceOperation
from sparkbeam.worker.steps.processor import Residual
from sparkbeam.worker.steps.threads import THREAD_POOL, clear_frames
from sparkbeam.worker.task import partition_id, task_numbers, tune_worker

_QUEUED_BATCHES = 3


@dataclass(frozen=True)
class StageTask:
    """Input of a Spark task that runs a stage; it is pickled into the plan.

    Attributes:
        run_id: unique for each run of a pipeline.
        reporter: receives live progress, or None.
        tasks: the number of tasks in which the stage runs if it reads nothing.
        source: the Spark source whose rows the stage reads, in place of cells.
        repeatable: two attempts of a task must put out the same report.
        output: handling of the output that steps print and log.
        partners: by the tag of a port that feeds a side of a join, the keys of the other side;
            rows with none of them may be left out.
        keeps: the folder in which the task keeps the rows of some ports, by their tags.
        kept: the paths of the files with the stage's input, of which Spark gives a task the numbers
            of its own; None if Spark gives it rows.
    """

    run_id: str
    stage: Stage
    side_inputs: dict[tuple[str, str], SideInputData]
    reporter: Reporter | None = None
    tasks: int = 1
    source: RowSource | None = None
    repeatable: bool = False
    output: OutputSpec = field(default_factory=OutputSpec)
    environment: Environment = field(default_factory=Environment)
    reports: FailureReports = field(default_factory=FailureReports)
    number: int = 0
    partners: Mapping[int, pa.Array] = field(default_factory=dict)
    keeps: Mapping[int, str] = field(default_factory=dict)
    kept: tuple[str, ...] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the stage over a partition; the function for ``mapInArrow``."""
        with captured_output.redirected(self.output, self.reports.redaction):
            enter(self.run_id, self.environment)
            yield from _Run(self, batches).output()


class _Abandoned(BaseException):
    """Spark no longer wants the output: the task was cancelled or is done."""


class _Run:
    """One task: the input batches, the thread of the stage and the output queue."""

    def __init__(self, task: StageTask, batches: Iterator[pa.RecordBatch]) -> None:
        self._task = task
        self._batches = batches if task.kept is None else spilled_batches(task.kept, batches)
        self._queue: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(
            _QUEUED_BATCHES
        )
        self._abandoned = threading.Event()
        self._connection = Connection()
        self._bundles: Bundles | None = None
        self._partition = partition_id()
        self._rows = RowBuffer(self._put, WORKER_HEAP.heap)
        self._kept = SpilledRows(self._partition, repeatable=task.repeatable)
        self._finalizers: list[finalizers.Callback] = []
        self._tally = tally.Tally(
            task.stage.id,
            self._partition,
            task.reporter,
            repeatable=task.repeatable,
            number=task.number,
        )
        self._witness = (
            CommitReceipts(task.stage.id, self._partition, task.reporter, task.number)
            if task.reporter is not None and task.stage.is_behind_shuffle
            else None
        )

    def output(self) -> Iterator[pa.RecordBatch]:
        run_id, stage = self._task.run_id, self._task.stage
        self._thread = THREAD_POOL.take(run_id, stage)
        work = self._thread.start(self._work)
        succeeded = False
        try:
            while (item := self._next()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
            self._thread.call(lambda: finalizers.call(self._finalizers))
            if self._witness is not None:
                self._witness.tell()
            succeeded = True
        finally:
            self._abandoned.set()
            with contextlib.suppress(queue.Empty):
                while True:
                    self._queue.get_nowait()
            if succeeded:
                work.wait()
                THREAD_POOL.give_back(run_id, stage, self._thread)
            else:
                self._thread.end()
                while not self._thread.wait(tally.REPORT_SECONDS):
                    self._end_if_unwanted()

    def _next(self) -> pa.RecordBatch | BaseException | None:
        # The bundle may take long over one element, so the reports are sent from here.
        while True:
            self._tally.tick()
            if self._witness is not None:
                self._witness.tell()
            with contextlib.suppress(queue.Empty):
                return self._queue.get(timeout=tally.REPORT_SECONDS)
            bundles = self._bundles
            if bundles is not None:
                # A step that takes no time is not what the worker will be at if it dies.
                OUTPUT_SOCKET.at(logs.step_in(self._task.stage, bundles.processor.sampler))
            self._end_if_unwanted()

    def _end_if_unwanted(self) -> None:
        """End the worker if Spark has closed the connection: user code has no other end."""
        # Spark kills a worker itself if it can.
        if self._connection.is_closed():
            os._exit(1)

    def _put(self, batch: pa.RecordBatch | BaseException | None) -> None:
        while not self._abandoned.is_set():
            with contextlib.suppress(queue.Full):
                self._queue.put(batch, timeout=0.5)
                return
        raise _Abandoned

    def _work(self) -> None:
        label = logs.at(self._task.stage)
        outcome: BaseException | None = None
        try:
            self._run_stage()
        except _Abandoned:
            return
        except BaseException as error:
            self._tally.failed()
            outcome = self._task.reports.report(error, label)
            clear_frames(error)
        finally:
            self._kept.close()
        with contextlib.suppress(_Abandoned):
            self._put(outcome)

    def _run_stage(self) -> None:
        bundles = Bundles(self._thread.processor, self._rows, self._partition, self._tally)
        for sink in bundles.processor.sinks:
            if sink.port.tag in self._task.partners:
                sink.keep_partners(self._task.partners[sink.port.tag])
            if sink.port.tag in self._task.keeps:
                rows = self._kept.rows(sink.port.tag, self._task.keeps[sink.port.tag])
                sink.open(rows, self._partition)
        tune_worker()
        self._bundles = bundles
        self._process(bundles)
        self._bundles = None
        self._rows.append(METRICS_TAG, None, 0, bundles.report(self._kept.written()))
        self._rows.flush()
        self._finalizers = bundles.callbacks

    def _process(self, bundles: Bundles) -> None:
        stage, processor = self._task.stage, bundles.processor
        source = processor.source
        processor.state.side_inputs = CollectedSideInputs(self._task.side_inputs)
        if stage.exchange is Exchange.IMPULSE:
            (number,) = task_numbers(self._batches)
            for create in processor.creates:
                create.share = slice(number, None, self._task.tasks)
            rows = iter([(b"", 0, PLAIN_CELL + ENCODED_IMPULSE_VALUE)])
            blocks = source.read(rows)
        elif self._task.source is not None:
            batches = self._wanted(self._task.source.batches(self._batches))
            blocks = self._task.source.blocks(batches)
        elif source.joined is not None:
            blocks = source.joined.blocks(self._data())
        elif stage.grouping is not None:
            blocks = BATCH[stage.grouping.strategy](self._grouped(source, stage.format))
        elif isinstance(stage.format, KeyedRows):
            self._process_keyed(bundles, tuples(self._data()))
            return
        else:
            blocks = source.read(tuples(self._data()))
        self._finish(bundles, bundles.process(blocks))

    def _process_keyed(self, bundles: Bundles, rows: Iterator[Row]) -> None:
        """Process one key after the other: all its elements, then all its timers."""
        processor, records = bundles.processor, MemoryRecords()
        processor.state.records = records
        source, timers = processor.source, processor.timers
        timers.moment = ShardClock(MAX_MICROS, MAX_MICROS, MAX_MICROS)
        timers.encode_window = source.windowed_coder.window_coder.encode
        for keys in portions(KeyedSource(source.windowed_coder).keys(rows)):
            if timers.streams:
                residuals = bundles.process_keyed(keys, fire=True)
            else:
                residuals = bundles.process(joined(block for _, blocks in keys for block in blocks))
            records.forget()
            self._finish(bundles, residuals)

    def _grouped(self, source: SourceOperation, rows: RowFormat) -> GroupByInput:
        assert source.grouped_coder is not None
        assert source.grouped_windowing is not None
        return GroupByInput(
            self._data(), rows, source.grouped_coder, source.grouped_windowing, source.combine
        )

    def _finish(self, bundles: Bundles, residuals: list[Residual]) -> None:
        """Process the deferred work of a bundle until nothing is left; put out its rows before."""
        waiting: list[tuple[float, int, bytes]] = []
        order = itertools.count()
        while True:
            now = time.monotonic()
            for residual in residuals:
                due = now + delay_of(residual) / 1e6
                heapq.heappush(waiting, (due, next(order), residual.application.element))
            if not waiting:
                return
            self._rows.flush()
            # What was deferred may wait for them.
            confirmed, bundles.callbacks = bundles.callbacks, []
            finalizers.call(confirmed)
            time.sleep(max(0.0, waiting[0][0] - now))
            due_now = [heapq.heappop(waiting)[2]]
            while waiting and waiting[0][0] <= time.monotonic():
                due_now.append(heapq.heappop(waiting)[2])
            residuals = bundles.resume(due_now)

    def _wanted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the input, as long as the output is wanted."""
        for batch in batches:
            if self._abandoned.is_set():
                raise _Abandoned
            yield batch

    def _data(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of rows of data; reports of earlier stages go straight to the output."""
        for batch in self._wanted(self._batches):
            reports = pc.equal(batch.column(0), METRICS_TAG)
            if pc.any(reports).as_py():
                for report in batch.column(3).filter(reports).to_pylist():
                    self._rows.append(METRICS_TAG, None, 0, report)
                    if self._witness is not None:
                        self._witness.saw(report)
                batch = batch.filter(pc.invert(reports))
            yield batch
