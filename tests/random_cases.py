"""Chooses the pipelines of :mod:`random_pipelines` at random."""

import random
from collections.abc import Callable

from random_pipelines import (
    COMBINES,
    Add,
    Batches,
    Case,
    CoGroup,
    Combine,
    Distinct,
    Event,
    Flatten,
    Group,
    Into,
    Map,
    Reshuffle,
    Side,
    Stateful,
    StatefulSide,
    Step,
    Timeline,
    To,
    Wait,
    Window,
)
from random_states import KINDS, ORDERED, Plan

LATEST = 60
"""The second of the latest elements, as a rule."""


def case(chance: random.Random) -> Case:
    """A case made at random."""
    timelines = tuple(timeline(chance) for _ in range(chance.choice([1, 1, 1, 2])))
    windows = [Window()] * len(timelines)
    steps: list[Step] = []
    for _ in range(chance.randrange(1, 7)):
        step = _step(chance, windows)
        if step is not None:
            steps.append(step)
            windows.append(step.window(*(windows[at] for at in step.inputs)))
    return Case(timelines, tuple(steps))


def timeline(chance: random.Random, *, late: bool = False) -> Timeline:
    """A timeline, where nothing is behind the watermark unless that is allowed."""
    events: list[Event] = []
    reached = 0
    keys = "abcd"[: chance.randrange(1, 5)]
    for _ in range(chance.randrange(1, 9)):
        what = chance.random()
        if what < 0.6:
            events.append(Add(_elements(chance, keys, 0 if late else reached)))
        elif what < 0.9:
            reached += chance.choice([1, 2, 5, 10, 20])
            events.append(To(reached))
        else:
            events.append(Wait(chance.choice([1, 30, 300])))
    return tuple(events)


def _elements(chance: random.Random, keys: str, first: int) -> tuple[tuple[str, int, int], ...]:
    count = chance.choice([1, 1, 2, 3, 5, 40]) if chance.random() < 0.98 else 600
    last = chance.choice([first, first + 3, first + 15, max(LATEST, first)])
    return tuple(
        (chance.choice(keys), chance.randrange(-3, 9), chance.randint(first, last))
        for _ in range(count)
    )


def window(chance: random.Random) -> Window:
    combiner = chance.choice(["", "", "earliest", "latest"])
    match chance.choice(["global", "fixed", "fixed", "sliding", "sessions"]):
        case "fixed":
            size, offset = chance.choice([1, 5, 10, 30]), chance.choice([0, 0, 3])
            return Window("fixed", size, offset, combiner)
        case "sliding":
            return Window("sliding", *chance.choice([(10, 5), (6, 2), (9, 4), (5, 10)]), combiner)
        case "sessions":
            return Window("sessions", chance.choice([1, 4, 10]), 0, combiner)
        case _:
            return Window("global", 0, 0, combiner)


def _step(chance: random.Random, windows: list[Window]) -> Step | None:
    """A step over one of the nodes that there are; None where it is not for that."""
    at = len(windows) - 1 if chance.random() < 0.7 else chance.randrange(len(windows))
    (make,) = chance.choices(list(_STEPS), list(_STEPS.values()))
    return make(chance, at, windows)


def _map(chance: random.Random, at: int, windows: list[Window]) -> Step:
    how = chance.choice(["add", "filter", "repeat", "key", "split", "partition"])
    return Map((at,), how, chance.randrange(4), chance.random() < 0.5)


def _into(chance: random.Random, at: int, windows: list[Window]) -> Step:
    return Into((at,), window(chance), chance.choice([0, 0, 0, 1, 10]))


def _group(chance: random.Random, at: int, windows: list[Window]) -> Step:
    return Group((at,), chance.choice(["digest", "each"]))


def _combine(chance: random.Random, at: int, windows: list[Window]) -> Step:
    ways = ["key", "key", "globally"]
    if windows[at].kind != "sessions":
        # A fanout divides the elements of a key by chance, and sessions with them.
        ways.append("fanout")
    return Combine((at,), chance.choice(list(COMBINES)), chance.choice(ways))


def _distinct(chance: random.Random, at: int, windows: list[Window]) -> Step:
    return Distinct((at,), chance.choice(["distinct", "count"]))


def _reshuffle(chance: random.Random, at: int, windows: list[Window]) -> Step:
    return Reshuffle((at,))


def _flatten(chance: random.Random, at: int, windows: list[Window]) -> Step:
    others = [_alike(chance, at, windows) for _ in range(chance.randrange(1, 3))]
    return Flatten((at, *others))


def _co_group(chance: random.Random, at: int, windows: list[Window]) -> Step:
    return CoGroup((at, _alike(chance, at, windows)))


def _alike(chance: random.Random, at: int, windows: list[Window]) -> int:
    """A node with the same windows."""
    return chance.choice([other for other, each in enumerate(windows) if each == windows[at]])


def _side(chance: random.Random, at: int, windows: list[Window]) -> Step | None:
    # One that never ends is ready when there is something, whatever that is, and where sliding
    # windows have gaps there may be none for an element.
    sides = [
        n
        for n, each in enumerate(windows)
        if each.kind == "fixed" or (each.kind == "sliding" and each.size >= each.other)
    ]
    if not sides:
        return None
    inputs = at, chance.choice(sides)
    if chance.random() < 0.3:
        kind, behind = chance.choice(list(KINDS)), chance.choice([0, 1, 50])
        return StatefulSide(inputs, kind, behind, window(chance))
    return Side(inputs, chance.choice(["singleton", "dict", "multimap", "iter", "list"]))


def _batches(chance: random.Random, at: int, windows: list[Window]) -> Step:
    return Batches((at,), chance.choice([1, 2, 3, 100]))


def _stateful(chance: random.Random, at: int, windows: list[Window]) -> Step:
    how = chance.choice(["chain", "chain", "ripe", "flush", "distinct"])
    kind = chance.choice(list(KINDS))
    if how == "ripe":
        kind = chance.choice(ORDERED)
    if how == "flush":
        kind = chance.choice(["bag", *ORDERED])
    if how == "distinct":
        kind = chance.choice(["set", "map", "value"])
    delay = chance.choice([1, 3, 20]) if how == "ripe" else 200
    return Stateful((at,), how, kind, _plan(chance, windows[at]), delay, window(chance))


def _plan(chance: random.Random, here: Window) -> Plan:
    """Timers that set each other: only the first are set by elements, none before the end.

    What a callback sets is not earlier than itself, or its output would be late.
    """
    tags = "uvwxyz"[: chance.randrange(1, 6)]
    sets: dict[str, list[tuple[str, str, int | None]]] = {"": []}
    behind = {"": 0}
    for number, tag in enumerate(tags):
        by = chance.choice(["", *tags[:number]]) if number else ""
        domain = "clock" if chance.random() < 0.2 else "event"
        if domain == "clock":
            second = chance.choice([10_000, 20_000])
            behind[tag] = behind[by]
        else:
            later = chance.choice([0, 0, 1, 5, 50]) if here.ends else 0
            second = behind[tag] = behind[by] + later
        sets.setdefault(by, []).append((domain, tag, second))
    if chance.random() < 0.3:
        # One is set and cleared at once.
        sets.setdefault(chance.choice(tags), []).extend(
            [("event", "never", 600), ("event", "never", None)]
        )
    return tuple((tag, tuple(some)) for tag, some in sets.items())


_Make = Callable[[random.Random, int, list[Window]], Step | None]

_STEPS: dict[_Make, int] = {
    _map: 2,
    _into: 3,
    _group: 1,
    _combine: 2,
    _distinct: 1,
    _reshuffle: 1,
    _flatten: 1,
    _co_group: 1,
    _side: 2,
    _batches: 1,
    _stateful: 3,
}
"""What makes steps, and how often it is chosen."""
