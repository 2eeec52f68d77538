"""A layer of a streaming query, which Spark calls with the rows of a shard.

The first layer runs over the rows of the sources, wherever they are, and is stateless. All others
run shard by shard, each over the shard's own state.
"""

import itertools
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import pyarrow as pa

from sparkbeam.plan.model import Exchange, Stage
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.messages import (
    FINALIZERS_TAG,
    REPORT_TAG,
    SEEN_TAG,
    STATUS_TAG,
    TICK_TAG,
    WATERMARKS_TAG,
    Finalizers,
    Message,
    Seen,
    ShardStatus,
    Tick,
    Watermarks,
    dump,
    in_order,
    load,
    unpack,
)
from sparkbeam.wire.rows import Row
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS
from sparkbeam.worker import captured_output, finalizers, logs
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.connectors.spark_rows import RowReader
from sparkbeam.worker.modules import enter
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.steps.threads import THREAD_POOL, StageThread
from sparkbeam.worker.streaming.kinds import stage_run
from sparkbeam.worker.streaming.router import Router
from sparkbeam.worker.streaming.seeding import batch_number, seed_random
from sparkbeam.worker.streaming.stages import StageRun
from sparkbeam.worker.streaming.tasks import LayerTask
from sparkbeam.worker.task import partition_id, tune_worker

_PORTION_ROWS = 200_000
_PORTION_BYTES = 64 << 20
_OUTPUT_BYTES = 16 << 20
"""Approximate size of the output at which it leaves the layer."""

_Result = TypeVar("_Result")


class Marks(dict[int, int]):
    """Watermarks by tag; initially each is at the beginning of time."""

    def __missing__(self, tag: int) -> int:
        return MIN_MICROS


class LayerRun(ABC):
    """A layer's work on a micro-batch, in one Spark task.

    Args:
        home: the place of the own shard among all; None in the first layer.
        state: the shard's state; None in the first layer.
    """

    def __init__(self, task: LayerTask, home: int | None, state: ShardState | None) -> None:
        self._task = task
        self._state = state
        self._home = home
        self._sender = partition_id() if home is None else home
        self._sent = 0
        self._out: list[Message] = []
        self._out_bytes = 0
        self._data: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        self._inbox: dict[int, list[Row]] = {}
        self._tick: Tick | None = None
        self._router = Router(task.shards, home, self._sender, task.hops, self._deliver, self._send)
        self._runs: list[StageRun] = []
        self._threads: dict[str, StageThread] = {}
        self._called: tuple[str, ...] = ()
        self._label = ""

    def run(self, rows: Iterable[Message]) -> Iterator[Message]:
        """Read all rows, process the rounds, and yield the output.

        Raises:
            RuntimeError: a step failed; see :mod:`sparkbeam.wire.failure`.
        """
        with self._task_context():
            yield from self._run(rows)

    @contextmanager
    def _task_context(self) -> Iterator[None]:
        """Set the worker up; capture printed output; end the threads of stages if it fails."""
        with captured_output.redirected(self._task.output, self._task.reports.redaction):
            try:
                tune_worker()
                enter(self._task.run_id, self._task.environment)
                yield
            finally:
                threads = list(self._threads.values())
                for thread in threads:
                    thread.end()
                for thread in threads:
                    thread.wait()

    def _run(self, rows: Iterable[Message]) -> Iterator[Message]:
        waiting = in_order(rows)
        waiting.reverse()
        while waiting:  # Without a reference to the rows that are taken.
            yield from self._take(waiting.pop())
        try:
            # What a stage has kept back goes to the next ones as it starts.
            self._inbox = self._arrived(0)
            self._start_stages()
            count = len(self._tick.rounds) if self._tick is not None else 0
            for number in range(max([1, count, *(late + 1 for late in self._data)])):
                if number:
                    self._inbox = self._arrived(number)
                self._router.begin(number)
                for run in self._round(number):
                    self._begin(run, self._tick.number if self._tick is not None else 0, number)
                self._router.flush()
                yield from self._drain_output()
        except Exception as error:
            raise self._failed(error) from None
        self._end()
        yield from self._drain_output()

    def _failed(self, error: Exception) -> Exception:
        """Return the error to raise in place of this one, after all stages report their counts."""
        for run in self._runs:
            run.tally.failed()
        return self._task.reports.report(error, self._label)

    def _begin(self, run: StageRun, *when: int) -> None:
        """Prepare the run of a stage; ``when`` identifies the time among all others."""
        self._label = logs.at(run.stage)
        task = self._task
        seed_random(task.checkpoint_id, task.number, self._sender, run.stage.address, *when)

    def _start_stages(self) -> None:
        number = self._tick.number if self._tick is not None else (batch_number() or 0) + 1
        for stage in self._task.stages:
            self._label = logs.at(stage)
            thread = self._threads[stage.id] = THREAD_POOL.take(self._task.run_id, stage)
            run = thread.call(partial(self._stage_run, stage, thread))
            run.tally.report_to(self._task.reporter, self._sender, number)
            self._runs.append(run)

    def _stage_run(self, stage: Stage, thread: StageThread) -> StageRun:
        most = self._task.max_elements
        return stage_run(thread.processor, stage, self._state, self._router, most)

    def _within(self, run: StageRun, do: Callable[[], _Result]) -> _Result:
        """Call a function of a stage in the thread of its DoFns."""
        return self._threads[run.stage.id].call(do)

    def _drain_output(self) -> list[Message]:
        out = list(self._out)
        self._out.clear()
        self._out_bytes = 0
        return out

    def _take(self, row: Message) -> Iterator[Message]:
        """Keep a row for this layer; yield any other row."""
        if row.tag == TICK_TAG and row.layer < self._task.depth:
            self._tick = load(row.value)
            self._called = tuple(finalizers.PENDING_FINALIZERS.run(self._tick.committed))
            self._hand_on_tick(row)
        elif row.layer != self._task.number:
            yield row
        elif row.tag == WATERMARKS_TAG:
            self._hear(load(row.value))
        else:
            self._data[row.round][row.tag].append(row.value)

    def _arrived(self, number: int) -> dict[int, list[Row]]:
        """Return the rows of a round that come from other tasks, by their tag."""
        packed = self._data.pop(number, {})
        return {
            tag: [row for value in values for row in unpack(value)]
            for tag, values in packed.items()
        }

    def _send(self, shard: int, layer: int, number: int, tag: int, value: bytes) -> None:
        """Emit a message of this task."""
        self._out.append(Message(shard, layer, number, tag, self._sender, self._sent, value))
        self._sent += 1
        self._out_bytes += len(value)

    @abstractmethod
    def _hand_on_tick(self, row: Message) -> None:
        """Ensure that later layers receive the tick."""

    def _hear(self, watermarks: Watermarks) -> None:
        """Record the watermarks in a message of another shard."""
        raise NotImplementedError

    @abstractmethod
    def _round(self, number: int) -> Iterator[StageRun]:
        """Process a round; name each stage before it runs."""

    def _end(self) -> None:
        """End all stages; send their reports."""
        for run in self._runs:
            report = self._within(run, run.close)
            if report is not None:
                self._tell(REPORT_TAG, report)
        callbacks = [
            self._threads[run.stage.id].bound(callback)
            for run in self._runs
            for callback in run.bundles.callbacks
        ]
        kept = finalizers.PENDING_FINALIZERS.keep(callbacks) if callbacks else None
        if kept or self._called:
            self._tell(FINALIZERS_TAG, dump(Finalizers(kept, self._called)))
        for run in self._runs:
            thread = self._threads.pop(run.stage.id)
            THREAD_POOL.give_back(self._task.run_id, run.stage, thread)

    def _tell(self, tag: int, value: bytes) -> None:
        """Send a message to the sink."""
        self._send(self._task.shards[self._home or 0], self._task.depth, 0, tag, value)

    def _deliver(self, tag: int, rows: list[Row]) -> None:
        self._inbox.setdefault(tag, []).extend(rows)
        self._out_bytes += sum(len(key) + len(value) for key, _, value in rows)

    def _begins(self, run: StageRun, number: int) -> bool:
        """Return whether the stage's Impulse is due."""
        start = self._tick is not None and self._tick.start and number == 0
        return start and run.stage.exchange is Exchange.IMPULSE


class SourceLayerRun(LayerRun):
    """The first layer's work on a partition of the ticks or of the rows of a source."""

    def __init__(self, task: LayerTask) -> None:
        super().__init__(task, None, None)

    def read(
        self,
        label: str,
        spec: ReadSpec,
        tag: int,
        batches: Iterable[pa.RecordBatch],
        time: Callable[[int], int | None] | None = None,
    ) -> Iterator[Message]:
        """Process rows of one of Spark's sources.

        Args:
            batches: see :meth:`~sparkbeam.worker.connectors.spark_rows.RowReader.blocks`.
            time: gives the timestamp of all rows of a micro-batch; None if they have their own.

        Raises:
            RuntimeError: a step failed; see :mod:`sparkbeam.wire.failure`.
        """
        with self._task_context():
            try:
                self._start_stages()
                self._label = label
                batch = batch_number()
                stamp = time(batch) if time is not None and batch is not None else None
                reader = RowReader(spec, partitioned=spec.is_partitioned, time=stamp)
                self._router.begin(0)
                for number, blocks in enumerate(self._portions(label, tag, reader, batches)):
                    self._process(tag, blocks, reader, (batch or 0, number))
                    self._label = label
                    yield from self._drain_output()
            except Exception as error:
                raise self._failed(error) from None
            if reader.newest:
                self._tell(SEEN_TAG, dump(Seen(tag, reader.newest)))
            self._end()
            yield from self._drain_output()

    def _portions(
        self, label: str, tag: int, reader: RowReader, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[Iterable[Block]]:
        """Yield the rows of a source in portions that are processed at once.

        A stage that reads them alone gets them as they arrive. Thus a combine aggregates what the
        task reads, and not each part of it. Rows that several stages read have to be in memory.
        """
        readers = sum(tag in run.stage.inputs for run in self._runs)
        if readers != 1 or self._task.source_hops[tag]:
            yield from _portions(reader, batches)
            return
        blocks = itertools.chain.from_iterable(map(reader.blocks, batches))
        for first in blocks:
            yield itertools.chain([first], self._until_full(label, blocks))

    def _until_full(self, label: str, blocks: Iterator[Block]) -> Iterator[Block]:
        """Yield elements until there is much output."""
        while self._out_bytes < _OUTPUT_BYTES:
            try:
                block = next(blocks, None)
            except Exception as error:
                raise UserCodeFailed(label) from error
            if block is None:
                return
            yield block

    def _process(
        self, tag: int, blocks: Iterable[Block], reader: RowReader, when: tuple[int, int]
    ) -> None:
        """Process some rows of a source in all stages, and pass them on past the layer."""
        hops = self._task.source_hops[tag]
        if hops:
            rows = [(b"", 0, cell) for cell in reader.cells(blocks)]
            self._router.pass_on(tag, hops, rows)
        self._inbox = {}
        for run in self._runs:
            self._begin(run, *when)
            self._within(run, partial(self._fed, run, tag, blocks))
        self._router.flush()

    def _fed(self, run: StageRun, tag: int, blocks: Iterable[Block]) -> None:
        if tag in run.stage.inputs:
            run.take(blocks)
        run.receive(self._inbox, {})

    def _hand_on_tick(self, row: Message) -> None:
        for shard, layer in self._task.ways_of_ticks:
            self._send(shard, layer, 0, TICK_TAG, row.value)

    def _round(self, number: int) -> Iterator[StageRun]:
        for tag, rows in self._inbox.items():
            self._router.pass_on(tag, self._task.source_hops[tag], rows)
        for run in self._runs:
            yield run
            self._within(run, partial(self._pass, run, number))

    def _pass(self, run: StageRun, number: int) -> None:
        if self._begins(run, number):
            run.start()
        run.receive(self._inbox, {})


def _portions(reader: RowReader, batches: Iterable[pa.RecordBatch]) -> Iterator[list[Block]]:
    """Yield the rows of a source in portions that are processed at once."""
    blocks: list[Block] = []
    rows = size = 0
    for batch in batches:
        blocks += reader.blocks(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _PORTION_ROWS or size >= _PORTION_BYTES:
            yield blocks
            blocks, rows, size = [], 0, 0
    if blocks:
        yield blocks


class ShardLayerRun(LayerRun):
    """A later layer's work in one shard."""

    _state: ShardState

    def __init__(self, task: LayerTask, shard: int, state: ShardState) -> None:
        super().__init__(task, task.shards.index(shard), state)
        self._shard = shard
        self._told: dict[int, dict[int, dict[int, int]]] = defaultdict(dict)
        self._marks = Marks(state.value(_MARKS) or {})
        self._heard: dict[int, dict[int, int]] = state.value(_HEARD) or {}
        self._said: list[dict[int, int]] = []

    def _hand_on_tick(self, row: Message) -> None:
        if self._task.number + 1 < self._task.depth:
            self._out.append(row)

    def _hear(self, watermarks: Watermarks) -> None:
        for number, marks in enumerate(watermarks.rounds):
            # A sender has a message for each earlier layer that is read.
            self._told[number].setdefault(watermarks.shard, {}).update(marks)

    def _round(self, number: int) -> Iterator[StageRun]:
        before = Marks(self._marks)
        self._raise_marks(number)
        for run in self._runs:
            yield run
            self._within(run, partial(self._pass, run, number, before))
            for port in run.stage.ports:
                self._marks[port.tag] = run.moment.output_watermark
        self._said.append({tag: self._marks[tag] for tag in self._task.hops})

    def _pass(self, run: StageRun, number: int, before: Marks) -> None:
        run.moment.resuming = number == 0 and self._tick is not None and self._tick.resuming
        if self._tick is not None and number < len(self._tick.rounds):
            run.moment.clock = self._tick.rounds[number].time
            run.moment.until = self._tick.until
            run.moment.draining = self._tick.draining
        if self._home == 0 and self._begins(run, number):
            run.start()
        run.receive(self._inbox, before)
        run.advance(self._marks)

    def _raise_marks(self, number: int) -> None:
        """Raise the watermarks to those of earlier layers at the end of a round."""
        if self._tick is not None and number < len(self._tick.rounds):
            sources = self._tick.rounds[number].watermarks
            for tag, roots in self._task.roots.items():
                self._marks[tag] = min((sources[root] for root in roots), default=MAX_MICROS)
        for sender, marks in self._told.pop(number, {}).items():
            for tag, watermark in marks.items():
                self._heard.setdefault(tag, {})[sender] = watermark
        for tag, senders in self._heard.items():
            if len(senders) == len(self._task.shards):
                self._marks[tag] = min(senders.values())

    def _end(self) -> None:
        for run in self._runs:
            run.save(self._state)
        self._state.set_value(_MARKS, dict(self._marks))
        self._state.set_value(_HEARD, self._heard)
        self._state.save()
        for layer, tags in self._task.readers.items():
            rounds = tuple({tag: marks[tag] for tag in tags} for marks in self._said)
            value = dump(Watermarks(self._shard, rounds))
            for shard in self._task.shards:
                self._send(shard, layer, 0, WATERMARKS_TAG, value)
        stages = {run.stage.id: self._within(run, run.status) for run in self._runs}
        self._tell(STATUS_TAG, dump(ShardStatus(self._task.number, self._shard, stages)))
        super()._end()


_MARKS = "watermarks"
_HEARD = "heard"
