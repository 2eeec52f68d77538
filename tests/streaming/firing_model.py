"""A plain model of side inputs that fire, as readers see them: the reference for the runner.

:func:`expected` follows what happens event by event, as :mod:`trigger_model` does for the panes of
one key. The rules are those of docs/streaming.md#side-inputs.
"""

from collections import defaultdict
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple

from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode, DefaultTrigger
from apache_beam.transforms.window import (
    GlobalWindows,
    WindowFn,
)
from trigger_model import FOREVER, Clock, Elements, Model, Span, Watermark, spans


class Main(NamedTuple):
    """An element of the main input."""

    name: str
    stamp: int


class MainWatermark(NamedTuple):
    """The watermark of the main input goes to a time."""

    to: int


Event = Elements | Watermark | Clock | Main | MainWatermark
"""Those of :mod:`trigger_model` are of the side input."""

Pair = tuple[str, Any]
Seen = tuple[str, Span, Any]
"""The name of an element of the main input, its window, and what it sees."""


@dataclass(frozen=True)
class Lookup:
    """A side input and its reader.

    Attributes:
        windowing: of the side input.
        made: what the view is of: the 'elements' as pairs; the 'lists' of all elements or of each
            'key', as pairs; or the 'values' of the lists of all, as pairs again.
        view: 'singleton', 'list', 'iter', 'dict' or 'multimap'.
        between: the step between the grouping and the view.
        main: the windows of the main input.
    """

    windowing: Windowing
    made: str
    view: str
    between: str
    main: WindowFn

    @property
    def is_default(self) -> bool:
        return isinstance(self.windowing.triggerfn, DefaultTrigger)

    @property
    def ends(self) -> bool:
        return not isinstance(self.windowing.windowfn, GlobalWindows)


def key_of(number: int) -> str:
    """The key of an element of the side input."""
    return "ab"[number % 2]


class View:
    """Content of each window of a side input."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._found = defaultdict[Span, dict[Any, list[Pair]]](dict)
        discards = lookup.windowing.accumulation_mode == AccumulationMode.DISCARDING
        self._adds_up = discards and lookup.ends and lookup.view != "singleton"
        self._early = not lookup.is_default or not lookup.ends

    def fire(self, span: Span, group: Any, pairs: list[Pair], *, adds: bool = False) -> None:
        """Put in a firing in the place of that of its group, or of all of them, or add it."""
        if not pairs:
            return
        found = self._found[span]
        if self._adds_up or adds:
            group = len(found)
        elif self._lookup.view == "singleton":
            found.clear()
        found[group] = pairs

    def target(self, span: Span) -> Span:
        """The window that belongs to one of the main input."""
        return spans(self._lookup.windowing.windowfn, span[1] - 1)[-1]

    def is_ready(self, span: Span, watermark: float) -> bool:
        """True if an element in a window of the main input need not wait."""
        target = self.target(span)
        if watermark >= target[1]:
            return True
        return self._early and not self._adds_up and target in self._found

    def shown(self, span: Span) -> Any:
        """Content for a window of the main input, as plain data."""
        found = self._found.get(self.target(span), {})
        pairs = [pair for group in found.values() for pair in group]
        content: Any = pairs
        match self._lookup.view:
            case "singleton":
                content = pairs[0] if pairs else None
            case "dict":
                content = dict(pairs)
            case "multimap":
                content = {of: [value for key, value in pairs if key == of] for of in KEYS}
        return plain(self._lookup.view, content)


KEYS = ("a", "b", "all")


def plain(view: str, content: Any) -> Any:
    """A view as plain data, without the order of its elements."""
    match view:
        case "dict":
            return sorted(content.items())
        case "multimap":
            return [sorted(content[key]) for key in KEYS]
        case "list" | "iter":
            return sorted(content)
    return content


class Lookups:
    """A side input and the elements that have seen it, or wait for it."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._view = View(lookup)
        self._newest = lookup.made == "elements" and lookup.view == "singleton"
        windowing = copy(lookup.windowing)
        if self._newest:
            windowing.accumulation_mode = AccumulationMode.DISCARDING
        groups = ("a", "b") if lookup.made == "key" else ("all",)
        self._models = {group: Model(windowing) for group in groups}
        self._arrived: dict[int, tuple[int, int]] = {}
        self._at = 0
        self._fires = lookup.made != "elements" or not lookup.is_default
        self._watermark: float = -FOREVER
        self._waiting: list[tuple[str, Span]] = []
        self.seen: list[Seen] = []

    @property
    def late(self) -> int:
        """Number of elements that a grouping has dropped, each counted once per window."""
        return sum(model.outcome.late for model in self._models.values()) if self._fires else 0

    def happens(self, event: Event) -> None:
        """Lets something happen."""
        if isinstance(event, Elements):
            self._arrived |= {number: (self._at, stamp) for number, stamp in event.pairs}
            self._at += 1
        match event:
            case Main(name, stamp):
                self._waiting += [(name, span) for span in spans(self._lookup.main, stamp)]
            case Elements(pairs) if not self._fires:
                for number, stamp in pairs:
                    for span in spans(self._lookup.windowing.windowfn, stamp):
                        self._view.fire(span, None, [(key_of(number), number)], adds=True)
            case Elements(pairs) if self._lookup.made == "elements":
                for stamp in sorted({stamp for _, stamp in pairs}):
                    self._advance("all", Elements(tuple(p for p in pairs if p[1] == stamp)))
            case Elements(pairs):
                for group in self._models:
                    own = tuple(p for p in pairs if group in ("all", key_of(p[0])))
                    if own:
                        self._advance(group, Elements(own))
            case Watermark() | Clock() if self._fires:
                for group in self._models:
                    self._advance(group, event)
            case Watermark(to):
                self._watermark = to
        self._release()

    def _advance(self, group: str, event: Elements | Watermark | Clock) -> None:
        model = self._models[group]
        before = len(model.outcome.panes)
        model.happens(event)
        for pane in model.outcome.panes[before:]:
            self._view.fire(pane.window, group, [*self._pairs(group, pane.values)])
        self._watermark = min(model.output for model in self._models.values())

    def _pairs(self, group: str, values: tuple[int, ...]) -> Iterator[Pair]:
        """Output of a pane; of an event, elements with an earlier timestamp come first."""
        if self._lookup.made == "elements":
            values = tuple(sorted(values, key=self._arrived.__getitem__))
        if self._newest:
            values = tuple(sorted(values, key=lambda number: self._arrived[number][1])[-1:])
        if self._lookup.made in ("elements", "values"):
            yield from ((key_of(number), number) for number in values)
        else:
            yield group, values

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, []
        for name, span in waiting:
            if self._view.is_ready(span, self._watermark):
                self.seen.append((name, span, self._view.shown(span)))
            else:
                self._waiting.append((name, span))


def expected(lookup: Lookup, events: list[Event]) -> Lookups:
    """All that has been seen when both inputs have ended behind the events."""
    found = Lookups(lookup)
    for event in [*events, Watermark(FOREVER)]:
        found.happens(event)
    return found
