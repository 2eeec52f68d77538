"""Analysis of the parts of an argument that a function needs."""

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from sparkbeam.columns.comparisons import HasTypeCode
from sparkbeam.columns.expressions import (
    UNKNOWN,
    Apply,
    Branch,
    Collected,
    ColumnRef,
    Document,
    DurationParts,
    Either,
    Evaluate,
    IntervalParts,
    Item,
    Listed,
    Made,
    Make,
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

IS_THERE = -1
"""Last position of a path into JSON that only tells whether an object is None."""


def paths_needed(
    argument: Item, slots: Iterable[Item], statements: Iterable[Statement], wanted: Paths
) -> Paths:
    """Return the parts of its argument that a function needs for some parts of its results.

    Expressions that may fail are needed even if their values are not.

    Args:
        argument: the only argument of the function.
        statements: the statements evaluated before them.
        wanted: the parts of the results that are read later.

    Returns:
        The parts of the argument.
    """
    found: set[tuple[int, ...]] = set()
    for item, of_item in _read(argument, slots, statements, wanted):
        if isinstance(item, OfUnion):
            found.update((*item.column.path, *path) for path in _in_members(item))
        elif item.argument >= 0:
            found.update(item.path + path for path in of_item)
    return frozenset(found)


def paths_in_documents(slots: Iterable[Item], statements: Iterable[Statement]) -> dict[int, Paths]:
    """Return the parts of JSON that a function without loops needs, by argument number.

    Args:
        statements: the statements evaluated before them.
    """
    found: dict[int, set[tuple[int, ...]]] = {}
    for item, of_item in _read(None, slots, statements, ALL):
        if isinstance(item, ColumnRef) and item.argument < UNKNOWN:
            found.setdefault(item.argument, set()).update(item.path + path for path in of_item)
    return {argument: frozenset(paths) for argument, paths in found.items()}


def _read(
    argument: Item | None, slots: Iterable[Item], statements: Iterable[Statement], wanted: Paths
) -> Iterator[tuple[ColumnRef | OfUnion, Paths]]:
    """Yield the columns that a function reads, with the parts of them."""
    waiting = [(item, ALL) for item in _items(statements)] + [(slot, wanted) for slot in slots]
    seen: set[tuple[int, Paths]] = set()
    while waiting:
        item, of_item = waiting.pop()
        if (id(item), of_item) in seen:
            continue
        seen.add((id(item), of_item))
        if isinstance(item, ColumnRef | OfUnion):
            yield item, of_item
        elif not _asks_what_it_is(item, argument):
            waiting += _parts(item, of_item)


def _in_members(item: OfUnion) -> Iterator[tuple[int, int]]:
    """Yield the member and position of a union field, where present."""
    for code, position in enumerate(item.positions):
        if position is not None:
            yield code, position


def _asks_what_it_is(item: Item, argument: Item | None) -> bool:
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
            case Make(source=Document() as document):
                yield document.text
            case Branch():
                yield statement.condition
                yield from _items(statement.yes)
                yield from _items(statement.no)


def _parts(item: Item, wanted: Paths) -> Iterator[tuple[Item, Paths]]:
    """Yield the operands of an expression with the parts needed of each."""
    match item:
        case Made():
            for at, field in enumerate(item.fields):
                within = (path[1:] for path in wanted if path[0] == at)
                yield field, ALL if () in wanted else frozenset(within)
            if item.present is not None:
                yield item.present, ALL
        case Select() | Either():
            yield item.condition, ALL
            yield from ((way, wanted) for way in (item.yes, item.no))
        case Stamped():
            yield item.value, wanted
            yield item.time, ALL
        case Apply(kernel=kernel, args=(ColumnRef() as column,)) if (
            kernel is is_present and column.argument < UNKNOWN
        ):
            yield column, frozenset([(IS_THERE,)])
        case Apply():
            yield from ((arg, ALL) for arg in item.args)
        case TimestampParts() | DurationParts():
            yield item.micros, ALL
        case IntervalParts():
            yield from ((time, ALL) for time in (item.start, item.end))
        case Listed() | Collected():
            yield from ((one, ALL) for one in item.items)
        case Named():
            yield from ((one, ALL) for one in item.items.values())
