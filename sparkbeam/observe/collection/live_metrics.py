"""Metrics of a running pipeline, from signals and reports of its tasks.

The metrics of a task are *committed* once Spark has taken its output. This is known from its report
or, behind a shuffle, from a task that has read the report there. Committed metrics never exceed
those at the end of the run, and include each task in full or not at all. The metrics of all other
attempts, whether running, failed or discarded, are *uncommitted*. Attempted metrics are the sum of
both.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sparkbeam.wire.consolidation import Infos, consolidate
from sparkbeam.wire.reports import Signal, SignalKind, TaskReport

_Key = tuple[int, str, int]
"""Key of a task: the number of its run or micro-batch, its stage and partition."""

_AT_ONCE = 32
"""Number of tasks of a stage that are added up together, and again when one changes."""


class LiveMetrics:
    """Metrics of the tasks of a run, and the number of failed attempts; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._stages: dict[str, _CommittedStage] = defaultdict(_CommittedStage)
        self._exact: dict[str, _CommittedStage] | None = None
        self._attempts = _Attempts()
        self.failures = 0
        self._over = False

    def record_signal(self, signal: Signal) -> None:
        """Record a signal.

        Raises:
            Exception: of any type, if the signal does not belong to a run.
        """
        report = TaskReport.unpack(signal.report) if signal.kind is SignalKind.READ else None
        with self._lock:
            if report is None:
                self._attempts.record_signal(signal)
                self.failures += signal.kind is SignalKind.FAILED
            elif signal.number == self._number:
                stage = self._stages[report.stage]
                if stage.read((signal.stage, signal.partition), report):
                    self._forget_attempts(report)

    def record_reports(self, reports: Iterable[TaskReport]) -> None:
        """Record reports collected by a batch plan."""
        with self._lock:
            for report in reports:
                if self._stages[report.stage].record_report(report):
                    self._forget_attempts(report)

    def restart(self, number: int) -> None:
        """Record that a batch run restarts from the beginning and discard its committed metrics."""
        with self._lock:
            void = [info for stage in self._stages.values() for info in stage.infos()]
            self._attempts.lose(void)
            self._stages.clear()
            self._number = number

    def take_micro_batch(self, number: int, reports: Iterable[TaskReport]) -> None:
        """Record that a micro-batch is committed.

        Args:
            reports: the totals of all committed micro-batches, one report per stage.
        """
        exact = _by_stage(reports)
        with self._lock:
            self._exact = exact
            self._attempts.forget_until(number)

    def end(self, reports: Iterable[TaskReport]) -> None:
        """Record that a run has succeeded, with the reports of all its tasks."""
        exact = _by_stage(reports)
        with self._lock:
            self._exact = exact
            self._over = True

    def committed(self) -> Infos:
        """Return the metrics of all tasks known to be committed."""
        return [info for infos in self.committed_by_stage().values() for info in infos]

    def committed_by_stage(self) -> dict[str, Infos]:
        """Return the committed metrics by stage id; one metric per name and labels."""
        with self._lock:
            stages = self._stages if self._exact is None else self._exact
            return {id: consolidate(stage.infos()) for id, stage in stages.items()}

    def known_by_stage(self) -> dict[str, Infos]:
        """Return committed metrics and those of possibly committed attempts, by stage id."""
        with self._lock:
            stages = self._stages if self._exact is None else self._exact
            found = {id: stage.infos() for id, stage in stages.items()}
            under_way = () if self._over else self._attempts.under_way(self._number)
            for id, infos in under_way:
                found[id] = [*found.get(id, ()), *infos]
        return {id: consolidate(infos) for id, infos in found.items()}

    def task_sizes(self) -> dict[str, list[int]]:
        """Return the input elements of each task that has reported directly, by stage."""
        with self._lock:
            stages = self._stages if self._exact is None else self._exact
            return {id: list(stage.sizes) for id, stage in stages.items()}

    def uncommitted(self) -> Infos:
        """Return the metrics of all other attempts known so far."""
        with self._lock:
            return self._attempts.infos()

    def _forget_attempts(self, report: TaskReport) -> None:
        for task in report.tasks:
            self._attempts.forget_committed((self._number, report.stage, task))


@dataclass
class _Part:
    """Metrics of some tasks, with the partitions of their input."""

    infos: Infos = field(default_factory=list)
    tasks: set[int] = field(default_factory=set)


class _CommittedStage:
    """Committed metrics of a stage in batch.

    Attributes:
        sizes: the input elements of each task that has reported directly.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._collected = _Part()
        self._read: dict[tuple[str, int], _Part] = {}

    def record_report(self, report: TaskReport) -> bool:
        """Record a report unless its task is known; return whether it was new."""
        is_new = self._is_new(report, self._read.values())
        if is_new:
            self.add(report)
        return is_new

    def add(self, report: TaskReport) -> None:
        """Record a report collected by the plan."""
        self._collected.infos = consolidate([*self._collected.infos, *report.infos])
        self._collected.tasks.update(report.tasks)
        if len(report.tasks) == 1:
            self.sizes.append(report.counts.elements)

    def read(self, reader: tuple[str, int], report: TaskReport) -> bool:
        """Record the reports that a task has read so far, if they add to the known ones."""
        others = (part for other, part in self._read.items() if other != reader)
        before = self._read.get(reader, _Part())
        is_new = self._is_new(report, others) and len(report.tasks) > len(before.tasks)
        if is_new:
            self._read[reader] = _Part(report.infos, set(report.tasks))
        return is_new

    def infos(self) -> Infos:
        return [info for part in (self._collected, *self._read.values()) for info in part.infos]

    def _is_new(self, report: TaskReport, read: Iterable[_Part]) -> bool:
        """Return whether none of the tasks is known from the plan or from some readers."""
        return all(part.tasks.isdisjoint(report.tasks) for part in (self._collected, *read))


def _by_stage(reports: Iterable[TaskReport]) -> "dict[str, _CommittedStage]":
    stages: dict[str, _CommittedStage] = defaultdict(_CommittedStage)
    for report in reports:
        stages[report.stage].add(report)
    return stages


@dataclass
class _Attempt:
    kind: SignalKind
    report: str = ""


class _Attempts:
    """Metrics of task attempts whose output is not known to be committed."""

    def __init__(self) -> None:
        self._open: dict[_Key, dict[str, _Attempt]] = defaultdict(dict)
        self._sums: dict[_Key, Infos] = {}
        self._settled: dict[_Key, str | None] = {}
        self._until = 0
        self._lost: Infos = []

    def record_signal(self, signal: Signal) -> None:
        key = (signal.number, signal.stage, signal.partition)
        if signal.number < self._until:
            return
        if 0 < signal.number == self._until:
            self._settled.setdefault(key, None)
        if key in self._settled:
            if self._settled[key] is None and signal.kind is not SignalKind.FAILED:
                self._settled[key] = signal.attempt
            if self._settled[key] == signal.attempt:
                return
        attempt = self._open[key].setdefault(signal.attempt, _Attempt(signal.kind))
        attempt.kind = signal.kind
        if signal.report:
            attempt.report = signal.report
            self._sums.pop(_group(key), None)

    def forget_committed(self, key: _Key) -> None:
        """Drop the attempt at a task whose output was most likely committed."""
        attempts = self._open[key]
        done = [id for id, attempt in attempts.items() if attempt.kind is SignalKind.FINISHED]
        # The signal of its end may have got lost.
        live = [id for id, attempt in attempts.items() if attempt.kind is not SignalKind.FAILED]
        taken = next(iter([*done, *reversed(live)]), None)
        self._settled[key] = taken
        if taken is not None:
            del attempts[taken]
        if not attempts:
            del self._open[key]
        self._sums.pop(_group(key), None)

    def forget_until(self, number: int) -> None:
        """Drop the attempts of all tasks of micro-batches that will not run again.

        Those of the last micro-batch are kept until the next one, as signals may still arrive.
        """
        for key in [key for key in self._open if key[0] <= number]:
            if key not in self._settled:
                self.forget_committed(key)
            if key[0] < number:
                self.lose(_infos(self._open.pop(key, {}).values()))
                self._sums.pop(_group(key), None)
        self._settled = {key: id for key, id in self._settled.items() if key[0] == number}
        self._until = number

    def lose(self, infos: Infos) -> None:
        """Add metrics of attempts that came to nothing."""
        if infos:
            self._lost = consolidate([*self._lost, *infos])

    def under_way(self, number: int) -> Iterator[tuple[str, Infos]]:
        """Yield the metrics of unfailed attempts by stage, from a run or micro-batch on."""
        first = max(number, self._until + 1) if self._until else number
        for (since, stage, _), of_task in self._open.items():
            live = [each for each in of_task.values() if each.kind is not SignalKind.FAILED]
            if since >= first and live:
                yield stage, _infos(live[-1:])

    def infos(self) -> Infos:
        # Only the metrics of tasks that have changed are added up again.
        changed: dict[_Key, list[_Attempt]] = defaultdict(list)
        for key, of_task in self._open.items():
            group = _group(key)
            if group not in self._sums:
                changed[group] += of_task.values()
        for group, attempts in changed.items():
            self._sums[group] = consolidate(_infos(attempts))
        return [*self._lost, *(info for sums in self._sums.values() for info in sums)]


def _group(key: _Key) -> _Key:
    """Return the key of a group of neighbouring tasks, with the number of its first task."""
    number, stage, partition = key
    return number, stage, partition - partition % _AT_ONCE


def _infos(attempts: Iterable[_Attempt]) -> Infos:
    reports = (TaskReport.unpack(attempt.report) for attempt in attempts if attempt.report)
    return [info for report in reports for info in report.infos]
