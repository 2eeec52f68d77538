"""What Spark cannot repair: the run starts again.

Spark computes again what a lost executor had put out. It gives up where that
comes out differently after later tasks have taken in the first version, and
where executors are lost again and again. On a local master it gives up at once,
even where it has only lost the connection to an idle Python worker, which
happens after a job was cancelled. The driver takes nothing out of a run before
it has ended, so the run can start from the beginning; a streaming query goes on
over its checkpoint.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sparkbeam.upstream.spark import CONCURRENT, GAVE_UP, NOT_STARTED
from sparkbeam.wire.failure import Reports

RERUNS = 2
"""A run starts again up to this many times without coming further."""

_FIRST_PAUSE = 2.0
_LONGER = 4

_logger = logging.getLogger(__name__)

_T = TypeVar("_T")


def recovering(
    run: Callable[[], _T], reports: Reports, steps: Callable[[], int] | None = None
) -> _T:
    """Calls ``run``, and calls it again where Spark gave up because of what it had lost.

    Args:
        run: the run.
        reports: those of the run, of failures of its steps.
        steps: how far it has come; None for one that always starts from the beginning.

    Raises:
        Exception: what the last call raised.
    """
    left, reached = RERUNS, 0
    while True:
        try:
            return run()
        except Exception as error:
            text = str(error)
            is_busy = NOT_STARTED.search(text) is not None
            if reports.find(text) is not None or not gave_up(text):
                raise
            if steps is not None and steps() > reached:
                left, reached = RERUNS, steps()
            if not left:
                raise
        if is_busy:
            time.sleep(_FIRST_PAUSE * _LONGER ** (RERUNS - left))
        left -= 1
        _logger.warning(
            "%s: the pipeline %s (attempts left: %d).",
            "An older driver has still written to the checkpoint"
            if CONCURRENT.search(text)
            else "Spark could not repair the loss of a process",
            "starts again from the beginning" if steps is None else "goes on from its checkpoint",
            left,
        )


def gave_up(text: str) -> bool:
    """Whether the text of an error of Spark says that it gave up because of what it had lost.

    That a newer driver has the checkpoint has been looked at before; an older one may still have
    been in the middle of a write.
    """
    return any(pattern.search(text) for pattern in (GAVE_UP, NOT_STARTED, CONCURRENT))
