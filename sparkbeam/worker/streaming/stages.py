"""The stages of a layer in one shard, round by round.

A round gives a stage rows, and then the watermarks of its inputs. The state of a stage between
micro-batches is in the shard's state.
"""

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from apache_beam.metrics import monitoring_infos
from apache_beam.runners import common

from sparkbeam.plan.model import Stage
from sparkbeam.wire.firing_rows import UNKNOWN
from sparkbeam.wire.messages import Holder, StageStatus
from sparkbeam.wire.reports import DROPPED_DUE_TO_LATENESS, NAMESPACE
from sparkbeam.wire.rows import PLAIN_CELL, Row
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker import tally
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.row_formats.group_values import RunCoder
from sparkbeam.worker.state.pages import KeyedState, ShardState
from sparkbeam.worker.steps.bundles import Bundles
from sparkbeam.worker.steps.processor import Residual, StageProcessor
from sparkbeam.worker.streaming.router import Router
from sparkbeam.worker.streaming.stored_side_inputs import Gate, StreamSideInputs

_IMPULSE: Row = (b"", 0, PLAIN_CELL + common.ENCODED_IMPULSE_VALUE)


class StageRun(ABC):
    """A stage in a shard during a micro-batch, made and used in the stage's thread.

    Args:
        shard: the state of the shard; None in the first layer, whose stages keep nothing.

    Attributes:
        tally: the counts of the stage in the micro-batch.
        bundles: those of the stage, with the callbacks to call after the commit.
    """

    _keyed: KeyedState | None = None

    def __init__(
        self,
        processor: StageProcessor,
        stage: Stage,
        shard: ShardState | None,
        router: Router,
    ) -> None:
        self.stage = stage
        self.moment = ShardClock()
        self.tally = tally.Tally(stage.id, 0, None)
        self.bundles = Bundles(processor, router, 0, self.tally)
        self._processor = processor
        self._router = router
        self._tells = any(port.firings for port in stage.ports)
        self._marks: Mapping[int, int] = {}
        self._side: StreamSideInputs | None = None
        self._gate: Gate | None = None
        if shard is not None:
            self._load(shard)

    def _load(self, shard: ShardState) -> None:
        """Load the state that the previous micro-batch has left."""
        stored = shard.value(f"{self.stage.address}/watermarks")
        if stored is not None:
            self.moment.input_watermark, self.moment.output_watermark = stored
        if self.stage.side_inputs:
            self._side = StreamSideInputs(
                self.stage.side_inputs,
                shard.stage(f"{self.stage.address}/side"),
                self._processor.source.windowing.allowed_lateness.micros,
            )
            self._processor.state.side_inputs = self._side
            runs = RunCoder(self._processor.source.windowed_coder.get_impl())
            self._gate = Gate(self._side, runs, shard.value(f"{self.stage.address}/waiting"))

    def save(self, shard: ShardState) -> None:
        """Write the state for the next micro-batch into the shard's state."""
        moment = self.moment
        shard.set_value(
            f"{self.stage.address}/watermarks", (moment.input_watermark, moment.output_watermark)
        )
        if self._gate is not None:
            shard.set_value(f"{self.stage.address}/waiting", self._gate.waiting)

    def close(self) -> bytes | None:
        """End the stage's part in the micro-batch; return its report, if it has one."""
        counts = Counter(self._dropped())
        if self._gate is not None:  # Elements that came too late for side inputs.
            counts[DROPPED_DUE_TO_LATENESS] += self._gate.dropped
        dropped = [(name, count) for name, count in counts.items() if count]
        if dropped:
            counter, label = monitoring_infos.int64_user_counter, self.stage.labels[0]
            self.tally.add([counter(NAMESPACE, *one, ptransform=label) for one in dropped])
        return self.bundles.report() if self.bundles.count or dropped else None

    def receive(self, rows: Mapping[int, list[Row]], watermarks: Mapping[int, int]) -> None:
        """Process the data of a round.

        Args:
            watermarks: of the ports that the stage reads, as they were before the round.
        """
        self._marks = watermarks
        if self._side is not None and self._side.add(rows):
            self._release()
        main = [row for tag in self.stage.inputs for row in rows.get(tag, ())]
        if main:
            self._receive(main)

    def take(self, blocks: Iterable[Block]) -> None:
        """Process elements of the main input, for a stage without state."""
        self._bundle(iter(blocks))

    def start(self) -> None:
        """Process the Impulse that the stage starts with."""
        self._receive([_IMPULSE])

    def advance(self, watermarks: Mapping[int, int]) -> None:
        """Raise the watermarks, and process what they, or the clock, release.

        Args:
            watermarks: of the ports that the stage reads, at the end of the round.
        """
        self._marks = watermarks
        moment = self.moment
        arrived = min((watermarks[tag] for tag in self.stage.inputs), default=MAX_MICROS)
        moment.input_watermark = max(moment.input_watermark, arrived)
        self._release()
        self._on_time()
        if self._side is not None:
            self._side.expire(self._side_input_horizon())
        holds = [self._hold(), self._gate.hold() if self._gate is not None else None]
        output = min([moment.input_watermark, *(hold for hold in holds if hold is not None)])
        moment.output_watermark = max(moment.output_watermark, output)

    def _side_input_horizon(self) -> int:
        """Return the time up to which side inputs may expire: no element in time needs them."""
        hold = self._gate.hold() if self._gate is not None else None
        watermark = self.moment.input_watermark
        return watermark if hold is None else min(watermark, hold)

    @abstractmethod
    def _receive(self, rows: list[Row]) -> None:
        """Process rows of the main input."""

    def _on_time(self) -> None:  # noqa: B027 - most stages have nothing to let go.
        """Process what the watermark and the clock release."""

    def _hold(self) -> int | None:
        """Return the oldest timestamp with which kept content may still be emitted."""
        return None

    def status(self) -> StageStatus:
        """Return the status of the stage, after all state has been saved."""
        keys, size = self._keyed.size if self._keyed is not None else (0, 0)
        if self._side is not None:
            size += self._side.size
        if self._gate is not None:
            size += self._gate.size
        moment = self.moment
        holds = moment.output_watermark < moment.input_watermark
        return StageStatus(
            moment.input_watermark,
            moment.output_watermark,
            self._due(),
            keys,
            size,
            self._holder() if holds else None,
            self._waits(),
        )

    def _holder(self) -> Holder | None:
        """Return the key with the hold on the watermark; there is a hold."""
        return None

    def _due(self) -> int | None:
        """Return the processing time at which the stage continues."""
        return None

    def _waits(self) -> bool:
        """Return whether what has been read waits for the next micro-batch."""
        return False

    def _dropped(self) -> dict[str, int]:
        """Return the number of elements dropped in this micro-batch, by counter."""
        return {}

    def _release(self) -> None:
        """Process the elements that no longer have to wait for side inputs."""
        if self._gate is not None and self._gate.waiting:
            self._bundle(self._of_firings(self._gate.release(self._marks)))

    def _gated(self, key: bytes, blocks: Iterable[Block]) -> Iterator[Block]:
        if self._gate is None:
            return iter(blocks)
        return self._gate.let_through(key, blocks, self._marks)

    def _of_firings(self, blocks: Iterable[tuple[bytes, Block]]) -> Iterator[Block]:
        """Yield blocks, each while sinks know its firing."""
        for self._router.firing, block in blocks:
            yield block
        self._router.firing = UNKNOWN

    def _bundle(self, elements: Iterator[Block]) -> None:
        """Process elements in one bundle, if there are any."""
        first = next(elements, None)
        if first is not None:
            self._defer(self.bundles.process(itertools.chain([first], elements)))

    def _defer(self, residuals: list[Residual]) -> None:
        """Keep the residuals of splittable DoFns for later."""
        assert not residuals
