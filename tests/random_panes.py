"""Groupings made at random whose panes come by triggers, and elements that come late.

What a pane has depends on the order in which elements come. What all panes of a window have
together does not, and neither does which elements are too late: a :class:`Panes` knows both.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import apache_beam as beam
from apache_beam.transforms import trigger as triggers
from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.window import GlobalWindow, WindowFn
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming
from random_cases import timeline, window
from random_pipelines import (
    Add,
    Pairs,
    Timeline,
    To,
    Wait,
    Window,
    created,
    put,
    streamed,
)
from random_states import Flushing

TRIGGERS: dict[str, TriggerFn] = {
    "default": DefaultTrigger(),
    "each": Repeatedly(AfterCount(1)),
    "count": Repeatedly(AfterCount(3)),
    "early": AfterWatermark(early=AfterCount(2)),
    "late": AfterWatermark(late=AfterCount(1)),
    "both": AfterWatermark(early=AfterCount(1), late=AfterCount(2)),
    "any": Repeatedly(AfterAny(AfterCount(2), AfterWatermark())),
    "all": Repeatedly(AfterAll(AfterCount(2), AfterWatermark())),
    "sequence": AfterEach(AfterCount(2), Repeatedly(AfterCount(1))),
    "clock": Repeatedly(AfterProcessingTime(60)),
    "once": AfterCount(2),
    "end": AfterWatermark(),
}

Place = tuple[int, int] | None
"""Start and end of a window in seconds; None for the global one."""

Pane = tuple[str, Place, int, int, bool, bool, list[int]]
"""Key, window, index, timing, whether it is the first and the last, and the numbers."""


@dataclass(frozen=True)
class Panes:
    """A grouping of a source.

    Attributes:
        timeline: has late elements. The number of each is its place among them.
        window: the windows.
        trigger: the name of one of :data:`TRIGGERS`.
        accumulates: panes have what earlier ones of the window had.
        lateness: in seconds.
        how: 'group', 'combine', or 'state' which keeps elements in state until the clock's 200th
            second.
        again: groups once more what the panes have.
    """

    timeline: Timeline
    window: Window
    trigger: str
    accumulates: bool
    lateness: int
    how: str
    again: bool

    def build(self, p: beam.Pipeline, *, streaming: bool) -> None:
        """Applies it, and has its panes put into :data:`~random_pipelines.FOUND`."""
        (source,) = (streamed if streaming else created)(p, (self.numbered(),))
        mode = AccumulationMode.ACCUMULATING if self.accumulates else AccumulationMode.DISCARDING
        placed = source | beam.WindowInto(
            self.window.fn(),
            trigger=TRIGGERS[self.trigger],
            accumulation_mode=mode,
            allowed_lateness=self.lateness,
        )
        panes = self._grouped(placed)
        if self.again:
            each = panes | "each" >> beam.FlatMapTuple(lambda key, some: [(key, n) for n in some])
            panes = each | "again" >> beam.GroupByKey()
        put(panes | beam.ParDo(Described()), "panes")

    def _grouped(self, placed: Pairs) -> Pairs:
        match self.how:
            case "group":
                return placed | beam.GroupByKey()
            case "combine":
                return placed | beam.CombinePerKey(ToListCombineFn())
            case _:
                flushed = placed | beam.ParDo(Flushing("bag", 200))
                return flushed | "lists" >> beam.MapTuple(lambda key, number: (key, [number]))

    def numbered(self) -> Timeline:
        """The timeline with the place of each element as its number."""
        events: list[Any] = []
        count = 0
        for event in self.timeline:
            if isinstance(event, Add):
                numbers = range(count, count := count + len(event.elements))
                some = zip(event.elements, numbers, strict=True)
                event = Add(tuple((key, n, second) for (key, _, second), n in some))
            events.append(event)
        return tuple(events)

    def arriving(self, *, late: bool) -> tuple[dict[tuple[str, Place], list[int]], int]:
        """The numbers of each key and window, and how many come too late.

        Args:
            late: elements can be late.
        """
        found = defaultdict(list)
        reached, dropped = -(10**6), 0
        for event in self.numbered():
            match event:
                case To(second):
                    reached = second
                case Add(some):
                    for key, number, second in some:
                        for place in self._places(second):
                            if late and place and place[1] + self.lateness <= reached:
                                dropped += 1
                            else:
                                found[key, place].append(number)
                case Wait():
                    pass
        return found, dropped

    def _places(self, second: int) -> Iterator[Place]:
        for each in self.window.fn().assign(WindowFn.AssignContext(Timestamp(second))):
            yield place_of(each)

    @property
    def loses(self) -> bool:
        """Whether the trigger may let elements go that no pane has had."""
        if self.how == "state" and not self.again:
            return False
        windowing = Windowing(
            self.window.fn(),
            TRIGGERS[self.trigger],
            AccumulationMode.DISCARDING,
            allowed_lateness=self.lateness,
        )
        may = TRIGGERS[self.trigger].may_lose_data(windowing)
        return bool(may != triggers.DataLossReason.NO_POTENTIAL_LOSS)

    def wrong(self, panes: list[Pane], dropped: int | None) -> str:
        """What is wrong with the panes; '' if nothing is.

        Args:
            panes: what was found.
            dropped: how many elements are said to have been too late; None in batch.
        """
        arrived, late = self.arriving(late=dropped is not None)
        if self.again:
            return self._wrong_again(panes, arrived, late, dropped)
        if dropped is not None and dropped != late:
            return f"{dropped} elements were dropped, {late} are too late"
        by_place: dict[Any, list[Pane]] = defaultdict(list)
        for pane in sorted(panes, key=lambda pane: pane[2]):
            by_place[pane[0], pane[1]].append(pane)
        if self.window.kind == "sessions":
            return self._wrong_sessions(panes, arrived)
        for place in {*arrived, *by_place}:
            problem = self._wrong_window(by_place[place], arrived.get(place, []))
            if problem:
                return f"{place}: {problem} in {by_place[place]}, of {arrived.get(place)}"
        return ""

    def _wrong_window(self, panes: list[Pane], arrived: list[int]) -> str:
        every = Counter(number for pane in panes for number in pane[-1])
        if self.accumulates and self.how != "state":
            if panes and not self.loses and sorted(panes[-1][-1]) != arrived:
                return "the last pane has not all"
            if any(set(one[-1]) - set(other[-1]) for one, other in pairwise(panes)):
                return "a pane has less than the one before it"
            every = Counter(set(every))
        missing, more = Counter(arrived) - every, every - Counter(arrived)
        if more or (missing and not self.loses):
            return f"missing {[*missing]}, too many {[*more]}"
        return "" if self.how == "state" else _wrong_infos(panes)

    def _wrong_sessions(self, panes: list[Pane], arrived: Any) -> str:
        every = Counter(number for pane in panes for number in pane[-1])
        expected = Counter(number for some in arrived.values() for number in some)
        if self.accumulates:
            every = Counter(set(every))
        missing, more = expected - every, every - expected
        if more or (missing and not self.loses):
            return f"missing {[*missing]}, too many {[*more]}"
        return ""

    def _wrong_again(self, panes: list[Pane], arrived: Any, late: int, dropped: int | None) -> str:
        """Of what panes have, the second grouping has all but what is late for that."""
        if self.loses or self.accumulates:
            return ""
        out = sum(len(pane[-1]) for pane in panes)
        expected = sum(map(len, arrived.values())) + late - (dropped or 0)
        return f"{out} come out, not {expected}" if out != expected else ""


def _wrong_infos(panes: list[Pane]) -> str:
    if any(pane[3] == PaneInfoTiming.UNKNOWN for pane in panes):
        return ""
    if [pane[2] for pane in panes] != list(range(len(panes))):
        return "the panes are not numbered one after the other"
    if [pane[4] for pane in panes] != [pane[2] == 0 for pane in panes]:
        return "another than the first pane is said to be the first"
    if any(pane[5] for pane in panes[:-1]):
        return "another than the last pane is said to be the last"
    timings = [pane[3] for pane in panes]
    if timings != sorted(timings) or timings.count(PaneInfoTiming.ON_TIME) > 1:
        return "the timing of the panes goes back"
    return ""


class Described(beam.DoFn):
    """Makes a :data:`Pane` of each group."""

    def process(
        self,
        group: tuple[str, Any],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[Pane]:
        key, numbers = group
        yield (
            key,
            place_of(window),
            pane.index,
            pane.timing,
            pane.is_first,
            pane.is_last,
            sorted(numbers),
        )


def place_of(window: Any) -> Place:
    return None if isinstance(window, GlobalWindow) else (int(window.start), int(window.end))


def panes(chance: random.Random) -> Panes:
    """A grouping made at random."""
    how = chance.choice(["group", "group", "combine", "combine", "state"])
    return Panes(
        timeline=timeline(chance, late=chance.random() < 0.8),
        window=window(chance),
        trigger=chance.choice(list(TRIGGERS)),
        accumulates=chance.random() < 0.5,
        lateness=chance.choice([0, 0, 5, 30]),
        how=how,
        again=chance.random() < 0.25,
    )
