"""The events of one kind."""

from typing import Any

import apache_beam as beam

from sparkbeam.nexmark.events import Auction, Bid, Event, Person


def persons(events: beam.PCollection[Any]) -> beam.PCollection[Any]:
    """Who registers."""
    return events | "Persons" >> beam.Filter(is_person).with_output_types(Person)


def auctions(events: beam.PCollection[Any]) -> beam.PCollection[Any]:
    """What is put up for auction."""
    return events | "Auctions" >> beam.Filter(is_auction).with_output_types(Auction)


def bids(events: beam.PCollection[Any]) -> beam.PCollection[Any]:
    """What is bid."""
    return events | "Bids" >> beam.Filter(is_bid).with_output_types(Bid)


def is_person(event: Event) -> bool:
    """Whether the event is a Person."""
    return isinstance(event, Person)


def is_auction(event: Event) -> bool:
    """Whether the event is an Auction."""
    return isinstance(event, Auction)


def is_bid(event: Event) -> bool:
    """Whether the event is a Bid."""
    return isinstance(event, Bid)
