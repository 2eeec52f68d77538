"""Stages without keys."""

from collections.abc import Iterator

from apache_beam.utils.timestamp import Timestamp

from sparkbeam.wire.firing_rows import UNKNOWN, split_key
from sparkbeam.wire.rows import Row
from sparkbeam.wire.timestamps import MIN_MICROS
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.steps.bundles import delay_of
from sparkbeam.worker.steps.processor import Residual
from sparkbeam.worker.streaming.draining import truncation
from sparkbeam.worker.streaming.stages import StageRun

Deferred = tuple[int, int, bytes]
"""Processing time of the continuation, watermark that the element allows, and the element.

The time is ``MIN_MICROS`` if nobody asked for a pause.
"""


class PlainRun(StageRun):
    """A stage without keys, which stores only the residuals of splittable DoFns."""

    _deferred: tuple[Deferred, ...] = ()

    def _load(self, shard: ShardState) -> None:
        super()._load(shard)
        self._deferred = shard.value(f"{self.stage.address}/deferred") or ()

    def save(self, shard: ShardState) -> None:
        super().save(shard)
        shard.set_value(f"{self.stage.address}/deferred", self._deferred)

    def _receive(self, rows: list[Row]) -> None:
        if self._tells:
            self._bundle(self._of_firings(self._elements_by_firing(rows)))
        else:
            self._bundle(self._gated(UNKNOWN, self._decoded(rows)))

    def _elements_by_firing(self, rows: list[Row]) -> Iterator[tuple[bytes, Block]]:
        """Yield the elements of rows, with the firing in the rows."""
        for row in rows:
            firing, _ = split_key(row[0])
            for block in self._gated(firing, self._decoded([row])):
                yield firing, block

    def _decoded(self, rows: list[Row]) -> Iterator[Block]:
        return self._processor.source.read(iter(rows))

    def _on_time(self) -> None:
        now = self.moment.resumption_limit()
        if self.moment.draining and self._deferred:
            self._truncate()
        due = [deferred for deferred in self._deferred if deferred[0] <= now]
        if due:
            self._deferred = tuple(kept for kept in self._deferred if kept[0] > now)
            self._resume(due)

    def _resume(self, due: list[Deferred]) -> None:
        """Resume deferred elements."""
        self._defer(self.bundles.resume(encoded for _, _, encoded in due))

    def _truncate(self) -> None:
        """Truncate the remaining unbounded restrictions."""
        truncated = truncation(self.stage)
        coder = self._processor.source.windowed_coder_impl
        self._deferred = tuple(
            (at, hold, coder.encode(left))
            for at, hold, encoded in self._deferred
            for element in coder.decode_all(encoded)
            if (left := truncated(element)) is not None
        )

    def _defer(self, residuals: list[Residual], at: int | None = None) -> None:
        for residual in residuals:
            due = self.moment.clock + delay_of(residual) if at is None else at
            deferred = (due, _held_by(residual), residual.application.element)
            self._deferred = (*self._deferred, deferred)

    def _side_input_horizon(self) -> int:
        # A restriction that goes on asks again.
        return MIN_MICROS if self._deferred else super()._side_input_horizon()

    def _hold(self) -> int | None:
        return min((hold for _, hold, _ in self._deferred), default=None)

    def _due(self) -> int | None:
        return min((at for at, _, _ in self._deferred), default=None)


def _held_by(residual: Residual) -> int:
    """Return the watermark that a deferred restriction allows."""
    estimates = residual.application.output_watermarks.values()
    return min((Timestamp.from_proto(e).micros for e in estimates), default=MIN_MICROS)
