"""Selection of events of one kind."""

from typing import Any

import apache_beam as beam

from beam_nexmark.events import Auction, Bid, Event, Person


def persons(events: beam.PCollection[Any]) -> beam.PCollection[Any]:
    """Return the Persons."""
    return events | "Persons" >> beam.Filter(is_person).with_output_types(Person)


def auctions(events: beam.PCollection[Any]) -> beam.PCollection[Any]:
    """Return the Auctions."""
    return events | "Auctions" >> beam.Filter(is_auction).with_output_types(Auction)


def bids(events: beam.PCollection[Any]) -> beam.PCollection[Any]:
    """Return the Bids."""
    return events | "Bids" >> beam.Filter(is_bid).with_output_types(Bid)


def is_person(event: Event) -> bool:
    """Return whether the event is a Person."""
    return isinstance(event, Person)


def is_auction(event: Event) -> bool:
    """Return whether the event is an Auction."""
    return isinstance(event, Auction)


def is_bid(event: Event) -> bool:
    """Return whether the event is a Bid."""
    return isinstance(event, Bid)
