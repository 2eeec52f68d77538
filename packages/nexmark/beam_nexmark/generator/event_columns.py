"""Columns of persons, auctions and bids.

Each field consumes the same random draws as in Beam's Java suite, in the same order; the order of
draws must not change.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from beam_nexmark.configuration import Configuration
from beam_nexmark.events import Auction, Bid, Person
from beam_nexmark.generator import random_text
from beam_nexmark.generator.event_numbers import AUCTIONS_IN_EPOCH, EPOCH, EventNumbers
from beam_nexmark.generator.random import Ints, Random
from sparkbeam.common.integer_division import floored

FIRST_ID = 1000
_FIRST_CATEGORY = 10
_CATEGORIES = 5
_HOT = 100
"""Interval of the ids of hot auctions, sellers and bidders."""

_PERSON_LEAD = 10
_AUCTION_LEAD = 10
"""Maximum distance of the ids of future people and auctions."""

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
    """Return the persons among the events; the columns are the fields of ``model.Person``.

    Args:
        wanted: the required columns; None for all. Nothing is drawn behind the last one, and no
            more than necessary before it.
    """
    return _until(_persons(configuration, numbers), Person, wanted)


def auctions(
    configuration: Configuration, numbers: EventNumbers, wanted: Iterable[str] | None = None
) -> pa.RecordBatch:
    """Return the auctions among the events, likewise."""
    return _until(_auctions(configuration, numbers), Auction, wanted)


def bids(
    configuration: Configuration, numbers: EventNumbers, wanted: Iterable[str] | None = None
) -> pa.RecordBatch:
    """Return the bids among the events, likewise."""
    return _until(_bids(configuration, numbers), Bid, wanted)


def _until(drawn: _Drawn, kind: Any, wanted: Iterable[str] | None) -> pa.RecordBatch:
    """Return the required columns of a kind of events, or else one column."""
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
    """Return the last auction up to each event."""
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
    """Return a function that draws ``hot`` in all but one of ``ratio`` cases, else ``other``."""
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
    """Draw one of the newest people, or a future one."""
    people = last + 1
    active = _at_most(people, configuration.active_people)
    return people - active + random.next_int(active + _PERSON_LEAD, rows)


def _next_auction(
    configuration: Configuration, random: Random, last: Ints, rows: NDArray[np.intp]
) -> Ints:
    """Draw one of the open auctions, or a future one."""
    in_flight = _at_most(last, configuration.in_flight_auctions)
    return last - in_flight + random.next_int(in_flight + 1 + _AUCTION_LEAD, rows)


def _at_most(numbers: Ints, most: int) -> int | Ints:
    """Return the minimum of numbers and ``most``; one number if all are larger."""
    return most if len(numbers) and numbers.min() >= most else np.minimum(numbers, most)


def _price(random: Random) -> Ints:
    return np.floor(10.0 ** (random.next_double() * 6) * 100 + 0.5).astype(np.int64)


def _chosen(random: Random, names: list[str]) -> pa.StringArray:
    return pa.array(names).take(pa.array(random.next_int(len(names))))


def _sizes(column: pa.StringArray) -> Ints:
    return pc.binary_length(column).to_numpy().astype(np.int64)
