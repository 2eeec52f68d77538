"""Progress as lines of text, for a log."""

import time
from collections.abc import Callable
from typing import TextIO

from sparkbeam.progress import words
from sparkbeam.progress.model import PipelineProgress, StageState

_EVERY_SECONDS = 3.0
_MAX_STAGES = 3
_MAX_NAME = 40


class PlainScreen:
    """Writes a line when a stage has changed its state, every three seconds at most.

    Args:
        stream: where to.
        clock: gives seconds that only grow.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown: list[StageState] = []
        self._next = clock()

    def show(self, progress: PipelineProgress, seconds: float) -> None:
        """Writes a line if it is time for one."""
        states = [stage.state for stage in progress.stages]
        now = self._clock()
        if states == self._shown or now < self._next or set(states) == {StageState.WAITING}:
            return
        self._shown = states
        self._next = now + _EVERY_SECONDS
        self._write(progress, seconds)

    def finish(self, progress: PipelineProgress, seconds: float) -> None:
        """Writes the last line."""
        self._write(progress, seconds)

    def clear(self) -> None:
        """Does nothing: what is written stays."""

    def _write(self, progress: PipelineProgress, seconds: float) -> None:
        telling = [
            f"{stage.state} {words.shortened(stage.name, _MAX_NAME)} "
            f"({words.tasks(stage)} tasks, {words.elements(stage)} elements)"
            for stage in progress.stages
            if stage.state not in (StageState.WAITING, StageState.DONE)
        ]
        more = [f"{len(telling) - _MAX_STAGES} more"] if len(telling) > _MAX_STAGES else []
        line = "; ".join([words.summary(progress, seconds), *telling[:_MAX_STAGES], *more])
        self._stream.write(f"sparkbeam: {line}\n")
        self._stream.flush()
