"""Accumulated reports of a query over all its micro-batches."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sparkbeam.wire.consolidation import consolidate
from sparkbeam.wire.output_lines import Written
from sparkbeam.wire.reports import TaskReport

_MOST_WARNINGS = 100


class Committed:
    """One merged report per stage.

    Args:
        by_stage: reports by the address of their stage.
    """

    def __init__(self, by_stage: Mapping[str, TaskReport] | None = None) -> None:
        self.by_stage: Mapping[str, TaskReport] = by_stage or {}

    def plus(self, reports: Iterable[TaskReport]) -> "Committed":
        """Merge more reports."""
        by_stage = dict(self.by_stage)
        for report in reports:
            before = by_stage.get(report.stage, TaskReport(report.stage, []))
            warnings = dict.fromkeys((*before.warnings, *report.warnings))
            by_stage[report.stage] = TaskReport(
                report.stage,
                consolidate([*before.infos, *report.infos]),
                tuple(warnings)[:_MOST_WARNINGS],
                before.counts.plus(report.counts),
                before.written.plus(report.written),
            )
        return Committed(by_stage)

    def without_written(self) -> "Committed":
        """Return a copy without written amounts, which are reported only with their micro-batch."""
        return Committed(
            {stage: replace(report, written=Written()) for stage, report in self.by_stage.items()}
        )

    def store(self) -> str:
        """Serialize as text."""
        return json.dumps([report.serialize().decode() for report in self.by_stage.values()])


def stored_reports(text: str) -> list[TaskReport]:
    """Parse the text of :meth:`Committed.store`; no reports if empty."""
    return [TaskReport.parse(report.encode()) for report in json.loads(text or "[]")]


def busiest(reports: Iterable[TaskReport]) -> dict[str, tuple[int, int]]:
    """Return, per stage, the number of tasks with input elements and the most elements of one."""
    found: dict[str, tuple[int, int]] = {}
    for report in reports:
        tasks, most = found.get(report.stage, (0, 0))
        elements = report.counts.busiest
        if elements:
            found[report.stage] = (tasks + 1, max(most, elements))
    return found
