"""User state and timers in streaming, over the records of a shard's state.

The cells of a record are named by window, transform and state. A window that ends has a
timer of ours at its expiry, which forgets what the window held.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.portability.api import beam_fn_api_pb2
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.rows import Row
from sparkbeam.worker.sinks import window_key
from sparkbeam.worker.sources import Block, blocks
from sparkbeam.worker.state import DONE, Done, StageState
from sparkbeam.worker.streaming.grouping import expiry_of, in_time
from sparkbeam.worker.streaming.moment import Moment
from sparkbeam.worker.streaming.pages import KeyedState
from sparkbeam.worker.streaming.records import Record
from sparkbeam.worker.streaming.times import MAX_MICROS, MIN_MICROS
from sparkbeam.worker.timers import EVENT_TIME, PROCESSING_TIME, Family, Timers
from sparkbeam.worker.values import RunCoder

_EXPIRY = b"expiry"
_SORTED = b"sorted"
_USER = b"user"


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

    def blocking_get(
        self, state_key: beam_fn_api_pb2.StateKey, coder: coder_impl.CoderImpl
    ) -> Iterable[Any]:
        match state_key.WhichOneof("type"):
            case "bag_user_state":
                record, cell = self._user(state_key.bag_user_state)
                return (coder.decode_nested(item) for item in record.bag(cell))
            case "ordered_list_user_state":
                request = state_key.ordered_list_user_state
                record, cell = self._user(request)
                found = record.ordered(cell).range(request.range.start, request.range.end)
                return (coder.decode_nested(encoded) for _, encoded in found)
            case _:
                return super().blocking_get(state_key, coder)

    def extend(
        self,
        state_key: beam_fn_api_pb2.StateKey,
        coder: coder_impl.CoderImpl,
        elements: Iterable[Any],
    ) -> Done:
        if state_key.WhichOneof("type") == "ordered_list_user_state":
            request = state_key.ordered_list_user_state
            record, cell = self._user(request)
            record.ordered(cell).add(
                [(stamp, coder.encode_nested((stamp, value))) for stamp, value in elements]
            )
        else:
            request = state_key.bag_user_state
            record, cell = self._user(request)
            record.bag(cell).append([coder.encode_nested(element) for element in elements])
        self.remember(record, request.window)
        return DONE

    def clear(self, state_key: beam_fn_api_pb2.StateKey) -> Done:
        if state_key.WhichOneof("type") == "ordered_list_user_state":
            request = state_key.ordered_list_user_state
            record, cell = self._user(request)
            record.ordered(cell).clear(request.range.start, request.range.end)
        else:
            record, cell = self._user(state_key.bag_user_state)
            record.bag(cell).clear()
        return DONE

    def remember(self, record: Record, window: bytes) -> None:
        """Sees to it that what a record holds for a window is forgotten in time."""
        timer_id = _EXPIRY + window
        if record.timer(timer_id) is None:
            expiry = self.expires(self.decode_window(window))
            if expiry <= MAX_MICROS:
                record.set_timer(timer_id, EVENT_TIME, expiry, None, window)

    def _user(self, request: Any) -> tuple[Record, bytes]:
        assert self.keyed is not None
        name = f"{request.transform_id}\0{request.user_state_id}".encode()
        return self.keyed.record(request.key), _USER + window_key(request.window, name)


def _forget(record: Record, window: bytes) -> None:
    prefix = _USER + window_key(window)
    for cell in [cell for cell in record.cells() if cell.startswith(prefix)]:
        record.pop(cell)


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

    def fire(self) -> Iterator[beam_fn_api_pb2.Elements.Timers]:
        self.collect()
        for domain, limit in (
            (EVENT_TIME, self.moment.input_watermark),
            (PROCESSING_TIME, self.moment.processing_limit()),
        ):
            while (due := self.record.pop_due(domain, limit)) is not None:
                _, timer_id, payload = due
                if timer_id.startswith(_EXPIRY):
                    _forget(self.record, payload)
                    continue
                family, encoded = payload
                yield self._message(family, encoded)
                self.collect()

    def collect(self) -> None:
        """Takes what the DoFns have set and cleared into the record at hand."""
        for family, timer in self._settings():
            window = self.encode_window(timer.windows[0])
            timer_id = _timer_id(family, timer.dynamic_timer_tag, window)
            if timer.clear_bit:
                self.record.clear_timer(timer_id)
                continue
            self.record.set_timer(
                timer_id,
                self.domain[family],
                min(timer.fire_timestamp.micros, MAX_MICROS),
                timer.hold_timestamp.micros,
                (family, self._encoded(family, timer)),
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
        self._runs = RunCoder(coder.get_impl())
        self._coder = coder.get_impl()
        self._expires = expiry_of(windowing)
        self._keyed = keyed
        self._sorted = sorted_by_time
        self.dropped = 0

    def arrived(self, rows: list[Row], watermark: int) -> Iterator[tuple[bytes, Iterator[Block]]]:
        """The new elements of each key that are not late, as far as they need not wait."""
        rows.sort(key=itemgetter(0, 1))
        self._keyed.prefetch({key for key, _, _ in rows})
        for key, group in groupby(rows, itemgetter(0)):
            elements = [e for _, _, run in group for e in self._runs.decode(run)]
            elements, late = in_time(elements, self._expires, watermark)
            self.dropped += late
            if self._sorted:
                elements = self._late_for_sorting(key, elements, watermark)
            yield key, blocks(elements)

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
        return blocks(elements)

    def _late_for_sorting(
        self, key: bytes, elements: list[WindowedValue], watermark: int
    ) -> list[WindowedValue]:
        """Keeps those that have to wait; gives the others."""
        waiting = [e for e in elements if e.timestamp.micros >= watermark]
        if waiting:
            record = self._keyed.record(key)
            encode = self._coder.encode_nested
            record.ordered(_SORTED).add([(e.timestamp.micros, encode(e)) for e in waiting])
            self._wait(record)
        return [e for e in elements if e.timestamp.micros < watermark]

    def _wait(self, record: Record) -> None:
        """Sets a timer, and with it the hold of the watermark, for the first that waits."""
        first = next(iter(record.ordered(_SORTED).range(MIN_MICROS, MAX_MICROS + 1)), None)
        if first is None:
            record.clear_timer(_SORTED)
        else:
            fire = min(first[0] + 1, MAX_MICROS)
            record.set_timer(_SORTED, EVENT_TIME, fire, first[0], None)
