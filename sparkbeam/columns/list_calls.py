"""Calls of Python's functions of iterables, over lists and generators."""

from collections.abc import Callable
from typing import Any, TypeGuard

from sparkbeam.columns import list_kernels
from sparkbeam.columns.expressions import (
    Const,
    Expression,
    Generated,
    Held,
    Item,
    Listed,
    Looped,
)
from sparkbeam.columns.graph import Graph, named
from sparkbeam.columns.python_types import (
    BYTES,
    INT,
    NUMBERS,
    STR,
    Lists,
    RecordShape,
    Shape,
    is_tuple,
)
from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.slots import list_of, may_be_nothing

CONSUMERS = frozenset([all, any, max, min, sorted, sum])
"""Functions that may run a generator to its end."""

ORDERS = frozenset([max, min, sorted])

Call = Callable[[Any, list[Item]], Item]


def as_list(graph: Graph, item: Item) -> Item:
    """Return what a generator yields as a list; other items unchanged."""
    if not isinstance(item, Generated):
        return item
    if item.updates:
        raise NotCompiled("it updates a metric in a generator")
    items = graph.start(item)
    return list_of(graph, items) if any(map(may_be_nothing, items)) else Listed(items)


def is_list(item: Item) -> TypeGuard[Expression]:
    """Return whether an item is a column of lists."""
    return isinstance(item, Expression) and isinstance(item.shape, Lists)


def has_true(name: str, graph: Graph, items: tuple[Item, ...]) -> Item:
    """Compute ``any`` or ``all``, by name."""
    if len(items) == 1 and isinstance(items[0], Listed):
        found: Expression = graph.const(name == "all")
        for item in reversed(items[0].items):
            truth = graph.truth(item)
            ways = (found, truth) if name == "all" else (truth, found)
            found = graph.chosen(truth, *ways)
        return found
    if len(items) != 1 or not is_list(items[0]):
        raise NotCompiled(f"it calls {name} with {', '.join(map(named, items)) or 'nothing'}")

    def sign(item: Item) -> Expression:  # All are true if none is false.
        return graph.truth(item) if name == "any" else graph.negated(graph.truth(item))

    flags = _of_each(graph, items[0], sign)
    return sign(graph.apply(list_kernels.sums, INT, flags))


def ordered(
    graph: Graph, call: Call, function: Any, items: list[Item], by_name: dict[str, Item]
) -> Item:
    """Compute ``min``, ``max`` or ``sorted`` of a list.

    Args:
        call: calls a Python object.
    """
    name = function.__name__
    options = {"key", "reverse"} if function is sorted else {"key", "default"}
    if len(items) != 1 or not is_list(items[0]) or not by_name.keys() <= options:
        shown = "keyword arguments" if by_name else ", ".join(map(named, items)) or "nothing"
        raise NotCompiled(f"it calls {name} with {shown}")
    lists, key = items[0], by_name.get("key", graph.const(None))
    keys = lists
    if isinstance(key, Held):
        function_of_item = key.value
        keys = _of_each(graph, lists, lambda item: call(function_of_item, [item]))
    elif not isinstance(key, Const) or key.value is not None:
        raise NotCompiled(f"it calls {name} with {named(key)} as the key")
    assert isinstance(keys.shape, Lists)
    if not _has_order(keys.shape.item):
        raise NotCompiled(f"it orders by {keys.shape.item}")
    if function is not sorted:
        kernel = list_kernels.least_place if function is min else list_kernels.greatest_place
        return _picked(graph, lists, kernel, keys, by_name.get("default"))
    reverse = by_name.get("reverse", graph.const(False))
    if not isinstance(reverse, Const) or not isinstance(reverse.value, bool):
        raise NotCompiled("it sorts in an order that is not a constant bool")
    return graph.apply(list_kernels.in_order(reverse.value), lists.shape, lists, keys)


def _of_each(graph: Graph, lists: Expression, function: Callable[[Item], Item]) -> Expression:
    """Return lists of the results of a function for each item."""
    graph.require(lists)
    with graph.iteration(lists) as (loop, item):
        result = graph.stored(function(item))
    return list_of(graph, (Looped(loop, result),))


def _has_order(shape: Shape) -> bool:
    if isinstance(shape, RecordShape):
        return is_tuple(shape) and all(map(_has_order, shape.fields))
    return shape in NUMBERS | {STR, BYTES}


def _picked(
    graph: Graph, lists: Expression, kernel: Any, among: Expression, default: Item | None
) -> Item:
    """Return the item of each list at the place that a kernel finds; the default if it is empty."""
    places = graph.apply(kernel, INT, among)
    if default is None:
        places = graph.apply(list_kernels.required, INT, places)
    picked = graph.pick(lists, places)
    if default is None or (isinstance(default, Const) and default.value is None):
        return picked
    return graph.select(graph.truth(lists), picked, default)
