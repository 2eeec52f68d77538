"""Stateful DoFns in streaming: their input and timers, over the records of a shard's state.

A window that ends has a timer of ours at its expiry, which forgets what the window held.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import itemgetter
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.plan.identity import steady
from sparkbeam.wire.rows import Row
from sparkbeam.wire.times import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.blocks import Block, in_blocks, unstamped
from sparkbeam.worker.grouping.lateness import Lateness
from sparkbeam.worker.grouping.moment import Moment
from sparkbeam.worker.keyed.memory import DONE, StageState
from sparkbeam.worker.keyed.userstate import UserState, forget_user_state, user_cell
from sparkbeam.worker.layouts.keyed import KeyedSource
from sparkbeam.worker.state.ordered import OrderedBag
from sparkbeam.worker.state.pages import KeyedState
from sparkbeam.worker.state.records import Record
from sparkbeam.worker.timers import EVENT_TIME, PROCESSING_TIME, Family, Timers

_EXPIRY = b"expiry"
_SORTED = b"sorted"


class LayerState(StageState):
    """The state of a stage in streaming.

    Attributes:
        keyed: the user's state; None for a stage without.
        expires: tells at which watermark the state of a window is forgotten.
        decode_window: decodes a window of the stage's input.
    """

    def __init__(self) -> None:
        self.keyed: KeyedState | None = None
        self.expires: Callable[[BoundedWindow], int] = lambda _: MAX_MICROS
        self.decode_window: Callable[[bytes], BoundedWindow]
        self._last: tuple[bytes, int] | None = None

    def user_state(
        self, transform_id: str, key: coders.Coder, window: coders.Coder, label: str
    ) -> UserState:
        return UserState(
            self,
            transform_id,
            key,
            window,
            self._record,
            self.remember,
            label,
        )

    # Ordered lists are Beam's own, and ask for ranges of them.

    def blocking_get(
        self, state_key: beam_fn_api_pb2.StateKey, coder: coder_impl.CoderImpl
    ) -> Iterable[Any]:
        if state_key.WhichOneof("type") != "ordered_list_user_state":
            return super().blocking_get(state_key, coder)
        request = state_key.ordered_list_user_state
        found = self._ordered(request).range(request.range.start, request.range.end)
        return (coder.decode_nested(encoded) for _, encoded in found)

    def extend(
        self,
        state_key: beam_fn_api_pb2.StateKey,
        coder: coder_impl.CoderImpl,
        elements: Iterable[Any],
    ) -> Any:
        request = state_key.ordered_list_user_state
        self._ordered(request).add(
            [(stamp, coder.encode_nested((stamp, value))) for stamp, value in elements]
        )
        self.remember(self._record(request.key), request.window)
        return DONE

    def clear(self, state_key: beam_fn_api_pb2.StateKey) -> Any:
        request = state_key.ordered_list_user_state
        self._ordered(request).clear(request.range.start, request.range.end)
        return DONE

    def _ordered(self, request: Any) -> OrderedBag:
        cell = user_cell(request.transform_id, request.user_state_id, request.window)
        return self._record(request.key).ordered(cell)

    def _record(self, key: bytes) -> Record:
        assert self.keyed is not None
        return self.keyed.record(key)

    def remember(self, record: Record, window: bytes) -> None:
        """Sees to it that what a record holds for a window is forgotten in time."""
        if self._last is None or self._last[0] != window:
            self._last = (window, self.expires(self.decode_window(window)))
        _, expiry = self._last
        timer_id = _EXPIRY + window
        if expiry <= MAX_MICROS and record.timer(timer_id) is None:
            record.set_timer(timer_id, EVENT_TIME, expiry, None, window)


class StoredTimers(Timers):
    """The timers of a stage, in the records of their keys.

    Attributes:
        record: of the key at hand.
        moment: up to when timers fire.
        encode_window: encodes a window of the stage's input.
    """

    record: Record
    moment: Moment
    encode_window: Callable[[BoundedWindow], bytes]

    def __init__(self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> None:
        super().__init__(descriptor)
        # A record knows the step by a name that it also has when its program starts again.
        self._stored = {(step, name): (steady(step), name) for step, name in self.streams}
        self._known = {stored: family for family, stored in self._stored.items()}

    def fire(self) -> Iterator[beam_fn_api_pb2.Elements.Timers]:
        self.collect()
        for domain, limit in (
            (EVENT_TIME, self.moment.input_watermark),
            (PROCESSING_TIME, self.moment.processing_limit()),
        ):
            while (due := self.record.pop_due(domain, limit)) is not None:
                _, timer_id, payload = due
                if timer_id.startswith(_EXPIRY):
                    forget_user_state(self.record, payload)
                    continue
                family, encoded = payload
                yield self._message(self._known[family], encoded)
                self.collect()

    def collect(self) -> None:
        """Takes what the DoFns have set and cleared into the record at hand."""
        for family, timer in self._settings():
            window = self.encode_window(timer.windows[0])
            stored = self._stored[family]
            timer_id = _timer_id(stored, timer.dynamic_timer_tag, window)
            if timer.clear_bit:
                self.record.clear_timer(timer_id)
                continue
            assert timer.fire_timestamp is not None
            assert timer.hold_timestamp is not None
            self.record.set_timer(
                timer_id,
                self.domain[family],
                min(timer.fire_timestamp.micros, MAX_MICROS),
                timer.hold_timestamp.micros,
                (stored, self._encoded(family, timer)),
            )


def _timer_id(family: Family, dynamic_tag: str, window: bytes) -> bytes:
    return b"timer" + "\0".join((*family, dynamic_tag, "")).encode() + window


class KeyedInput:
    """The elements of a stateful stage, key by key; in the order of time where that is asked.

    Args:
        coder: of the elements.
        windowing: theirs.
        keyed: the records of the shard's keys.
        sorted_by_time: an element waits until the watermark has passed it.
    """

    def __init__(
        self,
        coder: coders.WindowedValueCoder,
        windowing: Windowing,
        keyed: KeyedState,
        *,
        sorted_by_time: bool,
    ) -> None:
        self._source = KeyedSource(coder)
        self._coder = coder.get_impl()
        self._lateness = Lateness(windowing)
        self._keyed = keyed
        self._sorted = sorted_by_time

    @property
    def dropped(self) -> int:
        """How many elements came too late."""
        return self._lateness.dropped

    def prepare(self, rows: list[Row]) -> None:
        """Brings rows into the order in which they are to be read, with the records of the keys."""
        rows.sort(key=itemgetter(0, 1))
        self._keyed.prefetch({key for key, _, _ in rows})

    def elements(self, rows: list[Row], watermark: int) -> Iterator[Block]:
        """The new elements that are not late, where none of them has to wait."""
        return self._lateness.in_time(self._source.blocks(rows), watermark)

    def by_key(self, rows: list[Row], watermark: int) -> Iterator[tuple[bytes, Iterator[Block]]]:
        """The new elements of each key that are not late, as far as they need not wait.

        Those of a key have to be read before the next key.
        """
        for key, blocks in self._source.keys(rows):
            in_time = unstamped(self._lateness.in_time(blocks, watermark))
            yield key, self._ready(key, in_time, watermark) if self._sorted else in_time

    def ripe(self, record: Record, watermark: int) -> Iterator[Block]:
        """The elements of a key that have waited for the watermark, in order."""
        if not self._sorted:
            return iter(())
        buffer = record.ordered(_SORTED)
        limit = watermark if watermark < MAX_MICROS else watermark + 1
        elements = [self._coder.decode_nested(e) for _, e in buffer.range(MIN_MICROS, limit)]
        if elements:
            buffer.clear(MIN_MICROS, limit)
            self._wait(record)
        return in_blocks(elements)

    def _ready(self, key: bytes, blocks: Iterator[Block], watermark: int) -> Iterator[Block]:
        """Keeps the elements that have to wait to be sorted; gives the others."""
        waiting: list[WindowedValue] = []
        for block in blocks:
            if block.windowing.timestamp.micros < watermark:
                yield block
            else:
                waiting += block.elements()
        if waiting:
            record = self._keyed.record(key)
            encode = self._coder.encode_nested
            record.ordered(_SORTED).add([(e.timestamp.micros, encode(e)) for e in waiting])
            self._wait(record)

    def _wait(self, record: Record) -> None:
        """Sets a timer, and with it the hold of the watermark, for the first that waits."""
        first = next(iter(record.ordered(_SORTED).range(MIN_MICROS, MAX_MICROS + 1)), None)
        if first is None:
            record.clear_timer(_SORTED)
        else:
            fire = min(first[0] + 1, MAX_MICROS)
            record.set_timer(_SORTED, EVENT_TIME, fire, first[0], None)
