"""Time of a worker's search for cycles of garbage.

Spark's daemon has the collector examine all objects after each task. A worker keeps many objects
for its next tasks. Examining them takes longer than a small task, which waits for it. Therefore the
collector examines new objects after a task, and all objects when that has taken little of the time
since.
"""

import gc
import time

_SHARE = 50
"""The collections of all take this part of a worker's time at most."""

_OLDEST, _NEWER = 2, 1
"""Generations of the collector."""


class Garbage:
    """Replacement of the module ``gc`` in the daemon."""

    def __init__(self) -> None:
        self._due = 0.0

    def collect(self) -> None:
        """Collect garbage after a task; called by the daemon."""
        self.sweep() if time.monotonic() >= self._due else gc.collect(_NEWER)

    def sweep(self) -> None:
        """Free all garbage."""
        began = time.monotonic()
        gc.collect(_OLDEST)
        ended = time.monotonic()
        self._due = ended + _SHARE * (ended - began)


GARBAGE = Garbage()
