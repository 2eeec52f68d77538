"""GroupByKey in streaming: Beam's trigger driver over the records of a shard's state.

Values are kept encoded, in a bag for each key and window. Where the stage starts with
the merge of a combine, what is kept is one accumulator.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms import trigger
from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.blocks import Block, unstamped
from sparkbeam.worker.cells import KeyCells
from sparkbeam.worker.rounding import coded, coded_hold
from sparkbeam.worker.rows import COUNT_CELL, Row
from sparkbeam.worker.streaming.lateness import Lateness, expiry_of
from sparkbeam.worker.streaming.moment import Moment
from sparkbeam.worker.streaming.pages import KeyedState
from sparkbeam.worker.streaming.records import Record
from sparkbeam.worker.streaming.times import MAX_MICROS
from sparkbeam.worker.timers import EVENT_TIME, PROCESSING_TIME
from sparkbeam.worker.values import RunCoder, ValuesBuilder

_EXPIRY = b"expiry"
_STATE = b"state"

_DOMAINS = {TimeDomain.WATERMARK: EVENT_TIME, TimeDomain.REAL_TIME: PROCESSING_TIME}
_DOMAIN_NAMES = {number: name for name, number in _DOMAINS.items()}


class Grouping(ABC):
    """The GroupByKey before a stage, in one shard.

    Args:
        coder: of the pairs that are grouped.
        windowing: theirs.
        combine_fn: merges the values, which are its accumulators; None keeps them all.
        state: the records of the shard's keys.
        moment: what time it is, kept up by the caller.
    """

    def __init__(
        self,
        coder: coders.WindowedValueCoder,
        windowing: Windowing,
        combine_fn: CombineFn | None,
        state: KeyedState,
        moment: Moment,
    ) -> None:
        pair = coder.wrapped_value_coder
        self._decode_key = pair.key_coder().get_impl().decode_nested
        stored = coders.WindowedValueCoder(coders.BytesCoder(), coder.window_coder)
        self._cells = KeyCells(stored)
        self._stored_runs = RunCoder(coders.BytesCoder().get_impl())
        self._value_runs = RunCoder(coders.LengthPrefixCoder(pair.value_coder()).get_impl())
        self._expires = expiry_of(windowing)
        self._lateness = Lateness(windowing)
        self._combine_fn = combine_fn
        self._keyed = state
        self._moment = moment
        self._prepare(coder, windowing)
        if combine_fn is not None:
            combine_fn.setup()

    @abstractmethod
    def _prepare(self, coder: coders.WindowedValueCoder, windowing: Windowing) -> None:
        """Sets up what only this kind of grouping needs."""

    @property
    def dropped(self) -> int:
        """How many elements came too late."""
        return self._lateness.dropped

    def close(self) -> None:
        """Ends the use of the CombineFn."""
        if self._combine_fn is not None:
            self._combine_fn.teardown()

    @abstractmethod
    def add(self, rows: list[Row]) -> Iterator[WindowedValue]:
        """Takes elements in; gives the panes that they trigger."""

    @abstractmethod
    def fire(self) -> Iterator[WindowedValue]:
        """Fires what is due by the watermark, or by the clock; forgets expired windows."""

    def _arrived(self, rows: list[Row]) -> Iterator[tuple[bytes, list[Block]]]:
        """The elements of each key that are not too late, if there are any."""
        watermark = self._moment.input_watermark
        rows = self._without_counts(rows, watermark)
        rows.sort(key=itemgetter(0))
        self._keyed.prefetch({key for key, _, _ in rows})
        blocks, in_time = self._cells.blocks, self._lateness.in_time
        for key, group in groupby(rows, itemgetter(0)):
            arrived = (block for _, _, cell in group for block in blocks(cell))
            kept = list(unstamped(in_time(arrived, watermark)))
            if kept:
                yield key, kept

    def _without_counts(self, rows: list[Row], watermark: int) -> list[Row]:
        kept = []
        for row in rows:
            if row[2][:1] == COUNT_CELL:
                self._lateness.count(*self._cells.counted(row[2]), watermark)
            else:
                kept.append(row)
        return kept

    def _values(self, stored: Iterable[list[bytes]]) -> Any:
        """The values of a pane, decoded when they are asked for if they are many."""
        builder = ValuesBuilder(self._value_runs)
        for items in stored:
            builder.append(self._stored_runs.encode(items))
        return builder.values()


class TriggerGrouping(Grouping):
    """A grouping with whatever windows and trigger."""

    def _prepare(self, coder: coders.WindowedValueCoder, windowing: Windowing) -> None:
        self._driver = trigger.create_trigger_driver(windowing, clock=self._moment)
        self._parts = _Parts(
            coder.wrapped_value_coder.value_coder().get_impl(),
            coder.window_coder.get_impl(),
            self._combine_fn,
        )

    def add(self, rows: list[Row]) -> Iterator[WindowedValue]:
        for key, blocks in self._arrived(rows):
            elements = [template.with_value(v) for template, values in blocks for v in values]
            yield from self._with_key(key, lambda state, e=elements: self._added(state, e))  # type: ignore

    def fire(self) -> Iterator[WindowedValue]:
        for domain, limit in (
            (EVENT_TIME, self._moment.input_watermark),
            (PROCESSING_TIME, self._moment.processing_limit()),
        ):
            for key in self._keyed.due_keys(domain, limit):
                yield from self._with_key(
                    key,
                    lambda state, d=domain, until=limit: self._fired(state, d, until),  # type: ignore
                )

    def _with_key(
        self,
        encoded_key: bytes,
        work: Callable[["TriggerState"], Iterator[WindowedValue]],
    ) -> Iterator[WindowedValue]:
        state = TriggerState(self._keyed.record(encoded_key), self._parts)
        key: Any = None
        decoded = False
        for pane in work(state):
            if not decoded:
                key, decoded = self._decode_key(encoded_key), True
            yield WindowedValue(
                (key, self._values(pane.value)),
                coded(pane.timestamp),
                pane.windows,
                pane.pane_info,
            )
        state.save(self._expires)

    def _added(
        self, state: "TriggerState", elements: list[WindowedValue]
    ) -> Iterator[WindowedValue]:
        moment = self._moment
        return self._driver.process_elements(
            state,
            elements,
            Timestamp(micros=moment.output_watermark),
            Timestamp(micros=moment.input_watermark),
        )

    def _fired(self, state: "TriggerState", domain: int, limit: int) -> Iterator[WindowedValue]:
        while (due := state.record.pop_due(domain, limit)) is not None:
            fire, timer_id, payload = due
            if timer_id == _EXPIRY:
                state.expire(self._expires, fire)
            elif state.knows(payload[0]):
                window_id, name, _ = payload
                yield from self._driver.process_timer(
                    window_id,
                    name,
                    _DOMAIN_NAMES[domain],
                    Timestamp(micros=fire),
                    state,
                    Timestamp(micros=self._moment.input_watermark),
                )


class _Parts:
    """How the content of a record is encoded."""

    def __init__(self, values: Any, windows: Any, combine_fn: CombineFn | None) -> None:
        self.encode = values.encode
        self.decode = values.decode
        self.encode_window = windows.encode_nested
        self.decode_window = windows.decode_nested
        self.combine_fn = combine_fn


class TriggerState(trigger.UnmergedState):
    """One key's state for Beam's trigger driver, over a record.

    Args:
        record: the key's.
        parts: how its content is encoded.
    """

    def __init__(self, record: Record, parts: _Parts) -> None:
        self.record = record
        self._parts = parts
        stored = record.get(_STATE) or ((), ())
        self._window_ids: dict[BoundedWindow, list[int]] = {
            parts.decode_window(window): list(ids) for window, ids in stored[0]
        }
        self._values: dict[tuple[int, str], Any] = dict(stored[1])
        self._changed = False

    def save(self, expires: Callable[[BoundedWindow], int]) -> None:
        """Writes what has changed into the record; sets the timer of the next expiry."""
        if not self._changed:
            return
        if not self._values and not self._window_ids:
            self.record.pop(_STATE)
            self.record.clear_timer(_EXPIRY)
            return
        encode = self._parts.encode_window
        windows = tuple((encode(w), tuple(ids)) for w, ids in self._window_ids.items())
        self.record.set(_STATE, (windows, tuple(self._values.items())))
        expiry = min(map(expires, self._window_ids), default=MAX_MICROS + 1)
        if expiry <= MAX_MICROS:
            current = self.record.timer(_EXPIRY)
            if current is None or current[0] != expiry:
                self.record.set_timer(_EXPIRY, EVENT_TIME, expiry, None, None)

    def knows(self, window_id: int) -> bool:
        """Whether the window of a timer is still there."""
        return any(window_id in ids for ids in self._window_ids.values())

    def expire(self, expires: Callable[[BoundedWindow], int], watermark: int) -> None:
        """Forgets the windows whose time is over."""
        for window in [w for w in self._window_ids if expires(w) <= watermark]:
            for window_id in self._window_ids.pop(window):
                self.clear_state(window_id, None)
        self._changed = True

    # What the trigger driver asks for.

    def set_global_state(self, tag: Any, value: Any) -> None:
        self._window_ids = value
        self._changed = True

    def get_global_state(self, tag: Any, default: Any = None) -> Any:
        return self._window_ids

    def get_window(self, window_id: int) -> int:
        return window_id

    def set_timer(
        self, window: int, name: str, time_domain: str, timestamp: Any, dynamic_timer_tag: str = ""
    ) -> None:
        fire = min(Timestamp.of(timestamp).micros, MAX_MICROS)
        self.record.set_timer(
            _timer_id(window, name, time_domain, dynamic_timer_tag),
            _DOMAINS[time_domain],
            fire,
            None,
            (window, name, dynamic_timer_tag),
        )
        self._changed = True

    def clear_timer(
        self, window: int, name: str, time_domain: str, dynamic_timer_tag: str = ""
    ) -> None:
        self.record.clear_timer(_timer_id(window, name, time_domain, dynamic_timer_tag))

    def add_state(self, window: int, tag: Any, value: Any) -> None:
        self._changed = True
        at = (window, tag.tag)
        match tag:
            case trigger._ListStateTag():
                self._add_value(window, value)
            case trigger._CombiningValueStateTag():
                accumulator = self._values.get(at)
                if at not in self._values:
                    accumulator = tag.combine_fn.create_accumulator()
                self._values[at] = tag.combine_fn.add_input(accumulator, value)
            case trigger._WatermarkHoldStateTag():
                held = self._values.get(at)
                if held is not None:
                    value = tag.timestamp_combiner_impl.combine(Timestamp(micros=held), value)
                self._values[at] = value.micros
                self.record.set_hold(_cell(window), coded_hold(value.micros))
            case _:
                self._values[at] = [*self._values.get(at, ()), value]

    def get_state(self, window: int, tag: Any) -> Any:
        at = (window, tag.tag)
        match tag:
            case trigger._ListStateTag():
                # One item: what the driver joins for a pane are the bags of its windows.
                return [list(self.record.bag(_cell(window)))]
            case trigger._CombiningValueStateTag():
                if at not in self._values:
                    return tag.combine_fn.extract_output(tag.combine_fn.create_accumulator())
                return tag.combine_fn.extract_output(self._values[at])
            case trigger._WatermarkHoldStateTag():
                held = self._values.get(at)
                return None if held is None else Timestamp(micros=held)
            case _:
                return self._values.get(at, [])

    def clear_state(self, window: int, tag: Any) -> None:
        """Clears a tag of a window; None stands for all."""
        self._changed = True
        if tag is None or isinstance(tag, trigger._ListStateTag):
            self.record.bag(_cell(window)).clear()
        if tag is None or isinstance(tag, trigger._WatermarkHoldStateTag):
            self.record.set_hold(_cell(window), None)
        if tag is None:
            for at in [at for at in self._values if at[0] == window]:
                del self._values[at]
        else:
            self._values.pop((window, tag.tag), None)

    def _add_value(self, window: int, value: bytes) -> None:
        bag = self.record.bag(_cell(window))
        combine_fn = self._parts.combine_fn
        if combine_fn is None:
            bag.append([value])
            return
        accumulators = [self._parts.decode(item) for item in (*bag, value)]
        merged = combine_fn.compact(combine_fn.merge_accumulators(accumulators))
        bag.replace([self._parts.encode(merged)])


def _cell(window_id: int) -> bytes:
    return b"values" + window_id.to_bytes(8, "big")


def _timer_id(window: int, name: str, time_domain: str, dynamic_tag: str) -> bytes:
    return repr((window, name, time_domain, dynamic_tag)).encode()
