"""Live components of one run: listeners, figures and display."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sparkbeam.common.secret_patterns import hidden
from sparkbeam.observe.collection.batch_tracker import BatchTracker
from sparkbeam.observe.collection.listener import listen, may_reach_loopback
from sparkbeam.observe.collection.live_metrics import LiveMetrics
from sparkbeam.observe.collection.notes import Notes
from sparkbeam.observe.collection.printed_output import OutputListener, tell
from sparkbeam.observe.collection.recent_batches import History
from sparkbeam.observe.collection.spark_stages import SparkStages
from sparkbeam.observe.collection.step_figures import run_summary
from sparkbeam.observe.collection.stream_tracker import StreamTracker
from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.observe.figures.phases import Phases
from sparkbeam.observe.figures.progress import Progress
from sparkbeam.observe.figures.summary import RunSummary
from sparkbeam.observe.views.display import Display, screen_for
from sparkbeam.plan.model import Plan
from sparkbeam.wire.consolidation import Infos
from sparkbeam.wire.output_lines import Relay
from sparkbeam.wire.reports import Reporter, Signal, TaskReport


class RunMonitor:
    """Live components of a run, created by the runner at its start and closed at its end.

    Args:
        show: the option ``--spark_progress``: auto, on or off.
        redaction: removes secrets from log lines and warnings of steps.
    """

    def __init__(
        self, plan: Plan, session: Any, show: str, redaction: Callable[[str], str] = hidden
    ) -> None:
        self.metrics = LiveMetrics()
        self.history = History()
        self.notes = Notes(redaction)
        self.spark = SparkStages(session)
        self._plan = plan
        self._names = {stage.id: stage.name for stage in plan.stages}
        self._tracker: BatchTracker | StreamTracker = (
            StreamTracker(plan) if plan.streaming else BatchTracker(plan)
        )
        self._listener = listen(session, self._note)
        self._output: OutputListener | None = None
        with contextlib.suppress(Exception):  # The lines also arrive with the reports.
            if may_reach_loopback(session):
                self._output = OutputListener(self.notes)
        self._display: Display | None = None
        with contextlib.suppress(Exception):  # Standard error may be anything.
            screen = screen_for(show)
            self._display = None if screen is None else Display(self.snapshot, screen)

    @property
    def reporter(self) -> Reporter | None:
        """The sender of signals for workers; None if not needed or not possible."""
        return None if self._listener is None else self._listener.reporter

    @property
    def relay(self) -> Relay | None:
        """The address for the output of steps on this machine's workers; None for other workers."""
        return None if self._output is None else self._output.relay

    def at(self) -> list[str]:
        """Return the steps that workers execute, as far as known."""
        return [] if self._output is None else self._output.at()

    def died(self) -> list[str]:
        """Return the steps during which workers have died, as far as known."""
        return [] if self._output is None else self._output.died()

    def observe(self, batch: MicroBatch) -> None:
        """Record a micro-batch of a streaming query."""
        assert isinstance(self._tracker, StreamTracker)
        self._tracker.record_batch(batch)
        self.history.record_batch(batch)

    def phases(self) -> tuple[int, Phases]:
        """Return the number of the last micro-batch of a streaming query, with its phases."""
        assert isinstance(self._tracker, StreamTracker)
        return self._tracker.phases()

    def goes_along(self, reader: str, writer: str) -> None:
        """Record that a batch stage runs concurrently with one that it reads."""
        assert isinstance(self._tracker, BatchTracker)
        self._tracker.goes_along(reader, writer)

    def tell(self, reports: list[TaskReport]) -> None:
        """Write and record the output of steps in task reports."""
        tell(reports, self.notes)
        self.notes.warned(reports, lambda id: self._names.get(id, id))

    def snapshot(self) -> Progress:
        """Return the current progress."""
        return self._tracker.snapshot()

    def summary(self, infos: Mapping[str, Infos] | None = None) -> RunSummary:
        """Return the summary of the run.

        Args:
            infos: monitoring infos by stage id; None for the committed ones.
        """
        return run_summary(
            self._plan,
            self.metrics.committed_by_stage() if infos is None else infos,
            self.metrics.task_sizes(),
            self.metrics.failures,
            self.spark.by_stage(),
        )

    def hide(self) -> None:
        """Clear the terminal while the pipeline goes on."""
        if self._display is not None:
            self._display.hide()

    def _note(self, signal: Signal) -> None:
        """Record a signal of a task."""
        self.metrics.record_signal(signal)
        self.spark.record_signal(signal)
        if isinstance(self._tracker, BatchTracker):
            self._tracker.record_signal(signal)

    def close(self, reports: Iterable[TaskReport] | None) -> None:
        """Stop the listener and the display.

        Args:
            reports: the reports of all tasks; None if the run failed or was cancelled.
        """
        if self._output is not None:
            self._output.close()
        with contextlib.suppress(Exception):
            if self._listener is not None:
                self._listener.close()
            self._tracker.end(reports)
        if self._display is not None:
            self._display.close()
