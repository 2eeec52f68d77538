"""Cancellation of a run from any thread."""

import threading
import uuid
from functools import partial
from typing import Any

from sparkbeam.errors import PipelineCancelled
from sparkbeam.upstream.spark import has_ended, is_connect


class Cancellation:
    """Cancels the Spark jobs of one run, and no others of the session.

    Between two Spark jobs there is nothing to interrupt. The run therefore checks before it starts
    the next one, and the caller repeats the interrupt until the run has ended.
    """

    def __init__(self, session: Any) -> None:
        tag = f"sparkbeam-{uuid.uuid4().hex}"
        self._session = session
        self._requested = threading.Event()
        if is_connect(session):
            self._cover = partial(session.addTag, tag)
            self._interrupt = partial(session.interruptTag, tag)
        else:
            # A classic session keeps tags per thread.
            self._cover = partial(session.sparkContext.addJobTag, tag)
            self._interrupt = partial(session.sparkContext.cancelJobsWithTag, tag)

    def cover(self) -> None:
        """Tag the Spark jobs of this thread; called once by the run."""
        self._cover()

    def interrupt(self) -> None:
        """Interrupt the running Spark jobs and keep the run from starting more.

        A session that has ended, as by a signal to the whole process group, has no jobs.
        """
        self._requested.set()
        try:
            self._interrupt()
        except Exception:
            if not has_ended(self._session):
                raise

    def check(self) -> None:
        """Check for a cancellation; called by the run before each Spark job.

        Raises:
            PipelineCancelled: the run was cancelled.
        """
        if self._requested.is_set():
            raise PipelineCancelled("The pipeline was cancelled.")
