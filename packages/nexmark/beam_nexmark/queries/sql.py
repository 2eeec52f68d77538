"""Queries in SQL, with the results of those in Python.

Queries without windows are those of Spark in batch; the others become aggregations in windows.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.sql import SqlTransform
from apache_beam.transforms.window import FixedWindows
from apache_beam.utils.timestamp import Timestamp

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries import QUERIES
from beam_nexmark.queries.q03_local_items import CATEGORY, STATES
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import auctions, bids, persons

_Build = Callable[[beam.PCollection[Any], Configuration], beam.PCollection[Any]]


class TimedBid(NamedTuple):
    """The time of a bid, as SQL has it, and what is counted."""

    auction: int
    bidder: int
    at: Timestamp


def _timed(events: beam.PCollection[Any]) -> beam.PCollection[Any]:
    return bids(events) | "Times" >> beam.Map(
        lambda bid: TimedBid(bid.auction, bid.bidder, Timestamp(micros=1000 * bid.date_time))
    ).with_output_types(TimedBid)


def passthrough(
    events: beam.PCollection[Any], configuration: Configuration
) -> beam.PCollection[Any]:
    """Return all events."""
    query = "SELECT * FROM PCOLLECTION"
    return (
        persons(events) | "All persons" >> SqlTransform(query),
        auctions(events) | "All auctions" >> SqlTransform(query),
        bids(events) | "All bids" >> SqlTransform(query),
    ) | beam.Flatten()


def currency(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return all bids, with their prices in euros."""
    return bids(events) | SqlTransform(
        "SELECT auction, bidder, price * 89 / 100 AS price, date_time, extra FROM PCOLLECTION"
    )


def selection(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return the prices of bids on auctions whose id ``auction_skip`` divides."""
    return bids(events) | SqlTransform(
        "SELECT auction, price FROM PCOLLECTION "
        f"WHERE MOD(auction, {configuration.auction_skip}) = 0"
    )


def local_items(
    events: beam.PCollection[Any], configuration: Configuration
) -> beam.PCollection[Any]:
    """Return the sellers of a category in some states."""
    states = ", ".join(f"'{state}'" for state in sorted(STATES))
    return {"person": persons(events), "auction": auctions(events)} | SqlTransform(
        "SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id "
        f"WHERE P.state IN ({states}) AND A.category = {CATEGORY}"
    )


def hot_items(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return the auctions that lead in a sliding window."""
    hop = (
        f"(at, INTERVAL '{configuration.window_period}' SECOND, "
        f"INTERVAL '{configuration.window_size}' SECOND)"
    )
    return _timed(events) | SqlTransform(
        "WITH counts AS ("
        f"SELECT auction, COUNT(*) AS bids, HOP_START{hop} AS starts "
        f"FROM PCOLLECTION GROUP BY auction, HOP{hop}) "
        "SELECT c.auction, c.bids FROM counts c "
        "JOIN (SELECT MAX(bids) AS bids, starts FROM counts GROUP BY starts) m "
        "ON c.starts = m.starts AND c.bids = m.bids"
    )


def highest_bid(
    events: beam.PCollection[Any], configuration: Configuration
) -> beam.PCollection[Any]:
    """Return the bids with the highest price of their fixed window."""
    windowed = bids(events) | "Windows" >> beam.WindowInto(FixedWindows(configuration.window_size))
    return windowed | SqlTransform(
        "SELECT b.* FROM PCOLLECTION b JOIN (SELECT MAX(price) AS price FROM PCOLLECTION) m "
        "ON b.price = m.price"
    )


def new_users(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return the auctions by persons who joined in their fixed window."""
    windowed = events | "Windows" >> beam.WindowInto(FixedWindows(configuration.window_size))
    return {"person": persons(windowed), "auction": auctions(windowed)} | SqlTransform(
        "SELECT P.id, P.name, A.reserve FROM person P JOIN auction A ON P.id = A.seller"
    )


def user_sessions(
    events: beam.PCollection[Any], configuration: Configuration
) -> beam.PCollection[Any]:
    """Return the number of bids of each session of a bidder."""
    return _timed(events) | SqlTransform(
        "SELECT bidder, COUNT(*) AS bids FROM PCOLLECTION "
        f"GROUP BY bidder, SESSION(at, INTERVAL '{configuration.window_size}' SECOND)"
    )


def side_input(
    events: beam.PCollection[Any], configuration: Configuration
) -> beam.PCollection[Any]:
    """Return all bids, with the text of their bidder's number in place of ``extra``."""
    rows = configuration.side_input_rows
    texts = events.pipeline | "Side input" >> beam.Create(
        [beam.Row(number=number, text=str(number)) for number in range(rows)]
    )
    return {"bid": bids(events), "texts": texts} | SqlTransform(
        "SELECT B.auction, B.bidder, B.price, B.date_time, T.text AS extra "
        f"FROM bid B JOIN texts T ON MOD(B.bidder, {rows}) = T.number"
    )


_BUILDS: Mapping[int, _Build] = {
    0: passthrough,
    1: currency,
    2: selection,
    3: local_items,
    5: hot_items,
    7: highest_bid,
    8: new_users,
    11: user_sessions,
    13: side_input,
}

SQL_QUERIES: dict[int, Query] = {
    number: replace(QUERIES[number], build=build) for number, build in _BUILDS.items()
}
"""The queries by number."""
