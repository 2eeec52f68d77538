"""What a query has reported so far, over all its micro-batches."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from sparkbeam.wire.consolidation import consolidate
from sparkbeam.wire.output_lines import Written
from sparkbeam.wire.reports import TaskReport

_MOST_WARNINGS = 100


class Committed:
    """One report for each stage, which stands for those of many tasks.

    Args:
        by_stage: the reports by the address of their stage.
    """

    def __init__(self, by_stage: Mapping[str, TaskReport] | None = None) -> None:
        self.by_stage: Mapping[str, TaskReport] = by_stage or {}

    def plus(self, reports: Iterable[TaskReport]) -> "Committed":
        """This and more reports."""
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

    def told(self) -> "Committed":
        """The same without what steps have written: that is told once, with its micro-batch."""
        return Committed(
            {stage: replace(report, written=Written()) for stage, report in self.by_stage.items()}
        )

    def store(self) -> str:
        """All of it as text."""
        return json.dumps([report.serialize().decode() for report in self.by_stage.values()])


def stored_reports(text: str) -> list[TaskReport]:
    """The reports in what :meth:`Committed.store` gave; none in an empty text."""
    return [TaskReport.parse(report.encode()) for report in json.loads(text or "[]")]


def busiest(reports: Iterable[TaskReport]) -> dict[str, tuple[int, int]]:
    """In how many tasks each stage has taken elements in, and how many at most, by its name."""
    found: dict[str, tuple[int, int]] = {}
    for report in reports:
        tasks, most = found.get(report.stage, (0, 0))
        elements = report.counts.busiest
        if elements:
            found[report.stage] = (tasks + 1, max(most, elements))
    return found
