"""Fault-tolerant reading of a range of a partition."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic, sleep

from pyspark_eventhubs.events import BrokenOffError, EventHubsError, Events, StolenError
from pyspark_eventhubs.pool import POOL, Pool, ReceiverSettings
from pyspark_eventhubs.source_options import SourceOptions

_LOGGER = logging.getLogger(__name__)
_SLICE = 5.0
_THEFTS = 3
EXCLUDED_SECONDS = 90
"""Seconds to tolerate a competing receiver; longer than ended queries keep theirs."""
_FEW = 5000
"""Number of events beyond which opening a receiver takes little of the time."""


class DataLossError(EventHubsError):
    """Events in the range have expired."""


@dataclass(frozen=True)
class Range:
    """Events of a partition to read.

    Attributes:
        start: the sequence number of the first event.
        end: the sequence number behind the last event.
        epoch: of the receiver; None for none.
    """

    partition: str
    start: int
    end: int
    epoch: int | None = None


def excluded(partition: str, group: str, error: StolenError) -> EventHubsError:
    """Return the error of a non-exclusive receiver beside one with an epoch."""
    return EventHubsError(
        f"Partition {partition} cannot be read: a streaming query has exclusive access to it in "
        f"the consumer group '{group}'. Read in another consumer group (consumer_group=, "
        f"consumerGroup), or set exclusive=False (exclusive) for that query. ({error})"
    )


class RangeReader:
    """Reader of a range, with as many receivers as necessary."""

    def __init__(self, options: SourceOptions, events: Range, pool: Pool = POOL) -> None:
        self._options = options
        self._range = events
        self._pool = pool
        self._reading = ReceiverSettings(
            options.connection, options.group, events.partition, events.epoch, options.prefetch
        )
        self._position = events.start
        self._thefts = 0
        self._alone = False
        self.lost = 0
        """Number of expired events."""
        self.count = 0
        """Number of events read."""
        self.seconds = 0.0
        """Duration of the reads, excluding the processing of events."""

    def events(self) -> Iterator[Events]:
        """Yield the events in chunks.

        Raises:
            DataLossError: events have expired, and this is to be an error.
            EventHubsError: the events cannot be read.
        """
        since = asked = monotonic()
        silent = since
        while self._position < self._range.end:
            try:
                found = self._some()
            except BrokenOffError as error:
                self._try_again(error, since)
                continue
            now = monotonic()
            if found.numbers:
                self._check(found.numbers[0])
                self._position = found.numbers[-1] + 1
                self.count += len(found)
                self.seconds += now - asked
                yield found
                since = silent = asked = monotonic()
                continue
            self._look_for_loss()
            if now - since > self._options.operation_timeout:
                raise EventHubsError(
                    f"{self._what()}: no event arrived within "
                    f"{self._options.operation_timeout:g} s (operation_timeout)"
                )
            if now - silent > self._options.receiver_timeout:
                self._pool.forget(self._reading)
                self._alone = True  # Another process's receiver may be silent, too.
                silent = now

    def _some(self) -> Events:
        seconds = min(_SLICE, self._options.receiver_timeout, self._options.operation_timeout)
        end = self._range.end
        few = end - self._position <= _FEW and not self._alone
        return self._pool.read(self._reading, self._position, end, seconds, shared=few)

    def _try_again(self, error: BrokenOffError, since: float) -> None:
        """Wait before a retry, or give up.

        Raises:
            EventHubsError: the retries have taken too long.
        """
        if isinstance(error, StolenError):
            self._be_robbed(error, since)
        if monotonic() - since + error.wait > self._options.operation_timeout:
            raise EventHubsError(
                f"{self._what()}: gave up after {self._options.operation_timeout:g} s "
                f"(operation_timeout). {error}"
            ) from None
        sleep(error.wait)

    def _be_robbed(self, error: StolenError, since: float) -> None:
        """Tolerate a competing receiver for a while.

        Raises:
            EventHubsError: the competition has lasted too long.
        """
        self._thefts += 1
        group = self._options.group
        if self._range.epoch is not None:
            if self._thefts > _THEFTS:
                raise EventHubsError(
                    f"{self._what()}: another receiver of the consumer group '{group}' repeatedly "
                    "takes it over, for example one of another query. Use a separate consumer "
                    "group for each query; if this is an earlier run of a restarted query, it is "
                    f"expected to end. ({error})"
                ) from None
            return
        if monotonic() - since > EXCLUDED_SECONDS:
            raise excluded(self._range.partition, group, error) from None
        if self._thefts == 1:
            _LOGGER.warning(
                "Partition %s waits for up to %d s: a streaming query has exclusive access to it "
                "in the consumer group '%s', or has just ended.",
                self._range.partition,
                EXCLUDED_SECONDS,
                group,
            )

    def _look_for_loss(self) -> None:
        """Check whether events are missing because all have expired."""
        try:
            with self._pool.client(self._options.connection) as client:
                first = client.bounds([self._range.partition])[self._range.partition].first
        except BrokenOffError:
            return
        if first > self._position:
            self._check(min(first, self._range.end))
            self._position = min(first, self._range.end)

    def _check(self, first: int) -> None:
        """Record events missing before one.

        Raises:
            DataLossError: this is to be an error.
        """
        missing = first - self._position
        if missing <= 0:
            return
        message = (
            f"{self._what()}: event {self._position} is requested, but the first available one "
            f"is {first}: {missing} have expired"
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{message}. To continue without them, set fail_on_data_loss=False "
                "(failOnDataLoss)."
            )
        self.lost += missing
        _LOGGER.warning("%s and are skipped.", message)

    def _what(self) -> str:
        return f"Partition {self._range.partition} cannot be read"
