"""Receipts of a task for earlier stages: Spark has taken the rows that it reads of their tasks."""

import threading

from sparkbeam.wire.consolidation import consolidate
from sparkbeam.wire.reports import Reporter, Signal, SignalKind, TaskReport


class CommitReceipts:
    """Sender of the reports that a task behind a shuffle reads, to the driver.

    A shuffle is read once all tasks before it have succeeded, and holds the output of one attempt
    of each. So the reported tasks are committed before the query ends.

    Args:
        stage_id: the id of the stage that the task runs.
    """

    def __init__(self, stage_id: str, partition: int, reporter: Reporter, number: int) -> None:
        self._stage_id = stage_id
        self._partition = partition
        self._reporter = reporter
        self._number = number
        self._lock = threading.Lock()
        self._seen: dict[str, list[TaskReport]] = {}
        self._untold: set[str] = set()

    def saw(self, serialized: bytes) -> None:
        """Take a report in."""
        report = TaskReport.parse(serialized)
        with self._lock:
            self._seen.setdefault(report.stage, []).append(report)
            self._untold.add(report.stage)

    def tell(self) -> None:
        """Send everything since the last time, with all before; from any thread."""
        with self._lock:
            untold = [self._together(stage) for stage in sorted(self._untold)]
            self._untold.clear()
        for report in untold:
            self._reporter.send(
                Signal(
                    SignalKind.READ,
                    self._stage_id,
                    self._partition,
                    report=report.pack(),
                    number=self._number,
                )
            )

    def _together(self, stage: str) -> TaskReport:
        seen = self._seen[stage]
        together = TaskReport(
            stage,
            consolidate(info for report in seen for info in report.infos),
            tasks=tuple(sorted(task for report in seen for task in report.tasks)),
        )
        self._seen[stage] = [together]
        return together
