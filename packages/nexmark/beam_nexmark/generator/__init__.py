"""The events of Nexmark, the same ones as Beam's Java suite, whole columns at a time.

Every event draws from a random source of its own, seeded with the event's id.
So the events with any ids can be made at once, with numpy, and in any order::

    numbers = in_generator_order(configuration, 0, 50_000)
    bids = bids(configuration, numbers)     # a pyarrow.RecordBatch
    batch = EventBatch.generate(configuration, numbers)
    batch.to_arrow()                        # all events, as one RecordBatch
    batch.to_union()                        # all events, as one dense union
    batch.to_python()                       # all events, as Person, Auction and Bid
"""

from beam_nexmark.generator.event_batch import EventBatch
from beam_nexmark.generator.event_columns import auctions, bids, persons
from beam_nexmark.generator.event_numbers import (
    EventNumbers,
    in_generator_order,
    in_time_order,
)

__all__ = [
    "EventBatch",
    "EventNumbers",
    "auctions",
    "bids",
    "in_generator_order",
    "in_time_order",
    "persons",
]
