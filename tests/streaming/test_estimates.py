"""What a shard's state is taken to weigh follows what it has: else its cache holds nothing."""

from collections.abc import Callable

import pytest
from counted_map import CountedMap

from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.state.records import EVENT_TIME, Record

CACHE_BYTES = 1 << 20
TIMES = 50_000


def set_a_cell(record: Record) -> None:
    for number in range(TIMES):
        record.set(b"cell", b"%50d" % number)


def set_and_empty_cells(record: Record) -> None:
    for number in range(TIMES):
        record.set(b"%d" % number, (number, None))
        record.pop(b"%d" % number)


def set_a_timer(record: Record) -> None:
    for number in range(TIMES):
        record.set_timer(b"timer", EVENT_TIME, number, None, None)


def fire_timers(record: Record) -> None:
    for number in range(TIMES):
        record.set_timer(b"%d" % number, EVENT_TIME, number, None, None)
        record.pop_due(EVENT_TIME, number)


def move_a_hold(record: Record) -> None:
    for number in range(TIMES):
        record.set_hold(b"hold", number)
    record.set_hold(b"hold", None)


def fill_and_clear_bags(record: Record) -> None:
    for number in range(TIMES // 100):
        record.bag(b"bag").append([b"%50d" % number] * 50)
        record.ordered(b"ordered").add((n, b"x" * 50) for n in range(50))
        record.bag(b"bag").clear()
        record.ordered(b"ordered").clear(0, None)


@pytest.mark.parametrize(
    "work",
    [
        set_a_cell,
        set_and_empty_cells,
        set_a_timer,
        fire_timers,
        move_a_hold,
        fill_and_clear_bags,
    ],
)
def test_what_takes_the_place_of_something_else_weighs_no_more(
    work: Callable[[Record], None],
) -> None:
    state = ShardState(CountedMap(), CACHE_BYTES)
    record = state.stage("s").record(b"key")
    before = state.cache.size
    work(record)
    assert before <= state.cache.size < before + 1000


@pytest.mark.parametrize("kind", ["bag", "ordered"])
def test_what_lies_outside_of_the_record_is_not_counted_in_it_too(kind: str) -> None:
    entries = CountedMap()
    state = ShardState(entries, CACHE_BYTES)
    record = state.stage("s").record(b"key")
    for low in range(0, TIMES, 100):
        if kind == "bag":
            record.bag(b"cell").append([b"%50d" % number for number in range(low, low + 100)])
        else:
            record.ordered(b"cell").add((number, b"x" * 50) for number in range(low, low + 100))
    assert state.cache.size <= CACHE_BYTES
    before = entries.reads
    for number in range(1000):
        if kind == "bag":
            record.bag(b"cell").append([b"more"])
        else:
            record.ordered(b"cell").clear(number, number + 1)
    assert entries.reads - before < 100
