"""Restarts of runs that Spark cannot repair.

Spark recomputes the lost output of an executor. It gives up if the new output differs after later
tasks have consumed the first one, and if executors are lost repeatedly. A local master gives up at
once, even if it only lost the connection to an idle Python worker, which happens after a cancelled
job. The driver uses no results of a run before it has ended, so a batch run can start from the
beginning; a streaming query continues from its checkpoint.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sparkbeam.upstream.spark import CONCURRENT, GAVE_UP, NOT_STARTED
from sparkbeam.wire.failure import FailureReports

RERUNS = 2
"""Maximum number of restarts without progress."""

_FIRST_PAUSE = 2.0
_LONGER = 4

_logger = logging.getLogger(__name__)

_T = TypeVar("_T")


def recovering(
    run: Callable[[], _T], reports: FailureReports, steps: Callable[[], int] | None = None
) -> _T:
    """Call ``run``, and call it again if Spark gave up after a loss.

    Args:
        steps: return the progress; None for a run that always starts from the beginning.

    Raises:
        Exception: raised by the last call.
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
            "An older driver was still writing to the checkpoint"
            if CONCURRENT.search(text)
            else "Spark could not repair the loss of a process",
            "starts again from the beginning" if steps is None else "continues from its checkpoint",
            left,
        )


def gave_up(text: str) -> bool:
    """Return whether Spark's error says that it gave up after a loss.

    The caller has checked that no newer driver has the checkpoint; an older one may have been in
    the middle of a write.
    """
    return any(pattern.search(text) for pattern in (GAVE_UP, NOT_STARTED, CONCURRENT))
