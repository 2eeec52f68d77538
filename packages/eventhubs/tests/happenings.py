"""Events with times of their own, some of them late, and what windows over them give."""

from collections import Counter
from dataclasses import dataclass

HUB = "clicks"
PARTITIONS = 4

WINDOW, DELAY, LATENESS = 10, 10, 30
"""Seconds: of a window, of the watermark behind the newest event, and allowed behind that."""

_START = 1_893_456_000_000
_USERS = 5


@dataclass(frozen=True)
class Event:
    """An event.

    Attributes:
        partition: where it goes.
        enqueued: when it comes there, in milliseconds.
        at: when it has happened.
        user: its key.
        body: an amount.
    """

    partition: int
    enqueued: int
    at: int
    user: str
    body: bytes


def _events(first: int, until: int, step: int, back: int | None = None) -> list[Event]:
    """Events of all partitions that come in a time, in milliseconds.

    Args:
        first, until: the time.
        step: between two.
        back: how long before they came they happened; None for up to 8 s, less than the delay.
    """
    found = []
    for number, time in enumerate(range(first, until, step)):
        behind = number * 1700 % 8000 if back is None else back
        user, amount = f"usér {number % _USERS}", number * 31 % 997
        found.append(
            Event(
                number % PARTITIONS,
                _START + time,
                _START + time - behind,
                user,
                b"%d" % amount,
            )
        )
    return found


BEFORE = _events(0, 101_000, 250)
"""The watermark is at 90 s when they have been read, wherever micro-batches end."""

TAKEN = _events(101_000, 102_000, 100, 101_000 - 75_000)
DROPPED = _events(102_000, 103_000, 100, 102_000 - 35_000)
AFTER = [*TAKEN, *DROPPED, *_events(103_000, 110_000, 250), *_events(200_000, 202_000, 250, 0)]
"""Some are late, some of them by more than is allowed; the last ones end all windows before."""

FIRED = _START + 80_000
"""The start of the last window that ends before the late events come."""

LAST = _START + 100_000
"""That of the last one that ends without a drain."""


def expected() -> Counter[tuple[str, int, str]]:
    """How many events each pane has: by user, start of the window, and ``ON_TIME`` or ``LATE``."""
    found: Counter[tuple[str, int, str]] = Counter()
    for timing, events in (
        ("ON_TIME", [*BEFORE, *(e for e in AFTER if e not in TAKEN and e not in DROPPED)]),
        ("LATE", TAKEN),
    ):
        for event in events:
            start = event.at // (WINDOW * 1000) * WINDOW * 1000
            found[event.user, start, timing] += 1
    return found
