"""Query 3, local item suggestion: sellers in Oregon, Idaho or California in category 10.

An incremental join: people and auctions arrive in any order, and each pair is emitted as soon as
both have arrived. The data of a seller is keyed state, which a timer clears after a period of
inactivity::

    SELECT ISTREAM(P.name, P.city, P.state, A.id)
    FROM auction A [ROWS UNBOUNDED], person P [ROWS UNBOUNDED]
    WHERE A.seller = P.id AND P.state IN ('OR', 'ID', 'CA') AND A.category = 10
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    BagStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Auction, Event, EventCoder, Person
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import auctions, persons

STATES = frozenset(["OR", "ID", "CA"])
CATEGORY = 10


class LocalItem(NamedTuple):
    """The seller of an auction."""

    name: str
    city: str
    state: str
    auction: int


class JoinFn(beam.DoFn):
    """Join of a seller with the auctions before and after.

    Takes pairs of the seller's id and either the Person or an Auction.

    Args:
        waiting_time: the time after the last event for which a key's state is kept, in seconds.
    """

    PERSON = ReadModifyWriteStateSpec("person", EventCoder())
    WAITING = BagStateSpec("waiting auctions", EventCoder())
    EXPIRY = TimerSpec("expiry", TimeDomain.WATERMARK)

    def __init__(self, waiting_time: int) -> None:
        super().__init__()
        self._waiting_time = waiting_time

    def process(
        self,
        element: tuple[int, Event],
        now: Any = beam.DoFn.TimestampParam,
        person: Any = beam.DoFn.StateParam(PERSON),
        waiting: Any = beam.DoFn.StateParam(WAITING),
        expiry: Any = beam.DoFn.TimerParam(EXPIRY),
    ) -> Iterator[LocalItem]:
        _, event = element
        seller = person.read()
        if isinstance(event, Person) and seller is None:
            person.write(event)
            yield from (_item(event, auction) for auction in waiting.read())
            waiting.clear()
        elif isinstance(event, Auction) and seller is None:
            waiting.add(event)
        elif isinstance(event, Auction):
            yield _item(seller, event)
        expiry.set(now + self._waiting_time)

    @on_timer(EXPIRY)
    def expire(
        self,
        person: Any = beam.DoFn.StateParam(PERSON),
        waiting: Any = beam.DoFn.StateParam(WAITING),
    ) -> None:
        """Clear the state of a seller and of waiting auctions."""
        person.clear()
        waiting.clear()


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return a LocalItem for each auction of the category by a person in one of the states."""
    by_seller = (
        auctions(events)
        | "In category" >> beam.Filter(lambda auction: auction.category == CATEGORY)
        | "By seller"
        >> beam.Map(lambda auction: (auction.seller, auction)).with_output_types(tuple[int, Event])
    )
    by_id = (
        persons(events)
        | "In states" >> beam.Filter(lambda person: person.state in STATES)
        | "By id"
        >> beam.Map(lambda person: (person.id, person)).with_output_types(tuple[int, Event])
    )
    return (
        (by_seller, by_id)
        | "Both" >> beam.Flatten()
        | "Join" >> beam.ParDo(JoinFn(configuration.max_auctions_waiting_time))
    )


def _item(person: Person, auction: Auction) -> LocalItem:
    return LocalItem(person.name, person.city, person.state, auction.id)


QUERY = Query(
    number=3,
    name="local item suggestion",
    question="Who sells in Oregon, Idaho or California in category 10?",
    build=build,
)
