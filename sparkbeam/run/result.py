"""Result of a run: its state, its metrics, and ways to stop it."""

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
from sparkbeam.observe.collection.live_metrics import LiveMetrics
from sparkbeam.observe.figures.progress import PipelineProgress, Progress, progress_html
from sparkbeam.observe.figures.summary import RunSummary
from sparkbeam.observe.views.metric_results import SparkMetrics
from sparkbeam.spark.interrupts import LEAVE_SECONDS, Leaving, check_end, interruptible
from sparkbeam.wire.consolidation import Infos, consolidate

if TYPE_CHECKING:
    from sparkbeam.explain.explanation import Explanation

_logger = logging.getLogger(__name__)


class SparkPipelineResult(PipelineResult):
    """A running or finished pipeline on Spark.

    Args:
        cancel_work: stops the Spark jobs of the pipeline, from any thread; called repeatedly until
            the run has ended.
        drain_work: requests the end of the sources, from any thread; None in batch.
        interrupted: called if the user interrupts the program, or it ends, before the run has.

    Attributes:
        page: the address of the live page; None without one.
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
        """Wait for the end of the pipeline.

        Args:
            duration: the longest wait in milliseconds; None waits forever.

        Returns:
            The state; RUNNING if the time was too short.

        Raises:
            ConfigurationError: the duration is invalid.
            PipelineFailed: the pipeline failed, with the step and the user's traceback.
            KeyboardInterrupt: the user pressed Ctrl-C; the pipeline is cancelled.
        """
        deadline = None
        if duration is not None:
            limit = arguments.duration("duration", duration, "milliseconds", most=_LONGEST_WAIT)
            deadline = time.monotonic() + limit / 1000
        with interruptible(self._interrupt):
            # In slices, so that a keyboard interrupt gets through.
            while not self._ended.wait(
                0.5 if deadline is None else max(0.0, min(0.5, deadline - time.monotonic()))
            ):
                check_end()
                if deadline is not None and time.monotonic() >= deadline:
                    return self.state
        self._leaving.cancel()
        if self._error is not None and self._state == PipelineState.FAILED:
            raise self._error
        return self.state

    def cancel(self) -> str:
        """Cancel the pipeline and its Spark jobs; no effect once it has ended.

        Returns:
            The state afterwards: CANCELLED, or the final state if the pipeline ended before.
        """
        return self._cancel(_CANCEL_SECONDS)

    def _interrupt(self) -> None:
        """End the run and its progress display, as the program no longer waits for it."""
        self._interrupted()
        self._cancel(LEAVE_SECONDS)

    def _leave(self) -> None:
        # If it is being cancelled, a caller has already waited for its end.
        if not self._ended.is_set() and self._state != PipelineState.CANCELLING:
            _logger.warning(
                "The program ends before its pipeline, which is cancelled: "
                "call wait_until_finish() to get its results."
            )
            # The session may be gone already.
            with suppress(Exception):
                self._interrupt()

    def _cancel(self, seconds: float) -> str:
        """Cancel the run, and wait for its end for a limited time."""
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
        """End the sources of a streaming pipeline, so that it finishes by itself.

        Unbounded restrictions are truncated, watermarks advance to the end of time, windows and
        timers fire; then the state is DRAINED. A restart over the same checkpoint continues
        draining. No effect in batch.

        Returns:
            The state afterwards, in most cases DRAINING; ``wait_until_finish`` waits for the end.
        """
        with self._lock:
            if self._drain_work is not None and self._state == PipelineState.RUNNING:
                self._state = PipelineState.DRAINING
                self._drain_work()
        return self.state

    def progress(self) -> Progress:
        """Return the progress of the pipeline.

        Returns:
            A :class:`~sparkbeam.PipelineProgress`; in streaming a
            :class:`~sparkbeam.StreamingProgress`.
        """
        return self._progress()

    def summary(self) -> RunSummary:
        """Return the committed elements, time, bytes and columns by step; prints as a table."""
        return self._summary()

    def explain(self) -> "Explanation":
        """Explain how the pipeline runs or has run, with the actual figures.

        Like ``SparkRunner.explain``, with each aggregation's input, output and shuffled bytes, and
        Spark's executed plans: the final form of adaptive ones, in streaming those of the last
        micro-batch. A stopped session reports nothing, nor does one over Spark Connect.

        Raises:
            ConfigurationError: nothing has run.
        """
        if self._explain is None:
            raise ConfigurationError("There is no run to explain.")
        return self._explain()

    def metrics(self) -> MetricResults:
        """Return the user's metrics, at any time; complete once the pipeline has ended.

        Committed values are exact, and never exceed the final ones. In batch they grow with each
        finished stage, in streaming with each micro-batch. Attempted values include the counts of
        running and failed tasks.
        """
        return SparkMetrics(self._metrics.committed(), self._metrics.uncommitted())

    def monitoring_metrics(self) -> MetricResults:
        """Return the user's metrics and Beam's own, without zero times and sizes."""
        committed, uncommitted = self._metrics.committed(), self._metrics.uncommitted()
        return SparkMetrics(committed, uncommitted, user_only=False)

    def monitoring_infos(self) -> Infos:
        """Return the committed metrics in Beam's portable form."""
        return consolidate(self._metrics.committed())

    def _finish(self, error: BaseException | None) -> None:
        """Record the end of the run; called once by the runner."""
        with self._lock:
            self._error = error
            self._state = self._state_after(error)
            self._ended.set()
        if self._state == PipelineState.FAILED:
            # Only the text: the run's objects must not live until the program ends.
            self._leaving.change(partial(_logger.error, _FAILED_ALONE, str(error)))
        else:
            self._leaving.cancel()

    def _state_after(self, error: BaseException | None) -> str:
        """Return the final state of a run that ends now."""
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


_FAILED_ALONE = "The pipeline failed, and the program has not called wait_until_finish(): %s"

_LONGEST_WAIT = 1e12
"""Milliseconds; thirty years."""

_CANCEL_SECONDS = 30.0
"""Longest wait of ``cancel`` for the end of the run."""

_INTERRUPT_SECONDS = 0.5
