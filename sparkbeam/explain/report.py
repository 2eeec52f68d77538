"""What the pipelines of a program have done, for the command ``sparkbeam report``."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkbeam.explain import picture, saving
from sparkbeam.metrics.run_summary import RunSummary, StageSummary
from sparkbeam.plan.model import Plan
from sparkbeam.progress import words

SUFFIXES = (".svg", ".html", ".txt", ".json")
"""The kinds of file that a report can be saved as."""

_TITLE = "What the pipeline has done on Spark"


@dataclass(frozen=True)
class Report:
    """A pipeline that has run; ``print`` it, or :meth:`save` it.

    Attributes:
        state: one of Beam's ``PipelineState`` values.
        problem: what it has failed with; empty where it has not.
        summary: what it has done.
    """

    _plan: Plan = field(repr=False)
    state: str
    problem: str
    summary: RunSummary

    def content(self) -> dict[str, Any]:
        """All of it as what JSON can say."""
        return {"state": self.state, "problem": self.problem, **self.summary.content()}

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.state, self.problem, str(self.summary)]))

    def save(self, path: Path) -> None:
        """Writes the picture (.svg), picture and text (.html), the text (.txt) or JSON (.json).

        Raises:
            ConfigurationError: the path ends in something else, or cannot be written.
        """
        check_suffix(path)
        stages = zip(self._plan.stages, self.summary.stages, strict=True)
        figures = {stage.id: tuple(_figures(summary)) for stage, summary in stages}
        match path.suffix.lower():
            case ".svg":
                content = picture.svg(self._plan, figures)
            case ".html":
                content = picture.page(self._plan, _TITLE, {"Step by step": str(self)}, figures)
            case ".json":
                content = f"{json.dumps(self.content())}\n"
            case _:
                content = f"{self}\n"
        saving.write(path, content)


def check_suffix(path: Path) -> None:
    """Raises :class:`ConfigurationError` for a file that a report cannot be saved as."""
    saving.check_suffix(path, "A report", SUFFIXES)


def _figures(stage: StageSummary) -> Iterator[str]:
    """What the box of a stage says, a line each."""
    if stage.steps:
        yield f"{stage.steps[0].elements_in:,} in, {stage.steps[-1].elements_out:,} out"
    known = [step.seconds for step in stage.steps if step.seconds is not None]
    tasks = [f"{stage.tasks:,} tasks"] if stage.tasks else []
    skew = [f"skew {stage.skew:.1f}"] if stage.skew is not None and stage.tasks > 1 else []
    line = [*tasks, *skew, *([f"{words.duration(sum(known))} in steps"] if known else [])]
    if line:
        yield ", ".join(line)
    read = sum(spark.read_bytes for spark in stage.spark)
    written = sum(spark.written_bytes for spark in stage.spark)
    if read or written:
        yield f"shuffled {words.size(read)} in, {words.size(written)} out"
    spilled = sum(spark.spilled_disk_bytes for spark in stage.spark)
    if spilled:
        yield f"spilled {words.size(spilled)}"


_gatherings: list[list[Callable[[], Report]]] = []


@contextmanager
def gathered() -> Iterator[list[Callable[[], Report]]]:
    """Meanwhile each pipeline that starts on our runner, in any thread, is noted.

    Yields:
        What gives their reports, in their order; each waits for the end of its pipeline.
    """
    reports: list[Callable[[], Report]] = []
    _gatherings.append(reports)
    try:
        yield reports
    finally:
        _gatherings.remove(reports)


def note(report: Callable[[], Report]) -> None:
    """Notes a pipeline that is about to start, if somebody gathers."""
    for reports in _gatherings:
        reports.append(report)
