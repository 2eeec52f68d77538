"""Recent log lines and warnings of steps."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from sparkbeam.common.display_text import beginning, line
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.wire.reports import TaskReport

_MOST = 100
_LONGEST = 500


class Note(NamedTuple):
    """A line of a step.

    Attributes:
        step: the label of the step, or those of fused steps.
        last: the time of the last occurrence, in seconds since the epoch.
    """

    step: str
    text: str
    times: int
    last: float


class Notes:
    """The last hundred distinct lines; thread-safe."""

    def __init__(self, hide: Callable[[str], str] = hidden) -> None:
        self._hide = hide
        self._lock = threading.Lock()
        self._notes: dict[tuple[str, str], Note] = {}

    def add(self, step: str, text: str) -> None:
        """Record a line."""
        key = self._key(step, text)
        with self._lock:
            before = self._notes.pop(key, None)
            times = 1 if before is None else before.times + 1
            self._notes[key] = Note(*key, times, time.time())
            if len(self._notes) > _MOST:
                del self._notes[next(iter(self._notes))]

    def warned(self, reports: Iterable[TaskReport], names: Callable[[str], str]) -> None:
        """Record the warnings in task reports, each once.

        Args:
            names: returns the labels of a stage by its id.
        """
        for report in reports:
            for warning in report.warnings:
                kind = warning.category.rpartition(":")[2]
                step, text = names(report.stage), f"{kind}: {warning.message}"
                with self._lock:
                    known = self._key(step, text) in self._notes
                if not known:
                    self.add(step, text)

    def _key(self, step: str, text: str) -> tuple[str, str]:
        return line(self._hide(step)), beginning(text, _LONGEST, self._hide)

    def recent(self) -> list[Note]:
        """Return the lines, most recent first."""
        with self._lock:
            return [*self._notes.values()][::-1]
