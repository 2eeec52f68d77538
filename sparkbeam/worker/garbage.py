"""When a worker looks for cycles of garbage.

Spark's daemon has the collector look through all objects after each task. What a worker keeps for
its next tasks are many, and that takes longer than a small task, which waits for it. So after a
task the collector looks at what is new, and at all when that has cost little of the time since.
"""

import gc
import time

_SHARE = 50
"""The collections of all take this part of a worker's time at most."""

_OLDEST, _NEWER = 2, 1
"""Generations of the collector."""


class Garbage:
    """What the daemon takes for the module ``gc``."""

    def __init__(self) -> None:
        self._due = 0.0

    def collect(self) -> None:
        """Called after each task."""
        self.sweep() if time.monotonic() >= self._due else gc.collect(_NEWER)

    def sweep(self) -> None:
        """Frees all garbage."""
        began = time.monotonic()
        gc.collect(_OLDEST)
        ended = time.monotonic()
        self._due = ended + _SHARE * (ended - began)


GARBAGE = Garbage()
