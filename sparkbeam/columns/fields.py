"""Analysis of the parts of an argument that a function needs."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from sparkbeam.columns.comparisons import HasTypeCode
from sparkbeam.columns.expressions import (
    UNKNOWN,
    Apply,
    Branch,
    ColumnRef,
    Either,
    Evaluate,
    IntervalParts,
    Item,
    Listed,
    Made,
    Named,
    OfUnion,
    Select,
    Stamped,
    Statement,
    TimestampParts,
    Update,
)
from sparkbeam.columns.graph import is_present

Paths: TypeAlias = frozenset[tuple[int, ...]]
"""Parts of records: the position of a field, of the field in that, and so on.

Of a union it is the type code of a member first, and then the position of a field in that.
"""

ALL: Paths = frozenset([()])
"""The paths of all parts."""


def paths_needed(
    argument: Item, slots: Iterable[Item], statements: Iterable[Statement], wanted: Paths
) -> Paths:
    """Return the parts of its argument that a function needs for some parts of its results.

    Expressions that may fail are needed even if their values are not.

    Args:
        argument: the only argument of the function.
        slots: the results.
        statements: the statements evaluated before them.
        wanted: the parts of the results that are read later.

    Returns:
        The parts of the argument.
    """
    waiting = [(item, ALL) for item in _items(statements)] + [(slot, wanted) for slot in slots]
    found: set[tuple[int, ...]] = set()
    seen: set[tuple[int, Paths]] = set()
    while waiting:
        item, of_item = waiting.pop()
        if (id(item), of_item) in seen:
            continue
        seen.add((id(item), of_item))
        if isinstance(item, ColumnRef):
            if item.argument != UNKNOWN:
                found.update(item.path + path for path in of_item)
        elif isinstance(item, OfUnion):
            found.update((*item.column.path, *path) for path in _in_members(item))
        elif not _asks_what_it_is(item, argument):
            waiting += _parts(item, of_item)
    return frozenset(found)


def _in_members(item: OfUnion) -> Iterator[tuple[int, int]]:
    """Yield the member and position of a union field, where present."""
    for code, position in enumerate(item.positions):
        if position is not None:
            yield code, position


def _asks_what_it_is(item: Item, argument: Item) -> bool:
    """Return whether an expression tests the class of the argument, or tests it for None."""
    if not isinstance(item, Apply) or item.args != (argument,):
        return False
    return item.kernel is is_present or isinstance(item.kernel, HasTypeCode)


def _items(statements: Iterable[Statement]) -> Iterator[Item]:
    for statement in statements:
        match statement:
            case Evaluate():
                yield statement.node
            case Update():
                yield statement.amount
            case Branch():
                yield statement.condition
                yield from _items(statement.yes)
                yield from _items(statement.no)


def _parts(item: Item, wanted: Paths) -> Iterator[tuple[Item, Paths]]:
    """Yield the operands of an expression with the parts needed of each."""
    match item:
        case Made():
            for at, field in enumerate(item.fields):
                yield field, ALL if () in wanted else _within(wanted, at)
            if item.present is not None:
                yield item.present, ALL
        case Select() | Either():
            yield item.condition, ALL
            yield from ((way, wanted) for way in (item.yes, item.no))
        case Stamped():
            yield item.value, wanted
            yield item.time, ALL
        case Apply():
            yield from ((arg, ALL) for arg in item.args)
        case TimestampParts():
            yield item.micros, ALL
        case IntervalParts():
            yield from ((time, ALL) for time in (item.start, item.end))
        case Listed():
            yield from ((one, ALL) for one in item.items)
        case Named():
            yield from ((one, ALL) for one in item.items.values())


def _within(paths: Paths, position: int) -> Paths:
    """Return the remainders of the paths that lead into a field."""
    return frozenset(path[1:] for path in paths if path[0] == position)
