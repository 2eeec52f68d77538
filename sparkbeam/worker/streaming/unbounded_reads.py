"""Splittable DoFns with endless output: read in one micro-batch, emitted in the next.

The output of such a DoFn need not be the same when it runs again. Therefore a micro-batch emits
only output that an earlier one has read and Spark has committed with the state: the rows, the
positions and the watermark that belong to them. A micro-batch that runs again then emits the same
rows, whatever is read the second time.
"""

import threading
from collections import deque
from collections.abc import Iterator, Mapping

from sparkbeam.plan.model import Stage
from sparkbeam.wire.rows import Row
from sparkbeam.wire.timestamps import MIN_MICROS
from sparkbeam.worker.blocks import Block, in_blocks
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.steps.processor import Residual, StageProcessor
from sparkbeam.worker.streaming.router import Router
from sparkbeam.worker.streaming.unkeyed_stages import Deferred, PlainRun
from sparkbeam.worker.tally import Bundle

READ_SECONDS = 1.0
"""Approximate maximum time that a micro-batch reads, in seconds."""

READ_ELEMENTS = 100_000
"""Approximate maximum number of elements that a micro-batch reads in each shard."""

_LOOK_SECONDS = 0.02

_Read = tuple[int, list[tuple[int, list[Row]]]]
"""Watermark of the elements read, and the rows."""


class ReadingRun(PlainRun):
    """A stage that processes the restrictions of an unbounded splittable DoFn."""

    def __init__(
        self,
        processor: StageProcessor,
        stage: Stage,
        shard: ShardState,
        router: Router,
        max_elements: int,
    ) -> None:
        self._max_elements = max_elements
        self._handed_on = router
        self._read = ReadRouter(router)
        super().__init__(processor, stage, shard, self._read)

    def _load(self, shard: ShardState) -> None:
        super()._load(shard)
        stored: _Read = shard.value(f"{self.stage.address}/read") or (MIN_MICROS, [])
        self._committed, rows = stored
        for tag, some in rows:
            self._handed_on.take(tag, some)

    def save(self, shard: ShardState) -> None:
        super().save(shard)
        shard.set_value(f"{self.stage.address}/read", (self._let_through(), self._read.rows))

    def advance(self, watermarks: Mapping[int, int]) -> None:
        published = self._committed
        super().advance(watermarks)
        self.moment.output_watermark = max(published, MIN_MICROS)

    def _let_through(self) -> int:
        """Return the watermark of the elements read so far."""
        holds = [self.moment.input_watermark, self._hold()]
        return max(self._committed, min(hold for hold in holds if hold is not None))

    def _receive(self, rows: list[Row]) -> None:
        """Keep new restrictions with the active ones."""
        self._keep(self._gated(b"", self._decoded(rows)))

    def _release(self) -> None:
        if self._gate is not None and self._gate.waiting:
            self._keep(block for _, block in self._gate.release(self._marks))

    def _keep(self, blocks: Iterator[Block]) -> None:
        encode = self._processor.source.windowed_coder_impl.encode
        for block in blocks:
            self.tally.arrived(len(block))
            kept = ((MIN_MICROS, MIN_MICROS, encode(e)) for e in block.elements())
            self._deferred = (*self._deferred, *kept)

    def _resume(self, due: list[Deferred]) -> None:
        """Resume restrictions while there is time; the others come first next time."""
        waiting = deque(due)
        decode = self._processor.source.windowed_coder_impl.decode_all
        watch = _Watch(self._processor, self._max_elements)

        def begun() -> Iterator[Block]:
            while waiting and not watch.is_over:
                yield from in_blocks(iter(decode(waiting.popleft()[-1])))

        with watch:
            self._defer(self.bundles.process(begun(), resumed=True))
        self._defer(watch.residuals, at=MIN_MICROS)
        self._deferred = (*waiting, *self._deferred)

    def _due(self) -> int | None:
        return self.moment.clock if self._waits() else super()._due()

    def _waits(self) -> bool:
        """Return whether output waits, or restrictions that did not ask for a pause."""
        if self._read.rows or self._let_through() > self.moment.output_watermark:
            return True
        return any(at == MIN_MICROS for at, _, _ in self._deferred)


class ReadRouter(Router):
    """Rows that the sinks write.

    Attributes:
        rows: the rows of each port in order of writing, by the port's tag.
    """

    def __init__(self, router: Router) -> None:
        self.shards_of = router.shards_of  # type: ignore[method-assign]
        self.rows: list[tuple[int, list[Row]]] = []

    def take(self, tag: int, rows: list[Row]) -> None:
        self.rows.append((tag, rows))


class _Watch:
    """Watch that splits the current restriction when enough has been read."""

    def __init__(self, processor: StageProcessor, max_elements: int) -> None:
        self._processor = processor
        self._max_elements = max_elements
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sparkbeam-split", daemon=True)
        self.is_over = False
        self.residuals: list[Residual] = []

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        waited = 0.0
        while not self._ended.wait(_LOOK_SECONDS):
            waited += _LOOK_SECONDS
            counts = Bundle(self._processor.entry, list).counts()
            if waited >= READ_SECONDS or counts.busiest >= self._max_elements:
                self.is_over = True
                self.residuals += self._processor.split()
