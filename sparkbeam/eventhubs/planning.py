"""Driver side of the source: known events, and those of a micro-batch."""

import time
from collections.abc import Callable, Iterable, Mapping

from sparkbeam.errors import ConfigurationError
from sparkbeam.eventhubs.admission import PER_PARTITION, admitted
from sparkbeam.eventhubs.client import (
    Bounds,
    BrokenOffError,
    Client,
    EventHubsError,
    StartPlace,
    StolenError,
)
from sparkbeam.eventhubs.pool import POOL, ReceiverSettings
from sparkbeam.eventhubs.positions import EventPosition
from sparkbeam.eventhubs.range_reader import EXCLUDED_SECONDS, excluded
from sparkbeam.eventhubs.source_options import SourceOptions

_TRIES = 5
_FIND_SECONDS = 10.0
_LONGEST_TRIGGER = 60.0

Numbers = dict[str, int]
"""The sequence number of the next event of each partition, by id."""


class Planner:
    """Planning of the partitions of an event hub.

    Args:
        options: of the source.
        epoch: the epoch of receivers that resolve positions; None for none.
    """

    def __init__(self, options: SourceOptions, epoch: int | None = None) -> None:
        self._options = options
        self._epoch = epoch
        self._partitions: list[str] = []
        self._known: dict[str, Bounds] = {}
        self._looked = 0.0
        self._planned: float | None = None

    def hub(self) -> str:
        """Return the name of the event hub."""
        connection = self._options.connection
        return connection.hub_of(connection.endpoint())

    def starts(self, default: EventPosition) -> Numbers:
        """Return the sequence numbers where reading begins."""
        options = self._options
        return self._resolved(options.start or default, options.starts, "starting_positions")

    def ends(self) -> Numbers:
        """Return the sequence numbers where a batch ends."""
        return self._resolved(self._options.end, self._options.ends, "ending_positions")

    def bounds(self) -> dict[str, Bounds]:
        """Return the range of events in each partition, including new partitions after a delay."""
        return self._tried(self._bounds)

    def _bounds(self, client: Client) -> dict[str, Bounds]:
        now = time.monotonic()
        discover = self._options.discover
        if not self._partitions or (discover is not None and now - self._looked >= discover):
            self._partitions = client.partitions()
            self._looked = now
        self._known = client.bounds(self._partitions)
        return self._known

    def _tried(self, ask: Callable[[Client], dict[str, Bounds]]) -> dict[str, Bounds]:
        for left in reversed(range(_TRIES)):
            try:
                with POOL.client(self._options.connection) as client:
                    return ask(client)
            except BrokenOffError as error:
                if not left:
                    raise
                time.sleep(error.wait)
        raise AssertionError

    def _resolved(
        self, all_at: EventPosition, some_at: Mapping[str, EventPosition], name: str
    ) -> Numbers:
        bounds = self.bounds()
        unknown = some_at.keys() - bounds.keys()
        if unknown:
            raise ConfigurationError(
                f"{name}: the event hub '{self.hub()}' has no partition {min(unknown)}, only "
                f"{', '.join(sorted(bounds, key=int))}."
            )
        return {
            partition: self._number(partition, some_at.get(partition, all_at), found)
            for partition, found in bounds.items()
        }

    def _number(self, partition: str, position: EventPosition, bounds: Bounds) -> int:
        if position.number is not None:
            return min(position.number, bounds.end)
        if position.kind == "start":
            return bounds.first
        if position.kind == "end" or bounds.first == bounds.end:
            return bounds.end
        if position.kind == "enqueued":
            millis = int(position.value or 0)
            if millis > bounds.newest:
                return bounds.end
            return self._found(partition, StartPlace(millis=millis), bounds)
        offset = str(position.value)
        return self._found(
            partition, StartPlace(offset=offset, inclusive=position.inclusive), bounds
        )

    def _found(self, partition: str, place: StartPlace, bounds: Bounds) -> int:
        """Return the sequence number of the first event at a place; the end if there is none."""
        reading = self.reading(partition, prefetch=1)
        tries, until = 0, time.monotonic() + EXCLUDED_SECONDS
        while tries < _TRIES:
            try:
                found = POOL.read(reading, place, bounds.end, _FIND_SECONDS)
            except BrokenOffError as error:
                if isinstance(error, StolenError) and self._epoch is None:
                    if time.monotonic() > until:
                        raise excluded(partition, self._options.group, error) from None
                else:
                    tries += 1
                time.sleep(error.wait)
                continue
            return found.numbers[0] if found.numbers else bounds.end
        raise EventHubsError(f"A position in partition {partition} could not be resolved.")

    def reading(self, partition: str, prefetch: int | None = None) -> ReceiverSettings:
        """Return the receiver settings for the tasks of a partition."""
        options = self._options
        ahead = options.prefetch if prefetch is None else prefetch
        return ReceiverSettings(options.connection, options.group, partition, self._epoch, ahead)

    def end_receivers(self) -> None:
        """Close the pooled receivers on this machine, which no task will use again."""
        for partition in self._partitions:
            POOL.end(self.reading(partition))

    def up_to(
        self, start: Numbers, limit: int | None, factors: Mapping[str, float] | None = None
    ) -> Numbers:
        """Return the end of a micro-batch with a given start.

        A newly found partition begins at its oldest event in the next micro-batch, so that its
        start is planned before it is read.

        Args:
            start: the start of the micro-batch.
            limit: the maximum number of events; None for no limit.
            factors: the factors of partitions with a reduced share.
        """
        bounds = self.bounds()
        backlog = {
            partition: max(0, bounds[partition].end - max(at, bounds[partition].first))
            for partition, at in start.items()
            if partition in bounds
        }
        taken = admitted(backlog, limit, self._most(backlog), factors)
        end = dict(start)
        for partition, count in taken.items():
            if count:
                end[partition] = max(start[partition], bounds[partition].first) + count
        for partition in bounds.keys() - start.keys():
            end[partition] = bounds[partition].first
        return end

    def finished(self, start: Numbers, end: Numbers) -> Numbers:
        """Return the partitions without any remaining events to read in a micro-batch.

        Args:
            start: the start of the micro-batch.
            end: its end, as last returned by :meth:`up_to`.
        """
        return {
            partition: at
            for partition, at in end.items()
            if start.get(partition) == at
            and (found := self._known.get(partition)) is not None
            and found.end <= max(at, found.first)
        }

    def lag(self, end: Numbers) -> Numbers:
        """Return the number of events of each partition behind a micro-batch.

        Args:
            end: the end of the micro-batch, as last returned by :meth:`up_to`.
        """
        return {
            partition: max(0, found.end - max(at, found.first))
            for partition, at in end.items()
            if (found := self._known.get(partition)) is not None
        }

    def limit(self) -> int | None:
        """Return the event limit of a micro-batch if Spark sets none."""
        most = self._options.most
        if most is not None:
            return most or None
        return PER_PARTITION * len(self._partitions or self.bounds())

    def _most(self, partitions: Iterable[str]) -> Mapping[str, int]:
        rates = self._options.rate
        now = time.monotonic()
        before, self._planned = self._planned, now
        if not rates:
            return {}
        seconds = 1.0 if before is None else min(now - before, _LONGEST_TRIGGER)
        return {
            partition: max(1, round(rate * seconds))
            for partition in partitions
            if (rate := rates.get(partition, rates.get("*"))) is not None
        }
