"""The columns of persons, auctions and bids.

Each field takes the draws that Beam's Java suite takes, in its order, so nothing that is drawn here
can change places.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparkbeam.common.integer_division import floored
from sparkbeam.nexmark.configuration import Configuration
from sparkbeam.nexmark.events import Auction, Bid, Person
from sparkbeam.nexmark.generator import random_text
from sparkbeam.nexmark.generator.event_numbers import AUCTIONS_IN_EPOCH, EPOCH, EventNumbers
from sparkbeam.nexmark.generator.random import Ints, Random

FIRST_ID = 1000
_FIRST_CATEGORY = 10
_CATEGORIES = 5
_HOT = 100
"""Every so manyth auction, seller and bidder becomes a hot one."""

_PERSON_LEAD = 10
_AUCTION_LEAD = 10
"""How far ids of people and auctions may be ahead of those that there are."""

_AUCTION_BYTES = 8 * 5
_BID_BYTES = 8 * 4
_ID_BYTES = 8

_FIRST_NAMES = ["Peter", "Paul", "Luke", "John", "Saul", "Vicky"]
_FIRST_NAMES += ["Kate", "Julie", "Sarah", "Deiter", "Walter"]
_LAST_NAMES = ["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton"]
_LAST_NAMES += ["Smith", "Jones", "Noris"]
_CITIES = ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"]
_CITIES += ["Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
_STATES = ["AZ", "CA", "ID", "OR", "WA", "WY"]

_Drawn: TypeAlias = Iterator[tuple[str, Any]]
"""Columns with their names, those for which nothing is drawn first.

In the place of a column may be a function that makes it of what has been drawn.
"""


def persons(
    configuration: Configuration, numbers: EventNumbers, wanted: Iterable[str] | None = None
) -> pa.RecordBatch:
    """The persons among the events; the columns are the fields of ``model.Person``.

    Args:
        configuration: of the generator.
        numbers: which events.
        wanted: the columns that are to be there at least; None for all. What comes behind the last
            one of them is not drawn, and of what comes before it no more than has to be.
    """
    return _until(_persons(configuration, numbers), Person, wanted)


def auctions(
    configuration: Configuration, numbers: EventNumbers, wanted: Iterable[str] | None = None
) -> pa.RecordBatch:
    """The auctions among the events, likewise."""
    return _until(_auctions(configuration, numbers), Auction, wanted)


def bids(
    configuration: Configuration, numbers: EventNumbers, wanted: Iterable[str] | None = None
) -> pa.RecordBatch:
    """The bids among the events, likewise."""
    return _until(_bids(configuration, numbers), Bid, wanted)


def _until(drawn: _Drawn, kind: Any, wanted: Iterable[str] | None) -> pa.RecordBatch:
    """The columns of a kind of events that are wanted, or else one."""
    missing = set(kind._fields if wanted is None else wanted)
    found: dict[str, Any] = {}
    for name, column in drawn:
        if name in missing or not found:
            found[name] = column() if callable(column) else column
        missing.discard(name)
        if not missing:
            break
    return pa.RecordBatch.from_pydict({name: found[name] for name in kind._fields if name in found})


# The number of an epoch is that of the last person, as each has one, which comes first.


def _persons(configuration: Configuration, numbers: EventNumbers) -> _Drawn:
    numbers = numbers.of_kind(0)
    random = Random(numbers.ids)
    yield "id", numbers.epochs + FIRST_ID
    yield "date_time", numbers.timestamps
    first, last = _chosen(random, _FIRST_NAMES), _chosen(random, _LAST_NAMES)
    name = pc.binary_join_element_wise(first, last, " ")
    yield "name", name
    mailbox, domain = random_text.words(random, 7), random_text.words(random, 5)
    email = pc.binary_join_element_wise(
        mailbox, pc.binary_join_element_wise(domain, "com", "."), "@"
    )
    yield "email_address", email
    card = random_text.digits([random.next_int(10_000) for _ in range(4)], 4)
    yield "credit_card", card
    city, state = _chosen(random, _CITIES), _chosen(random, _STATES)
    yield "city", city
    yield "state", state
    size = np.sum([*map(_sizes, (name, email, card, city, state))], axis=0) + _ID_BYTES
    yield "extra", random_text.padding(random, size, configuration.average_person_size)


def _auctions(configuration: Configuration, numbers: EventNumbers) -> _Drawn:
    numbers = numbers.of_kind(1)
    random = Random(numbers.ids)
    yield "id", _last_auction(numbers) + FIRST_ID
    yield "date_time", lambda: numbers.timestamps
    yield (
        "seller",
        _hot_or(
            random,
            configuration.hot_sellers_ratio,
            lambda: FIRST_ID + _hot(numbers.epochs),
            lambda rows: FIRST_ID + _next_person(configuration, random, numbers.epochs[rows], rows),
        ),
    )
    yield "category", _FIRST_CATEGORY + random.next_int(_CATEGORIES)
    initial_bid = _price(random)
    yield "initial_bid", initial_bid
    in_flight_events = configuration.in_flight_auctions * EPOCH // AUCTIONS_IN_EPOCH
    duration = numbers.timestamps_after(in_flight_events) - numbers.timestamps
    yield "expires", numbers.timestamps + 1 + random.next_long(np.maximum(2 * duration, 1))
    item_name, description = random_text.words(random, 20), random_text.words(random, 100)
    yield "item_name", item_name
    yield "description", description
    yield "reserve", initial_bid + _price(random)
    size = _AUCTION_BYTES + _ID_BYTES + _sizes(item_name) + _sizes(description)
    yield "extra", random_text.padding(random, size, configuration.average_auction_size)


def _bids(configuration: Configuration, numbers: EventNumbers) -> _Drawn:
    numbers = numbers.of_kind(2)
    random = Random(numbers.ids)
    yield "date_time", lambda: numbers.timestamps
    last_auction = _last_auction(numbers)
    yield (
        "auction",
        _hot_or(
            random,
            configuration.hot_auction_ratio,
            lambda: FIRST_ID + _hot(last_auction),
            lambda rows: FIRST_ID + _next_auction(configuration, random, last_auction[rows], rows),
        ),
    )
    yield (
        "bidder",
        _hot_or(
            random,
            configuration.hot_bidders_ratio,
            lambda: FIRST_ID + 1 + _hot(numbers.epochs),
            lambda rows: FIRST_ID + _next_person(configuration, random, numbers.epochs[rows], rows),
        ),
    )
    yield "price", _price(random)
    sizes = np.full(len(numbers), _BID_BYTES)
    yield "extra", random_text.padding(random, sizes, configuration.average_bid_size)


def _last_auction(numbers: EventNumbers) -> Ints:
    """The last auction up to each event."""
    # A person comes before its epoch's auctions: the last one then is of the epoch before.
    last_places = np.minimum(numbers.places, AUCTIONS_IN_EPOCH) - 1
    return numbers.epochs * AUCTIONS_IN_EPOCH + last_places


def _hot(ids: Ints) -> Ints:
    return floored(ids, _HOT) * _HOT


def _hot_or(
    random: Random,
    ratio: int,
    hot: Callable[[], Ints],
    other: Callable[[NDArray[np.intp]], Ints],
) -> Callable[[], Ints]:
    """The hot one in all but one of ``ratio`` cases, in the others what ``other`` draws."""
    rows = np.flatnonzero(random.next_int(ratio) == 0)
    drawn = other(rows)

    def chosen() -> Ints:
        found = hot()
        found[rows] = drawn
        return found

    return chosen


def _next_person(
    configuration: Configuration, random: Random, last: Ints, rows: NDArray[np.intp]
) -> Ints:
    """One of the newest people, or one to come."""
    people = last + 1
    active = _at_most(people, configuration.active_people)
    return people - active + random.next_int(active + _PERSON_LEAD, rows)


def _next_auction(
    configuration: Configuration, random: Random, last: Ints, rows: NDArray[np.intp]
) -> Ints:
    """One of the open auctions, or one to come."""
    in_flight = _at_most(last, configuration.in_flight_auctions)
    return last - in_flight + random.next_int(in_flight + 1 + _AUCTION_LEAD, rows)


def _at_most(numbers: Ints, most: int) -> int | Ints:
    """The numbers, or what they have to be at most, which is one number where all are larger."""
    return most if len(numbers) and numbers.min() >= most else np.minimum(numbers, most)


def _price(random: Random) -> Ints:
    return np.floor(10.0 ** (random.next_double() * 6) * 100 + 0.5).astype(np.int64)


def _chosen(random: Random, names: list[str]) -> pa.StringArray:
    return pa.array(names).take(pa.array(random.next_int(len(names))))


def _sizes(column: pa.StringArray) -> Ints:
    return pc.binary_length(column).to_numpy().astype(np.int64)
