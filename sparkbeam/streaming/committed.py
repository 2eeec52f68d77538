"""What a query has reported so far, over all its micro-batches."""

import json
from collections.abc import Iterable, Mapping

from sparkbeam.worker.consolidation import consolidate
from sparkbeam.worker.metrics import TaskReport

_MOST_WARNINGS = 100


class Committed:
    """One report for each stage, which stands for those of all committed tasks.

    Args:
        stored: what :meth:`store` gave after an earlier micro-batch; empty for the first.
    """

    def __init__(self, stored: str = "") -> None:
        parsed = [TaskReport.parse(report.encode()) for report in json.loads(stored or "[]")]
        self._by_stage = {report.stage: report for report in parsed}

    def plus(self, reports: Iterable[bytes]) -> "Committed":
        """This and the reports of a micro-batch."""
        result = Committed()
        result._by_stage = dict(self._by_stage)
        for report in map(TaskReport.parse, reports):
            before = result._by_stage.get(report.stage, TaskReport(report.stage, []))
            warnings = dict.fromkeys((*before.warnings, *report.warnings))
            result._by_stage[report.stage] = TaskReport(
                report.stage,
                consolidate([*before.infos, *report.infos]),
                tuple(warnings)[:_MOST_WARNINGS],
                before.counts.plus(report.counts),
            )
        return result

    @property
    def by_stage(self) -> Mapping[str, TaskReport]:
        """The reports by the id of their stage."""
        return self._by_stage

    def store(self) -> str:
        """All of it as text."""
        return json.dumps([report.decode() for report in self.reports()])

    def reports(self) -> list[bytes]:
        """The reports, a stage each."""
        return [report.serialize() for report in self._by_stage.values()]
