"""Numbering of events: from a position in the order of all events to ids and times."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from beam_nexmark.configuration import Configuration
from sparkbeam.common.integer_division import floored

PERSONS_IN_EPOCH = 1
AUCTIONS_IN_EPOCH = 3
EPOCH = 50
"""Events per epoch: one person, three auctions, the others bids."""

_SPREAD = 953
"""Distance between the shuffled positions of neighbours in an out-of-order group."""

_KIND_OF_PLACE = np.repeat(
    np.arange(3, dtype=np.int8),
    [PERSONS_IN_EPOCH, AUCTIONS_IN_EPOCH, EPOCH - PERSONS_IN_EPOCH - AUCTIONS_IN_EPOCH],
)

Ints = NDArray[np.int64]


def divided(numbers: Ints, divisor: int) -> tuple[Ints, Ints]:
    """Return quotients, rounded down, and remainders, computed by multiplication for speed."""
    quotients = floored(numbers, divisor)
    return quotients, numbers - quotients * divisor


@dataclass(frozen=True)
class EventNumbers:
    """The identity of some events.

    Attributes:
        ids: the id of each event, which seeds its random source.
        adjusted: the position of each event on its timeline.
    """

    configuration: Configuration
    ids: Ints
    adjusted: Ints

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def epochs(self) -> Ints:
        """The epoch of each event."""
        return self._in_epochs[0]

    @cached_property
    def places(self) -> Ints:
        """The position of each event in its epoch."""
        return self._in_epochs[1]

    @cached_property
    def _in_epochs(self) -> tuple[Ints, Ints]:
        return divided(self.ids, EPOCH)

    @cached_property
    def kinds(self) -> NDArray[np.int8]:
        """0 for persons, 1 for auctions, 2 for bids."""
        return _KIND_OF_PLACE.take(self.places)

    @cached_property
    def rows(self) -> tuple[NDArray[np.intp], ...]:
        """The positions of the persons, the auctions and the bids."""
        return tuple(np.flatnonzero(self.kinds == kind) for kind in range(3))

    @cached_property
    def timestamps(self) -> Ints:
        """The time of each event, in ms since the epoch."""
        return self.timestamps_after(0)

    def timestamps_after(self, events: int) -> Ints:
        """Return the time of the event that follows each one on its timeline at some distance."""
        micros = (self.adjusted + events) * self.configuration.delay
        return self.configuration.base_time + floored(micros, 1000)

    def of_kind(self, kind: int) -> "EventNumbers":
        """Return the numbers of the persons, auctions or bids."""
        rows = self.rows[kind]
        return EventNumbers(self.configuration, self.ids.take(rows), self.adjusted.take(rows))


def in_generator_order(configuration: Configuration, start: int, stop: int) -> EventNumbers:
    """Return the events from ``start`` to before ``stop``, one timeline after the other."""
    places = np.arange(start, min(stop, configuration.events))
    last, size = configuration.generators - 1, configuration.generator_size
    generators = np.full_like(places, last)
    if size:
        generators = np.minimum(floored(places, size), last)
    return _numbers(configuration, generators, places - generators * size)


def in_time_order(configuration: Configuration, start: int, stop: int) -> EventNumbers:
    """Return the events in the order of time: each timeline's first, each one's second, ...

    The order within a timeline is that of :func:`in_generator_order`.
    """
    places = np.arange(start, min(stop, configuration.events))
    count, size = configuration.generators, configuration.generator_size
    numbers, generators = divided(places, count)
    # The last timeline has events left when all others have ended.
    rest = slice(max(0, min(count * size - start, len(places))), None)
    generators[rest] = count - 1
    numbers[rest] = places[rest] - (count - 1) * size
    return _numbers(configuration, generators, numbers)


def _numbers(configuration: Configuration, generators: Ints, numbers: Ints) -> EventNumbers:
    group, adjusted = configuration.out_of_order_group_size, numbers
    if group > 1:
        adjusted = numbers - divided(numbers, group)[1] + divided(numbers * _SPREAD, group)[1]
    return EventNumbers(
        configuration, generators * configuration.generator_size + adjusted, adjusted
    )
