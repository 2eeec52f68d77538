"""Values that a function or a loop may emit: one item for each, with what it depends on."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from sparkbeam.columns.expressions import (
    NOTHING,
    Either,
    Expression,
    Item,
    Loop,
    Looped,
    Made,
    Nothing,
    Stamped,
    TimestampParts,
)
from sparkbeam.columns.graph import Graph, checked, named
from sparkbeam.columns.python_types import NONE, Constants, Lists, Mixed, Shape, Table, unified
from sparkbeam.columns.reasons import NotCompiled


def selected_slots(
    graph: Graph, condition: Expression, yes: tuple[Item, ...], no: tuple[Item, ...]
) -> tuple[Item, ...]:
    """Choose between the values that two paths emit; one of them may emit more."""
    pairs = zip_longest(yes, no, fillvalue=NOTHING)
    return tuple(graph.select(condition, *pair) for pair in pairs)


def leaves_of(item: Item) -> Iterator[Item]:
    """Yield the possible values of a result on all paths."""
    if isinstance(item, Either):
        yield from leaves_of(item.yes)
        yield from leaves_of(item.no)
    elif isinstance(item, Looped):
        yield from leaves_of(item.item)
    elif not isinstance(item, Nothing):
        yield item


def may_be_nothing(item: Item) -> bool:
    """Return whether an item stands for another number of values than one."""
    if isinstance(item, Either):
        return may_be_nothing(item.yes) or may_be_nothing(item.no)
    return isinstance(item, Nothing | Looped)


def loops_around(slots: tuple[Item, ...]) -> tuple[Loop, ...]:
    """Return the loops in which results are emitted, from the outermost to the innermost.

    Raises:
        NotCompiled: results come from different loops, which leaves their order undefined.
    """
    found = {around for slot in slots for around in _loops_in(slot, ())}
    if len(found) > 1:
        raise NotCompiled("it emits results in several loops, or both inside and outside a loop")
    return found.pop() if found else ()


def _loops_in(item: Item, around: tuple[Loop, ...]) -> Iterator[tuple[Loop, ...]]:
    if isinstance(item, Either):
        yield from _loops_in(item.yes, around)
        yield from _loops_in(item.no, around)
    elif isinstance(item, Looped):
        yield from _loops_in(item.item, (*around, item.loop))
    elif not isinstance(item, Nothing):
        yield around


def result_shape(leaf: Item) -> Shape:
    """Return the type of a result.

    Raises:
        NotCompiled: no column can hold it.
    """
    if isinstance(leaf, Stamped):
        checked(leaf.time.micros)
        return result_shape(leaf.value)
    if not isinstance(leaf, Expression) or isinstance(leaf.shape, Constants | Mixed | Table):
        raise NotCompiled(
            f"it produces {'a Timestamp' if isinstance(leaf, TimestampParts) else named(leaf)}"
        )
    if isinstance(leaf, Made):
        for field in leaf.fields:
            result_shape(field)
    checked(leaf)
    return leaf.shape


def unified_shape(leaves: Iterable[Item]) -> Shape:
    """Return the common type of results; None if there are none."""
    result: Shape = NONE
    for at, leaf in enumerate(leaves):
        shape = result_shape(leaf)
        result = unified(result, shape) if at else shape
    return result


def list_of(graph: Graph, items: tuple[Item, ...]) -> Expression:
    """Return the list of the values that loops emit.

    Raises:
        NotCompiled: no column can hold it.
    """
    loops_around(items)
    leaves = [leaf for item in items for leaf in leaves_of(item)]
    if any(isinstance(leaf, Stamped) for leaf in leaves):
        raise NotCompiled("it makes a list with a TimestampedValue in it")
    shape = unified_shape(leaves)
    if shape == NONE or isinstance(shape, Mixed):
        raise NotCompiled(f"it makes a list of {shape}")
    return graph.collection(Lists(shape), items)
