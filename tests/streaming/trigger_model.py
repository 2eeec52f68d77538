"""The panes that Beam's model has for a trigger, said plainly: the reference for the runner.

:func:`expected` follows what happens to one key, event by event: elements arrive, the watermark of
the input goes on, or the clock does. It knows neither state nor timers, only windows in memory.

The rules, and where they are from:

- A trigger is *ready* by what is so: enough elements, a delay that is over, a watermark at the end
  of the window. ``AfterAny`` and ``OrFinally`` are ready if one part is, and finish with any that
  finishes; ``AfterAll`` is ready if all parts are, where one that has finished stays so;
  ``AfterEach`` is its first part that has not finished, which sees elements only then (Beam's
  ``Trigger`` messages and the SDK's docstrings; the SDK's ``should_fire`` deviates, see below).
- A window is asked when elements come to it, all of an event together, when the watermark gets to
  its end, and when a delay is over. What is new since the last pane is the pane. Only the pane on
  time may be empty or without anything new, and only if the trigger has a part that waits for the
  watermark (``has_ontime_pane``).
- A pane is EARLY before the watermark is at the end of its window. The first one after that is
  ON_TIME, if the output watermark is not past the window; all others are LATE (the Java SDK's
  ``PaneInfoTracker``; the comments of the timing enum).
- When the watermark is past a window and the allowed lateness, what has been in no pane is the last
  pane. If the trigger may lose data by ``may_lose_data``, it is dropped and counted, unless a
  delay is not over yet: Beam's own pipeline tests ask for that.
- An element is late for a window if the watermark is at its end and the allowed lateness; it is
  dropped and counted. So is what comes to a window whose trigger has finished.
- Sessions merge as long as their trigger has not finished; one that has is closed, and another
  session beside it is a new one, as in the Java SDK. In the SDK's driver the new one is closed with
  it, though nobody has seen its elements. The number of panes counts for a window: a session that
  grows starts over. If its end is to come again, ``AfterWatermark`` is before it again.

Deviations of the Python SDK's driver that are not followed, as they lose or repeat panes: it takes
the clock for the watermark when a processing-time timer fires; ``AfterProcessingTime`` is ready
when any such timer fires and at no other time, so that ``AfterAll`` may never be, and ``AfterAny``
does not finish with it; a delay that began before the last pane fires another one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
)
from apache_beam.utils.timestamp import Duration

FOREVER = 10**12
"""A time in seconds that is never reached but at the end of the input."""

GLOBAL_END = FOREVER - 1
EARLY, ON_TIME, LATE = "EARLY", "ON_TIME", "LATE"

Span = tuple[int, int]
"""Start and end of a window."""


class Elements(NamedTuple):
    """Numbers with their timestamps, in seconds, that come together."""

    pairs: tuple[tuple[int, int], ...]


class Watermark(NamedTuple):
    """The watermark goes to a time."""

    to: int


class Clock(NamedTuple):
    """The clock goes on."""

    by: int


Event = Elements | Watermark | Clock


@dataclass(frozen=True, order=True)
class Pane:
    """A pane; the window by its start and end."""

    window: tuple[int, int]
    values: tuple[int, ...]
    timing: str
    index: int
    nonspeculative_index: int
    is_first: bool
    is_last: bool


@dataclass
class Outcome:
    """What comes of all events.

    Attributes:
        panes: in the order of the events.
        late: how many elements were dropped, in how many windows each, as they were late.
        closed: the same of those that a trigger that has finished has left out.
    """

    panes: list[Pane] = field(default_factory=list)
    late: int = 0
    closed: int = 0


class Now(NamedTuple):
    """When a trigger is asked.

    Attributes:
        clock: at the end of the input, when nothing more is waited for, the end of time.
        is_past: the watermark is at the end of the window.
    """

    clock: int
    is_past: bool


class Machine(ABC):
    """A trigger of one window."""

    parts: tuple["Machine", ...] = ()

    @abstractmethod
    def add(self, clock: int, *, is_past: bool) -> None:
        """Sees an element."""

    @abstractmethod
    def ready(self, now: Now) -> bool:
        """Whether it would fire."""

    @abstractmethod
    def fire(self, now: Now) -> bool:
        """Fires, being ready; whether it has finished."""

    def merge(self, other: Any) -> None:
        """Takes in the trigger of another window."""
        for mine, others in zip(self.parts, other.parts, strict=True):
            mine.merge(others)

    def delays(self) -> Iterator["Delay"]:
        """Those of all parts."""
        for part in self.parts:
            yield from part.delays()


@dataclass
class Delay:
    """A time that the clock gets to.

    Attributes:
        has_rung: it was there, and the window was asked.
    """

    end: int
    has_rung: bool = False


class Default(Machine):
    def add(self, clock: int, *, is_past: bool) -> None:
        pass

    def ready(self, now: Now) -> bool:
        return now.is_past

    def fire(self, now: Now) -> bool:
        return False


class Always(Default):
    def ready(self, now: Now) -> bool:
        return True


class Never(Default):
    def ready(self, now: Now) -> bool:
        return False


class Count(Machine):
    def __init__(self, least: int) -> None:
        self._least, self._count = least, 0

    def add(self, clock: int, *, is_past: bool) -> None:
        self._count += 1

    def ready(self, now: Now) -> bool:
        return self._count >= self._least

    def fire(self, now: Now) -> bool:
        return True

    def merge(self, other: Any) -> None:
        self._count += other._count


class ProcessingTime(Machine):
    def __init__(self, delay: int) -> None:
        self._delay = delay
        self._delays: list[Delay] = []

    def add(self, clock: int, *, is_past: bool) -> None:
        if not self._delays:
            self._delays.append(Delay(clock + self._delay))

    def ready(self, now: Now) -> bool:
        return any(delay.end <= now.clock for delay in self._delays)

    def fire(self, now: Now) -> bool:
        return True

    def merge(self, other: Any) -> None:
        self._delays += other._delays

    def delays(self) -> Iterator[Delay]:
        yield from self._delays


class Again(Machine):
    """``Repeatedly``."""

    def __init__(self, of: trigger.TriggerFn) -> None:
        self._of = of
        self.parts = (machine(of),)

    def add(self, clock: int, *, is_past: bool) -> None:
        self.parts[0].add(clock, is_past=is_past)

    def ready(self, now: Now) -> bool:
        return self.parts[0].ready(now)

    def fire(self, now: Now) -> bool:
        if self.parts[0].fire(now):
            self.parts = (machine(self._of),)
        return False


class EndOfWindow(Machine):
    """``AfterWatermark``."""

    def __init__(self, early: trigger.TriggerFn | None, late: trigger.TriggerFn | None) -> None:
        self._early, self._late = (early or trigger._Never()), late
        self._has_fired = False
        self.parts = (machine(self._early), machine(late or trigger._Never()))

    def add(self, clock: int, *, is_past: bool) -> None:
        self._part(is_past=is_past).add(clock, is_past=is_past)

    def ready(self, now: Now) -> bool:
        part = self._part(is_past=now.is_past)
        return (now.is_past and part is self.parts[0]) or part.ready(now)

    def fire(self, now: Now) -> bool:
        part = self._part(is_past=now.is_past)
        if part is self.parts[1] or not now.is_past:
            return part.fire(now)
        self._has_fired = True
        self.parts = (machine(self._early), self.parts[1])
        return self._late is None

    def _part(self, *, is_past: bool) -> Machine:
        if self._has_fired and self._late and not is_past:
            self._has_fired = False
            self.parts = (self.parts[0], machine(self._late))
        return self.parts[bool(self._has_fired and self._late)]

    def merge(self, other: Any) -> None:
        super().merge(other)
        self._has_fired |= other._has_fired


class Parallel(Machine):
    def __init__(self, triggers: Any, combine: Any) -> None:
        self._combine = combine
        self.parts = tuple(map(machine, triggers))

    def add(self, clock: int, *, is_past: bool) -> None:
        for part in self.parts:
            part.add(clock, is_past=is_past)

    def ready(self, now: Now) -> bool:
        return bool(self._combine([part.ready(now) for part in self.parts]))

    def fire(self, now: Now) -> bool:
        ready = [part for part in self.parts if part.ready(now)]
        return bool(self._combine([part.fire(now) for part in ready]))


class Each(Machine):
    def __init__(self, triggers: Any) -> None:
        self._at = 0
        self.parts = tuple(map(machine, triggers))

    def add(self, clock: int, *, is_past: bool) -> None:
        if self._at < len(self.parts):
            self.parts[self._at].add(clock, is_past=is_past)

    def ready(self, now: Now) -> bool:
        return self._at == len(self.parts) or self.parts[self._at].ready(now)

    def fire(self, now: Now) -> bool:
        if self._at < len(self.parts) and self.parts[self._at].fire(now):
            self._at += 1
        return self._at == len(self.parts)

    def merge(self, other: Any) -> None:
        super().merge(other)
        self._at = max(self._at, other._at)


def machine(of: trigger.TriggerFn) -> Machine:
    """The trigger of a window that has seen nothing yet."""
    match of:
        case trigger.DefaultTrigger():
            return Default()
        case trigger.Always():
            return Always()
        case trigger._Never():
            return Never()
        case trigger.AfterCount():
            return Count(int(of.count))
        case trigger.AfterProcessingTime():
            return ProcessingTime(of.delay)
        case trigger.Repeatedly():
            return Again(of.underlying)
        case trigger.AfterWatermark():
            return EndOfWindow(of.early, of.late)
        case trigger.AfterEach():
            return Each(of.triggers)
        case trigger.AfterAll():
            return Parallel(of.triggers, all)
        case trigger.AfterAny():
            return Parallel(of.triggers, any)
    raise ValueError(of)


def spans(fn: WindowFn, stamp: int) -> list[Span]:
    """The windows of a timestamp, the newest first."""
    match fn:
        case FixedWindows(size=size):
            start = stamp - stamp % seconds(size)
            return [(start, start + seconds(size))]
        case SlidingWindows(size=size, period=period):
            last = stamp - stamp % seconds(period)
            starts = range(last, stamp - seconds(size), -seconds(period))
            return [(start, start + seconds(size)) for start in starts]
        case Sessions(gap_size=gap):
            return [(stamp, stamp + seconds(gap))]
        case GlobalWindows():
            return [(-FOREVER, GLOBAL_END)]
    raise ValueError(fn)


@dataclass
class Window:
    """What there is of a window.

    Attributes:
        new: how many of the values have been in no pane.
        on_time: how many panes there were that are not early.
        holds: up to where the output watermark may go, one for each session that is in this one.
    """

    start: int
    end: int
    trigger: Machine
    values: list[int] = field(default_factory=list)
    new: int = 0
    panes: int = 0
    on_time: int = 0
    holds: list[float] = field(default_factory=list)
    is_closed: bool = False

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end


class Model:
    """One key's windows.

    Args:
        windowing: with timestamps at the end of the window.

    Attributes:
        output: the output watermark.
    """

    def __init__(self, windowing: Windowing) -> None:
        self._windowing = windowing
        self._lateness = seconds(windowing.allowed_lateness)
        self._accumulates = windowing.accumulation_mode == trigger.AccumulationMode.ACCUMULATING
        self._loses = bool(windowing.triggerfn.may_lose_data(windowing).value)
        self._waits_for_end = bool(windowing.triggerfn.has_ontime_pane())
        self._watermark = -FOREVER
        self.output = float(-FOREVER)
        self._clock = 0
        self._windows: list[Window] = []
        self.outcome = Outcome()

    def happens(self, event: Event) -> None:
        """Lets something happen."""
        match event:
            case Elements(pairs):
                self._arrive(pairs)
            case Watermark(to):
                self._advance(to)
            case Clock(by):
                self._clock += by
                for window in self._windows:
                    self._ring(window)
        held = [hold for window in self._windows for hold in window.holds]
        self.output = max(self.output, min([self._watermark, *held]))

    def _arrive(self, pairs: tuple[tuple[int, int], ...]) -> None:
        came: dict[tuple[int, int], list[int]] = {}
        closed = {window.span for window in self._windows if window.is_closed}
        for value, stamp in pairs:
            for span in spans(self._windowing.windowfn, stamp):
                if self._watermark >= self._expiry(span[1]):
                    self.outcome.late += 1
                elif span in closed:
                    self.outcome.closed += 1
                else:
                    came.setdefault(span, []).append(value)
        touched = [(self._window(span, came), values) for span, values in came.items()]
        windows = [window for window in self._windows if any(window is one for one, _ in touched)]
        for window in windows:
            for into, values in touched:
                if into is window:
                    self._add(window, values)
            self._ask(window)

    def _window(self, span: tuple[int, int], came: dict[Any, Any]) -> Window:
        """The window of elements, with what merges with it."""
        start, end = span
        if isinstance(self._windowing.windowfn, Sessions):
            start, end = self._merged(span, came)
        for window in self._windows:
            if window.span == (start, end) and not window.is_closed:
                return window
        new = Window(start, end, machine(self._windowing.triggerfn))
        merged = [
            window
            for window in self._windows
            if start <= window.start and window.end <= end and not window.is_closed
        ]
        for window in sorted(merged, key=lambda window: window.start):
            new.trigger.merge(window.trigger)
            new.values += window.values
            new.new += window.new
            new.holds += window.holds
            self._windows.remove(window)
        self._windows = [window for window in self._windows if window.span != new.span]
        self._windows.append(new)
        return new

    def _merged(self, span: tuple[int, int], came: dict[Any, Any]) -> tuple[int, int]:
        """The session that one becomes with those that are there or come with it."""
        others = [window.span for window in self._windows if not window.is_closed] + list(came)
        start, end = span
        grows = True
        while grows:
            before = start, end
            for first, last in others:
                if first < end and start < last:
                    start, end = min(start, first), max(end, last)
            grows = (start, end) != before
        return start, end

    def _add(self, window: Window, values: list[int]) -> None:
        for value in values:
            window.values.append(value)
            window.new += 1
            window.trigger.add(self._clock, is_past=self._is_past(window))
        window.holds[:1] = [max([window.end - 0.001, *window.holds[:1]])]

    def _advance(self, to: int) -> None:
        before, self._watermark = self._watermark, to
        for window in list(self._windows):
            if self._waits_for_end and before < window.end <= to:
                self._ask(window)
            if to > self._expiry(window.end) or to == FOREVER:
                self._expire(window)
                self._windows.remove(window)

    def _ring(self, window: Window) -> None:
        while not window.is_closed:
            delays = [
                delay
                for delay in window.trigger.delays()
                if delay.end <= self._clock and not delay.has_rung
            ]
            if not delays:
                return
            min(delays, key=lambda delay: delay.end).has_rung = True
            self._ask(window)

    def _ask(self, window: Window) -> None:
        """Fires a window, if its trigger is ready."""
        is_past = self._is_past(window)
        now = Now(FOREVER if self._watermark == FOREVER else self._clock, is_past)
        finished = False
        if not window.is_closed and window.trigger.ready(now):
            finished = window.trigger.fire(now)
            is_due = self._waits_for_end and self._timing(window) == ON_TIME
            if window.new or is_due:
                self._put_out(window, is_last=finished)
        if finished or (is_past and not window.new):
            window.holds.clear()
        if finished:
            window.is_closed = True
            window.values, window.new = [], 0

    def _expire(self, window: Window) -> None:
        if not window.new:
            return
        if self._loses and all(delay.end <= self._clock for delay in window.trigger.delays()):
            self.outcome.closed += window.new
        else:
            self._put_out(window, is_last=True)

    def _put_out(self, window: Window, *, is_last: bool) -> None:
        timing = self._timing(window)
        self.outcome.panes.append(
            Pane(
                window.span,
                tuple(sorted(window.values)),
                timing,
                window.panes,
                -1 if timing == EARLY else window.on_time,
                window.panes == 0,
                is_last,
            )
        )
        window.panes += 1
        window.on_time += timing != EARLY
        window.new = 0
        if not self._accumulates:
            window.values = []
        if self._is_past(window) or not self._waits_for_end:
            window.holds.clear()

    def _timing(self, window: Window) -> str:
        if not self._is_past(window):
            return EARLY
        return LATE if window.on_time or self.output >= window.end else ON_TIME

    def _is_past(self, window: Window) -> bool:
        return self._watermark >= window.end

    def _expiry(self, end: int) -> int:
        return FOREVER if end == GLOBAL_END else end + self._lateness


def seconds(duration: Any) -> int:
    return int(Duration.of(duration).micros // 1_000_000)


def expected(windowing: Windowing, events: list[Event]) -> Outcome:
    """What comes out for one key, when the input ends behind the events."""
    model = Model(windowing)
    for event in [*events, Watermark(FOREVER)]:
        model.happens(event)
    return model.outcome
