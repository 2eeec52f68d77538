"""Commits of offsets to their sources, after the commits of micro-batches."""

import logging
import queue
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

from sparkbeam.common.background import background_thread
from sparkbeam.errors import SparkBeamError
from sparkbeam.plan.redaction import Redaction
from sparkbeam.plan.source_hooks import SourceClient
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.spark_sources import SourceFrame

_LOG = logging.getLogger(__name__)
_END_SECONDS = 30


class OffsetCommits:
    """Commits of a run, in a thread: a source that is away holds no micro-batch up.

    A failed commit is logged, and made up for by the next one.

    Args:
        sources: of the query, in the order in which it reads them.
        feedback: gives the offsets of micro-batches.
    """

    def __init__(self, sources: Iterable[SourceFrame], feedback: FeedbackFiles) -> None:
        self._receivers = [
            _Receiver(number, source)
            for number, source in enumerate(sources)
            if source.spec.hooks.commits_to is not None
        ]
        self._feedback = feedback
        self._committed: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def after(self, number: int) -> None:
        """Commit the offsets at the end of a tick's micro-batch, which Spark has committed."""
        if not self._receivers:
            return
        if self._thread is None:
            self._thread = background_thread(self._run, "sparkbeam-offset-commits")
            self._thread.start()
        self._committed.put(number)

    def close(self) -> None:
        """Wait for the last commit."""
        if self._thread is not None:
            self._committed.put(None)
            self._thread.join(_END_SECONDS)
            self._thread = None
        for receiver in self._receivers:
            receiver.close()

    def _run(self) -> None:
        goes_on = True
        while goes_on:
            numbers = self._next()
            goes_on = None not in numbers
            number = max((each for each in numbers if each is not None), default=None)
            if number is not None:
                self._commit(number)

    def _next(self) -> list[int | None]:
        """Wait for micro-batches; return all that have ended meanwhile, and None at the end."""
        found = [self._committed.get()]
        with suppress(queue.Empty):
            while True:
                found.append(self._committed.get_nowait())
        return found

    def _commit(self, number: int) -> None:
        with suppress(OSError, SparkBeamError):  # The run finds out by itself.
            offsets = self._feedback.partition_offsets(number)
            for receiver in self._receivers:
                receiver.commit(offsets)


class _Receiver:
    """A source to which offsets are committed.

    Args:
        number: of the source among those of the query, from 0.
    """

    def __init__(self, number: int, source: SourceFrame) -> None:
        self._number = number
        self._label = source.label
        self._target = source.spec.hooks.commits_to
        self._hide = Redaction(source.spec.options)
        self._hooks = source.spec.hooks
        self._client: SourceClient | None = None
        self._fails = False

    def commit(self, of_sources: Mapping[int, Mapping[str, int]]) -> None:
        """Commit the source's offsets at the end of a micro-batch; log the first of failures."""
        offsets = of_sources.get(self._number)
        if not offsets:
            return
        try:
            if self._client is None:
                self._client = self._hooks.connect()
            self._client.commit(offsets)
            self._fails = False
        except Exception as error:
            if not self._fails:
                _LOG.warning(
                    "Step '%s': the offsets of %s are not committed: %s They will be committed "
                    "with those of a later micro-batch.",
                    self._label,
                    self._target,
                    self._hide(str(error)),
                )
            self._fails = True

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
