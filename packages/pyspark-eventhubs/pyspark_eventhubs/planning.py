"""Driver side of the source: known events, and those of a micro-batch."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from pyspark_eventhubs.admission import PER_PARTITION, admitted
from pyspark_eventhubs.amqp_client import AmqpClient
from pyspark_eventhubs.events import (
    Bounds,
    BrokenOffError,
    EventHubsError,
    StartPlace,
    StolenError,
)
from pyspark_eventhubs.pool import POOL, ReceiverSettings
from pyspark_eventhubs.positions import EventPosition
from pyspark_eventhubs.range_reader import EXCLUDED_SECONDS, DataLossError, excluded
from pyspark_eventhubs.source_options import ALL_PARTITIONS, SourceOptions

_LOGGER = logging.getLogger(__name__)
_TRIES = 5
_FIND_SECONDS = 10.0
_LONGEST_TRIGGER = 60.0

Numbers = dict[str, int]
"""The sequence number of the next event of each partition, by id."""


class Planner:
    """Planning of the partitions of an event hub.

    Args:
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
        return self._options.connection.hub_name()

    def starts(self, default: EventPosition) -> Numbers:
        """Return the sequence numbers where reading begins."""
        options = self._options
        return self._resolved(options.start or default, options.starts, is_end=False)

    def ends(self) -> Numbers:
        """Return the sequence numbers where a batch ends."""
        options = self._options
        return self._resolved(options.end or EventPosition.end(), options.ends, is_end=True)

    def bounds(self) -> dict[str, Bounds]:
        """Return the range of events in each partition, including new partitions after a delay."""
        return self._tried(self._bounds)

    def _bounds(self, client: AmqpClient) -> dict[str, Bounds]:
        now = time.monotonic()
        discover = self._options.discover
        if not self._partitions or (discover is not None and now - self._looked >= discover):
            self._partitions = client.partitions()
            self._looked = now
        self._known = client.bounds(self._partitions)
        return self._known

    def _tried(self, ask: Callable[[AmqpClient], dict[str, Bounds]]) -> dict[str, Bounds]:
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
        self, all_at: EventPosition, some_at: Mapping[str, EventPosition], *, is_end: bool
    ) -> Numbers:
        bounds = self.bounds()
        self._check_known("ending_positions" if is_end else "starting_positions", some_at)
        return {
            partition: self._number(partition, some_at.get(partition, all_at), found, is_end=is_end)
            for partition, found in bounds.items()
        }

    def _check_known(self, name: str, partitions: Iterable[str]) -> None:
        """Check that an argument names partitions of the hub; raise ValueError if not."""
        known = sorted(self._known, key=int)
        unknown = set(partitions).difference(known)
        if unknown:
            raise ValueError(
                f"{name}: the event hub '{self.hub()}' has no partition {min(unknown)}, only "
                f"{', '.join(known)}."
            )

    def _number(
        self, partition: str, position: EventPosition, bounds: Bounds, *, is_end: bool
    ) -> int:
        """Return the sequence number of the first event to read, or behind the last one."""
        is_behind = position.inclusive == is_end
        if position.kind == "sequence_number":
            number = int(position.value or 0) + is_behind
            return min(number, bounds.end) if is_end else number
        if position.kind == "start":
            return bounds.first
        if position.kind == "end" or bounds.first == bounds.end:
            return bounds.end
        if position.kind == "enqueued":
            millis = int(position.value or 0)
            if millis > bounds.newest:
                return bounds.end
            return self._found(partition, StartPlace(millis=millis), bounds)[0]
        offset = str(position.value)
        number, found = self._found(partition, StartPlace(offset=offset), bounds)
        return number + (is_behind and found == offset)

    def _found(self, partition: str, place: StartPlace, bounds: Bounds) -> tuple[int, str | None]:
        """Return number and offset of the first event at a place; the end if there is none."""
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
            return (found.numbers[0], found.offsets[0]) if found.numbers else (bounds.end, None)
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
        start is planned before it is read; likewise one of a hub that has been created again.

        Args:
            start: the start of the micro-batch.
            limit: the maximum number of events; None for no limit.
            factors: the factors of partitions with a reduced share.

        Raises:
            DataLossError: a checkpoint is ahead of the hub, and this is to be an error.
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
        for partition in (bounds.keys() - start.keys()) | self._created_again(start, bounds):
            end[partition] = bounds[partition].first
        return end

    def _created_again(self, start: Numbers, bounds: Mapping[str, Bounds]) -> set[str]:
        """Return the partitions whose events end before the next one of the checkpoint.

        A stream may begin at a sequence number that does not exist yet.
        """
        found = {
            partition
            for partition, at in start.items()
            if partition in bounds and at > bounds[partition].end and at != self._begin(partition)
        }
        for partition in sorted(found, key=int):
            message = (
                f"Partition {partition} of '{self.hub()}' ends at event "
                f"{bounds[partition].end - 1}, but the checkpoint continues at "
                f"{start[partition]}: the event hub was deleted and recreated, or another event "
                "hub now has this name"
            )
            if self._options.fail_on_data_loss:
                raise DataLossError(
                    f"{message}. Use a new checkpoint, or set fail_on_data_loss=False "
                    "(failOnDataLoss) to read it from its oldest event."
                )
            _LOGGER.warning("%s. It is read from its oldest event.", message)
        return found

    def _begin(self, partition: str) -> int | None:
        """Return the sequence number at which reading was to begin; None if it is not given."""
        position = self._options.starts.get(partition, self._options.start)
        if position is None or position.kind != "sequence_number":
            return None
        return int(position.value or 0) + (not position.inclusive)

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
        self._check_known("max_rate_per_partition", rates.keys() - {ALL_PARTITIONS})
        seconds = 1.0 if before is None else min(now - before, _LONGEST_TRIGGER)
        return {
            partition: max(1, round(rate * seconds))
            for partition in partitions
            if (rate := rates.get(partition, rates.get(ALL_PARTITIONS))) is not None
        }
