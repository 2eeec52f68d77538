"""The result of a run: its state, its metrics, and the way to stop it."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from html import escape
from typing import TYPE_CHECKING

from apache_beam.metrics.metric import MetricResults
from apache_beam.runners.runner import PipelineResult, PipelineState

from sparkbeam.common import arguments
from sparkbeam.errors import ConfigurationError
from sparkbeam.metrics.live_metrics import LiveMetrics
from sparkbeam.metrics.metric_results import SparkMetrics
from sparkbeam.metrics.run_summary import RunSummary
from sparkbeam.progress.html import progress_html
from sparkbeam.progress.snapshot import PipelineProgress, Progress
from sparkbeam.spark.interrupts import LEAVE_SECONDS, Leaving, interruptible
from sparkbeam.wire.consolidation import Infos, consolidate

if TYPE_CHECKING:
    from sparkbeam.explain.explanation import Explanation

_logger = logging.getLogger(__name__)


class SparkPipelineResult(PipelineResult):
    """A pipeline that runs, or has run, on Spark.

    Args:
        cancel_work: stops the Spark work of the pipeline, from any thread; called
            again and again until the run has ended.
        drain_work: asks for the end of the sources, from any thread; None in batch.
        metrics: what the tasks of the run have counted so far.
        progress: tells how far the run is.
        summary: tells what the run has done.
        explain: tells how it was done.
        interrupted: called if the user interrupts the program, or it ends, before the run has.

    Attributes:
        page: the address of the live page; None where there is none.
    """

    page: str | None = None

    def __init__(
        self,
        cancel_work: Callable[[], None],
        metrics: LiveMetrics | None = None,
        progress: Callable[[], Progress] = PipelineProgress,
        interrupted: Callable[[], None] = lambda: None,
        drain_work: Callable[[], None] | None = None,
        summary: Callable[[], RunSummary] = RunSummary,
        explain: "Callable[[], Explanation] | None" = None,
    ) -> None:
        super().__init__(PipelineState.RUNNING)
        self._cancel_work = cancel_work
        self._metrics = metrics or LiveMetrics()
        self._progress = progress
        self._interrupted = interrupted
        self._drain_work = drain_work
        self._summary = summary
        self._explain = explain
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._leaving = Leaving(self._leave)

    @property
    def state(self) -> str:
        """One of Beam's ``PipelineState`` values."""
        state: str = self._state
        return state

    def wait_until_finish(self, duration: float | None = None) -> str:
        """Waits for the end of the pipeline.

        Args:
            duration: the longest wait in milliseconds; None waits for ever.

        Returns:
            The state, which is RUNNING where the time was too short.

        Raises:
            ConfigurationError: the duration is none.
            PipelineFailed: the pipeline failed, with the step and the user's traceback.
            KeyboardInterrupt: the user has pressed Ctrl-C; the pipeline is cancelled.
        """
        deadline = None if duration is None else time.monotonic() + _seconds(duration)
        with interruptible(self._interrupt):
            # In slices, so that an interrupt from the keyboard gets through.
            while not self._ended.wait(
                0.5 if deadline is None else max(0.0, min(0.5, deadline - time.monotonic()))
            ):
                if deadline is not None and time.monotonic() >= deadline:
                    return self.state
        self._leaving.cancel()
        if self._error is not None and self._state == PipelineState.FAILED:
            raise self._error
        return self.state

    def cancel(self) -> str:
        """Stops the pipeline and its Spark work; does nothing once it has ended.

        Returns:
            The state afterwards: CANCELLED, or how the pipeline ended before
            it could be stopped.
        """
        return self._cancel(_CANCEL_SECONDS)

    def _interrupt(self) -> None:
        """Ends the run and what it shows, as its program does not wait for it any more."""
        self._interrupted()
        self._cancel(LEAVE_SECONDS)

    def _leave(self) -> None:
        # Where it is cancelled already, somebody has waited for its end as long as is of use.
        if not self._ended.is_set() and self._state != PipelineState.CANCELLING:
            _logger.warning(
                "The program ends before its pipeline, which is cancelled: "
                "call wait_until_finish() to have its results."
            )
            # The session may have gone before.
            with suppress(Exception):
                self._interrupt()

    def _cancel(self, seconds: float) -> str:
        """Cancels; waits so long for the end at most."""
        with self._lock:
            if self._ended.is_set():
                return self.state
            self._state = PipelineState.CANCELLING
        deadline = time.monotonic() + seconds
        while not self._ended.is_set() and time.monotonic() < deadline:
            self._cancel_work()
            self._ended.wait(_INTERRUPT_SECONDS)
        return self.state

    def drain(self) -> str:
        """Ends the sources of a streaming pipeline, so that it comes to its end by itself.

        Restrictions without an end are truncated, watermarks go to the end of time, windows and
        timers fire; then the state is DRAINED. A restart over the same checkpoint goes on
        draining. A batch pipeline comes to its end anyway: nothing changes.

        Returns:
            The state afterwards, DRAINING in most cases; ``wait_until_finish`` waits for the end.
        """
        with self._lock:
            if self._drain_work is not None and self._state == PipelineState.RUNNING:
                self._state = PipelineState.DRAINING
                self._drain_work()
        return self.state

    def progress(self) -> Progress:
        """How far the pipeline is.

        Returns:
            A :class:`~sparkbeam.PipelineProgress`; in streaming a
            :class:`~sparkbeam.StreamingProgress`.
        """
        return self._progress()

    def summary(self) -> RunSummary:
        """What is committed, step by step: elements, time, bytes, columns; print it for a table."""
        return self._summary()

    def explain(self) -> "Explanation":
        """How the pipeline runs, or has run: as ``SparkRunner.explain``, with what is known by now.

        Of each aggregation that is what went in and came out, and how much was shuffled; of Spark
        the plans that have run, the adaptive ones in their final form, in streaming those of the
        last micro-batch. A Spark session that has been stopped tells nothing, nor does one over
        Spark Connect.

        Raises:
            ConfigurationError: nothing has run.
        """
        if self._explain is None:
            raise ConfigurationError("Nothing has run that could be explained.")
        return self._explain()

    def metrics(self) -> MetricResults:
        """The user's metrics, at any time; complete once the pipeline has ended.

        What is committed is exact, and never more than it will be at the end. In batch it grows
        when a stage has ended, in streaming with each micro-batch. What is attempted has beside it
        what running tasks have counted by now, and those that failed.
        """
        return SparkMetrics(self._metrics.committed(), self._metrics.uncommitted())

    def monitoring_metrics(self) -> MetricResults:
        """The user's metrics and Beam's own; of these, no times or sizes that are nothing."""
        committed, uncommitted = self._metrics.committed(), self._metrics.uncommitted()
        return SparkMetrics(committed, uncommitted, user_only=False)

    def monitoring_infos(self) -> Infos:
        """The committed metrics in Beam's portable form."""
        return consolidate(self._metrics.committed())

    def _finish(self, error: BaseException | None) -> None:
        """Called once by the runner when the run has ended."""
        with self._lock:
            self._error = error
            self._state = self._state_after(error)
            self._ended.set()
        if self._state == PipelineState.FAILED:
            # Only the text: what a run has held is not to stay until the program ends.
            self._leaving.change(partial(_logger.error, _FAILED_ALONE, str(error)))
        else:
            self._leaving.cancel()

    def _state_after(self, error: BaseException | None) -> str:
        """The state that a run ends in now."""
        if error is None:
            drained = self._state == PipelineState.DRAINING
            return str(PipelineState.DRAINED if drained else PipelineState.DONE)
        cancelled = self._state == PipelineState.CANCELLING
        return str(PipelineState.CANCELLED if cancelled else PipelineState.FAILED)

    def _repr_html_(self) -> str:
        problem = f"<pre>{escape(str(self._error))}</pre>" if self._error is not None else ""
        return f"<div><b>{self.state}</b>{progress_html(self.progress())}{problem}</div>"

    def __repr__(self) -> str:
        return f"<SparkPipelineResult {self.state}>"


def _seconds(duration: object) -> float:
    """Of a duration in milliseconds."""
    return arguments.duration("duration", duration, "milliseconds", most=_LONGEST_WAIT) / 1000


_FAILED_ALONE = "The pipeline failed, and the program has not called wait_until_finish(): %s"

_LONGEST_WAIT = 1e12
"""Milliseconds; thirty years."""

_CANCEL_SECONDS = 30.0
"""How long a caller of ``cancel`` waits for the end of the run."""

_INTERRUPT_SECONDS = 0.5
