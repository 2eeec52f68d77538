"""Aggregation of the signals of a run's tasks."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import reduce

from sparkbeam.observe.figures.progress import PipelineProgress, StageProgress, StageState
from sparkbeam.observe.figures.rates import per_second
from sparkbeam.plan.model import Plan
from sparkbeam.wire.reports import ElementCounts, Signal, SignalKind, TaskReport


class BatchTracker:
    """Progress of a run; thread-safe.

    Spark may run a task again after a failure, under speculation, or after losing its output.
    Signals are therefore recorded by partition: the attempt with the most progress counts until the
    first one succeeds, and from then on that one.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._lock = threading.Lock()
        self._stages = {stage.id: _TrackedStage(stage.name) for stage in plan.stages}
        self._readers = _readers(plan)
        self._ended = False
        self._succeeded = False

    def goes_along(self, reader: str, writer: str) -> None:
        """Record that a stage runs concurrently with one that it reads."""
        with self._lock:
            self._readers[writer] = [
                (id, waits and id != reader) for id, waits in self._readers[writer]
            ]

    def record_signal(self, signal: Signal) -> None:
        """Record a signal.

        Raises:
            Exception: of any type, if the signal does not belong to this run.
        """
        with self._lock:
            if not self._ended and signal.kind is not SignalKind.READ:
                self._stages[signal.stage].record_signal(signal, self._clock())

    def end(self, reports: Iterable[TaskReport] | None) -> None:
        """Record the end of the run; later signals are ignored.

        Args:
            reports: the reports of all tasks after a success, which make the figures exact. None if
                the run failed or was cancelled.
        """
        of_stage: dict[str, list[TaskReport]] = defaultdict(list)
        for report in reports or ():
            of_stage[report.stage].append(report)
        with self._lock:
            self._ended = True
            self._succeeded = reports is not None
            for stage_id, reported in of_stage.items():
                self._stages[stage_id].use_final_reports(reported)

    def snapshot(self) -> PipelineProgress:
        """Return the current state of all stages."""
        with self._lock:
            states: dict[str, StageState] = {}
            # From the end, as what a stage's readers do tells whether it is done.
            for stage_id in reversed(self._stages):
                states[stage_id] = self._state(stage_id, states)
            now = self._clock()
            return PipelineProgress(
                tuple(
                    stage.progress(states[stage_id], self._begun, now)
                    for stage_id, stage in self._stages.items()
                )
            )

    def _state(self, stage_id: str, states: dict[str, StageState]) -> StageState:
        stage = self._stages[stage_id]
        if self._succeeded or any(
            states[reader] is StageState.DONE
            # A reader of the complete output has begun.
            or (waits and states[reader] is not StageState.WAITING)
            for reader, waits in self._readers[stage_id]
        ):
            return StageState.DONE
        if not stage.tasks:
            return StageState.WAITING
        if not self._ended:
            return StageState.RUNNING
        return StageState.FAILED if stage.failed else StageState.STOPPED


@dataclass
class _Task:
    counts: ElementCounts = field(default_factory=ElementCounts)
    done: bool = False


@dataclass
class _TrackedStage:
    name: str
    tasks: dict[int, _Task] = field(default_factory=dict)
    failed: int = 0
    begun: float | None = None
    last: float = 0.0

    def record_signal(self, signal: Signal, now: float) -> None:
        if self.begun is None:
            self.begun = now
        self.last = now
        task = self.tasks.setdefault(signal.partition, _Task())
        self.failed += signal.kind is SignalKind.FAILED
        if task.done:
            return
        if signal.kind is SignalKind.FINISHED:
            task.done = True
            task.counts = signal.counts
        else:
            task.counts = ElementCounts(*map(max, task.counts, signal.counts))

    def use_final_reports(self, reports: list[TaskReport]) -> None:
        self.tasks = {number: _Task(report.counts, True) for number, report in enumerate(reports)}

    def progress(self, state: StageState, start: float, now: float) -> StageProgress:
        counts = reduce(
            ElementCounts.plus, (task.counts for task in self.tasks.values()), ElementCounts()
        )
        until = now if state is StageState.RUNNING else self.last
        seconds = 0.0 if self.begun is None else until - self.begun
        return StageProgress(
            name=self.name,
            state=state,
            elements=counts.elements,
            busiest=counts.busiest,
            per_second=per_second(counts.busiest, seconds),
            tasks_started=len(self.tasks),
            tasks_done=sum(task.done for task in self.tasks.values()),
            tasks_failed=self.failed,
            seconds=seconds,
            since=None if self.begun is None else self.begun - start,
        )


def _readers(plan: Plan) -> dict[str, list[tuple[str, bool]]]:
    """Return the readers of each stage, and whether each waits for the end of its output."""
    writer = {port.tag: stage.id for stage in plan.stages for port in stage.ports}
    readers: dict[str, list[tuple[str, bool]]] = {stage.id: [] for stage in plan.stages}
    for stage in plan.stages:
        for tag in stage.inputs:
            if tag not in writer:
                continue  # The input of a source.
            readers[writer[tag]].append((stage.id, stage.is_behind_shuffle))
        for side_input in stage.side_inputs:
            for tag in side_input.sources:
                readers[writer[tag]].append((stage.id, True))
    return readers
