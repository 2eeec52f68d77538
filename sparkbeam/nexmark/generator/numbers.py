"""Which events there are: from a place in an order of all events to ids and times."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sparkbeam.nexmark.configuration import Configuration

PERSONS_IN_EPOCH = 1
AUCTIONS_IN_EPOCH = 3
EPOCH = 50
"""Of as many events in a row are one a person, three auctions, the others bids."""

_SPREAD = 953
"""How far apart the places are to which neighbours of an out-of-order group go."""

_KIND_OF_PLACE = np.repeat(
    [0, 1, 2],
    [PERSONS_IN_EPOCH, AUCTIONS_IN_EPOCH, EPOCH - PERSONS_IN_EPOCH - AUCTIONS_IN_EPOCH],
)

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class EventNumbers:
    """What tells some events from all others.

    Attributes:
        configuration: that of the generator.
        ids: the id of each event, which seeds its random source.
        adjusted: the place of each event on its timeline.
    """

    configuration: Configuration
    ids: Ints
    adjusted: Ints

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def kinds(self) -> Ints:
        """0 for persons, 1 for auctions, 2 for bids."""
        return _KIND_OF_PLACE[self.ids % EPOCH]

    @cached_property
    def timestamps(self) -> Ints:
        """The time of each event, in ms since the epoch."""
        return self.timestamps_after(0)

    def timestamps_after(self, events: int) -> Ints:
        """The time of the event that comes so many after each one on its timeline."""
        delay = self.configuration.delay
        return self.configuration.base_time + (self.adjusted + events) * delay // 1000

    def of_kind(self, kind: int) -> "EventNumbers":
        """Those of the persons, auctions or bids."""
        rows = self.kinds == kind
        return EventNumbers(self.configuration, self.ids[rows], self.adjusted[rows])


def in_generator_order(configuration: Configuration, start: int, stop: int) -> EventNumbers:
    """The events from ``start`` to before ``stop``, one timeline after the other."""
    places = np.arange(start, min(stop, configuration.events))
    last, size = configuration.generators - 1, configuration.generator_size
    generators = np.minimum(places // size, last) if size else np.full_like(places, last)
    return _numbers(configuration, generators, places - generators * size)


def in_time_order(configuration: Configuration, start: int, stop: int) -> EventNumbers:
    """The same of all timelines at once: each one's first event, each one's second, ...

    The order within a timeline is the same as in :func:`in_generator_order`.
    """
    places = np.arange(start, min(stop, configuration.events))
    count, size = configuration.generators, configuration.generator_size
    # The last timeline has events left when all others have ended.
    rest = places - count * size
    generators = np.where(rest < 0, places % count, count - 1)
    return _numbers(configuration, generators, np.where(rest < 0, places // count, size + rest))


def _numbers(configuration: Configuration, generators: Ints, numbers: Ints) -> EventNumbers:
    group = configuration.out_of_order_group_size
    adjusted = numbers // group * group + numbers * _SPREAD % group
    return EventNumbers(
        configuration, generators * configuration.generator_size + adjusted, adjusted
    )
