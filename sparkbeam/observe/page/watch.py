"""Live page of a streaming pipeline that another process runs, from its checkpoint."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from sparkbeam.common.display_text import line
from sparkbeam.errors import SparkBeamError
from sparkbeam.observe.collection.recent_batches import History, SecondSummary
from sparkbeam.observe.figures.formats import duration
from sparkbeam.observe.page.page_address import graph_of
from sparkbeam.observe.page.view import (
    Fact,
    PageContent,
    graph_html,
    of_query,
    partition_rows,
    stage_views,
)
from sparkbeam.plan.redaction import Redaction, shown_url
from sparkbeam.streaming.checkpoint_files import absolute, files
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.heartbeat import Heartbeat
from sparkbeam.streaming.status import Health, PipelineStatus, status, stored_batch

_KEPT = 20


class CheckpointView:
    """The content of the page of a checkpoint.

    Args:
        location: the checkpoint location, which this process must be able to read.
        clock: returns the time in seconds since the epoch.

    Raises:
        ConfigurationError: the location has no checkpoint of a pipeline.
        CheckpointFailed: a file of it is damaged.
    """

    def __init__(self, location: str, clock: Callable[[], float] = time.time) -> None:
        self._location = absolute(location)
        self._clock = clock
        self._history = History()
        self._known = 0
        self._files = files(self._location)
        self._feedback = FeedbackFiles(self._files)
        self._over: bool | None = None
        self._redaction = Redaction([("address", location)])
        self.title = line(shown_url(self._location))
        self.content()
        graph = graph_of(self._files)
        self.graph = "" if graph is None else graph_html(graph)

    @property
    def over(self) -> bool:
        return bool(self._over)

    def content(self) -> dict[str, Any]:
        try:
            found = status(self._location, now=self._clock())
        except SparkBeamError as error:
            if self._over is None:
                raise
            lost = PageContent("gone", False, (), (), error=str(error))
            return lost.content(self._redaction)
        self._over = found.is_over
        last = found.progress.micro_batch
        for number in range(max(self._known, last - _KEPT) + 1, last + 1):
            batch = stored_batch(self._feedback, number)
            if batch is not None:
                self._history.record_batch(batch)
        self._known = last
        now = self._clock()
        sign = found.sign
        silent = None if sign is None else sign.gone(now)
        known = {} if sign is None else sign.stages
        page = PageContent(
            state=_state(found, sign),
            over=found.is_over,
            facts=tuple(_facts(found, sign, now)),
            stages=tuple(
                stage_views(found.addresses, found.progress, map(known.get, found.addresses))
            ),
            partitions=partition_rows(found.progress.partitions),
            notes=() if sign is None else sign.notes,
            error="" if sign is None else sign.error,
            gone="" if silent is None else _GONE.format(duration(silent)),
        )
        return page.content(self._redaction)

    def history(self, since: int) -> list[SecondSummary]:
        return self._history.since(since)


_GONE = (
    "The pipeline is lost: its program has sent no heartbeat for {}. "
    "The page shows what it has committed."
)


def _state(found: PipelineStatus, sign: Heartbeat | None) -> str:
    """Return the state of the pipeline: of its last run, if that stopped with work left."""
    if sign is not None and sign.over and not found.is_over:
        return sign.state
    health = Health.FINISHED if found.health is Health.DRAINED else found.health
    return f"{health}{', draining' * found.draining}"


def _facts(found: PipelineStatus, sign: Heartbeat | None, now: float) -> Iterator[Fact]:
    if sign is not None:
        yield "pipeline", sign.title
    if found.since is not None:
        yield "committed", f"{duration(found.since)} ago"
    if found.pending is not None:
        yield "next one running for", duration(found.pending)
    if found.overdue is not None:
        yield "next one was due", f"{duration(found.overdue)} ago"
    yield from of_query(found.progress)
    if sign is not None and not sign.over:
        yield "last heartbeat", f"{duration(max(0.0, now - sign.written))} ago"
