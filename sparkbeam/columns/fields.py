"""Which fields of its argument a function looks at."""

from collections.abc import Iterable, Iterator

from sparkbeam.columns.graph import is_present
from sparkbeam.columns.nodes import (
    Apply,
    Branch,
    Column,
    Either,
    Evaluate,
    Item,
    Listed,
    Made,
    Moment,
    Named,
    OfUnion,
    Select,
    Stamped,
    Statement,
    Update,
)
from sparkbeam.columns.shapes import Record


def fields_of(
    argument: Item, slots: Iterable[Item], statements: Iterable[Statement], *, is_filter: bool
) -> frozenset[int] | None:
    """The positions of the fields of an argument that expressions and statements need.

    Args:
        argument: the only one of the function.
        slots: the results.
        statements: evaluated before them.
        is_filter: the results are the argument.

    Returns:
        None where the argument is no record, or is needed as a whole.
    """
    if not isinstance(argument, Column) or not isinstance(argument.shape, Record):
        return None
    waiting: list[Item] = list(_items(statements))
    for slot in slots:
        waiting += _conditions(slot) if is_filter else [slot]
    found: set[int] = set()
    seen: set[int] = set()
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, Column):
            if not item.path:
                return None
            found.add(item.path[0])
        elif not (
            isinstance(item, Apply) and item.kernel is is_present and item.args == (argument,)
        ):
            waiting += _parts(item)
    return frozenset(found)


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


def _conditions(slot: Item) -> Iterator[Item]:
    """What decides whether the argument is the result."""
    if isinstance(slot, Either):
        yield slot.condition
        yield from _conditions(slot.yes)
        yield from _conditions(slot.no)


def _parts(item: Item) -> Iterable[Item]:
    match item:
        case Apply():
            return item.args
        case Select() | Either():
            return item.condition, item.yes, item.no
        case Made():
            return item.fields if item.present is None else (*item.fields, item.present)
        case OfUnion():
            return (item.column,)
        case Stamped():
            return item.value, item.time
        case Moment():
            return (item.micros,)
        case Listed():
            return item.items
        case Named():
            return item.items.values()
    return ()
