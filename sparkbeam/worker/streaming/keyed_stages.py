"""Stages that read a shuffle by key: groupings, user state and timers."""

import re
from collections.abc import Iterator

from apache_beam.transforms.combiners import curry_combine_fn
from apache_beam.transforms.core import CombineFn

from sparkbeam.common.arguments import shown
from sparkbeam.upstream.dofn_handover import copied
from sparkbeam.wire.firing_rows import firing_of
from sparkbeam.wire.messages import Holder
from sparkbeam.wire.reports import DROPPED_DUE_TO_CLOSED_WINDOW, DROPPED_DUE_TO_LATENESS
from sparkbeam.wire.rows import Row
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.blocks import Block, in_blocks, joined
from sparkbeam.worker.grouping.lateness import expiry_of
from sparkbeam.worker.grouping.strategies import STREAMING
from sparkbeam.worker.keyed.input import KeyedInput
from sparkbeam.worker.state.pages import KeyedState, ShardState
from sparkbeam.worker.state.records import PROCESSING_TIME, Hold
from sparkbeam.worker.steps.bundles import portions
from sparkbeam.worker.steps.edges import SourceOperation
from sparkbeam.worker.streaming.oldest import OldestHold
from sparkbeam.worker.streaming.stages import StageRun

_ROWS_PER_BUNDLE = 4000
_SHOWN_BYTES = 10_000
_SHOWN_CHARACTERS = 60
_ADDRESS = re.compile(" at 0x[0-9a-f]+")


class KeyedRun(StageRun):
    """A stage that stores records of keys in the shard's state, with timers and holds."""

    _keyed: KeyedState
    _waiting = "state"

    def _load(self, shard: ShardState) -> None:
        super()._load(shard)
        self._keyed = shard.stage(self.stage.address)
        self._oldest = OldestHold(self._keyed, shard, f"{self.stage.address}/oldest")

    def _hold(self) -> int | None:
        # At the end of time all has fired that ever will.
        return None if self.moment.input_watermark >= MAX_MICROS else self._keyed.hold()

    def _due(self) -> int | None:
        return self._keyed.next_due(PROCESSING_TIME)

    def _holder(self) -> Holder | None:
        found = self._oldest.find(self.moment.clock)
        if found is None or found.micros > self.moment.output_watermark:
            return None
        what = "timer" if found.is_timer else self._waiting
        return Holder(self._shown_key(found.key), what, found.until, self._step_of(found))

    def _step_of(self, hold: Hold) -> str:
        """Return the label of the step with the hold; empty if it is unknown."""
        return ""

    def _shown_key(self, encoded: bytes) -> str:
        if len(encoded) > _SHOWN_BYTES:
            return f"a key of {len(encoded):,} bytes"
        source = self._processor.source
        coder = (source.grouped_coder or source.windowed_coder).wrapped_value_coder.key_coder()
        try:
            key = shown(coder.get_impl().decode_nested(encoded), _SHOWN_CHARACTERS)
        except Exception:  # It is only for people to look at.
            key = shown(encoded, _SHOWN_CHARACTERS)
        # Another attempt has it elsewhere.
        return _ADDRESS.sub("", key)


class GroupingRun(KeyedRun):
    """A stage that reads a GroupByKey."""

    _waiting = "window"

    def _load(self, shard: ShardState) -> None:
        super()._load(shard)
        source, how = self._processor.source, self.stage.grouping
        assert how is not None
        assert source.grouped_coder is not None
        assert source.grouped_windowing is not None
        self._grouping = STREAMING[how.strategy](
            source.grouped_coder,
            source.grouped_windowing,
            _combine_fn(source) if how.combines else None,
            self._keyed,
            self.moment,
            by_time=how.by_time,
            counted=how.counted,
        )

    def _receive(self, rows: list[Row]) -> None:
        self._put_out(in_blocks(self._grouping.add(rows)))

    def _on_time(self) -> None:
        self._put_out(self._grouping.fire_blocks())

    def close(self) -> bytes | None:
        self._grouping.close()
        return super().close()

    def _dropped(self) -> dict[str, int]:
        return {
            DROPPED_DUE_TO_LATENESS: self._grouping.dropped,
            DROPPED_DUE_TO_CLOSED_WINDOW: self._grouping.dropped_closed,
        }

    def _step_of(self, hold: Hold) -> str:
        # A GroupByKey is between stages; of a combine the second half is the first step behind it.
        how = self.stage.grouping
        return self.stage.labels[0] if how is not None and how.combines else ""

    def _put_out(self, panes: Iterator[Block]) -> None:
        if self._tells:
            self._bundle(self._of_firings(self._fired(panes)))
        else:
            self._bundle(self._gated(b"", panes))

    def _fired(self, panes: Iterator[Block]) -> Iterator[tuple[bytes, Block]]:
        """Yield panes one by one, each with its firing."""
        source = self._processor.source
        assert source.grouped_coder is not None
        encode = source.grouped_coder.wrapped_value_coder.key_coder().get_impl().encode_nested
        for block in panes:
            for pane in block.elements():
                firing = firing_of(encode(pane.value[0]), pane.pane_info.index)
                for gated in self._gated(firing, in_blocks([pane])):
                    yield firing, gated


class StatefulRun(KeyedRun):
    """A stage with user state or timers."""

    def _load(self, shard: ShardState) -> None:
        super()._load(shard)
        source = self._processor.source
        is_sorted = self.stage.format.by_time
        self._input = KeyedInput(
            source.windowed_coder,
            source.windowing,
            self._keyed,
            sorted_by_time=is_sorted,
        )
        windows = source.windowed_coder.window_coder
        state, timers = self._processor.state, self._processor.timers
        state.records = self._keyed
        state.expires = expiry_of(source.windowing)
        state.decode_window = windows.decode
        state.moment = timers.moment = self.moment
        timers.encode_window = windows.encode
        timers.forget = state.forget
        self._one_by_one = bool(is_sorted or self._gate or timers.streams)

    def _step_of(self, hold: Hold) -> str:
        timers = self._processor.timers
        name = timers.step_of(hold.id) if hold.is_timer else ""
        if not name and len(timers.steps) == 1:
            (name,) = timers.steps
        owns = (label for label in self.stage.labels if f"{name}/".startswith(f"{label}/"))
        return max(owns, default=name, key=len)

    def _receive(self, rows: list[Row]) -> None:
        self._input.prepare(rows)
        watermark = self.moment.input_watermark
        if self._one_by_one:
            arrived = self._input.by_key(rows, watermark)
            self._bundles_of((key, self._gated(key, blocks)) for key, blocks in arrived)
            return
        for start in range(0, len(rows), _ROWS_PER_BUNDLE):
            some = rows[start : start + _ROWS_PER_BUNDLE]
            self._bundle(joined(self._input.elements(some, watermark)))

    def _dropped(self) -> dict[str, int]:
        return {DROPPED_DUE_TO_LATENESS: self._input.dropped}

    def _release(self) -> None:
        if self._gate is not None and self._gate.waiting:
            released = self._gate.release(self._marks)
            self._bundles_of((key, iter([block])) for key, block in released)

    def _on_time(self) -> None:
        limits = (self.moment.input_watermark, self.moment.processing_limit())
        for domain, limit in enumerate(limits):
            due = self._keyed.due_keys(domain, limit)
            self._bundles_of(((key, self._due_blocks(key)) for key in due), fire=True)

    def _due_blocks(self, key: bytes) -> Iterator[Block]:
        return self._input.due_blocks(self._keyed.record(key), self.moment.input_watermark)

    def _bundles_of(
        self, keys: Iterator[tuple[bytes, Iterator[Block]]], *, fire: bool = False
    ) -> None:
        """Process keys with their elements, many per bundle."""
        for some in portions(keys):
            self._defer(self.bundles.process_keyed(some, fire=fire))


def _combine_fn(source: SourceOperation) -> CombineFn:
    """Return the CombineFn whose merge is the only consumer of the grouped values."""
    (merge,) = source.consumer
    fn, args, kwargs = copied(merge.spec.serialized_fn)[:3]
    return curry_combine_fn(fn, args, kwargs)
