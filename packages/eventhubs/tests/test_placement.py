"""The order in which Spark gets the partitions of a hub."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_eventhubs.placement import BALANCED, HASH, PLACEMENTS, in_turn, place


@given(st.text(min_size=1), st.integers(1, 64), st.integers(1, 64))
def test_the_partitions_of_a_hub_are_balanced_over_places(
    hub: str, partitions: int, places: int
) -> None:
    counts = Counter(place(hub, str(number), places, BALANCED) for number in range(partitions))
    assert max(counts.values()) - (min(counts.values()) if len(counts) == places else 0) <= 1


def test_hubs_begin_at_different_places() -> None:
    firsts = {place(f"hub-{number}", "0", 8, BALANCED) for number in range(100)}
    assert firsts == set(range(8))


def test_by_hash_each_partition_is_anywhere() -> None:
    counts = Counter(place("clicks", str(number), 8, HASH) for number in range(800))
    assert set(counts) == set(range(8))
    assert max(counts.values()) < 200


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_place_is_the_same_in_each_process(placement: str) -> None:
    found = [place("clicks", str(number), 5, placement) for number in range(4)]
    assert found == {BALANCED: [3, 4, 0, 1], HASH: [0, 2, 2, 2]}[placement]


def test_each_place_gets_one_in_turn() -> None:
    assert in_turn([(2, "a"), (0, "b"), (2, "c"), (2, "d"), (1, "e")]) == list("beacd")
    assert in_turn([]) == []
