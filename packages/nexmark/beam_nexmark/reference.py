"""Reference results of each query, evaluated over a list of events in plain Python.

Beam is not involved, so a mistake in a pipeline or a runner is not repeated here. Each result is a
tuple of the same fields as the query's own.

The semantics are those of Beam Java's models: with all events present nothing is late, and of
results that are refined the last one counts.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from math import floor
from typing import TypeVar
from zlib import crc32

from beam_nexmark.configuration import Configuration
from beam_nexmark.event_files import json_line
from beam_nexmark.events import Auction, Bid, Person
from beam_nexmark.generator import EventBatch, in_generator_order
from beam_nexmark.queries import Query

Events = Sequence[Person | Auction | Bid]
Results = Iterator[tuple[object, ...]]
Session = tuple[int, int, list[Bid]]

_Event = TypeVar("_Event", Person, Auction, Bid, Person | Auction | Bid)


def expected(query: int, events: Events, configuration: Configuration) -> list[tuple[object, ...]]:
    """Return the results of the query with this number, in no particular order."""
    return list(_MODELS[query](events, configuration))


def reference_results(query: Query, configuration: Configuration) -> list[tuple[object, ...]]:
    """Return the results of the query over all events of the configuration."""
    numbers = in_generator_order(configuration, 0, configuration.events)
    events = EventBatch.generate(configuration, numbers).to_python()
    return expected(query.number, events, configuration)


def _all(events: Events, configuration: Configuration) -> Results:
    yield from events


def _currency(events: Events, configuration: Configuration) -> Results:
    for bid in _bids(events):
        yield bid._replace(price=bid.price * 89 // 100)


def _selection(events: Events, configuration: Configuration) -> Results:
    for bid in _bids(events):
        if bid.auction % configuration.auction_skip == 0:
            yield bid.auction, bid.price


def _local_items(events: Events, configuration: Configuration) -> Results:
    sellers = {person.id: person for person in _persons(events)}
    for auction in _auctions(events):
        seller = sellers.get(auction.seller)
        if seller and auction.category == 10 and seller.state in ("OR", "ID", "CA"):
            yield seller.name, seller.city, seller.state, auction.id


def _category_price(events: Events, configuration: Configuration) -> Results:
    prices = defaultdict(list)
    for auction, bid in _winning_bids(events):
        for start in _sliding(auction.expires - 1, configuration):
            prices[start, auction.category].append(bid.price)
    for (_, category), group in prices.items():
        yield category, _mean(group)


def _hot_items(events: Events, configuration: Configuration) -> Results:
    counts: dict[int, Counter[int]] = defaultdict(Counter)
    for bid in _bids(events):
        for start in _sliding(bid.date_time, configuration):
            counts[start][bid.auction] += 1
    for counter in counts.values():
        most = max(counter.values())
        yield from ((auction, count) for auction, count in counter.items() if count == most)


def _seller_price(events: Events, configuration: Configuration) -> Results:
    sales = defaultdict(list)
    for auction, bid in _winning_bids(events):
        sales[auction.seller].append((bid.date_time, bid.price))
    for seller, sold in sales.items():
        yield seller, _mean([price for _, price in sorted(sold)[-10:]])


def _highest_bid(events: Events, configuration: Configuration) -> Results:
    for bids in _fixed(_bids(events), configuration).values():
        highest = max(bid.price for bid in bids)
        yield from (bid for bid in bids if bid.price == highest)


def _new_users(events: Events, configuration: Configuration) -> Results:
    persons = _fixed(_persons(events), configuration)
    for start, auctions in _fixed(_auctions(events), configuration).items():
        names = {person.id: person.name for person in persons.get(start, ())}
        for auction in auctions:
            if auction.seller in names:
                yield auction.seller, names[auction.seller], auction.reserve


def _winners(events: Events, configuration: Configuration) -> Results:
    yield from _winning_bids(events)


def _log(events: Events, configuration: Configuration) -> Results:
    for start, logged in _fixed(events, configuration).items():
        checksum = sum(crc32(json_line(event).encode()) for event in logged)
        yield start + configuration.window_size * 1000, len(logged), checksum


def _user_sessions(events: Events, configuration: Configuration) -> Results:
    for _, _, bids in _sessions(events, configuration.window_size * 1000):
        yield bids[0].bidder, len(bids)


def _processing_time(events: Events, configuration: Configuration) -> Results:
    yield from Counter(bid.bidder for bid in _bids(events)).items()


def _side_input(events: Events, configuration: Configuration) -> Results:
    for bid in _bids(events):
        yield bid._replace(extra=str(bid.bidder % configuration.side_input_rows))


def _session_side_input(events: Events, configuration: Configuration) -> Results:
    for start, end, bids in _sessions(events, configuration.session_gap * 1000):
        for bid in bids:
            number = bid.bidder % configuration.side_input_rows
            yield bid._replace(extra=f"{number}:{_iso(start)}:{_iso(end)}")


_MODELS: dict[int, Callable[[Events, Configuration], Results]] = {
    0: _all,
    1: _currency,
    2: _selection,
    3: _local_items,
    4: _category_price,
    5: _hot_items,
    6: _seller_price,
    7: _highest_bid,
    8: _new_users,
    9: _winners,
    10: _log,
    11: _user_sessions,
    12: _processing_time,
    13: _side_input,
    14: _session_side_input,
    15: _all,
    16: _all,
}


def _persons(events: Events) -> list[Person]:
    return [event for event in events if isinstance(event, Person)]


def _auctions(events: Events) -> list[Auction]:
    return [event for event in events if isinstance(event, Auction)]


def _bids(events: Events) -> list[Bid]:
    return [event for event in events if isinstance(event, Bid)]


def _winning_bids(events: Events) -> Iterator[tuple[Auction, Bid]]:
    """Yield the highest of the timely bids that reach the reserve; the earliest of equal ones."""
    offers = defaultdict(list)
    for bid in _bids(events):
        offers[bid.auction].append(bid)
    for auction in _auctions(events):
        valid = [
            bid
            for bid in offers[auction.id]
            if bid.date_time < auction.expires and bid.price >= auction.reserve
        ]
        if valid:
            yield auction, min(valid, key=lambda bid: (-bid.price, bid.date_time, bid.bidder))


def _sliding(time: int, configuration: Configuration) -> range:
    """Return the starts of all sliding windows that contain a time in ms."""
    size, period = configuration.window_size * 1000, configuration.window_period * 1000
    return range(time - time % period, time - size, -period)


def _fixed(events: Iterable[_Event], configuration: Configuration) -> dict[int, list[_Event]]:
    """Return the events by the starts of their fixed windows."""
    size = configuration.window_size * 1000
    windows = defaultdict(list)
    for event in events:
        windows[event.date_time - event.date_time % size].append(event)
    return windows


def _sessions(events: Events, gap: int) -> Iterator[Session]:
    """Yield start, end and bids of each bidder's sessions; a pause of the gap's length ends one."""
    ordered = sorted(_bids(events), key=lambda bid: (bid.bidder, bid.date_time))
    for _, bids in groupby(ordered, key=lambda bid: bid.bidder):
        session: list[Bid] = []
        for bid in bids:
            if session and bid.date_time >= session[-1].date_time + gap:
                yield session[0].date_time, session[-1].date_time + gap, session
                session = []
            session.append(bid)
        yield session[0].date_time, session[-1].date_time + gap, session


def _mean(prices: list[int]) -> int:
    return floor(sum(prices) / len(prices) + 0.5)


def _iso(time: int) -> str:
    text = datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
