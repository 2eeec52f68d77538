"""Live page of a pipeline run by this process."""

import time
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from apache_beam.runners.runner import PipelineState

from sparkbeam.common.display_text import line, shortened
from sparkbeam.explain.stage_graph import sketch
from sparkbeam.observe.collection.recent_batches import SecondSummary
from sparkbeam.observe.figures.formats import duration
from sparkbeam.observe.figures.progress import Progress, StreamingProgress, headline
from sparkbeam.observe.page.view import (
    LONGEST_ERROR,
    LONGEST_TITLE,
    Fact,
    PageContent,
    graph_html,
    of_query,
    partition_rows,
    stage_views,
)
from sparkbeam.plan.model import Plan
from sparkbeam.plan.redaction import Redaction, redacted
from sparkbeam.run.run import PipelineRun, program

_TEXTS = 4096


class RunView:
    """The content of the page of a run.

    Args:
        name: the name of the query; None for that of the program.
    """

    def __init__(
        self, plan: Plan, run: PipelineRun, redaction: Redaction, name: str | None = None
    ) -> None:
        self._plan = plan
        self._run = run
        self._monitor = run.monitor
        self._redaction = lru_cache(_TEXTS)(redaction)
        self._started = time.time()
        self._ended: float | None = None
        self.title = line(shortened(name or program(), LONGEST_TITLE, redaction))
        self.graph = graph_html(sketch(redacted(plan, redaction)))

    @property
    def over(self) -> bool:
        return PipelineState.is_terminal(self._run.result.state)

    def content(self) -> dict[str, Any]:
        over = self.over  # Asked first: what is over has all its figures.
        if over and self._ended is None:
            self._ended = time.time()
        progress = self._run.result.progress()
        # With the metrics of running tasks.
        summary = self._monitor.summary(self._monitor.metrics.known_by_stage())
        ids = (stage.id for stage in self._plan.stages)
        page = PageContent(
            state=self._run.result.state,
            over=over,
            facts=tuple(self._facts(progress)),
            stages=tuple(stage_views(ids, progress, summary.stages)),
            partitions=partition_rows(getattr(progress, "partitions", ())),
            notes=tuple(self._monitor.notes.recent()),
            error=shortened(self._run.problem, LONGEST_ERROR, self._redaction),
        )
        return page.content(self._redaction)

    def history(self, since: int) -> list[SecondSummary]:
        return self._monitor.history.since(since)

    def _facts(self, progress: Progress) -> Iterator[Fact]:
        if isinstance(progress, StreamingProgress):
            yield from of_query(progress)
        else:
            yield "", headline(progress)
        until = time.time() if self._ended is None else self._ended
        yield "since the start", duration(max(0.0, until - self._started))
        failures = self._monitor.metrics.failures
        if failures:
            yield "failed attempts", f"{failures:,}"
