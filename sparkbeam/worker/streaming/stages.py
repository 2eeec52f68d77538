"""The stages of a layer in one shard: what each does with a round.

A round gives a stage rows, and then the watermarks of what it reads. What a stage keeps
from one micro-batch to the next is in the shard's state.
"""

import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from apache_beam.internal import pickler
from apache_beam.runners import common
from apache_beam.runners.worker import operations
from apache_beam.transforms.combiners import curry_combine_fn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.model import Exchange, Layout, Stage
from sparkbeam.worker import metrics, sources
from sparkbeam.worker.operations import SourceOperation
from sparkbeam.worker.processor import KEPT, Residual, StageProcessor
from sparkbeam.worker.sinks import sink_for
from sparkbeam.worker.rows import PLAIN_CELL, Row
from sparkbeam.worker.sources import Block
from sparkbeam.worker.streaming.grouping import Grouping, expiry_of
from sparkbeam.worker.streaming.moment import Moment
from sparkbeam.worker.streaming.pages import ShardState
from sparkbeam.worker.streaming.router import Router
from sparkbeam.worker.streaming.rows import StageStatus
from sparkbeam.worker.streaming.sideinputs import Gate, StreamSideInputs
from sparkbeam.worker.streaming.stateful import KeyedInput, LayerState, StoredTimers
from sparkbeam.worker.streaming.times import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.timers import PROCESSING_TIME
from sparkbeam.worker.values import RunCoder

_KEYS_PER_BUNDLE = 1000
_IMPULSE: Row = (b"", 0, PLAIN_CELL + common.ENCODED_IMPULSE_VALUE)


class StageRun(ABC):
    """A stage in a shard for the time of a micro-batch.

    Args:
        run_id: of the run of the pipeline; processors are kept by it.
        stage: what to run.
        shard: the state of the shard; None in the first layer, whose stages keep nothing.
        router: takes the output.
    """

    def __init__(
        self, run_id: str, stage: Stage, shard: ShardState | None, router: Router
    ) -> None:
        self.stage = stage
        self.moment = Moment()
        self._key = (run_id, stage.id)
        self._processor = KEPT.take(
            self._key, lambda: StageProcessor(stage, LayerState(), StoredTimers)
        )
        self._state: LayerState = self._processor.state
        self._shard = shard
        self._tally = metrics.Tally(stage.id, 0, None)
        self._warnings: list[warnings.WarningMessage] = []
        self._bundles = 0
        self._marks: Mapping[int, int] = {}
        self._side: StreamSideInputs | None = None
        self._gate: Gate | None = None
        for sink in self._processor.sinks:
            sink.sink = sink_for(
                sink.layout,
                sink.tag,
                router,
                sink.coder,
                sink.windowing,
                0,
            )
        if shard is not None:
            self._load(shard)

    def _load(self, shard: ShardState) -> None:
        """Takes up what the micro-batch before has left."""
        stored = shard.value(f"{self.stage.id}/watermarks")
        if stored is not None:
            self.moment.input_watermark, self.moment.output_watermark = stored
        if self.stage.side_inputs:
            self._side = StreamSideInputs(
                self.stage.side_inputs, shard.stage(f"{self.stage.id}/side")
            )
            self._state.side_inputs = self._side
            runs = RunCoder(self._processor.source.windowed_coder.get_impl())
            self._gate = Gate(self._side, runs, shard.value(f"{self.stage.id}/waiting"))

    def save(self) -> None:
        """Writes what the next micro-batch needs into the shard's state."""
        if self._shard is not None:
            self._save(self._shard)

    def _save(self, shard: ShardState) -> None:
        moment = self.moment
        shard.set_value(
            f"{self.stage.id}/watermarks", (moment.input_watermark, moment.output_watermark)
        )
        if self._gate is not None:
            shard.set_value(f"{self.stage.id}/waiting", self._gate.waiting)

    def close(self) -> bytes | None:
        """Ends the stage's part in the micro-batch; gives its report, if it has one."""
        KEPT.give_back(self._key, self._processor)
        return self._tally.finished(self._warnings) if self._bundles else None

    def receive(self, rows: Mapping[int, list[Row]], watermarks: Mapping[int, int]) -> None:
        """Processes the data of a round.

        Args:
            rows: by the tag of their port.
            watermarks: of the ports that the stage reads, as they were before the round.
        """
        self._marks = watermarks
        if self._side is not None and self._side.add(rows):
            self._release()
        main = [row for tag in self.stage.inputs for row in rows.get(tag, ())]
        if main:
            self._receive(main)

    def start(self) -> None:
        """Processes the Impulse that the stage starts with."""
        self._receive([_IMPULSE])

    def advance(self, watermarks: Mapping[int, int]) -> None:
        """Raises the watermarks, and lets go what that, or the clock, lets go.

        Args:
            watermarks: of the ports that the stage reads, at the end of the round.
        """
        self._marks = watermarks
        moment = self.moment
        arrived = min((watermarks[tag] for tag in self.stage.inputs), default=MAX_MICROS)
        moment.input_watermark = max(moment.input_watermark, arrived)
        self._release()
        self._on_time()
        holds = [self._hold(), self._gate.hold() if self._gate is not None else None]
        output = min([moment.input_watermark, *(hold for hold in holds if hold is not None)])
        moment.output_watermark = max(moment.output_watermark, output)

    @abstractmethod
    def _receive(self, rows: list[Row]) -> None:
        """Processes rows of the main input."""

    def _on_time(self) -> None:
        """Lets go what the watermark and the clock let go."""

    def _hold(self) -> int | None:
        """The oldest timestamp that what the stage keeps may still come out with."""
        return None

    def status(self) -> StageStatus:
        """Where the stage is."""
        return StageStatus(self.moment.input_watermark, self.moment.output_watermark, self._due())

    def _due(self) -> int | None:
        """When the clock lets the stage go on."""
        return None

    def _release(self) -> None:
        """Processes what no longer has to wait for side inputs."""
        if self._gate is not None and self._gate.waiting:
            self._bundle(block for _, block in self._gate.release(self._marks))

    def _gated(self, key: bytes, blocks: Iterable[Block]) -> Iterator[Block]:
        if self._gate is None:
            return iter(blocks)
        return self._gate.let_through(key, blocks, self._marks)

    def _bundle(self, elements: Iterator[Block]) -> None:
        """Processes elements in one bundle, if there are any."""
        first = next(elements, None)
        if first is not None:
            whole = itertools.chain([first], elements)
            self._run(lambda: self._processor.run(whole))

    def _run(self, work: Callable[[], list[Residual]]) -> None:
        self._bundles += 1
        with warnings.catch_warnings(record=True) as caught:
            residuals = work()
        self._warnings += caught
        self._tally.add(self._processor.monitoring_infos())
        self._processor.finalize()
        self._defer(residuals)

    def _defer(self, residuals: list[Residual]) -> None:
        """Keeps what splittable DoFns have left for later."""
        assert not residuals


class PlainRun(StageRun):
    """A stage without keys: all that it keeps is what splittable DoFns defer."""

    _deferred: tuple[tuple[int, int, bytes], ...] = ()

    def _load(self, shard: ShardState) -> None:
        super()._load(shard)
        self._deferred = shard.value(f"{self.stage.id}/deferred") or ()

    def _save(self, shard: ShardState) -> None:
        super()._save(shard)
        shard.set_value(f"{self.stage.id}/deferred", self._deferred)

    def _receive(self, rows: list[Row]) -> None:
        source = self._processor.source
        coder = source.grouped_coder or source.windowed_coder
        self._bundle(self._gated(b"", sources.chunks(iter(rows), coder)))

    def _on_time(self) -> None:
        now = self.moment.clock
        due = [encoded for at, _, encoded in self._deferred if at <= now]
        if due:
            self._deferred = tuple(kept for kept in self._deferred if kept[0] > now)
            decode = self._processor.source.windowed_coder_impl.decode_all
            self._bundle(sources.blocks(e for encoded in due for e in decode(encoded)))

    def _defer(self, residuals: list[Residual]) -> None:
        for residual in residuals:
            delay = residual.requested_time_delay
            at = self.moment.clock + delay.seconds * 1_000_000 + delay.nanos // 1000
            deferred = (at, _held_by(residual), residual.application.element)
            self._deferred = (*self._deferred, deferred)

    def _hold(self) -> int | None:
        return min((hold for _, hold, _ in self._deferred), default=None)

    def _due(self) -> int | None:
        return min((at for at, _, _ in self._deferred), default=None)


def _held_by(residual: Residual) -> int:
    """The watermark that a deferred restriction lets through."""
    estimates = residual.application.output_watermarks.values()
    return min((Timestamp.from_proto(e).micros for e in estimates), default=MIN_MICROS)


class GroupingRun(StageRun):
    """A stage that reads a GroupByKey."""

    def _load(self, shard: ShardState) -> None:
        super()._load(shard)
        source = self._processor.source
        assert source.grouped_coder is not None and source.grouped_windowing is not None
        self._keyed = shard.stage(self.stage.id)
        self._grouping = Grouping(
            source.grouped_coder,
            source.grouped_windowing,
            _merging(source),
            self._keyed,
            self.moment,
        )

    def _receive(self, rows: list[Row]) -> None:
        self._put_out(self._grouping.add(rows))

    def _on_time(self) -> None:
        self._put_out(self._grouping.fire())

    def close(self) -> bytes | None:
        self._grouping.close()
        return super().close()

    def _put_out(self, panes: Iterator[WindowedValue]) -> None:
        self._bundle(self._gated(b"", sources.blocks(panes)))

    def _hold(self) -> int | None:
        # At the end of time all has fired that ever will.
        return None if self.moment.input_watermark >= MAX_MICROS else self._keyed.hold()

    def _due(self) -> int | None:
        return self._keyed.next_due(PROCESSING_TIME)


class StatefulRun(StageRun):
    """A stage with user state or timers."""

    def _load(self, shard: ShardState) -> None:
        super()._load(shard)
        source = self._processor.source
        self._keyed = shard.stage(self.stage.id)
        self._input = KeyedInput(
            source.windowed_coder,
            source.windowing,
            self._keyed,
            sorted_by_time=self.stage.layout is Layout.TIME_SORTED,
        )
        windows = source.windowed_coder.window_coder
        self._state.keyed = self._keyed
        self._state.expires = expiry_of(source.windowing)
        self._state.decode_window = windows.decode
        self._timers: StoredTimers = self._processor.timers
        self._timers.moment = self.moment
        self._timers.state = self._state
        self._timers.encode_window = windows.encode

    def _receive(self, rows: list[Row]) -> None:
        arrived = self._input.arrived(rows, self.moment.input_watermark)
        self._bundles_of((key, self._gated(key, blocks)) for key, blocks in arrived)

    def _release(self) -> None:
        if self._gate is not None and self._gate.waiting:
            released = self._gate.release(self._marks)
            self._bundles_of((key, iter([block])) for key, block in released)

    def _on_time(self) -> None:
        limits = (self.moment.input_watermark, self.moment.processing_limit())
        for domain, limit in enumerate(limits):
            due = self._keyed.due_keys(domain, limit)
            self._bundles_of(((key, iter(())) for key in due), fire=True)

    def _bundles_of(
        self, keys: Iterator[tuple[bytes, Iterator[Block]]], *, fire: bool = False
    ) -> None:
        """Processes keys with their new elements, many to a bundle."""
        for first in keys:
            some = itertools.chain([first], itertools.islice(keys, _KEYS_PER_BUNDLE - 1))
            feed = self._feed(some, fire=fire)
            self._run(lambda feed=feed: self._processor.process(feed))  # type: ignore[misc]

    def _feed(
        self, keys: Iterable[tuple[bytes, Iterator[Block]]], *, fire: bool
    ) -> Callable[[Any], Iterator[Any]]:
        timers, source = self._timers, self._processor.source

        def feed(go_on: Any) -> Iterator[Any]:
            for key, elements in keys:
                timers.record = self._keyed.record(key)
                source.elements = elements
                yield go_on
                timers.collect()
                if fire:
                    ripe = self._input.ripe(timers.record, self.moment.input_watermark)
                    source.elements = ripe
                    yield go_on
                    yield from timers.fire()

        return feed

    def _hold(self) -> int | None:
        # At the end of time all has fired that ever will.
        return None if self.moment.input_watermark >= MAX_MICROS else self._keyed.hold()

    def _due(self) -> int | None:
        return self._keyed.next_due(PROCESSING_TIME)


def _merging(source: SourceOperation) -> Any:
    """The CombineFn whose merge is all that the grouped values go to, or None."""
    consumers = source.consumer
    if len(consumers) != 1 or not isinstance(consumers[0], operations.CombineOperation):
        return None
    spec = consumers[0].spec
    if spec.phase != "merge":
        return None
    fn, args, kwargs = pickler.loads(spec.serialized_fn)[:3]
    return curry_combine_fn(fn, args, kwargs)


def stage_run(run_id: str, stage: Stage, shard: ShardState | None, router: Router) -> StageRun:
    """The run of a stage, of the kind that it is."""
    if stage.exchange is Exchange.BY_KEY:
        kind = GroupingRun if stage.layout is Layout.STORED else StatefulRun
        return kind(run_id, stage, shard, router)
    return PlainRun(run_id, stage, shard, router)
