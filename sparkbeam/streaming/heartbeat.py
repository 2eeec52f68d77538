"""Heartbeats of a driver under its checkpoint, for processes that only see the checkpoint."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from sparkbeam.common.untrusted_json import loaded, whole
from sparkbeam.progress.batch_phases import parsed
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
        state: of the run.
        over: the run has ended.
        title: the name of the pipeline.
        steps: table rows of text by the addresses of the stages: label, elements in and out, …
        facts: additional facts of stages that are not in the checkpoint, by address.
        notes: log messages and warnings of steps, the last first.
        error: the failure of the run.
        phases: the number of the last micro-batch with its timings, in microseconds.
    """

    written: float
    period: float
    state: str
    over: bool
    title: str
    steps: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    facts: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    notes: tuple[tuple[str, str, int, float], ...] = ()
    error: str = ""
    phases: tuple[int, Mapping[str, int]] = (0, {})

    def is_of(self, ended: float) -> bool:
        """Return whether the run may be the one of a micro-batch that ended at a time."""
        return ended <= self.written + 2 * self.period

    def gone(self, now: float) -> float | None:
        """Return the seconds since the last heartbeat if they are too many, else None."""
        silent = now - self.written
        return silent if not self.over and silent > _PATIENCE * self.period else None

    def content(self) -> dict[str, Any]:
        """Return the contents as JSON values."""
        return dict(vars(self))

    @classmethod
    def from_content(cls, content: Any) -> Self:
        """Parse the result of :meth:`content`; the content is untrusted.

        Raises:
            Exception: of any type, if it is not a heartbeat.
        """
        facts = {
            str(id): tuple((str(label), str(text)) for label, text in some)
            for id, some in content["facts"].items()
        }
        steps = {
            str(id): tuple(tuple(map(str, row)) for row in rows)
            for id, rows in content["steps"].items()
        }
        notes = tuple(
            (str(step), str(text), int(times), float(last))
            for step, text, times, last in content["notes"]
        )
        state, title, error = (str(content[name]) for name in ("state", "title", "error"))
        written, period = float(content["written"]), float(content["period"])
        over = bool(content["over"])
        number, phases = content.get("phases", (0, {}))
        if not (math.isfinite(written) and math.isfinite(period)):
            raise ValueError("it is not a time")
        timed = whole(number), parsed(phases)
        return cls(written, period, state, over, title, steps, facts, notes, error, timed)


def last_sign(files: Files) -> Heartbeat | None:
    """Return the last heartbeat of a driver, or None if there is no readable one."""
    with suppress(Exception):  # The file is untrusted.
        return Heartbeat.from_content(loaded(files.read(SIGN) or b""))
    return None
