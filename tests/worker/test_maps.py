"""Map states against plain Python, over a shard's state and over a batch's, in small buckets."""

import bisect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from apache_beam.coders import coders
from counted_map import CountedMap
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkbeam.coders import OrderedBytesCoder, OrderedIntCoder, OrderedStrCoder
from sparkbeam.state import MapStateSpec, MultimapStateSpec, SortedMultimapStateSpec
from sparkbeam.worker.keyed import maps
from sparkbeam.worker.keyed.batch_records import MemoryRecords
from sparkbeam.worker.keyed.maps import MapState, MultimapState, SortedMultimapState
from sparkbeam.worker.keyed.state_cells import Cell
from sparkbeam.worker.state import bag_nodes, ordered_bag
from sparkbeam.worker.state.pages import ShardState

SORTED = SortedMultimapStateSpec("s", OrderedIntCoder(), coders.BytesCoder())
SORTED_STATE = partial(SortedMultimapState, SORTED)
MAP = MapStateSpec("m", coders.VarIntCoder(), coders.BytesCoder())

Op = tuple[Any, ...]


@pytest.fixture
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [
        (ordered_bag, "SMALL_BYTES", 60),
        (ordered_bag, "BUCKET_BYTES", 150),
        (bag_nodes, "_BUCKETS", 8),
        (bag_nodes, "_SPARSE", 2),
        (bag_nodes, "_BYTES", 600),
    ]
    for module, name, size in sizes:
        monkeypatch.setattr(module, name, size)
    monkeypatch.setattr(maps, "_WAITING_BYTES", 300)


def cell_of(record: Any) -> Cell:
    return Cell(record, b"cell", b"", lambda record, window: None)


class Streaming:
    """A record that is stored and read again between micro-batches."""

    def __init__(self) -> None:
        self.entries = CountedMap()

    def bundle(self, make: Callable[[Cell], Any], work: Callable[[Any], None]) -> None:
        shard = ShardState(self.entries, 500)
        state = make(cell_of(shard.stage("s").record(b"key")))
        work(state)
        state.commit()
        shard.save()


class Batch:
    """A record in memory, of which most is in a file."""

    def __init__(self) -> None:
        self._records = MemoryRecords(500)

    def bundle(self, make: Callable[[Cell], Any], work: Callable[[Any], None]) -> None:
        state = make(cell_of(self._records.record(b"key")))
        work(state)
        state.commit()


class Sorted:
    """What a sorted multimap does, with a list."""

    def __init__(self) -> None:
        self.all: list[tuple[int, bytes]] = []

    def put(self, key: int, value: bytes) -> None:
        bisect.insort_right(self.all, (key, value), key=lambda entry: entry[0])

    def between(self, low: int, high: int) -> list[tuple[int, bytes]]:
        return [entry for entry in self.all if low <= entry[0] <= high]

    def remove(self, low: int, high: int) -> None:
        gone = self.between(low, high)
        self.all = [entry for entry in self.all if entry not in gone]

    def with_values(self, key: int | None) -> tuple[int, list[bytes]] | None:
        return None if key is None else (key, [v for _, v in self.between(key, key)])


KEYS = st.integers(-40, 40)
MANY = st.lists(KEYS, max_size=120)
OPS = st.one_of(
    st.tuples(st.just("put"), MANY),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.just("until"), KEYS),
    st.tuples(st.just("between"), KEYS, KEYS),
    st.tuples(st.just("look"), KEYS, KEYS),
)
BATCHES = st.lists(st.lists(OPS, max_size=5), min_size=1, max_size=5)


def check_sorted(state: SortedMultimapState, model: Sorted, low: int, high: int) -> None:
    keys = [key for key, _ in model.all]
    assert list(state.entries_between(low, high)) == model.between(low, high)
    assert list(state.entries_between(low, high, reverse=True)) == model.between(low, high)[::-1]
    assert list(state.entries_until(high)) == model.between(-99, high)
    assert list(state.entries_from(low, reverse=True)) == model.between(low, 99)[::-1]
    assert list(state.all_entries()) == list(state.entries()) == model.all
    assert list(state.get(low)) == [value for _, value in model.between(low, low)]
    assert state.contains_key(low) == (low in keys)
    assert list(state.keys()) == sorted(set(keys))
    assert state.is_empty() == (not keys)
    below, above = [k for k in keys if k <= low], [k for k in keys if k >= low]
    assert state.floor(low) == model.with_values(max(below, default=None))
    assert state.ceiling(low) == model.with_values(min(above, default=None))
    assert state.first() == model.with_values(min(keys, default=None))
    assert state.last() == model.with_values(max(keys, default=None))


def apply_sorted(state: SortedMultimapState, model: Sorted, ops: list[Op], values: Any) -> None:
    for op in ops:
        match op:
            case ("put", keys):
                for key in keys:
                    value = next(values)
                    state.put(key, value)
                    model.put(key, value)
            case ("remove", key):
                state.remove(key)
                model.remove(key, key)
            case ("until", key):
                state.remove_until(key)
                model.remove(-99, key)
            case ("between", low, high):
                state.remove_between(low, high)
                model.remove(low, high)
            case ("look", low, high):
                announced = state.read_later(low=low, high=high)
                check_sorted(state, model, low, high)
                assert list(announced.read()) == model.between(low, high)
                state.read_later(high)


def numbered() -> Iterator[bytes]:
    return (b"%d" % number for number in range(10**9))


@pytest.mark.usefixtures("small_buckets")
@pytest.mark.parametrize("place", [Streaming, Batch])
def test_a_sorted_multimap_is_a_sorted_list(place: Any) -> None:
    @settings(max_examples=40)
    @given(BATCHES)
    def run(batches: list[list[Op]]) -> None:
        kept, model, values = place(), Sorted(), numbered()
        for ops in batches:
            kept.bundle(
                SORTED_STATE, lambda state, ops=ops: apply_sorted(state, model, ops, values)
            )
        kept.bundle(SORTED_STATE, lambda state: check_sorted(state, model, -5, 5))

    run()


def apply_map(state: MapState, model: dict[int, bytes], ops: list[Op], values: Any) -> None:
    for op in ops:
        match op:
            case ("put", keys):
                for key in keys:
                    value = next(values)
                    state.put(key, value)
                    model[key] = value
            case ("remove", key) | ("until", key):
                state.remove(key)
                model.pop(key, None)
            case ("between", key, _):
                value = next(values)
                assert state.put_if_absent(key, value) == model.get(key)
                model.setdefault(key, value)
            case ("look", low, high):
                announced = state.read_later(high, low)
                assert state.get(low) == model.get(low)
                found = [(key, model[key]) for key in (high, low) if key in model]
                assert list(announced.read()) == found
                assert state.get(high, "none") == model.get(high, "none")
                assert dict(state.entries()) == model
                assert sorted(state.keys()) == sorted(model)
                assert sorted(state.values()) == sorted(model.values())
                assert state.is_empty() == (not model)


@pytest.mark.usefixtures("small_buckets")
@pytest.mark.parametrize("place", [Streaming, Batch])
def test_a_map_is_a_dict(place: Any) -> None:
    @settings(max_examples=40)
    @given(BATCHES)
    def run(batches: list[list[Op]]) -> None:
        kept, model, values = place(), dict[int, bytes](), numbered()
        for ops in [*batches, [("look", 1, 2)]]:
            kept.bundle(
                partial(MapState, MAP), lambda state, ops=ops: apply_map(state, model, ops, values)
            )

    run()


def test_clear_removes_all() -> None:
    kept = Streaming()

    def fill(state: Any) -> None:
        for number in range(5000):
            state.put(number, b"x" * 50)
        assert not state.is_empty()
        state.clear()
        assert list(state.all_entries()) == []
        state.put(1, b"one")

    def look(state: Any) -> None:
        assert list(state.all_entries()) == [(1, b"one")]

    kept.bundle(SORTED_STATE, fill)
    kept.bundle(SORTED_STATE, look)
    assert len(kept.entries.entries) <= 3


def consume(some: Iterator[Any]) -> None:
    for _ in some:
        pass


def filled(count: int) -> Streaming:
    kept = Streaming()
    kept.bundle(
        SORTED_STATE, lambda state: consume(state.put(number, b"x" * 50) for number in range(count))
    )
    return kept


def looked_at(kept: Streaming, work: Callable[[Any], Any]) -> tuple[int, int]:
    """How many entries of the store a bundle reads and writes."""
    kept.entries.reads = kept.entries.writes = 0
    shard = ShardState(kept.entries)
    state = SORTED_STATE(cell_of(shard.stage("s").record(b"key")))
    work(state)
    reads = kept.entries.reads
    state.commit()
    shard.save()
    return reads, kept.entries.writes


@pytest.mark.parametrize(
    ("work", "reads", "writes"),
    [
        (lambda state: state.floor(20_000), 6, 0),
        (lambda state: state.ceiling(20_000), 6, 0),
        (lambda state: (state.first(), state.last()), 10, 0),
        (lambda state: list(state.entries_until(300)), 8, 0),
        (lambda state: list(state.entries_from(39_700)), 8, 0),
        (lambda state: next(iter(state.all_entries(reverse=True))), 6, 0),
        (lambda state: list(state.get(20_000)), 6, 0),
        (lambda state: state.put(20_000, b"y"), 6, 6),
    ],
    ids=["floor", "ceiling", "ends", "until", "from", "reverse", "get", "put"],
)
def test_a_read_costs_what_it_reads(work: Any, reads: int, writes: int) -> None:
    few, many = filled(4_000), filled(40_000)
    found = looked_at(few, lambda state: work(_Scaled(state, 10))), looked_at(many, work)
    assert found[1][0] <= reads
    assert found[1][1] <= writes
    assert found[0][0] <= reads


class _Scaled:
    """A state with keys that are so many times smaller."""

    def __init__(self, state: Any, times: int) -> None:
        self._state = state
        self._times = times

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._state, name)
        return lambda *keys, **more: method(
            *(key // self._times if isinstance(key, int) else key for key in keys), **more
        )


def test_what_is_removed_is_not_written() -> None:
    kept = filled(40_000)
    kept.entries.put_bytes = 0
    before = len(kept.entries.entries)
    looked_at(kept, lambda state: state.remove_until(30_000))
    assert len(kept.entries.entries) < before / 3
    assert kept.entries.put_bytes < 64 << 10, "what stands at the border, and its node"


def test_a_key_with_many_values_is_passed_over_by_keys() -> None:
    kept = Streaming()

    def fill(state: Any) -> None:
        for _ in range(40_000):
            state.put(5, b"x" * 50)
        state.put(4, b"")
        state.put(6, b"")

    kept.bundle(SORTED_STATE, fill)
    found: list[int] = []
    reads, _ = looked_at(kept, lambda state: found.extend(state.keys()))
    assert found == [4, 5, 6]
    assert reads < 20


def test_little_that_is_left_here_and_there_is_joined() -> None:
    kept = filled(20_000)
    looked_at(kept, lambda state: [state.remove(n) for n in range(20_000) if n % 100])
    reads, _ = looked_at(kept, lambda state: list(state.all_entries()))
    assert reads < 12


@pytest.mark.parametrize("write", ["put", "remove", "clear"])
def test_who_writes_while_it_iterates_gets_an_error(write: str) -> None:
    def work(state: Any) -> None:
        for key in (1, 2, 3):
            state.put(key, b"")
        iterator = iter(state.all_entries())
        next(iterator)
        arguments = {"put": (4, b""), "remove": (1,), "clear": ()}[write]
        getattr(state, write)(*arguments)
        state.floor(2)
        with pytest.raises(RuntimeError, match="changed while it was iterated"):
            next(iterator)

    Streaming().bundle(SORTED_STATE, work)


def test_a_read_may_be_iterated_over_again() -> None:
    def work(state: Any) -> None:
        for key in range(100):
            state.put(key, b"x")
        some = state.entries_until(50)
        assert list(some) == list(some)
        assert len(list(some)) == 51

    Streaming().bundle(SORTED_STATE, work)


def test_huge_keys_and_values() -> None:
    spec = SortedMultimapStateSpec("s", OrderedStrCoder(), coders.BytesCoder())
    kept = Streaming()

    def fill(state: Any) -> None:
        for number in range(40):
            state.put(f"{number:02}" + "k" * 50_000, b"v" * 100_000)

    kept.bundle(partial(SortedMultimapState, spec), fill)

    def look(state: Any) -> None:
        key, values = state.ceiling("20")
        assert (key[:2], values) == ("20", [b"v" * 100_000])
        state.remove_until("30")
        numbers = [key[:2] for key, _ in state.entries()]
        assert numbers == [str(number) for number in range(30, 40)]

    kept.bundle(partial(SortedMultimapState, spec), look)


@pytest.mark.parametrize("coder", [coders.BytesCoder(), OrderedBytesCoder()])
def test_keys_that_begin_alike_are_different(coder: coders.Coder) -> None:
    spec = SortedMultimapStateSpec("s", coder, coders.BytesCoder())

    def work(state: Any) -> None:
        for key in (b"a\0\0", b"a", b"", b"a\0", b"a\xff"):
            state.put(key, key)
        state.remove(b"a\0")
        assert [key for key, _ in state.all_entries()] == [b"", b"a", b"a\0\0", b"a\xff"]
        assert state.floor(b"a\0") == (b"a", [b"a"])
        assert list(state.entries_until(b"a")) == [(b"", b""), (b"a", b"a")]

    Streaming().bundle(partial(SortedMultimapState, spec), work)


def test_a_multimap_takes_keys_in_any_order() -> None:
    spec = MultimapStateSpec("m", coders.StrUtf8Coder(), coders.VarIntCoder())

    def work(state: Any) -> None:
        for number, key in enumerate("bab"):
            state.put(key, number)
        assert list(state.get("b")) == [0, 2]
        assert list(state.keys()) == ["a", "b"]
        state.remove("b")
        assert list(state.entries()) == [("a", 1)]

    Streaming().bundle(partial(MultimapState, spec), work)
