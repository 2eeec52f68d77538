"""Heartbeats of a driver under its checkpoint, for processes that only see the checkpoint."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from sparkbeam.common.untrusted_json import loaded, parsed
from sparkbeam.observe.collection.notes import Note
from sparkbeam.observe.figures.phases import known
from sparkbeam.observe.figures.summary import StageSummary
from sparkbeam.streaming.checkpoint_files import Files

SIGN = "driver.json"
"""File with the last heartbeat."""

_PATIENCE = 3


@dataclass(frozen=True)
class Heartbeat:
    """Heartbeat of a driver, as stored in a file.

    Attributes:
        written: its time, in seconds since the epoch.
        period: the seconds until the next one.
        stages: their figures that are not in the checkpoint, by address.
        notes: log messages and warnings of steps, the last first.
        phases: the number of the last micro-batch with its timings, in microseconds.
        started: the start of the run, in seconds since the epoch; 0 if unknown.
    """

    written: float
    period: float
    state: str
    over: bool
    title: str
    stages: Mapping[str, StageSummary] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    error: str = ""
    phases: tuple[int, Mapping[str, int]] = (0, {})
    started: float = 0.0

    def is_of(self, ended: float) -> bool:
        """Return whether the run may be the one of a micro-batch that ended at a time."""
        return ended <= self.written + 2 * self.period

    def gone(self, now: float) -> float | None:
        """Return the seconds since the last heartbeat if they are too many, else None."""
        silent = now - self.written
        return silent if not self.over and silent > _PATIENCE * self.period else None

    def content(self) -> dict[str, Any]:
        """Return the contents as JSON values."""
        return asdict(self)

    @classmethod
    def from_content(cls, content: Any) -> Self:
        """Parse the result of :meth:`content`; the content is untrusted.

        Raises:
            ValueError: it is not a heartbeat.
        """
        found = parsed(cls, content)
        number, phases = found.phases
        return replace(found, phases=(number, known(phases)))


def last_sign(files: Files) -> Heartbeat | None:
    """Return the last heartbeat of a driver, or None if there is no readable one."""
    with suppress(Exception):  # The file is untrusted.
        return Heartbeat.from_content(loaded(files.read(SIGN) or b""))
    return None
