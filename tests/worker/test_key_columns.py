"""Keys as columns: of plain types, tuples and NamedTuples."""

from typing import Any, NamedTuple

import pytest

from sparkbeam.worker.blocks import BlockLimit
from sparkbeam.worker.value_columns import column_of_keys


class Place(NamedTuple):
    """A plain NamedTuple."""

    name: str
    number: int = 0


class Route(NamedTuple):
    """One of another."""

    start: Place
    end: Place


class _Named(NamedTuple):
    name: str


class Insensitive(_Named):
    """A NamedTuple with an equality of its own."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and self.name.lower() == other[0].lower()

    __hash__ = tuple.__hash__


@pytest.mark.parametrize(
    "keys",
    [
        [Place("a", 1), Place("b", -(1 << 63))],
        [Place("a"), None, Place("b", None)],  # type: ignore[arg-type]
        [Route(Place("a"), Place("b", 2)), Route(Place(""), Place("\x00"))],
        [(Place("a", 1), 0.5), (Place("b", 2), float("-inf"))],
        [(("a", 1), None), None, ((None, 2), None), (None, None)],
        [(), ()],
    ],
    ids=str,
)
def test_the_values_of_the_column_are_the_keys(keys: list[Any]) -> None:
    column = column_of_keys(keys)
    assert column is not None
    assert column.values() == keys
    assert [*map(type, column.values())] == [*map(type, keys)]


@pytest.mark.parametrize(
    "keys",
    [
        [Place("a"), ("a", 0)],
        [Place("a", 1), Place("b", 1 << 70)],
        [Place("a", [1])],  # type: ignore[arg-type]
        [Insensitive("a"), Insensitive("A")],
    ],
    ids=str,
)
def test_other_keys_make_no_column(keys: list[Any]) -> None:
    assert column_of_keys(keys) is None


class TestBlockLimit:
    def test_blocks_grow_while_values_are_small(self) -> None:
        limit = BlockLimit()
        for _ in range(4):
            before = limit.values
            limit.learn([1] * before)
            assert limit.values == 2 * before

    def test_a_full_block_of_large_values_ends_the_growth(self) -> None:
        limit = BlockLimit()
        limit.learn([b"x" * (1 << 20)] * limit.values)
        assert limit.values <= 16

    def test_of_short_blocks_some_are_measured(self) -> None:
        limit = BlockLimit()
        for _ in range(10):
            limit.learn([1] * limit.values)
        grown = limit.values
        for _ in range(8):
            limit.learn([b"x" * (1 << 20)])
        assert limit.values < grown // 10
