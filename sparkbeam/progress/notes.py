"""What steps have logged and warned of lately."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sparkbeam.common.display_text import beginning, line
from sparkbeam.common.secret_patterns import hidden
from sparkbeam.wire.reports import TaskReport

_MOST = 100
_LONGEST = 500


@dataclass(frozen=True)
class Note:
    """A line of a step.

    Attributes:
        step: the label of the step, or those of steps that run fused.
        text: the line.
        times: how often it has come.
        last: when it came last, in seconds since the epoch.
    """

    step: str
    text: str
    times: int
    last: float


class Notes:
    """The last hundred different lines; may be used from any thread.

    Args:
        hide: takes secrets out of a line.
        clock: the time in seconds since the epoch.
    """

    def __init__(
        self, hide: Callable[[str], str] = hidden, clock: Callable[[], float] = time.time
    ) -> None:
        self._hide = hide
        self._clock = clock
        self._lock = threading.Lock()
        self._notes: dict[tuple[str, str], Note] = {}

    def add(self, step: str, text: str) -> None:
        """Takes a line in."""
        key = self._key(step, text)
        with self._lock:
            before = self._notes.pop(key, None)
            times = 1 if before is None else before.times + 1
            self._notes[key] = Note(*key, times, self._clock())
            if len(self._notes) > _MOST:
                del self._notes[next(iter(self._notes))]

    def warned(self, reports: Iterable[TaskReport], names: Callable[[str], str]) -> None:
        """Takes in what reports of tasks warn of, each warning once.

        Args:
            reports: of tasks.
            names: gives the labels of a stage by its id.
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
        """The last line first."""
        with self._lock:
            return [*self._notes.values()][::-1]
