"""The page of a streaming pipeline that another process runs, by its checkpoint."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from sparkbeam.errors import SparkBeamError
from sparkbeam.page.view import Fact, PageContent, streaming_stages
from sparkbeam.plan.redaction import Redaction, shown_url
from sparkbeam.progress import words
from sparkbeam.progress.history import History, Moment
from sparkbeam.progress.summary import MicroBatch
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.files import absolute, files
from sparkbeam.streaming.status import Health, Status, status

_KEPT = 20


class CheckpointView:
    """What the page shows of a checkpoint.

    Args:
        location: the checkpoint location, which this process has to see.
        clock: the time in seconds since the epoch.

    Raises:
        ConfigurationError: there is no checkpoint of a pipeline.
        CheckpointFailed: a file of it is damaged.
    """

    graph = ""

    def __init__(self, location: str, clock: Callable[[], float] = time.time) -> None:
        self._location = absolute(location)
        self._clock = clock
        self._history = History()
        self._known = 0
        self._feedback = FeedbackFiles(files(self._location))
        self._health: Health | None = None
        self._redaction = Redaction([("address", location)])
        self.title = shown_url(self._location)
        self.content()

    @property
    def over(self) -> bool:
        return self._health is Health.FINISHED

    def content(self) -> dict[str, Any]:
        try:
            found = status(self._location, now=self._clock())
        except SparkBeamError as error:
            if self._health is None:
                raise
            lost = PageContent("gone", False, (), (), error=str(error))
            return lost.content(self._redaction)
        self._health = found.health
        self._remember(found.micro_batch)
        steps = found.steps
        page = PageContent(
            state=f"{found.health}{', draining' * found.draining}",
            over=self.over,
            facts=tuple(_facts(found)),
            stages=tuple(
                streaming_stages((step.name for step in steps), steps, [None] * len(steps))
            ),
        )
        return page.content(self._redaction)

    def history(self, since: int) -> list[Moment]:
        return self._history.since(since)

    def _remember(self, last: int) -> None:
        """Reads what the checkpoint still has of micro-batches that nobody has looked at."""
        for number in range(max(self._known, last - _KEPT) + 1, last + 1):
            feedback = self._feedback.readable(number)
            if feedback is not None and feedback.summary:
                self._history.note(MicroBatch.of(feedback.summary))
        self._known = last


def _facts(found: Status) -> Iterator[Fact]:
    yield "micro-batch", f"{found.micro_batch:,}"
    if found.since is not None:
        yield "committed", f"{words.duration(found.since)} ago"
        yield "took", words.duration(found.batch_seconds)
    if found.pending is not None:
        yield "the next is under way for", words.duration(found.pending)
    if found.overdue is not None:
        yield "the next was due", f"{words.duration(found.overdue)} ago"
    if found.lag is not None:
        yield "behind", words.duration(found.lag)
    dropped = sum(step.dropped_late for step in found.steps)
    if dropped:
        yield "late elements dropped", f"{dropped:,}"
