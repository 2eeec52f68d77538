"""Signs of life of a driver under its checkpoint, for who has that alone."""

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from sparkbeam.common.untrusted_json import loaded, whole
from sparkbeam.progress.batch_phases import parsed
from sparkbeam.streaming.checkpoint_files import Files

SIGN = "driver.json"
"""The file with the last one."""

_PATIENCE = 3


@dataclass(frozen=True)
class Sign:
    """A sign of life of a driver, as it stands in a file.

    Attributes:
        written: when, in seconds since the epoch.
        period: after so many seconds the next one was to follow.
        state: that of the run.
        over: the run has ended.
        title: what the pipeline is called.
        steps: by the addresses of the stages, their cells of text: label, elements in and out, …
        facts: of the stages, beside what the checkpoint tells, by their addresses.
        notes: what steps have logged and warned of, the last first.
        error: what the run has failed with.
        phases: the number of the last micro-batch with what its phases took, in microseconds.
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
        """Whether the run may be that of a micro-batch which has ended then, by its age."""
        return ended <= self.written + 2 * self.period

    def gone(self, now: float) -> float | None:
        """For how many seconds there has been no sign, where that is too long; else None."""
        silent = now - self.written
        return silent if not self.over and silent > _PATIENCE * self.period else None

    def content(self) -> dict[str, Any]:
        """All of it as what JSON can say."""
        return dict(vars(self))

    @classmethod
    def of(cls, content: Any) -> Self:
        """The inverse of :meth:`content`, of whatever somebody has written.

        Raises:
            Exception: of whatever type, if it is no sign.
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
            raise ValueError("this is no time")
        timed = whole(number), parsed(phases)
        return cls(written, period, state, over, title, steps, facts, notes, error, timed)


def last_sign(files: Files) -> Sign | None:
    """The last sign of a driver; None where there is none that can be read."""
    with suppress(Exception):  # Anybody may have written anything.
        return Sign.of(loaded(files.read(SIGN) or b""))
    return None
