"""The events of a range of a partition, whatever happens to the receivers that read them."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic, sleep

from sparkbeam.eventhubs.client import BrokenOffError, EventHubsError, Events, StolenError
from sparkbeam.eventhubs.options import SourceOptions
from sparkbeam.eventhubs.pool import POOL, Pool, Reading

_LOGGER = logging.getLogger(__name__)
_SLICE = 5.0
_THEFTS = 3
_FEW = 5000
"""Of more events it is a small part of the time to open a receiver."""


class DataLossError(EventHubsError):
    """Events that were to be read have expired."""


@dataclass(frozen=True)
class Range:
    """Events of a partition to read.

    Attributes:
        partition: its id.
        start: the sequence number of the first.
        end: that behind the last.
        epoch: of the receiver; None for none.
    """

    partition: str
    start: int
    end: int
    epoch: int | None = None


class RangeReader:
    """Reads a range, with as many receivers as it takes.

    Args:
        options: of the source.
        events: which to read.
        pool: what is open.
    """

    def __init__(self, options: SourceOptions, events: Range, pool: Pool = POOL) -> None:
        self._options = options
        self._range = events
        self._pool = pool
        self._reading = Reading(
            options.connection, options.group, events.partition, events.epoch, options.prefetch
        )
        self._position = events.start
        self._thefts = 0
        self._alone = False
        self.lost = 0
        """How many events had expired."""
        self.seconds = 0.0
        """How long reading has taken, without what was done with the events."""

    def events(self) -> Iterator[Events]:
        """The events, some at a time.

        Raises:
            DataLossError: some have expired, and that counts as an error.
            EventHubsError: they cannot be read.
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
                self.seconds += now - asked
                yield found
                since = silent = asked = monotonic()
                continue
            self._look_for_loss()
            if now - since > self._options.operation_timeout:
                raise EventHubsError(
                    f"{self._what()}: no event has come for {self._options.operation_timeout:g} s "
                    "(operation_timeout)"
                )
            if now - silent > self._options.receiver_timeout:
                self._pool.forget(self._reading)
                self._alone = True  # That of a neighbour may be as silent.
                silent = now

    def _some(self) -> Events:
        seconds = min(_SLICE, self._options.receiver_timeout, self._options.operation_timeout)
        end = self._range.end
        few = end - self._position <= _FEW and not self._alone
        return self._pool.read(self._reading, self._position, end, seconds, shared=few)

    def _try_again(self, error: BrokenOffError, since: float) -> None:
        """Waits, or gives up.

        Raises:
            EventHubsError: it has been tried for long enough.
        """
        if isinstance(error, StolenError):
            self._thefts += 1
            if self._thefts > _THEFTS:
                raise EventHubsError(
                    f"{self._what()}: another receiver of the consumer group "
                    f"'{self._options.group}' takes it over again and again, such as one of "
                    "another query. Give each query a consumer group of its own; if this is an "
                    f"old run of one that has been started anew, it is meant to end. ({error})"
                ) from None
        if monotonic() - since + error.wait > self._options.operation_timeout:
            raise EventHubsError(
                f"{self._what()}: given up after {self._options.operation_timeout:g} s "
                f"(operation_timeout). {error}"
            ) from None
        sleep(error.wait)

    def _look_for_loss(self) -> None:
        """Finds out whether no event comes because all have expired."""
        try:
            with self._pool.client(self._options.connection) as client:
                first = client.bounds([self._range.partition])[self._range.partition].first
        except BrokenOffError:
            return
        if first > self._position:
            self._check(min(first, self._range.end))
            self._position = min(first, self._range.end)

    def _check(self, first: int) -> None:
        """Notes that events are missing before one.

        Raises:
            DataLossError: that is an error.
        """
        missing = first - self._position
        if missing <= 0:
            return
        message = (
            f"{self._what()}: the event {self._position} is wanted, and the first that is left "
            f"is {first}: {missing} have expired"
        )
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{message}. Read on without them with fail_on_data_loss=False (failOnDataLoss)."
            )
        self.lost += missing
        _LOGGER.warning("%s and are left out.", message)

    def _what(self) -> str:
        return f"Partition {self._range.partition} cannot be read"
