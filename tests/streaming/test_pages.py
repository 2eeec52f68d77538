"""Pages of state do what plain dicts do, and cost what is changed of them."""

import gc
import random
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from counted_map import CountedMap

from sparkbeam.worker.state import page
from sparkbeam.worker.state.buckets import Bucket, size_of
from sparkbeam.worker.state.pages import KeyedState, ShardState, TooLarge
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME, Hold

SMALL_CACHE = 20_000
MOST = 64 << 10


def key(number: int) -> bytes:
    return b"key %d" % number


def fill(entries: CountedMap, count: int, size: int = 100) -> None:
    state = ShardState(entries)
    stage = state.stage("stage")
    for number in range(count):
        stage.record(key(number)).set(b"cell", number.to_bytes(size, "big"))
    state.save()


def test_a_closed_shard_waits_for_no_garbage_collector() -> None:
    entries = CountedMap()
    fill(entries, 100)
    gc.disable()
    try:
        state = ShardState(entries)
        stage = state.stage("stage")
        stage.record(key(1)).set(b"cell", 1)
        stage.record(key(1)).ordered(b"sorted").add([(1, bytes(10_000))])
        state.save()
        state.close()
        left = weakref.ref(stage), weakref.ref(state.cache)
        del state, stage
        assert [one() for one in left] == [None, None]
    finally:
        gc.enable()


def test_reading_writes_nothing() -> None:
    entries = CountedMap()
    fill(entries, 1000)
    writes = entries.writes
    state = ShardState(entries)
    stage = state.stage("stage")
    stage.prefetch([key(5)])
    assert stage.record(key(5)).get(b"cell") == (5).to_bytes(100, "big")
    assert stage.record(b"unknown").get(b"cell") is None
    assert list(stage.record(key(7)).bag(b"bag")) == []
    assert stage.next_due(EVENT_TIME) is None
    state.save()
    assert entries.writes == writes


def test_many_keys_take_few_entries() -> None:
    entries = CountedMap()
    fill(entries, 50_000)
    assert 500 < len(entries.entries) < 1200
    state = ShardState(entries)
    records, size = state.stage("stage").size
    assert records == 50_000
    assert 5_000_000 < size < 8_000_000


@pytest.mark.parametrize("timers", [False, True])
def test_a_batch_that_touches_few_of_many_keys_writes_little(
    timers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_LARGE_BYTES", 1 << 15)
    count, touched, size = 10_000, 100, 100
    entries, random_ = CountedMap(), random.Random(1)
    fill(entries, count, size)
    put = []
    for _ in range(20):
        state = ShardState(entries)
        stage = state.stage("stage")
        keys = [key(number) for number in random_.sample(range(count), touched)]
        before = entries.put_bytes
        for name in keys:
            record = stage.record(name)
            record.set(b"cell", random_.randbytes(size))
            if timers:
                record.set_timer(b"timer", EVENT_TIME, random_.randrange(1 << 40), None, None)
        state.save()
        put.append(entries.put_bytes - before)
    directory = sum(len(data) for name, data in entries.entries.items() if name[2:3] == b"d")
    assert sum(put) / len(put) < 8 * touched * (size + len(keys[0])) + directory * timers


def test_a_batch_reads_no_page_twice() -> None:
    entries = CountedMap()
    fill(entries, 5000)
    entries.reads = 0
    state = ShardState(entries)
    stage = state.stage("stage")
    keys = [key(number) for number in range(5000)]
    stage.prefetch(keys)
    for number, name in enumerate(keys):
        assert int.from_bytes(stage.record(name).get(b"cell"), "big") == number
    assert entries.reads <= len(entries.entries)


def test_pages_merge_when_records_go() -> None:
    entries = CountedMap()
    fill(entries, 20_000)
    many = len(entries.entries)
    assert many > 200
    for _ in range(4):
        state = ShardState(entries)
        stage = state.stage("stage")
        for number in range(10, 20_000):
            stage.record(key(number)).clear()
        state.save()
    assert len(entries.entries) < 20
    stage = ShardState(entries).stage("stage")
    assert sorted(stage.keys()) == sorted(key(number) for number in range(10))
    assert stage.size[0] == 10


def test_an_empty_state_leaves_next_to_nothing() -> None:
    entries = CountedMap()
    fill(entries, 500)
    state = ShardState(entries)
    for name in list(state.stage("stage").keys()):
        state.stage("stage").record(name).pop(b"cell")
    state.save()
    assert len(entries.entries) == 2
    assert ShardState(entries).stage("stage").size == (0, 0)


def test_due_keys_read_the_pages_that_have_any() -> None:
    entries = CountedMap()
    fill(entries, 20_000)
    state = ShardState(entries)
    stage = state.stage("stage")
    for number in (3, 4000, 15_000):
        stage.record(key(number)).set_timer(b"t", EVENT_TIME, number, number - 1, None)
    assert (stage.next_due(EVENT_TIME), stage.hold()) == (3, 2)
    state.save()
    stage = ShardState(entries).stage("stage")
    entries.reads = 0
    assert (stage.next_due(EVENT_TIME), stage.hold()) == (3, 2)
    assert stage.next_due(PROCESSING_TIME) is None
    assert entries.reads == 0
    assert sorted(stage.due_keys(EVENT_TIME, 4000)) == [key(3), key(4000)]
    assert entries.reads <= 5
    assert stage.record(key(3)).pop_due(EVENT_TIME, 4000) == (3, b"t", None)
    assert (stage.next_due(EVENT_TIME), stage.hold()) == (4000, 3999)


def test_a_very_large_page_is_not_read_for_its_oldest_hold() -> None:
    entries = CountedMap()
    state = ShardState(entries)
    record = state.stage("stage").record(key(0))
    record.set(b"cell", b"x" * (1 << 20))
    record.set_hold(b"cell", 5)
    state.save()
    reads = entries.reads
    stage = ShardState(entries).stage("stage")
    assert stage.hold() == 5
    with pytest.raises(TooLarge):
        stage.oldest_hold(MOST)
    assert entries.reads <= reads + 2


def test_the_same_operations_give_the_same_bytes() -> None:
    def run(share: bool) -> dict[bytes, bytes]:
        entries = CountedMap()
        for batch in range(3):
            state = ShardState(entries)
            stage = state.stage("stage")
            same = b"some value"
            for number in range(2000):
                value = same if share else bytes(bytearray(same))
                record = stage.record(key(number * (batch + 1)))
                record.set(b"cell", value)
                record.bag(b"bag").append([value] * batch * 20)
            state.save()
        return entries.entries

    assert run(share=True) == run(share=False)


def test_what_is_removed_of_a_bucket_has_its_size() -> None:
    random_ = random.Random(1)
    for _ in range(50):
        keys = sorted(random_.choices([-(2**62), -3, 0, 5, 2**40], k=random_.randrange(1, 12)))
        values = [random_.randbytes(random_.randrange(9)) for _ in keys]
        low, high = sorted(random_.choices(range(len(keys) + 1), k=2))
        bucket = Bucket(list(keys), values)
        assert bucket.remove(low, high) == size_of(keys[low:high], values[low:high])
        assert bucket.lists() == (keys[:low] + keys[high:], values[:low] + values[high:])


class Model:
    """Plain dicts that do what the store does."""

    def __init__(self) -> None:
        self.cells: dict[bytes, dict[bytes, Any]] = {}
        self.bags: dict[bytes, dict[bytes, list[bytes]]] = {}
        self.ordered: dict[bytes, list[tuple[int, bytes]]] = {}
        self.timers: dict[bytes, dict[bytes, tuple[int, int, int | None, Any]]] = {}
        self.holds: dict[bytes, dict[bytes, int]] = {}

    def least(self, domain: int) -> int | None:
        fires = [t[0] for timers in self.timers.values() for t in timers.values() if t[1] == domain]
        return min(fires, default=None)

    def hold(self) -> int | None:
        holds = [hold for by_cell in self.holds.values() for hold in by_cell.values()]
        for timers in self.timers.values():
            holds += [timer[2] for timer in timers.values() if timer[2] is not None]
        return min(holds, default=None)

    def holds_of(self, name: bytes) -> Iterator[Hold]:
        timers = self.timers.get(name, {})
        for id, (fire, _, hold, _) in timers.items():
            if hold is not None:
                yield Hold(hold, name, is_timer=True, until=fire, id=id)
        first = min((t[0] for t in timers.values() if t[1] == EVENT_TIME), default=None)
        for cell, hold in self.holds.get(name, {}).items():
            yield Hold(hold, name, False, timers[cell][0] if cell in timers else first)

    def keys(self) -> Iterator[bytes]:
        for name in {name for part in self.all_parts() for name in part}:
            if any(part.get(name) for part in self.all_parts()):
                yield name

    def set_timer(self, name: bytes, id: bytes, timer: tuple[int, int, int | None, Any]) -> None:
        timers = self.timers.setdefault(name, {})
        timers.pop(id, None)
        timers[id] = timer

    def clear(self, name: bytes) -> None:
        for part in self.all_parts():
            part.pop(name, None)

    def all_parts(self) -> tuple[dict[bytes, Any], ...]:
        return self.cells, self.bags, self.ordered, self.timers, self.holds


def compare(stage: KeyedState, model: Model, random_: random.Random) -> None:
    assert stage.hold() == model.hold()
    oldest = stage.oldest_hold(1 << 30)
    assert (None if oldest is None else oldest.micros) == model.hold()
    assert oldest is None or oldest in model.holds_of(oldest.key)
    for domain in (EVENT_TIME, PROCESSING_TIME):
        assert stage.next_due(domain) == model.least(domain)
    for name in list(stage.keys()):
        record = stage.record(name)
        cells = model.cells.get(name, {})
        bags = {cell: bag for cell, bag in model.bags.get(name, {}).items() if bag}
        assert {cell: record.get(cell) for cell in cells} == cells
        for cell, bag in bags.items():
            assert list(record.bag(cell)) == bag
            assert len(record.bag(cell)) == len(bag)
        ordered = model.ordered.get(name, [])
        low, high = sorted(random_.choices(range(-5, 1005), k=2))
        ordered_bag = record.ordered(b"ordered")
        assert len(ordered_bag) == len(ordered)
        assert list(ordered_bag.range(low, high)) == [e for e in ordered if low <= e[0] < high]
        assert list(ordered_bag.range(-10, 2000)) == ordered
        assert list(ordered_bag.range(low, high, reverse=True)) == [
            e for e in reversed(ordered) if low <= e[0] < high
        ]
        before = [e for e in ordered if e[0] < high]
        assert ordered_bag.last_before(high) == (before[-1] if before else None)
        ends = sorted(random_.choices(range(-5, 1005), k=20))
        lasts = [[e for e in ordered if e[0] < end][-1:] for end in ends]
        assert list(ordered_bag.lasts_before(ends)) == [last[0] if last else None for last in lasts]
        assert dict(record.timers()) == model.timers.get(name, {})
        assert set(record.cells()) == {*cells, *bags, *([b"ordered"] if ordered else [])}
    assert sorted(stage.keys()) == sorted(model.keys())


def change(stage: KeyedState, model: Model, name: bytes, random_: random.Random) -> None:
    record = stage.record(name)
    cell = random_.choice([b"a", b"b"])
    stamp = random_.randrange(1000)
    if random_.randrange(4) == 0:
        record.bag(b"bag " + cell).read_later()
        record.ordered(b"ordered").read_later([(stamp, random_.choice([None, stamp + 100]))])
    match random_.randrange(14):
        case 0 | 1 | 2:
            value = random_.randbytes(random_.choice([0, 10, 300]))
            record.set(cell, value)
            model.cells.setdefault(name, {})[cell] = value
        case 3:
            assert record.pop(cell) == model.cells.get(name, {}).pop(cell, None)
        case 4 | 5:
            size = random_.choice([10, 1000])
            items = [random_.randbytes(size) for _ in range(random_.choice([1, 5, 150]))]
            record.bag(b"bag " + cell).append(items)
            model.bags.setdefault(name, {}).setdefault(b"bag " + cell, []).extend(items)
        case 6:
            record.bag(b"bag " + cell).clear()
            model.bags.get(name, {}).pop(b"bag " + cell, None)
        case 7 | 8:
            many = random_.choice([1, 3, 300, 3000])
            entries = [
                (random_.randrange(1000), random_.randbytes(random_.choice([3, 50])))
                for _ in range(many)
            ]
            if random_.randrange(2):
                record.ordered(b"ordered").prefetch(stamp for stamp, _ in entries)
            record.ordered(b"ordered").add(entries)
            known = model.ordered.setdefault(name, [])
            known += entries
            known.sort(key=lambda entry: entry[0])
        case 9:
            end = stamp + random_.choice([5, 300, 1000])
            record.ordered(b"ordered").clear(stamp, end)
            model.ordered[name] = [
                e for e in model.ordered.get(name, []) if not stamp <= e[0] < end
            ]
        case 10 | 11:
            timer = (stamp, random_.randrange(2), random_.choice([None, stamp - 1]), stamp)
            record.set_timer(cell, timer[1], timer[0], timer[2], timer[3])
            model.set_timer(name, cell, timer)
        case 12:
            hold = random_.choice([None, stamp])
            record.set_hold(cell, hold)
            if hold is None:
                model.holds.get(name, {}).pop(cell, None)
            else:
                model.holds.setdefault(name, {})[cell] = hold
        case 13:
            if random_.randrange(3) == 0:
                record.clear()
                model.clear(name)
            else:
                record.clear_timer(cell)
                model.timers.get(name, {}).pop(cell, None)


def fire(stage: KeyedState, model: Model, domain: int, limit: int) -> None:
    due = {
        name
        for name, timers in model.timers.items()
        if any(t[0] <= limit and t[1] == domain for t in timers.values())
    }
    fired = []
    for name in stage.due_keys(domain, limit):
        fired.append(name)
        record = stage.record(name)
        while (popped := record.pop_due(domain, limit)) is not None:
            time, id, payload = popped
            least = min(
                t[0] for t in model.timers[name].values() if t[0] <= limit and t[1] == domain
            )
            timer = model.timers[name].pop(id)
            assert (time, domain, payload) == (timer[0], timer[1], timer[3])
            assert time == least
            if id != b"soon":  # While keys come, their state and that of others may grow.
                record.set_timer(b"soon", domain, limit, None, 0)
                model.set_timer(name, b"soon", (limit, domain, None, 0))
                for other in (name, b"beside " + name[-3:]):
                    stage.record(other).set_timer(b"late", domain, limit + 9000, limit, 0)
                    model.set_timer(other, b"late", (limit + 9000, domain, limit, 0))
    assert sorted(fired) == sorted(due)


@pytest.mark.part(3)
@pytest.mark.parametrize("seed", range(6))
def test_it_does_what_plain_dicts_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "_LARGE_BYTES", [8 << 20, 1 << 12, 1 << 15][seed % 3])
    random_ = random.Random(seed)
    entries = CountedMap()
    models = {"stage": Model(), "other": Model()}
    keys = 30 if seed % 2 else 1500
    for batch in range(25):
        state = ShardState(entries, random_.choice([SMALL_CACHE, 1_000_000]))
        assert state.value("batch") == (batch - 1 if batch % 4 != 1 and batch else None)
        state.set_value("batch", batch if batch % 4 else None)
        name = random_.choice(["stage", "stage", "other"])
        stage, model = state.stage(name), models[name]
        names = [key(random_.randrange(keys)) for _ in range(random_.choice([1, 20, 300]))]
        in_use = stage.record(names[0])
        if random_.randrange(2):
            stage.prefetch(names)
        for one in names:
            change(stage, model, one, random_)
        if random_.randrange(3) == 0:
            fire(stage, model, random_.randrange(2), random_.randrange(1000))
        assert stage.record(names[0]) is in_use
        in_use.set(b"late", b"yes")
        model.cells.setdefault(names[0], {})[b"late"] = b"yes"
        del in_use
        if batch % 5 == 0:
            compare(stage, model, random_)
        if batch in (12, 24):
            for stage, model in ((state.stage(name), models[name]) for name in models):
                for one in list(stage.keys()):
                    if batch == 24 or random_.randrange(10):
                        stage.record(one).clear()
                        model.clear(one)
        state.save()
        if batch % 4 == 0:
            stored = ShardState(entries)
            for name, model in models.items():
                compare(stored.stage(name), model, random_)
    stored = ShardState(entries)
    assert [stored.stage(name).size for name in models] == [(0, 0)] * 2
