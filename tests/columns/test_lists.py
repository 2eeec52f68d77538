"""Functions over lists, and loops through them: over columns they give what Python gives."""

# ruff: noqa: B007, UP028 - Loops are what is tested.

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from in_python import INNER, INT, STR, Inner, assert_same, compiled, refusal

from sparkbeam.columns import RecordShape, ResultKind
from sparkbeam.columns.python_types import Lists


class Group(NamedTuple):
    key: int
    numbers: list[int]
    names: list[str]
    inners: list[Inner]
    lists: dict[str, list[int]]


GROUP = RecordShape(
    Group,
    Group._fields,
    (
        INT,
        Lists(INT),
        Lists(STR),
        Lists(INNER),
        RecordShape(dict, ("a", "b"), (Lists(INT), Lists(INT))),
    ),
)
INTS = st.one_of(st.integers(-5, 5), st.sampled_from([2**63 - 1, -(2**63), 2**40]))
LISTS = st.lists(st.integers(-5, 5), max_size=4) | st.lists(INTS, max_size=4)
NAMES = st.lists(st.sampled_from(["", "a", "zo\u00eb"]), max_size=3)
INNERS = st.lists(st.builds(Inner, st.integers(-5, 5), st.sampled_from("ab")), max_size=3)
MAY_BE_NONE = st.lists(st.builds(Inner, st.none() | st.integers(-5, 5), st.none()) | st.none())


def two(a: list[int], b: list[int]) -> dict[str, list[int]]:
    return {"a": a, "b": b}


GROUPS = st.builds(Group, st.integers(-3, 3), LISTS, NAMES, INNERS, st.builds(two, LISTS, LISTS))
ODD_GROUPS = st.builds(
    Group,
    st.integers(-3, 3),
    st.none() | LISTS,
    NAMES | st.lists(st.none() | st.text("ab")),
    INNERS | MAY_BE_NONE,
    st.builds(two, LISTS, st.none() | LISTS),
)
BLOCKS = st.lists(GROUPS, min_size=1, max_size=8) | st.lists(ODD_GROUPS, min_size=1, max_size=4)


def pairs(x: Group) -> Iterator[Any]:
    for name in list(x.names)[:1]:
        for number in x.lists["a"]:
            yield x.key, name, number


def whole(x: Group) -> Iterator[Any]:
    for one in x.inners:
        yield one, x


def of_a_loop_inside(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        for name in x.names:
            if len(name) == number:
                continue
        yield number


def fields(x: Group) -> Iterator[Any]:
    for field in str(x.key).split("-"):
        yield x.key, field


def best(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        enough = (one for one in x.inners if one.i >= number)
        found = max(enough, key=lambda one: (-one.i, one.s), default=None)
        if found:
            yield number, found


def lists_in_a_loop(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        least = [one for one in x.inners if one.i < number]
        if not least:
            continue
        yield least[0], sum(one.i for one in least), [one.s for one in least]


GENERATORS = [
    *(pairs, whole, of_a_loop_inside, fields, best, lists_in_a_loop),
    lambda x: x.inners,
    lambda x: str(x.key).split("-") if x.numbers else x.names,
]
FUNCTIONS: list[Callable[[Group], Any]] = [
    lambda x: len(x.numbers),
    lambda x: (x.key, len(list(x.inners))),
    lambda x: sum(x.numbers),
    lambda x: max(x.numbers),
    lambda x: min(x.numbers) if x.numbers else None,
    lambda x: x.numbers[0] if len(x.numbers) > 0 else -1,
    lambda x: x.numbers[-2] if len(x.numbers) > 1 else x.key,
    lambda x: x.names[1],
    lambda x: bool(x.inners),
    lambda x: "some" if x.names and not x.numbers else "none",
    lambda x: x.numbers,
    lambda x: (x.lists["a"][1:], x.lists["b"][-2:], x.names[:-1], x.inners[1:2], x.names[-9:9]),
    lambda x: x.lists["a"] if x.key > 0 else x.lists["b"],
    lambda x: len((x.lists["a"] if x.key > 0 else x.numbers)[1:]),
    lambda x: sum(x.numbers[:2]) + max(x.lists["a"] or x.lists["b"]),
    lambda x: x.numbers is None,
    lambda x: str(x.key).split("-") if x.numbers else x.names,
    lambda x: [-one for one in x.numbers if one > x.key],
    lambda x: [(one, two) for one in x.inners for two in x.numbers if one.i != two],
    lambda x: [[len(one) - two for one in x.names] for two in x.lists["a"]],
    lambda x: (max(x.names), min(x.names, key=len, default="none"), sorted(x.names)),
    lambda x: max(x.inners, key=lambda one: one.s, default=None),
    lambda x: sorted(x.inners, key=lambda one: (one.s, one.i % 2), reverse=True)[:2],
    lambda x: x.inners[-1] if x.inners else Inner(0, ""),
    lambda x: sorted(x.inners)[1].s if x.inners[1:] and x.key > 0 else None,
    lambda x: min((one / 2 for one in x.numbers if one != x.key), default=None),
    lambda x: (any(one > 2 for one in x.numbers), all(x.names), sum(one > 2 for one in x.numbers)),
    lambda x: any(x.key > one for one in (0, 2)),
    lambda x: bool(max((one > 2 for one in x.numbers), default=None)),
    lambda x: max((one > 2 for one in x.numbers), default=None) and x.key > 0,
    lambda x: max(sum(two for two in x.lists["b"] if two <= one) for one in x.numbers),
    lambda x: (lambda more: [more + one for one in x.numbers])(x.key),
]


CALM = [Group(1, [1, 2], ["a"], [Inner(1, "a"), Inner(-2, "b")], {"a": [3], "b": []})] * 3
CALM += [Group(0, [], [], [], {"a": [], "b": [7]})]


@pytest.mark.parametrize("function", GENERATORS, ids=lambda function: function.__name__)
@settings(max_examples=30)
@given(BLOCKS)
def test_loops(function: Callable[[Group], Any], block: list[Group]) -> None:
    over_columns = compiled(function, GROUP, form=ResultKind.FLAT)
    assert assert_same(over_columns, function, CALM, ResultKind.FLAT)
    assert_same(over_columns, function, block, ResultKind.FLAT)
    called = compiled(lambda x: function(x), GROUP, form=ResultKind.FLAT)
    assert_same(called, function, block, ResultKind.FLAT)


@pytest.mark.part(3)
@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
@settings(max_examples=30)
@given(BLOCKS)
def test_functions_of_lists(number: int, block: list[Group]) -> None:
    function = FUNCTIONS[number]
    assert_same(compiled(function, GROUP), function, block, ResultKind.MAP)


@given(BLOCKS)
def test_filters_of_lists(block: list[Group]) -> None:
    def is_long(x: Group) -> bool:
        return len(x.names) > 1

    keep = compiled(is_long, GROUP, form=ResultKind.FILTER)
    assert_same(keep, is_long, block, ResultKind.FILTER)


def carries(x: Group) -> Iterator[Any]:
    last = 0
    for number in x.numbers:
        yield last
        last = number


def after(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        pass
    yield number


def before(x: Group) -> Iterator[Any]:
    yield x.key
    yield from ()
    for number in x.numbers:
        yield number


def outside(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        yield number
    yield x.key


def in_two(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        yield number
    for number in x.lists["a"]:
        yield number


def on_two_levels(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        yield number
        for other in x.lists["a"]:
            yield other


def breaks(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        if number == 1:
            break
        yield number


def breaks_at_once(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        yield number
        break


def returns(x: Group) -> Iterator[Any]:
    for number in x.numbers:
        if number == 1:
            return
        yield number


def first(x: Group) -> Any:
    for number in x.numbers:
        return [number]
    return []


def waits(x: Group) -> Iterator[Any]:
    number = x.key
    while number:
        yield number
        number -= 1


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (carries, "its variable last may have no value"),
        (after, "its variable number may have no value"),
        (outside, "it emits results in several loops, or both inside and outside a loop"),
        (in_two, "it emits results in several loops, or both inside and outside a loop"),
        (on_two_levels, "it emits results in several loops, or both inside and outside a loop"),
        (breaks, "it leaves a loop before its end"),
        (breaks_at_once, "it leaves a loop before its end"),
        (returns, "it leaves a loop before its end"),
        (first, "it leaves a loop before its end"),
        (waits, "it has a loop"),
    ],
)
def test_what_stays_with_elements(function: Callable[[Group], Any], reason: str) -> None:
    assert refusal(function, GROUP, form=ResultKind.FLAT) == reason


@st.composite
def generators(draw: Any) -> str:
    """A generator function with loops, conditions and one or two results."""
    names = iter(f"v{number}" for number in range(30))

    def number(known: list[str]) -> str:
        made = [*known, "x.key", "len(x.names)", "sum(x.numbers)", "1"]
        one = draw(st.sampled_from(made))
        return f"({one} - {draw(st.sampled_from(made))})" if draw(st.booleans()) else one

    def condition(known: list[str]) -> str:
        return f"{number(known)} {draw(st.sampled_from(['<', '>=', '==']))} {number(known)}"

    def loop() -> tuple[str, str]:
        """The name of an item, and the line of a loop through a list."""
        name = next(names)
        numbers = ["x.numbers", "x.lists['a']", "x.lists['b']", "list(x.numbers)"]
        items = {"x.inners": f"{name}.i", "x.names": f"len({name})"}
        of = draw(st.sampled_from([*numbers, *items]))
        part = draw(st.sampled_from(["", "", "[:1]", "[1:]", "[-2:]"]))
        return items.get(of, name), f"for {name} in {of}{part}:"

    lines: list[str] = []

    def body(depth: int, known: list[str], levels: int) -> None:
        indent = "    " * depth
        for _ in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(["assign", "continue", "if", "count"]))
            if kind == "assign":
                name = next(names)
                lines.append(f"{indent}{name} = {number(known)}")
                known = [*known, name]
            elif kind == "continue" and depth > 1:
                lines.append(f"{indent}if {condition(known)}: continue")
            elif kind == "if":
                name = next(names)
                lines.append(f"{indent}if {condition(known)}: {name} = {number(known)}")
                lines.append(f"{indent}else: {name} = {number(known)}")
                known = [*known, name]
            elif kind == "count":
                lines.append(f"{indent}{loop()[1]} pass")
        if levels:
            if depth > 1 and draw(st.booleans()):
                lines.append(f"{indent}if {condition(known)}:")
                depth += 1
                indent += "    "
            item, line = loop()
            lines.append(indent + line)
            body(depth + 1, [*known, item], levels - 1)
            return
        more = draw(st.sampled_from(["", ", x.key", ", len(x.names), sum(x.lists['b'])"]))
        lines.append(f"{indent}yield {number(known)}{more}")
        if more:
            return
        if draw(st.booleans()):
            lines.append(f"{indent}if {condition(known)}:")
            lines.append(f"{indent}    yield {number(known)}")

    body(1, [], draw(st.integers(1, 3)))
    return "\n".join(["def made(x):", *lines])


@given(generators(), BLOCKS)
def test_loops_that_nobody_has_thought_of(text: str, block: list[Group]) -> None:
    space: dict[str, Any] = {}
    exec(text, space)
    over_columns = compiled(space["made"], GROUP, form=ResultKind.FLAT)
    assert_same(over_columns, space["made"], block, ResultKind.FLAT)
