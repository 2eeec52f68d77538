"""The vectorized generator has the events of one that draws number after number, as Java does.

The golden file has digests, which such a generator has made first, and some of the events.
"""

from hashlib import blake2b
from typing import Any

import numpy as np
import pytest
from golden_files import Golden, sections

from beam_nexmark.configuration import Configuration
from beam_nexmark.event_files import json_line
from beam_nexmark.events import KINDS, Auction, Bid, Person
from beam_nexmark.generator import (
    EventBatch,
    auctions,
    bids,
    in_generator_order,
    in_time_order,
    persons,
)
from beam_nexmark.generator.random import Random

CONFIGURATIONS = {
    "default": Configuration(events=5_000),
    "one timeline": Configuration(events=3_000, generators=1),
    "a remainder": Configuration(events=2_999, generators=7),
    "fewer events than timelines": Configuration(events=60, generators=100),
    "no event": Configuration(events=1, generators=100),
    "out of order": Configuration(events=3_050, generators=3, out_of_order_group_size=100),
    "out of order by few": Configuration(events=3_050, generators=3, out_of_order_group_size=7),
    "short texts": Configuration(
        events=2_000,
        generators=2,
        average_person_size=90,
        average_auction_size=110,
        average_bid_size=34,
    ),
    "no padding": Configuration(
        events=1_000, average_person_size=1, average_auction_size=1, average_bid_size=32
    ),
    "other ratios": Configuration(
        events=3_000,
        generators=5,
        hot_auction_ratio=1,
        hot_sellers_ratio=3,
        hot_bidders_ratio=7,
        in_flight_auctions=20,
        active_people=6,
    ),
    "long auctions": Configuration(
        events=1_000, generators=1, event_rate=1, in_flight_auctions=200_000
    ),
    "no auctions in flight": Configuration(events=1_000, generators=2, in_flight_auctions=0),
    "another time and rate": Configuration(
        events=2_000, generators=3, base_time=1_700_000_000_123, event_rate=777
    ),
}


def test_events_are_those_of_the_description(golden: Golden):
    texts = {}
    for name, configuration in CONFIGURATIONS.items():
        numbers = in_generator_order(configuration, 0, configuration.events)
        events = map(json_line, EventBatch.generate(configuration, numbers).to_python())
        texts[name] = digested(list(events))
    golden("events.txt", sections(texts))


def digested(lines: list[str]) -> list[str]:
    """Return the digest of lines, and some of them."""
    digest = blake2b("\n".join(lines).encode(), digest_size=16).hexdigest()
    return [f"{len(lines)} with the digest {digest}", *lines[:: len(lines) // 4 + 1]]


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_any_range_gives_a_part_of_the_same_events(configuration):
    whole = in_generator_order(configuration, 0, configuration.events)
    for start in (0, 1, 49, 500, 1_999):
        part = in_generator_order(configuration, start, start + 333)
        assert part.ids.tolist() == whole.ids[start : start + 333].tolist()
        assert part.timestamps.tolist() == whole.timestamps[start : start + 333].tolist()


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_time_order_has_the_same_events_and_keeps_each_timelines_order(configuration):
    by_generator = in_generator_order(configuration, 0, configuration.events)
    by_time = in_time_order(configuration, 0, configuration.events)

    assert sorted(zip(by_time.ids, by_time.adjusted, strict=True)) == sorted(
        zip(by_generator.ids, by_generator.adjusted, strict=True)
    )
    starts_by_generator = by_generator.ids - by_generator.adjusted
    starts_by_time = by_time.ids - by_time.adjusted
    for start in set(starts_by_generator.tolist()):
        assert (
            by_time.ids[starts_by_time == start].tolist()
            == by_generator.ids[starts_by_generator == start].tolist()
        )


def test_time_order_is_in_order_of_time():
    timestamps = in_time_order(Configuration(events=10_000), 0, 10_000).timestamps

    assert (np.diff(timestamps) >= 0).all()


def test_arrow_batches_hold_the_same_events():
    configuration = Configuration(events=500)
    batch = EventBatch.generate(configuration, in_generator_order(configuration, 0, 500))

    rows = batch.to_arrow().to_pylist()

    events = [
        kind(**row[kind.__name__.lower()])
        for row in rows
        for kind in KINDS
        if row[kind.__name__.lower()]
    ]
    assert events == batch.to_python()


@pytest.mark.parametrize(("make", "kind"), [(persons, Person), (auctions, Auction), (bids, Bid)])
def test_what_is_not_wanted_makes_no_difference_to_what_is(make, kind):
    configuration = Configuration(events=500)
    numbers = in_generator_order(configuration, 0, 500)
    whole = make(configuration, numbers)

    assert whole.schema.names == list(kind._fields)
    for field in kind._fields:
        part = make(configuration, numbers, [field])
        assert part.schema.names == [name for name in kind._fields if name in part.schema.names]
        assert part.column(field) == whole.column(field)
    assert "extra" not in make(configuration, numbers, [kind._fields[-2]]).schema.names
    assert make(configuration, numbers, []).num_rows == whole.num_rows


BOUNDS = [1, 2, 3, 13, 26, 111, 1024, 10_000, 2**30 + 1, 2**31 - 2]


def test_draws_are_those_of_java(golden: Golden):
    """The first ones of the seed 42 are what ``java.util.Random`` itself answers."""
    drawn = Random(np.array([42]))
    assert [drawn.next_signed().item() for _ in range(3)] == [-1170105035, 234785527, -1360544799]
    drawn = Random(np.array([42, 42]))
    drawn.next_int(10, np.array([1]))
    assert drawn.next_int(10).tolist() == [0, 3], "only the chosen rows draw"
    assert Random(np.array([42])).next_double().item() == 0.7275636800328681

    seeds = np.arange(4_000)
    bounds = np.tile([1, 7, 64, 2**30 + 1, 2**31 - 2, 2**31 - 1, 2**31, 2**40], 500)
    ways: dict[str, Any] = {
        f"below {bound}": lambda one, bound=bound: one.next_int(bound) for bound in BOUNDS
    }
    ways |= {
        "below a bound of each row": lambda one: one.next_long(bounds),
        "doubles": Random.next_double,
        "whole ints": Random.next_signed,
    }
    texts = {}
    for name, draw in ways.items():
        drawn = Random(seeds)
        texts[name] = digested([str(number) for _ in range(4) for number in draw(drawn).tolist()])
    golden("draws.txt", sections(texts))
