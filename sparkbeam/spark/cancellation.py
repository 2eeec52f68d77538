"""The way to stop a run, from any thread."""

import threading
import uuid
from functools import partial
from typing import Any

from sparkbeam.errors import PipelineCancelled
from sparkbeam.upstream.spark import is_connect


class Cancellation:
    """Stops the Spark work of one run, and no other work of the session.

    Between two Spark jobs there is nothing to interrupt. The run therefore asks
    before it starts the next one, and whoever cancels interrupts until the run
    has ended.

    Args:
        session: the Spark session of the run.
    """

    def __init__(self, session: Any) -> None:
        tag = f"sparkbeam-{uuid.uuid4().hex}"
        self._requested = threading.Event()
        if is_connect(session):
            self._cover = partial(session.addTag, tag)
            self._interrupt = partial(session.interruptTag, tag)
        else:
            # A classic session knows its tags only in the thread that has added them.
            self._cover = partial(session.sparkContext.addJobTag, tag)
            self._interrupt = partial(session.sparkContext.cancelJobsWithTag, tag)

    def cover(self) -> None:
        """Makes this thread the one whose Spark work can be interrupted; called once by the run."""
        self._cover()

    def interrupt(self) -> None:
        """Stops the Spark work that runs now, and keeps the run from starting more."""
        self._requested.set()
        self._interrupt()

    def check(self) -> None:
        """Called by the run before each Spark job.

        Raises:
            PipelineCancelled: the run is to end.
        """
        if self._requested.is_set():
            raise PipelineCancelled("The pipeline was cancelled.")
