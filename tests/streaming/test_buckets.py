"""Parts of ordered bags are what lists of their entries are."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.worker.state import contents
from sparkbeam.worker.state.bag_nodes import Node
from sparkbeam.worker.state.buckets import Bucket, size_of

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


@given(some, st.integers(0, 12), st.integers(0, 12), st.booleans())
def test_a_bucket_gives_what_is_in_it(given: Any, low: int, high: int, reverse: bool) -> None:
    entries, _, key = given
    bucket = bucket_of(entries)
    assert listed(bucket) == entries
    low, high = min(low, high, len(entries)), min(max(low, high), len(entries))
    part = entries[low:high]
    assert list(bucket.entries(low, high, reverse=reverse)) == (part[::-1] if reverse else part)
    assert [bucket.entry(at) for at in range(low, high)] == part
    first, until = bucket.within(key, None)
    assert entries[first:until] == [entry for entry in entries if entry[0] >= key]


@given(some)
def test_entries_come_behind_those_of_the_same_key(given: Any) -> None:
    entries, more, _ = given
    bucket = bucket_of(entries)
    bucket.merge([key for key, _ in more], [value for _, value in more])
    assert listed(bucket) == by_key(entries + more)


@given(some, st.integers(0, 12), st.integers(0, 12))
def test_what_is_removed_has_its_size(given: Any, low: int, high: int) -> None:
    entries, _, _ = given
    bucket = bucket_of(entries)
    low, high = min(low, high, len(entries)), min(max(low, high), len(entries))
    gone = entries[low:high]
    assert bucket.remove(low, high) == size_of([k for k, _ in gone], [v for _, v in gone])
    assert listed(bucket) == entries[:low] + entries[high:]


@given(some, st.lists(st.tuples(st.sampled_from(["look", "add", "remove"]), st.integers(0, 30))))
def test_a_bucket_is_right_whatever_was_done_to_it(given: Any, steps: list[Any]) -> None:
    entries, more, _ = given
    bucket = bucket_of(entries)
    for step, place in steps:
        at = place % len(entries)
        if step == "look":
            assert bucket.entry(at) == entries[at]
        elif step == "add":
            key, value = more[place % len(more)]
            bucket.merge([key], [value])
            entries = by_key([*entries, (key, value)])
        elif len(entries) > 1:
            bucket.remove(at, at + 1)
            entries = entries[:at] + entries[at + 1 :]
    assert listed(bucket_of(listed(bucket))) == listed(bucket) == entries


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
