"""Pages of state do what plain dicts do, and cost what is changed of them."""

import gc
import random
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.worker.state import contents, page
from sparkbeam.worker.state.bag_nodes import Node
from sparkbeam.worker.state.buckets import Bucket, size_of
from sparkbeam.worker.state.pages import KeyedState, ShardState, TooLarge
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME, Hold
from sparkbeam.worker.state.store import MemoryMap

SMALL_CACHE = 20_000
MOST = 64 << 10


def key(number: int) -> bytes:
    return b"key %d" % number


def fill(entries: MemoryMap, count: int, size: int = 100) -> None:
    state = ShardState(entries)
    stage = state.stage("stage")
    for number in range(count):
        stage.record(key(number)).set(b"cell", number.to_bytes(size, "big"))
    state.save()


def test_a_shard_keeps_small_values() -> None:
    entries = MemoryMap()
    state = ShardState(entries)
    assert state.value("watermark") is None
    state.set_value("watermark", 5)
    state.set_value("other", [1, 2])
    state.save()
    state = ShardState(entries)
    assert (state.value("watermark"), state.value("other")) == (5, [1, 2])
    state.set_value("watermark", None)
    state.save()
    assert ShardState(entries).value("watermark") is None


def test_a_closed_shard_waits_for_no_garbage_collector() -> None:
    entries = MemoryMap()
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


def test_stages_do_not_share_records() -> None:
    entries = MemoryMap()
    state = ShardState(entries)
    state.stage("a").record(b"key").set(b"cell", 1)
    state.stage("b").record(b"key").set(b"cell", 2)
    state.save()
    state = ShardState(entries)
    assert state.stage("b").record(b"key").get(b"cell") == 2
    assert state.stage("a").record(b"key").get(b"cell") == 1


def test_reading_writes_nothing() -> None:
    entries = MemoryMap()
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
    entries = MemoryMap()
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
    entries, random_ = MemoryMap(), random.Random(1)
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


def test_a_page_and_its_delta_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = MemoryMap()
    fill(entries, 300)
    changes = [(5, b"new"), (6, None), (300, b"added"), (5, b"newer"), (300, None), (6, b"back")]
    expected = {key(number): number.to_bytes(100, "big") for number in range(300)}
    for number, value in changes:
        state = ShardState(entries)
        record = state.stage("stage").record(key(number))
        if value is None:
            record.clear()
            expected.pop(key(number))
        else:
            record.set(b"cell", value)
            expected[key(number)] = value
        state.save()
        stage = ShardState(entries).stage("stage")
        names = list(stage.keys())
        assert {name: stage.record(name).get(b"cell") for name in names} == expected
        assert stage.size[0] == len(expected)
    assert any(name.endswith(b"+") for name in entries.entries)


def test_a_batch_reads_no_page_twice() -> None:
    entries = MemoryMap()
    fill(entries, 5000)
    entries.reads = 0
    state = ShardState(entries)
    stage = state.stage("stage")
    keys = [key(number) for number in range(5000)]
    stage.prefetch(keys)
    for number, name in enumerate(keys):
        assert int.from_bytes(stage.record(name).get(b"cell"), "big") == number
    assert entries.reads <= len(entries.entries)


def test_pages_that_do_not_fit_follow_as_they_are_needed() -> None:
    entries = MemoryMap()
    fill(entries, 5000)
    state = ShardState(entries, SMALL_CACHE)
    stage = state.stage("stage")
    keys = [key(number) for number in range(5000)]
    stage.prefetch(keys)
    for number, name in enumerate(keys):
        record = stage.record(name)
        assert int.from_bytes(record.get(b"cell"), "big") == number
        record.set(b"more", number)
    state.save()
    stage = ShardState(entries).stage("stage")
    assert [stage.record(name).get(b"more") for name in keys] == list(range(5000))


def test_pages_merge_when_records_go() -> None:
    entries = MemoryMap()
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
    entries = MemoryMap()
    fill(entries, 500)
    state = ShardState(entries)
    for name in list(state.stage("stage").keys()):
        state.stage("stage").record(name).pop(b"cell")
    state.save()
    assert len(entries.entries) == 2
    assert ShardState(entries).stage("stage").size == (0, 0)


def test_a_record_in_use_stays_the_same_while_pages_come_and_go() -> None:
    entries = MemoryMap()
    fill(entries, 5000)
    state = ShardState(entries, SMALL_CACHE)
    stage = state.stage("stage")
    record = stage.record(key(1))
    for number in range(2, 5000):
        stage.record(key(number)).set(b"more", b"x" * 50)
    record.set(b"late", b"yes")
    assert stage.record(key(1)) is record
    for number in range(5000, 15_000):
        stage.record(key(number)).set(b"more", b"x" * 50)
    record.set(b"later", b"yes")
    assert stage.record(key(1)) is record
    del record
    state.save()
    record = ShardState(entries).stage("stage").record(key(1))
    assert (record.get(b"late"), record.get(b"later")) == (b"yes", b"yes")


def test_due_keys_read_the_pages_that_have_any() -> None:
    entries = MemoryMap()
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


def test_due_keys_come_once_each_while_state_grows_and_is_written_back() -> None:
    entries = MemoryMap()
    state = ShardState(entries)
    for number in range(3000):
        state.stage("stage").record(key(number)).set_timer(b"t", EVENT_TIME, number, None, None)
    state.save()
    state = ShardState(entries, SMALL_CACHE)
    stage = state.stage("stage")
    seen = []
    for name in stage.due_keys(EVENT_TIME, 2000):
        seen.append(name)
        record = stage.record(name)
        assert record.pop_due(EVENT_TIME, 2000) is not None
        record.set_timer(b"soon", EVENT_TIME, 2000, None, None)
        assert record.pop_due(EVENT_TIME, 2000) == (2000, b"soon", None)
        record.set_timer(b"late", EVENT_TIME, 9000, None, None)
        stage.record(b"new" + name).set_timer(b"t", EVENT_TIME, 1, None, None)
    assert sorted(seen) == sorted(set(seen))
    assert {name for name in seen if name.startswith(b"key")} == set(map(key, range(2001)))
    state.save()
    assert ShardState(entries).stage("stage").next_due(EVENT_TIME) in (1, 2001)


def test_a_micro_batch_that_moves_timers_leaves_the_first_of_each_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(page, "_LARGE_BYTES", 1 << 12)
    entries, random_ = MemoryMap(), random.Random(1)
    expected: dict[bytes, int] = {}
    for _ in range(60):
        state = ShardState(entries)
        stage = state.stage("stage")
        for number in random_.sample(range(300), 8):
            record, fire = stage.record(key(number)), random_.randrange(1000)
            if fire < 300:
                record.clear_timer(b"t")
                expected.pop(key(number), None)
            else:
                record.set_timer(b"t", EVENT_TIME, fire, fire - 1, None)
                expected[key(number)] = fire
            assert stage.next_due(EVENT_TIME) == min(expected.values(), default=None)
        state.save()
        stage = ShardState(entries).stage("stage")
        limit = random_.randrange(300, 1000)
        due = {name for name, fire in expected.items() if fire <= limit}
        assert set(stage.due_keys(EVENT_TIME, limit)) == due
        assert stage.hold() == min((fire - 1 for fire in expected.values()), default=None)


def test_the_oldest_hold_is_told_with_its_key_and_what_lets_go() -> None:
    entries = MemoryMap()
    state = ShardState(entries)
    stage = state.stage("stage")
    assert stage.oldest_hold(MOST) is None
    for number in range(1000):
        record = stage.record(key(number))
        record.set_hold(b"window", 5000 + number)
        record.set_timer(b"window", EVENT_TIME, 9000 + number, None, None)
    state.save()
    for again in (stage, ShardState(entries).stage("stage")):
        assert again.oldest_hold(MOST) == Hold(5000, key(0), is_timer=False, until=9000)
    stage.record(key(7)).set_timer(b"timer", PROCESSING_TIME, 8000, 4000, None)
    assert stage.oldest_hold(MOST) == Hold(4000, key(7), is_timer=True, until=8000, id=b"timer")
    stage.record(key(8)).set_hold(b"bag", 3000)
    assert stage.oldest_hold(MOST) == Hold(3000, key(8), is_timer=False, until=9008)
    stage.record(key(0)).clear()
    state.save()
    assert ShardState(entries).stage("stage").oldest_hold(MOST) == stage.oldest_hold(MOST)


def test_a_very_large_page_is_not_read_for_its_oldest_hold() -> None:
    entries = MemoryMap()
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
        entries = MemoryMap()
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

    def keys(self) -> Iterator[bytes]:
        for name in self.parts():
            if any(part.get(name) for part in self.all_parts()):
                yield name

    def parts(self) -> set[bytes]:
        return {name for part in self.all_parts() for name in part}

    def all_parts(self) -> tuple[dict[bytes, Any], ...]:
        return self.cells, self.bags, self.ordered, self.timers, self.holds


def compare(stage: KeyedState, model: Model, random_: random.Random) -> None:
    assert stage.hold() == model.hold()
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
            model.timers.setdefault(name, {}).pop(cell, None)
            model.timers[name][cell] = timer
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
                for part in model.all_parts():
                    part.pop(name, None)
            else:
                record.clear_timer(cell)
                model.timers.get(name, {}).pop(cell, None)


def fire(stage: KeyedState, model: Model, domain: int, limit: int) -> None:
    due = {
        name
        for name, timers in model.timers.items()
        if any(t[0] <= limit and t[1] == domain for t in timers.values())
    }
    fired = set()
    for name in stage.due_keys(domain, limit):
        fired.add(name)
        record = stage.record(name)
        while (popped := record.pop_due(domain, limit)) is not None:
            time, id, payload = popped
            least = min(
                t[0] for t in model.timers[name].values() if t[0] <= limit and t[1] == domain
            )
            timer = model.timers[name].pop(id)
            assert (time, domain, payload) == (timer[0], timer[1], timer[3])
            assert time == least
    assert fired == due


@pytest.mark.part(3)
@pytest.mark.parametrize("seed", range(3))
def test_it_does_what_plain_dicts_do(seed: int) -> None:
    random_ = random.Random(seed)
    entries = MemoryMap()
    model = Model()
    keys = 30 if seed % 2 else 1500
    for batch in range(25):
        state = ShardState(entries, random_.choice([SMALL_CACHE, 1_000_000]))
        stage = state.stage("stage")
        names = [key(random_.randrange(keys)) for _ in range(random_.choice([1, 20, 300]))]
        if random_.randrange(2):
            stage.prefetch(names)
        for name in names:
            change(stage, model, name, random_)
        if random_.randrange(3) == 0:
            fire(stage, model, random_.randrange(2), random_.randrange(1000))
        if batch % 5 == 0:
            compare(stage, model, random_)
        if batch in (12, 24):
            for name in list(stage.keys()):
                if batch == 24 or random_.randrange(10):
                    stage.record(name).clear()
                    for part in model.all_parts():
                        part.pop(name, None)
        state.save()
        if batch % 4 == 0:
            compare(ShardState(entries).stage("stage"), model, random_)
    assert ShardState(entries).stage("stage").size == (0, 0)


# Parts of ordered bags are what lists of their entries are.

numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
texts = st.binary(max_size=3)
values = st.binary(max_size=9)


def entries_of(keys: Any) -> Any:
    return st.lists(st.tuples(keys, values), min_size=1, max_size=12).map(by_key)


def by_key(entries: list[Any]) -> list[Any]:
    return sorted(entries, key=lambda entry: entry[0])


some = st.one_of(
    st.tuples(*[entries_of(numbers)] * 2, numbers), st.tuples(*[entries_of(texts)] * 2, texts)
)


def bucket_of(entries: list[Any]) -> Bucket[Any]:
    bucket: Bucket[Any] = Bucket([key for key, _ in entries], [value for _, value in entries])
    return contents.loads(contents.dumps(bucket))


def listed(bucket: Bucket[Any]) -> list[Any]:
    return list(zip(*bucket.lists(), strict=True))


@given(some, st.integers(0, 12), st.integers(0, 12))
def test_what_is_removed_has_its_size(given: Any, low: int, high: int) -> None:
    entries, _, _ = given
    bucket = bucket_of(entries)
    low, high = min(low, high, len(entries)), min(max(low, high), len(entries))
    gone = entries[low:high]
    assert bucket.remove(low, high) == size_of([k for k, _ in gone], [v for _, v in gone])
    assert listed(bucket) == entries[:low] + entries[high:]


@given(some, st.integers(1, 100))
def test_pieces_have_all_entries(given: Any, piece_bytes: int) -> None:
    entries, _, _ = given
    pieces = bucket_of(entries).pieces(piece_bytes)
    assert [entry for piece, _ in pieces for entry in listed(piece)] == entries
    for piece, size in pieces:
        assert size == size_of(*piece.lists())
    joined, *others = [piece for piece, _ in pieces]
    for other in others:
        joined.absorb(other)
    assert listed(joined) == entries


@given(some)
def test_a_node_is_read_as_it_was_written(given: Any) -> None:
    entries, _, _ = given
    pieces = bucket_of(entries).pieces(40)
    node = Node.of([(piece, number, size) for number, (piece, size) in enumerate(pieces)])
    read: Node[Any] = contents.loads(contents.dumps(node))
    assert list(read.firsts) == [piece.keys[0] for piece, _ in pieces]
    assert list(read.lasts) == [piece.keys[-1] for piece, _ in pieces]
    assert list(read.numbers) == list(range(len(pieces)))
    assert list(read.counts) == [len(piece.keys) for piece, _ in pieces]
    assert list(read.sizes) == [size for _, size in pieces]
