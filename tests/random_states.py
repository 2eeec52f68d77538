"""Stateful DoFns whose results depend on no order, for :mod:`random_pipelines`.

An element is a pair of a key and a number. No timer fires before all elements are there that its
callback looks at, as long as none comes behind the watermark.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
from apache_beam.coders import FastPrimitivesCoder, TupleCoder, VarIntCoder
from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    StateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.coders import OrderedIntCoder
from sparkbeam.state import MapStateSpec, MultimapStateSpec, SortedMultimapStateSpec
from sparkbeam.wire.rounding import coded_end

Pair = tuple[str, int]

Set = tuple[str, str, int | None]
"""Domain and tag of a timer, and for when: seconds behind the end of the window, or of the clock.

None clears it.
"""

Plan = tuple[tuple[str, tuple[Set, ...]], ...]
"""The timers that are set by the timer of each tag; by an element with ''."""

Entry = tuple[int, int]
"""Second and number of an element."""

_ENTRY = TupleCoder([VarIntCoder(), VarIntCoder()])

KINDS: dict[str, StateSpec] = {
    "value": ReadModifyWriteStateSpec("value", FastPrimitivesCoder()),
    "bag": BagStateSpec("bag", _ENTRY),
    "set": SetStateSpec("set", _ENTRY),
    "combining": CombiningValueStateSpec("combining", FastPrimitivesCoder(), ToListCombineFn()),
    "ordered": OrderedListStateSpec("ordered", VarIntCoder()),
    "map": MapStateSpec("map", _ENTRY, VarIntCoder()),
    "multimap": MultimapStateSpec("multimap", VarIntCoder(), VarIntCoder()),
    "sorted": SortedMultimapStateSpec("sorted", OrderedIntCoder(), VarIntCoder()),
}
ORDERED = ("bag", "ordered", "sorted")
"""Those of which parts can be removed, or that are small enough to write again."""


class Kept:
    """A state of whatever kind as a bag of entries; set and map have each once."""

    def __init__(self, kind: str, state: Any) -> None:
        self._kind, self._state = kind, state

    def add(self, second: int, number: int) -> None:
        match self._kind:
            case "value":
                self._state.write([*(self._state.read() or []), (second, number)])
            case "ordered":
                self._state.add((Timestamp(second), number))
            case "map":
                self._state.put((second, number), 1)
            case "multimap" | "sorted":
                self._state.put(second, number)
            case _:
                self._state.add((second, number))

    def entries(self) -> list[Entry]:
        match self._kind:
            case "ordered":
                found = [(int(time), number) for time, number in self._state.read()]
            case "map":
                found = [entry for entry, _ in self._state.entries()]
            case "multimap" | "sorted":
                found = list(self._state.entries())
            case _:
                found = list(self._state.read() or [])
        return sorted(found)

    def remove_before(self, second: int) -> list[Entry]:
        """Removes and gives the entries before a second."""
        found = self.entries()
        match self._kind:
            case "ordered":
                self._state.clear_range(Timestamp(-(1 << 40)), Timestamp(second))
            case "sorted":
                self._state.remove_until(second - 1)
            case _:
                self._state.clear()
                for entry in found:
                    if entry[0] >= second:
                        self.add(*entry)
        return [entry for entry in found if entry[0] < second]

    def clear(self) -> None:
        self._state.clear()


def digest(value: Any) -> int:
    """A small number that stands for a value."""
    return zlib.crc32(repr(value).encode()) % 997


def Chain(kind: str, plan: Plan) -> beam.DoFn:
    """Gives all that is kept in each of the timers of a plan; those in event time add to it."""
    spec, sets = KINDS[kind], dict(plan)

    class Chained(beam.DoFn):
        EVENT = TimerSpec("event", TimeDomain.WATERMARK)
        CLOCK = TimerSpec("clock", TimeDomain.REAL_TIME)

        def process(
            self,
            element: Pair,
            time: Any = beam.DoFn.TimestampParam,
            window: Any = beam.DoFn.WindowParam,
            state: Any = beam.DoFn.StateParam(spec),
            event: Any = beam.DoFn.TimerParam(EVENT),
            clock: Any = beam.DoFn.TimerParam(CLOCK),
        ) -> None:
            Kept(kind, state).add(int(time) % 100_000, element[1])
            self._set("", window, event, clock)

        @on_timer(EVENT)
        def on_event(
            self,
            key: Any = beam.DoFn.KeyParam,
            tag: Any = beam.DoFn.DynamicTimerTagParam,
            window: Any = beam.DoFn.WindowParam,
            state: Any = beam.DoFn.StateParam(spec),
            event: Any = beam.DoFn.TimerParam(EVENT),
            clock: Any = beam.DoFn.TimerParam(CLOCK),
        ) -> Iterator[Pair]:
            kept = Kept(kind, state)
            yield key, digest((tag, kept.entries()))
            kept.add(777, ord(tag[0]))
            self._set(tag, window, event, clock)

        @on_timer(CLOCK)
        def on_clock(
            self,
            key: Any = beam.DoFn.KeyParam,
            tag: Any = beam.DoFn.DynamicTimerTagParam,
            window: Any = beam.DoFn.WindowParam,
            state: Any = beam.DoFn.StateParam(spec),
            event: Any = beam.DoFn.TimerParam(EVENT),
            clock: Any = beam.DoFn.TimerParam(CLOCK),
        ) -> Iterator[Pair]:
            yield key, digest((tag, Kept(kind, state).entries()))
            self._set(tag, window, event, clock)

        def _set(self, tag: str, window: Any, event: Any, clock: Any) -> None:
            for domain, other, second in sets.get(tag, ()):
                timer = event if domain == "event" else clock
                if second is None:
                    timer.clear(dynamic_timer_tag=other)
                elif domain == "clock":
                    timer.set(Timestamp(second), dynamic_timer_tag=other)
                elif isinstance(window, GlobalWindow):
                    timer.set(window.max_timestamp(), dynamic_timer_tag=other)
                else:
                    timer.set(window.end + second, dynamic_timer_tag=other)

    return Chained()


def Ripe(kind: str, delay: int) -> beam.DoFn:
    """Gives each element when the watermark is some seconds past it."""
    spec = KINDS[kind]

    class Ripening(beam.DoFn):
        DUE = TimerSpec("due", TimeDomain.WATERMARK)

        def process(
            self,
            element: Pair,
            time: Any = beam.DoFn.TimestampParam,
            state: Any = beam.DoFn.StateParam(spec),
            due: Any = beam.DoFn.TimerParam(DUE),
        ) -> Iterator[Pair]:
            second = int(time)
            if second > 1_000_000:  # There is no time behind the end of time.
                yield element
                return
            kept = Kept(kind, state)
            kept.add(second, element[1])
            due.set(kept.entries()[0][0] + delay)

        @on_timer(DUE)
        def fire(
            self,
            key: Any = beam.DoFn.KeyParam,
            time: Any = beam.DoFn.TimestampParam,
            state: Any = beam.DoFn.StateParam(spec),
            due: Any = beam.DoFn.TimerParam(DUE),
        ) -> Iterator[Pair]:
            kept = Kept(kind, state)
            for entry in kept.remove_before(int(time) - delay + 1):
                yield key, digest(entry)
            for second, _ in kept.entries()[:1]:
                due.set(second + delay)

    return Ripening()


def Flushing(kind: str, second: int) -> beam.DoFn:
    """Gives all that is kept when the clock has come to a second, each entry for itself."""
    spec = KINDS[kind]

    class Flushed(beam.DoFn):
        DUE = TimerSpec("due", TimeDomain.REAL_TIME)

        def process(
            self,
            element: Pair,
            state: Any = beam.DoFn.StateParam(spec),
            due: Any = beam.DoFn.TimerParam(DUE),
        ) -> None:
            Kept(kind, state).add(1, element[1])
            due.set(Timestamp(second))

        @on_timer(DUE)
        def fire(
            self,
            key: Any = beam.DoFn.KeyParam,
            window: Any = beam.DoFn.WindowParam,
            state: Any = beam.DoFn.StateParam(spec),
        ) -> Iterator[Any]:
            kept = Kept(kind, state)
            # Where a runner encodes elements, that cuts them to milliseconds.
            end = coded_end(window)
            for _, number in kept.entries():
                yield WindowedValue((key, number), end, (window,))
            kept.clear()

    return Flushed()


def Deduplicating(kind: str) -> beam.DoFn:
    """Gives each pair once for its second."""
    spec = KINDS[kind]

    class Deduplicated(beam.DoFn):
        def process(
            self,
            element: Pair,
            time: Any = beam.DoFn.TimestampParam,
            state: Any = beam.DoFn.StateParam(spec),
        ) -> Iterator[Pair]:
            kept, entry = Kept(kind, state), (time.micros // 1000 % 1_000_000_000, element[1])
            if entry not in kept.entries():
                kept.add(*entry)
                yield element

    return Deduplicated()


def Asking(kind: str, behind: int) -> beam.DoFn:
    """Keeps each element with all of a side input, and gives all behind the end of the window."""
    spec = KINDS[kind]

    class Asked(beam.DoFn):
        DUE = TimerSpec("due", TimeDomain.WATERMARK)

        def process(
            self,
            element: Pair,
            side: Any,
            time: Any = beam.DoFn.TimestampParam,
            window: Any = beam.DoFn.WindowParam,
            state: Any = beam.DoFn.StateParam(spec),
            due: Any = beam.DoFn.TimerParam(DUE),
        ) -> None:
            Kept(kind, state).add(int(time) % 100_000, digest((element[1], sorted(side))))
            if isinstance(window, GlobalWindow):
                due.set(window.max_timestamp())
            else:
                due.set(window.end + behind)

        @on_timer(DUE)
        def fire(
            self, key: Any = beam.DoFn.KeyParam, state: Any = beam.DoFn.StateParam(spec)
        ) -> Iterator[Pair]:
            yield key, digest(Kept(kind, state).entries())

    return Asked()
