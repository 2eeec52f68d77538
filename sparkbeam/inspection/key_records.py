"""Record of a key in the terms of Beam's model: windows, panes, states and timers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from apache_beam.coders import coders

from sparkbeam.inspection.stage_coders import (
    Decoder,
    StateOf,
    StepCoders,
    as_json,
    as_text,
    time_text,
    window_text,
)
from sparkbeam.worker.grouping.session_state import EARLIEST, StoredSession, StoredSessions
from sparkbeam.worker.grouping.trigger_state import STATE, RecordCodec, TriggerState
from sparkbeam.worker.grouping.windowed import CELL, EXPIRY, VALUES
from sparkbeam.worker.keyed.input import SORTED
from sparkbeam.worker.keyed.state_cells import user_cell, window_of
from sparkbeam.worker.keyed.timers import parts_of
from sparkbeam.worker.state.records import PROCESSING_TIME, Record, Timer

MOST_VALUES = 100
"""Maximum number of values shown of a list."""


@dataclass(frozen=True)
class StateItem:
    """One item of a key's state.

    Attributes:
        what: ``window``, ``session``, ``state``, ``timer``, ``waiting`` or ``other``.
        name: of a state or a timer.
        window: its window, as text; empty without one.
        values: decoded; the first ones, if there are many.
        facts: times, panes and other details by name, as JSON; times in ISO 8601.
    """

    what: str
    name: str = ""
    window: str = ""
    values: tuple[Any, ...] = ()
    count: int = 0
    facts: dict[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """Return the contents as JSON values."""
        found = {
            "what": self.what,
            "name": self.name,
            "window": self.window,
            "values": [as_json(value) for value in self.values],
            "count": self.count,
            **self.facts,
        }
        return {name: value for name, value in found.items() if value not in ("", None, [], 0)}

    def __str__(self) -> str:
        values = ", ".join(map(as_text, self.values))
        left = self.count - len(self.values)
        more = (f", … {left:,} more" if values else f"{left:,}") if left else ""
        facts = (
            f"{name.replace('_', ' ')} {value}"
            for name, value in self.facts.items()
            if value is not None
        )
        head = " ".join(filter(None, [self.what, self.name and f"'{self.name}'", self.window]))
        return "; ".join([f"{head}: {values}{more}" if values or more else head, *facts])


def record_items(record: Record, known: StepCoders, state_name: str) -> Iterator[StateItem]:
    """Yield all items of a record.

    Args:
        state_name: the name of the step's DoFn states in storage.
    """
    timers = dict(record.timers())
    cells = dict.fromkeys(record.cells())
    for cell in cells:
        if cell.startswith(CELL):
            yield _window(record, cell, known, timers)
        elif cell == SORTED:
            yield StateItem(
                "waiting", count=len(record.ordered(cell)), facts=_fires(timers.get(cell))
            )
    if record.get(STATE) is not None:
        yield from _triggered(record, known)
    sessions = StoredSessions(record)
    for session in sessions.between(EARLIEST, None):
        if session.accumulator is None:
            yield session_item(session, *_first(sessions.values(session), known.value))
        else:
            yield session_item(session, (known.value.decoded(session.accumulator),), 1)
    for cell in cells:
        window = window_of(cell)
        if window is not None:
            yield _state(record, cell, window, known, state_name)
    for id, timer in timers.items():
        parts = parts_of(id)
        if parts is not None:
            yield _timer(parts, timer, known)


def _window(
    record: Record, cell: bytes, known: StepCoders, timers: dict[bytes, Timer]
) -> StateItem:
    """Return a window that fires at its end."""
    panes, stamp, accumulator = record.get(cell)
    if accumulator is None:
        values, count = _first(record.bag(VALUES + cell), known.value)
    else:
        if isinstance(accumulator, bytes):  # Else its numbers; see .worker.state.stripes.
            accumulator = known.value.decoded(accumulator)
        values, count = (accumulator,), 1
    return StateItem(
        "window",
        window=window_text(known.window.decoded(cell[len(CELL) :])),
        values=values,
        count=count,
        facts={
            "panes": panes,
            "timestamp": _time(stamp),
            **_fires(timers.get(cell)),
            "forgotten_at": _fires(timers.get(EXPIRY + cell)).get("fires"),
            "holds_watermark_at": _time(record.hold(cell)),
        },
    )


def _first(
    stored: Iterable[bytes], decoder: Decoder, *, nested: bool = False
) -> tuple[tuple[Any, ...], int]:
    """Return the first values, and the number of all."""
    items = iter(stored)
    values = tuple(decoder.decoded(item, nested=nested) for item in islice(items, MOST_VALUES))
    return values, len(values) + sum(1 for _ in items)


def session_item(session: StoredSession, values: tuple[Any, ...], count: int) -> StateItem:
    """Return a session that fires at its end."""
    return StateItem(
        "session",
        window=f"{time_text(session.start)} to {time_text(session.end)}",
        values=values,
        count=count,
        facts={"panes": session.panes, "timestamp": _time(session.stamp)},
    )


def _triggered(record: Record, known: StepCoders) -> Iterator[StateItem]:
    """Yield windows with a trigger."""
    if known.window.impl is None:
        yield StateItem("other", facts={"windows": "of an unknown kind"})
        return
    values = known.value.impl or coders.BytesCoder().get_impl()
    state = TriggerState(record, RecordCodec(values, known.window.impl, None))
    for window in state.windows():
        found = state.window_state(window)
        shown, count = _first(found.values, known.value)
        yield StateItem(
            "window",
            window=window_text(window),
            values=shown,
            count=count,
            facts={
                "panes": found.panes,
                "holds_watermark_at": _time(min(found.stamps, default=None)),
            },
        )


def _state(
    record: Record, cell: bytes, window: bytes, known: StepCoders, state_name: str
) -> StateItem:
    """Return a state of a DoFn."""
    shown = window_text(known.window.decoded(window))
    for name, state in known.states.items():
        if user_cell(state_name, name, window) == cell:
            values, count = _values(record, cell, state)
            return StateItem("state", name, shown, values, count)
    return StateItem("other", window=shown, facts={"cell": cell.hex()})


def _values(record: Record, cell: bytes, state: StateOf) -> tuple[tuple[Any, ...], int]:
    """Return the values of a state of any kind."""
    first, *others = state.decoders or (Decoder("an unknown coder", None, trusted=False),)
    match state.kind:
        case "bag" | "set":
            return _first(record.bag(cell), first, nested=True)
        case "map" | "multimap" if others:
            bag = record.ordered(cell)
            found = islice(bag.range(b"", None), MOST_VALUES)
            return tuple((first.decoded(k), others[0].decoded(v)) for k, v in found), len(bag)
        case "ordered list":
            listed = record.ordered(cell)
            stamped = islice(listed.range(EARLIEST, None), MOST_VALUES)
            return tuple((time_text(at), _stamped(v, first)) for at, v in stamped), len(listed)
        case _:
            stored = record.get(cell)
            return ((first.decoded(stored),), 1) if isinstance(stored, bytes) else ((), 0)


def _stamped(encoded: bytes, decoder: Decoder) -> Any:
    """Decode an item of an ordered list: Beam encodes it after its timestamp, with its length."""
    pair = coders.TupleCoder([coders.VarIntCoder(), coders.BytesCoder()])
    try:
        _, value = pair.get_impl().decode_nested(encoded)
    except Exception:
        value = encoded
    return decoder.decoded(value)


def _timer(parts: tuple[str, str, bytes], timer: Timer, known: StepCoders) -> StateItem:
    """Return a timer of a DoFn."""
    family, tag, window = parts
    _, domain, hold, _ = timer
    return StateItem(
        "timer",
        family.removeprefix("ts-"),
        window_text(known.window.decoded(window)),
        facts={
            "tag": tag or None,
            **_fires(timer),
            "domain": "processing time" if domain == PROCESSING_TIME else "event time",
            "holds_watermark_at": _time(hold),
        },
    )


def _fires(timer: Timer | None) -> dict[str, Any]:
    return {} if timer is None else {"fires": _time(timer[0])}


def _time(micros: int | None) -> str | None:
    return None if micros is None else time_text(micros)
