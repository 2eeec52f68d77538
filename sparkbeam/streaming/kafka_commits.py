"""Commits of offsets for consumer groups of Kafka, behind the commits of micro-batches."""

import logging
import queue
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

from sparkbeam.common.background import background_thread
from sparkbeam.common.untrusted_json import loaded
from sparkbeam.errors import SparkBeamError
from sparkbeam.kafka.client import KafkaError, Partition
from sparkbeam.kafka.subscription import Subscription
from sparkbeam.plan.redaction import Redaction
from sparkbeam.streaming.feedback import FeedbackFiles
from sparkbeam.streaming.spark_sources import SourceFrame

_LOG = logging.getLogger(__name__)
_END_SECONDS = 30


class KafkaCommits:
    """Commits of a run, in a thread: a broker that is away holds no micro-batch up.

    A failed commit is logged, and made up for by the next one.

    Args:
        sources: of the query, in the order in which it reads them.
        feedback: gives the offsets of micro-batches.

    Raises:
        ConfigurationError: offsets are to be committed, and there is no client for that.
    """

    def __init__(self, sources: Iterable[SourceFrame], feedback: FeedbackFiles) -> None:
        self._groups = [
            _Group(number, source.label, source.spec.subscription, Redaction(source.spec.options))
            for number, source in enumerate(sources, start=1)
            if source.spec.subscription is not None and source.spec.subscription.commits
        ]
        self._feedback = feedback
        self._committed: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def after(self, number: int) -> None:
        """Commit the offsets at the end of a tick's micro-batch, which Spark has committed."""
        if not self._groups:
            return
        if self._thread is None:
            self._thread = background_thread(self._run, "sparkbeam-kafka-commits")
            self._thread.start()
        self._committed.put(number)

    def close(self) -> None:
        """Wait for the last commit."""
        if self._thread is not None:
            self._committed.put(None)
            self._thread.join(_END_SECONDS)
            self._thread = None
        for group in self._groups:
            group.close()

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
        try:
            offsets = self._feedback.offsets(number)
        except (OSError, SparkBeamError):
            return  # The run finds out by itself.
        for group in self._groups:
            if group.number < len(offsets):
                group.commit(offsets[group.number])


class _Group:
    """A source with a consumer group.

    Args:
        number: of the source in Spark's offsets.
        label: of the transform that reads it.
        subscription: of the group.
        redaction: of errors.
    """

    def __init__(
        self, number: int, label: str, subscription: Subscription, redaction: Redaction
    ) -> None:
        self.number = number
        self._label = label
        self._group = subscription.group
        self._hide = redaction
        self._client = subscription.client()
        self._fails = False

    def commit(self, offsets: str) -> None:
        """Commit offsets in Spark's form; log the first of several failures."""
        try:
            self._client.commit(_offsets(loaded(offsets)))
            self._fails = False
        except (KafkaError, ValueError, AttributeError, TypeError) as error:
            if not self._fails:
                _LOG.warning(
                    "Step '%s': the offsets of group '%s' are not committed: %s They will be "
                    "with those of a later micro-batch.",
                    self._label,
                    self._group,
                    self._hide(str(error)),
                )
            self._fails = True

    def close(self) -> None:
        """Disconnect."""
        self._client.close()


def _offsets(topics: Mapping[str, Mapping[str, int]]) -> dict[Partition, int]:
    return {
        (topic, int(number)): offset
        for topic, partitions in topics.items()
        for number, offset in partitions.items()
    }
