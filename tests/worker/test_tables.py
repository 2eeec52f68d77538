"""Elements gathered by key before they leave a worker."""

import random
from collections import Counter
from typing import Any

import pytest
from apache_beam.coders import FastPrimitivesCoder
from apache_beam.transforms.window import GlobalWindow, IntervalWindow

from sparkbeam.worker.row_formats import key_table
from sparkbeam.worker.row_formats.group_values import RunCoder
from sparkbeam.worker.row_formats.key_table import RunTable

CODER = FastPrimitivesCoder().get_impl()
KEYS: list[Any] = [0, 1, True, None, "", "a", b"", b"a", (1, "a"), 1.5]
VALUES: list[Any] = [7, "text", b"bytes", None, False, 2.5, [1, 2], {"k": 1}, (3,)]
WINDOWS = [GlobalWindow(), IntervalWindow(0, 10)]

Groups = dict[tuple[Any, bytes], Counter[str]]


def table(**options: Any) -> RunTable:
    return RunTable(CODER, RunCoder(CODER), **options)


def taken(found: RunTable) -> tuple[Groups, dict[tuple[Any, bytes], int]]:
    """What is in a table by window and encoded key: the values, and the timestamp."""
    groups: Groups = {}
    times: dict[tuple[Any, bytes], int] = {}
    for window, keys, runs, stamps in found.take():
        for key, run, stamp in zip(keys, runs, stamps, strict=True):
            groups.setdefault((window, key), Counter()).update(
                map(repr, RunCoder(CODER).decode(run))
            )
            times[window, key] = stamp
    return groups, times


def expected(elements: list[tuple[Any, Any, Any]]) -> Groups:
    groups: Groups = {}
    for window, key, value in elements:
        groups.setdefault((window, CODER.encode_nested(key)), Counter()).update([repr(value)])
    return groups


@pytest.mark.parametrize("size", [1, 2, 17])
@pytest.mark.parametrize("keys", [[1, 2], ["a", "b"], [b"a"], [True, False], KEYS], ids=repr)
@pytest.mark.parametrize("values", [[1, 2.5], ["x"], [[1]], VALUES], ids=repr)
def test_groups_are_those_of_encoded_keys(keys: list[Any], values: list[Any], size: int) -> None:
    chance = random.Random(1)
    found, elements = table(), []
    for _ in range(20):
        window = chance.choice(WINDOWS)
        pairs = [(chance.choice(keys), chance.choice(values)) for _ in range(size)]
        elements += [(window, key, value) for key, value in pairs]
        if size == 1:
            found.add(window, *pairs[0])
        else:
            found.add_all(window, pairs)
    assert taken(found)[0] == expected(elements)
    assert taken(found) == ({}, {}), "it is empty after it has been taken"


def test_timestamps_of_a_key_combine() -> None:
    found = table(combine_stamps=max)
    for stamp, key in ((3, 1), (9, "a"), (5, 1), (2, "a")):
        found.add_all(WINDOWS[0], [(key, "value"), (key, ["value"])], stamp)
    times = taken(found)[1]
    assert {CODER.decode_nested(key): stamp for (_, key), stamp in times.items()} == {1: 5, "a": 9}


def test_a_value_that_changes_later_is_kept_as_it_was() -> None:
    value = [1]
    found = table()
    found.add_all(WINDOWS[0], [(1, value)])
    value.append(2)
    assert taken(found)[0] == expected([(WINDOWS[0], 1, [1])])


@pytest.mark.parametrize(
    ("key", "value"),
    [(lambda n: n, b"v" * 1000), (lambda n: b"%d" % n * 300, 1), (lambda n: (n,), "v" * 1000)],
    ids=["large values", "large keys", "other keys"],
)
def test_it_tells_when_it_is_full(key: Any, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_table, "TABLE_BYTES", 100_000)
    one_by_one, at_once = table(), table()
    count = next(n for n in range(1000) if one_by_one.add(WINDOWS[0], key(n), value))
    assert 20 < count < 150
    assert at_once.add_all(WINDOWS[0], [(key(n), value) for n in range(count + 20)])
    assert not table().add_all(WINDOWS[0], [(key(n), value) for n in range(count // 2)])
