"""Reports of a program's pipelines, for the command ``sparkbeam report``."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sparkbeam.explain import saving
from sparkbeam.explain.collecting import Collector
from sparkbeam.observe.figures.formats import joined, size
from sparkbeam.observe.figures.summary import RunSummary, StageSummary, time_in_steps
from sparkbeam.plan.model import Plan

check_suffix = partial(
    saving.check_suffix, what="A report", suffixes=(".mmd", ".html", ".txt", ".json")
)
"""Raise :class:`ConfigurationError` unless a file of this suffix can hold a report."""

_TITLE = "How the pipeline ran on Spark"


@dataclass(frozen=True)
class Report:
    """A finished pipeline; ``print`` it, or :meth:`save` it.

    Attributes:
        state: one of Beam's ``PipelineState`` values.
        problem: its error; empty if it has not failed.
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
        """Write a Mermaid flowchart (.mmd), stages and text (.html), text (.txt) or JSON (.json).

        Raises:
            ConfigurationError: the path has another suffix, or cannot be written.
        """
        check_suffix(path)
        stages = zip(self._plan.stages, self.summary.stages, strict=True)
        figures = {stage.id: tuple(_figures(summary)) for stage, summary in stages}
        text = json.dumps(self.content()) if path.suffix.lower() == ".json" else str(self)
        sections = {"Step by step": str(self)}
        saving.save(path, self._plan, _TITLE, sections, f"{text}\n", figures)


def _figures(stage: StageSummary) -> Iterator[str]:
    """Yield the lines of figures in the box of a stage."""
    if stage.steps:
        yield f"{stage.steps[0].elements_in:,} in, {stage.steps[-1].elements_out:,} out"
    skew = f"skew {stage.skew:.1f}" if stage.skew is not None and stage.tasks > 1 else ""
    spent = time_in_steps(stage)
    line = joined(
        f"{stage.tasks:,} tasks" if stage.tasks else "", skew, f"{spent} in steps" if spent else ""
    )
    if line:
        yield line
    read = sum(spark.read_bytes for spark in stage.spark)
    written = sum(spark.written_bytes for spark in stage.spark)
    if read or written:
        yield f"shuffled {size(read)} in, {size(written)} out"
    spilled = sum(spark.spilled_disk_bytes for spark in stage.spark)
    if spilled:
        yield f"spilled {size(spilled)}"


reports = Collector[Callable[[], Report]]()
"""Functions that return the reports of pipelines; each waits for the end of its pipeline."""
