"""Dataclasses that are read from files of others."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pytest

from sparkbeam.common.untrusted_json import loaded, parsed


class Pair(NamedTuple):
    first: int
    second: str


@dataclass(frozen=True)
class Part:
    label: str = ""
    size: float = 0.0


@dataclass(frozen=True)
class Whole:
    number: int
    over: bool
    due: int | None
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    by_name: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    pair: Pair | None = None
    span: tuple[int, str] = (0, "")
    tokens: Sequence[str] = ()
    anything: Any = None


WHOLE = Whole(
    number=-(1 << 63),
    over=True,
    due=None,
    part=Part("a", 1.5),
    parts=(Part("b"), Part(size=2.0)),
    by_name={"s0": {"0": 7}},
    pair=Pair(1, "x"),
    span=(2, "y"),
    tokens=("t",),
    anything={"of": ["any", 3]},
)


def test_what_is_written_is_read() -> None:
    assert parsed(Whole, loaded(json.dumps(asdict(WHOLE)))) == WHOLE


def test_fields_with_defaults_may_be_missing() -> None:
    assert parsed(Whole, {"number": 1, "over": False, "due": 3}) == Whole(1, False, 3)


def test_fields_of_another_version_are_ignored() -> None:
    assert parsed(Part, {"label": "a", "weight": 1}) == Part("a")


def test_a_number_without_a_fraction_may_be_whole() -> None:
    assert parsed(Part, {"size": 2}) == Part(size=2.0)


@pytest.mark.parametrize(
    "changes",
    [
        {"number": True},
        {"number": 1 << 63},
        {"number": 1.0},
        {"over": 1},
        {"due": "1"},
        {"part": []},
        {"part": {"label": 1}},
        {"part": {"size": float("inf")}},
        {"part": {"size": "1"}},
        {"part": {"size": 1 << 2000}},
        {"parts": {}},
        {"parts": [None]},
        {"by_name": []},
        {"by_name": {"s0": {"0": None}}},
        {"pair": [1]},
        {"pair": ["x", 1]},
        {"span": [1, "x", 2]},
        {"span": "ab"},
        {"tokens": "ab"},
        {"tokens": [1]},
    ],
)
def test_a_field_of_another_type_is_an_error(changes: dict[str, Any]) -> None:
    content = json.loads(json.dumps(asdict(WHOLE)))
    with pytest.raises(ValueError, match="it "):
        parsed(Whole, {**content, **changes})


@pytest.mark.parametrize("content", [None, [], "x", 7, {}, {"number": 1}])
def test_anything_else_is_an_error(content: Any) -> None:
    with pytest.raises(ValueError, match="it is not a Whole"):
        parsed(Whole, content)
