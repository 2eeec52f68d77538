"""Reports of a program's pipelines, for the command ``sparkbeam report``."""

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
"""File suffixes supported by reports."""

_TITLE = "What the pipeline has done on Spark"


@dataclass(frozen=True)
class Report:
    """A finished pipeline; ``print`` it, or :meth:`save` it.

    Attributes:
        state: one of Beam's ``PipelineState`` values.
        problem: its error; empty if it has not failed.
        summary: its figures.
    """

    _plan: Plan = field(repr=False)
    state: str
    problem: str
    summary: RunSummary

    def content(self) -> dict[str, Any]:
        """Return the report as JSON-compatible data."""
        return {"state": self.state, "problem": self.problem, **self.summary.content()}

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.state, self.problem, str(self.summary)]))

    def save(self, path: Path) -> None:
        """Write the picture (.svg), picture and text (.html), the text (.txt) or JSON (.json).

        Raises:
            ConfigurationError: the path has another suffix, or cannot be written.
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
    """Raise :class:`ConfigurationError` unless a file of this suffix can hold a report."""
    saving.check_suffix(path, "A report", SUFFIXES)


def _figures(stage: StageSummary) -> Iterator[str]:
    """Yield the lines of figures in the box of a stage."""
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
    """Collect the pipelines that start on this runner meanwhile, in any thread.

    Yields:
        Functions that return their reports, in order; each waits for the end of its pipeline.
    """
    reports: list[Callable[[], Report]] = []
    _gatherings.append(reports)
    try:
        yield reports
    finally:
        _gatherings.remove(reports)


def note(report: Callable[[], Report]) -> None:
    """Record a pipeline that is about to start, if reports are collected."""
    for reports in _gatherings:
        reports.append(report)
