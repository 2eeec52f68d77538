"""Query 8, monitor new users: people who join and open an auction in the same window."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.transforms.window import FixedWindows

from beam_nexmark.configuration import Configuration
from beam_nexmark.queries.query import Query
from beam_nexmark.queries.selection import auctions, persons


class NewSeller(NamedTuple):
    """A new user's auction."""

    id: int
    name: str
    reserve: int


def build(events: beam.PCollection[Any], configuration: Configuration) -> beam.PCollection[Any]:
    """Return a NewSeller for each auction by a person who joined in its fixed window."""
    windowed = events | "Windows" >> beam.WindowInto(FixedWindows(configuration.window_size))
    names = persons(windowed) | "By id" >> beam.Map(lambda person: (person.id, person.name))
    reserves = auctions(windowed) | "By seller" >> beam.Map(
        lambda auction: (auction.seller, auction.reserve)
    )
    return (
        {"names": names, "reserves": reserves}
        | "Join" >> beam.CoGroupByKey()
        | "New sellers" >> beam.FlatMapTuple(_new_sellers)
    )


def _new_sellers(seller: int, group: dict[str, Iterable[Any]]) -> Iterator[NewSeller]:
    for name in list(group["names"])[:1]:
        for reserve in group["reserves"]:
            yield NewSeller(seller, name, reserve)


QUERY = Query(
    number=8,
    name="monitor new users",
    question="Who joins and opens an auction in the same window?",
    build=build,
)
