"""A running pipeline: all its parts on the driver, in a thread of its own."""

import itertools
import sys
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sparkbeam.batch.execution import BatchExecution
from sparkbeam.common.background import background_thread
from sparkbeam.common.display_text import printable
from sparkbeam.connectors import source_frames
from sparkbeam.observe.monitor import RunMonitor
from sparkbeam.observe.sinks.metrics_sink import PushedMetrics
from sparkbeam.observe.sinks.pusher import MetricsPusher
from sparkbeam.observe.sinks.runner_metrics import runner_metrics
from sparkbeam.observe.sinks.sink_factory import sinks_of
from sparkbeam.options import spark_options
from sparkbeam.plan.model import Plan
from sparkbeam.plan.redaction import Redaction
from sparkbeam.run.result import SparkPipelineResult
from sparkbeam.spark import session as sessions
from sparkbeam.spark.cancellation import Cancellation
from sparkbeam.spark.capabilities import log_refused_settings
from sparkbeam.spark.failures import explained, of_reads
from sparkbeam.spark.job_names import JobNames
from sparkbeam.spark.provision import provided
from sparkbeam.spark.recovery import recovering
from sparkbeam.spark.worker_deaths import Deaths, exit_code
from sparkbeam.upstream.spark import jvm_process, no_foreign_types, unlogged
from sparkbeam.wire.failure import FailureReports
from sparkbeam.wire.output_lines import OutputSpec
from sparkbeam.wire.reports import TaskReport

if TYPE_CHECKING:
    from sparkbeam.streaming.checkpoint_files import Files


class Companion(Protocol):
    """Observer of a run."""

    def begin(self, files: "Files | None", plan: Plan) -> None:
        """Called at the start of the run, and at each restart.

        Args:
            files: the observer's files under the checkpoint; None in batch.
        """

    def end(self, state: str) -> None:
        """Called at the end of a run, before its state is visible, even if it has not begun."""


class PipelineRun:
    """Execution of a plan.

    Args:
        redaction: removes the pipeline's secrets from a text.
        explain: returns the explanation of a run, for its result.

    Attributes:
        problem: the error message; empty without one.
        companions: observers of the run; added before it starts.
        files: labels of the Spark sources whose files the workers read directly.
    """

    def __init__(
        self,
        plan: Plan,
        session: Any,
        options: spark_options.SparkBeamOptions,
        redaction: Redaction,
        explain: Callable[["PipelineRun"], Any],
    ) -> None:
        # An invalid sink is an error before anything has started.
        sinks = sinks_of(options)
        self._plan = plan
        self._session = session
        self._options = options
        # The pipeline that holds them may be garbage before the run needs them.
        self._frames = source_frames.registered_frames(plan.spark_reads.values())
        self._cancellation = Cancellation(session)
        self._drain = threading.Event()
        self._reports = FailureReports(redaction=redaction)
        self.problem = ""
        self.companions: list[Companion] = []
        self.files: set[str] = set()
        self.monitor = RunMonitor(plan, session, options.spark_progress, redaction)
        self._names = JobNames(session, redaction)
        self._pusher = MetricsPusher(
            sinks,
            self._pushed,
            options.metrics_push_period,
            redaction,
        )
        heap = sessions.heap(session)
        self._deaths = Deaths(
            self.monitor.died,
            at=self.monitor.at,
            jvm=partial(exit_code, jvm_process(session)),
            heap=heap,
        )
        self._shared: dict[str, Any] = {
            "output": OutputSpec(spark_options.log_levels(options), self.monitor.relay),
            "environment": provided(session, options, heap),
            "reports": self._reports,
            "proceed": self._cancellation.check,
            "reporter": self.monitor.reporter,
        }
        self.result = SparkPipelineResult(
            cancel_work=self._cancellation.interrupt,
            metrics=self.monitor.metrics,
            progress=self.monitor.snapshot,
            summary=self.monitor.summary,
            interrupted=self.monitor.hide,
            explain=lambda: explain(self),
            drain_work=self._drain.set if plan.streaming else None,
        )

    def start(self) -> SparkPipelineResult:
        """Start the run and return its result at once."""
        self._pusher.start()  # The run may end, and close it, at any moment from now on.
        background_thread(self._work, "sparkbeam-pipeline").start()
        return self.result

    def _work(self) -> None:
        reports: list[TaskReport] = []
        error: Exception | None = None
        try:
            try:
                self._cancellation.cover()
                with no_foreign_types(), unlogged(everywhere=True):
                    reports = self._streamed() if self._plan.streaming else self._in_batch()
            except Exception as raised:
                # The user needs no frames of this thread.
                error = explained(
                    raised,
                    self._reports,
                    self._deaths,
                    *of_reads(self._plan.spark_reads),
                ).with_traceback(None)
            self.monitor.close(reports if error is None else None)
            if error is None:
                self.monitor.metrics.end(reports)
            _warn(reports)
        except Exception as raised:
            # A warning may be an error here; it has to reach the caller that waits for the run.
            error = error or raised
        finally:
            log_refused_settings(self._session)
            self.problem = "" if error is None else str(error)
            self._pusher.close()
            for companion in self.companions:
                companion.end(self.result._state_after(error))
            self.result._finish(error)

    def _pushed(self) -> PushedMetrics | None:
        """Return the current metrics, or None if there are none."""
        results = self.result.metrics()
        runner = runner_metrics(self.result.progress(), self.monitor.metrics.failures)
        if not runner and not any(results.query().values()):
            return None
        return PushedMetrics(results, runner, time.time())

    def _in_batch(self) -> list[TaskReport]:
        delivered: set[str] = set()
        starts, metrics = itertools.count(), self.monitor.metrics

        def run() -> list[bytes]:
            number = next(starts)
            metrics.restart(number)
            return BatchExecution(
                self._session,
                self._plan,
                parallelism=self._options.spark_parallelism,
                temp_location=spark_options.temp_location(self._options),
                committed=lambda found: metrics.record_reports(map(TaskReport.parse, found)),
                describe=self._names,
                goes_along=self.monitor.goes_along,
                reads_files=self.files.add,
                number=number,
                delivered=delivered,
                **self._shared,
            ).run()

        self._begun(None, self._plan)
        reports = [TaskReport.parse(report) for report in recovering(run, self._reports)]
        self.monitor.tell(reports)
        return reports

    def _streamed(self) -> list[TaskReport]:
        # Batch also runs on versions of PySpark without streaming support.
        from sparkbeam.streaming.execution import StreamingExecution

        execution = StreamingExecution(
            self._session,
            self._plan,
            self._options.checkpoint_location,
            shards=self._options.shards,
            trigger=self._options.trigger,
            max_batch_elements=self._options.max_batch_elements,
            drain=self._drain,
            name=spark_options.name_of(self._options),
            committed=self._committed,
            observed=self.monitor.observe,
            begun=self._begun,
            **self._shared,
        )
        with closing(execution):
            return recovering(execution.run, self._reports, execution.micro_batches)

    def _begun(self, files: "Files | None", plan: Plan) -> None:
        for companion in self.companions:
            companion.begin(files, plan)

    def _committed(self, number: int, reports: list[TaskReport]) -> None:
        """Add the reports of a micro-batch."""
        self.monitor.tell(reports)
        self.monitor.metrics.take_micro_batch(number, reports)


def program() -> str:
    """Return the default name of a pipeline."""
    return Path(sys.argv[0] if sys.argv else "").name or "Beam pipeline"


def _warn(reports: list[TaskReport]) -> None:
    """Repeat the workers' warnings on the driver, once each."""
    for warning in dict.fromkeys(w for report in reports for w in report.warnings):
        module, _, name = warning.category.partition(":")
        # A report may come from a checkpoint, so it must not cause imports.
        category = getattr(sys.modules.get(module), name, None)
        if not (isinstance(category, type) and issubclass(category, Warning)):
            category = UserWarning
        warnings.warn_explicit(printable(warning.message), category, warning.filename, warning.line)
