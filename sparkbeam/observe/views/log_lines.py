"""Progress as lines of text, for logs."""

import time
from collections.abc import Callable
from typing import TextIO

from sparkbeam.observe.figures.formats import shortened
from sparkbeam.observe.figures.progress import (
    Progress,
    StageState,
    StreamingProgress,
    batch_texts,
    headline,
)

_EVERY_SECONDS = 3.0
_STREAMING_SECONDS = 10.0
_MAX_STAGES = 3
_MAX_NAME = 40


class PlainScreen:
    """Screen that writes a line when a stage's state changes, at most every three seconds.

    In streaming it writes a line after a micro-batch, at most every ten seconds.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown: list[StageState] | int | None = None
        self._next = clock()

    def show(self, progress: Progress, seconds: float) -> None:
        """Write a line if one is due."""
        found, every = _news(progress)
        now = self._clock()
        if found is None or found == self._shown or now < self._next:
            return
        self._shown = found
        self._next = now + every
        self._write(progress, seconds)

    def finish(self, progress: Progress, seconds: float) -> None:
        """Write the last line."""
        self._write(progress, seconds)

    def clear(self) -> None:
        """Do nothing, as written lines stay."""

    def _write(self, progress: Progress, seconds: float) -> None:
        line = "; ".join([headline(progress, seconds), *_stages(progress)])
        self._stream.write(f"sparkbeam: {line}\n")
        self._stream.flush()


def _news(progress: Progress) -> tuple[list[StageState] | int | None, float]:
    """Return a value whose change is worth a line (None before anything runs), and the interval."""
    if isinstance(progress, StreamingProgress):
        return progress.micro_batch or None, _STREAMING_SECONDS
    states = [stage.state for stage in progress.stages]
    return (None if set(states) <= {StageState.WAITING} else states), _EVERY_SECONDS


def _stages(progress: Progress) -> list[str]:
    """Return the first stages that run or have failed, in batch."""
    if isinstance(progress, StreamingProgress):
        return []
    quiet = (StageState.WAITING, StageState.DONE)
    telling = [
        f"{stage.state} {shortened(stage.name, _MAX_NAME)} "
        f"({texts['tasks']} tasks, {texts['elements']} elements)"
        for stage in progress.stages
        if stage.state not in quiet and (texts := batch_texts(stage))
    ]
    more = [f"{len(telling) - _MAX_STAGES} more"] if len(telling) > _MAX_STAGES else []
    return [*telling[:_MAX_STAGES], *more]
