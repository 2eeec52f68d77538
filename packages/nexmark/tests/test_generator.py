"""The vectorized generator against a scalar one, and that one against Java."""

import numpy as np
import pytest
from oracle import Generator, JavaRandom, next_below

from beam_nexmark.configuration import Configuration
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


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_events_are_those_of_the_description(configuration):
    numbers = in_generator_order(configuration, 0, configuration.events)

    events = EventBatch.generate(configuration, numbers).to_python()

    assert events == list(Generator(configuration).events())


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


class TestJavasRandom:
    """The numbers are what java.util.Random itself answers."""

    def test_scalar_draws_are_those_of_java(self):
        random = JavaRandom(42)
        assert [random.next_int() for _ in range(3)] == [-1170105035, 234785527, -1360544799]
        random = JavaRandom(42)
        assert [random.next_int(10) for _ in range(5)] == [0, 3, 8, 4, 0]
        assert JavaRandom(42).next_long() == -5025562857975149833
        assert JavaRandom(42).next_double() == 0.7275636800328681

    @pytest.mark.parametrize("bound", [1, 2, 3, 13, 26, 111, 1024, 10_000, 2**30 + 1, 2**31 - 2])
    def test_bounded_draws_agree(self, bound):
        seeds = np.arange(2_000)
        expected = [JavaRandom(seed) for seed in seeds.tolist()]
        drawn = Random(seeds)
        for _ in range(4):
            assert drawn.next_int(bound).tolist() == [one.next_int(bound) for one in expected]

    def test_draws_with_a_bound_for_each_row_agree(self):
        seeds = np.arange(4_000)
        bounds = np.tile([1, 7, 64, 2**30 + 1, 2**31 - 2, 2**31 - 1, 2**31, 2**40], 500)
        expected = [JavaRandom(seed) for seed in seeds.tolist()]
        drawn = Random(seeds)
        for _ in range(4):
            assert drawn.next_long(bounds).tolist() == [
                next_below(one, bound) for one, bound in zip(expected, bounds.tolist(), strict=True)
            ]

    def test_only_the_chosen_rows_draw(self):
        drawn = Random(np.array([42, 42]))
        drawn.next_int(10, np.array([1]))
        assert drawn.next_int(10).tolist() == [0, 3]

    def test_doubles_and_whole_ints_agree(self):
        seeds = np.arange(1_000)
        expected = [JavaRandom(seed) for seed in seeds.tolist()]
        drawn = Random(seeds)
        assert drawn.next_double().tolist() == [one.next_double() for one in expected]
        assert drawn.next_signed().tolist() == [one.next_int() for one in expected]
