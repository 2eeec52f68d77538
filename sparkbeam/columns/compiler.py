"""Compilation of functions of one element to expressions over columns."""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any

from apache_beam.pvalue import Row

from sparkbeam.columns.calls import type_codes
from sparkbeam.columns.captured import CapturedEnvironment
from sparkbeam.columns.compiled import Compiled, DataDependent, Refused
from sparkbeam.columns.expressions import (
    NOTHING,
    Const,
    Either,
    Expression,
    Generated,
    IntervalParts,
    Item,
    Listed,
    Looped,
    Made,
    Nothing,
    Stamped,
    Statement,
    TimestampParts,
)
from sparkbeam.columns.fields import ALL, paths_in_documents
from sparkbeam.columns.graph import Graph, UnknownDocument, named
from sparkbeam.columns.json_kernels import DocumentPaths, parts_of
from sparkbeam.columns.machine import Machine
from sparkbeam.columns.objects import Keyed, is_generator_function
from sparkbeam.columns.operators import items_of
from sparkbeam.columns.python_types import (
    Lists,
    Mixed,
    RecordShape,
    Shape,
    Union,
    arrow_type_of,
    is_tuple,
)
from sparkbeam.columns.reasons import NotCompiled
from sparkbeam.columns.slots import (
    leaves_of,
    loops_around,
    may_be_nothing,
    selected_slots,
    unified_shape,
)

_MOST_LEAVES = 100


class ResultKind(Enum):
    """The meaning of a function's result.

    MAP: one result per element. FILTER: a predicate that keeps the element. FLAT: the results in a
    list or tuple, None, or the yields of a generator function. FLAT is also the form of
    ``DoFn.process`` and of the wrappers that Beam makes for Map, MapTuple, Filter and WithKeys.
    """

    MAP = "map"
    FILTER = "filter"
    FLAT = "flat"


@dataclass(frozen=True)
class Argument:
    """A placeholder for a column among the call arguments of a function."""

    number: int


@dataclass(frozen=True)
class TimeArgument:
    """A placeholder for a Timestamp.

    Attributes:
        number: the number of the column of its microseconds.
    """

    number: int


@dataclass(frozen=True)
class WindowArgument:
    """A placeholder for an IntervalWindow."""

    start: TimeArgument
    end: TimeArgument


def compile_function(
    function: "Callable[..., Any] | Mapping[str, Callable[..., Any]] | Keyed",
    *arguments: Shape,
    form: ResultKind = ResultKind.MAP,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Compiled | Refused | DataDependent:
    """Compile a function from its bytecode, without running user code.

    The compiled function gives the results of the function for any block, or raises
    :class:`~sparkbeam.columns.reasons.FallBack`. Captured values (globals, closure variables,
    attributes of ``self``) are read at compile time, and a block is evaluated only while the same
    objects are found, see :mod:`sparkbeam.columns.captured`.

    Args:
        function: a function, a bound method, a ``functools.partial``, an ``itemgetter`` or
            ``attrgetter``, or a NamedTuple class. A mapping from names to these makes Rows, and
            :class:`~sparkbeam.columns.objects.Keyed` makes pairs.
        args: positional arguments after the first one: constants, and columns as
            :class:`Argument`, :class:`TimeArgument` or :class:`WindowArgument`; the remaining
            columns if None.
        kwargs: keyword arguments likewise.

    Returns:
        The compiled function, or the reason for its refusal. A function that parses JSON is
        compiled for each type of it that blocks turn out to have.
    """
    if args is None:
        args = [Argument(at) for at in range(1, len(arguments))]
    return _tried(function, arguments, form, (args, kwargs or {}))


def _tried(
    function: Any,
    arguments: tuple[Shape, ...],
    form: ResultKind,
    further: Any,
    documents: tuple[RecordShape, ...] = (),
    *,
    is_open: bool = False,
) -> "Compiled | Refused | DataDependent":
    try:
        return _compiled(function, arguments, form, further, documents, is_open=is_open)
    except UnknownDocument as unknown:
        again = partial(_tried, function, arguments, form, further)
        return DataDependent(unknown.text, documents, again)
    except NotCompiled as refusal:
        return Refused(str(refusal))
    except RecursionError:
        return Refused("it is nested too deeply")


def _compiled(
    function: Any,
    arguments: tuple[Shape, ...],
    form: ResultKind,
    further: Any,
    documents: tuple[RecordShape, ...],
    *,
    is_open: bool,
) -> Compiled:
    args, kwargs = further
    graph, surroundings = Graph(documents), CapturedEnvironment(is_open=is_open)
    machine = Machine(graph, surroundings)
    columns = [graph.column(shape, number) for number, shape in enumerate(arguments)]
    held = machine.objects.held

    def time(value: TimeArgument) -> TimestampParts:
        return TimestampParts(columns[value.number])

    def item(value: Any) -> Item:
        match value:
            case Argument():
                return columns[value.number]
            case TimeArgument():
                return time(value)
            case WindowArgument():
                return IntervalParts(time(value.start), time(value.end))
        return held(value)

    with graph.collected() as statements:
        by_name = {name: item(value) for name, value in kwargs.items()}
        given: list[Item] = [columns[0], *map(item, args)]
        slots = _slots(graph, machine, function, form, given, by_name)
    leaves = [leaf for slot in slots for leaf in islice(leaves_of(slot), _MOST_LEAVES + 1)]
    if len(leaves) > _MOST_LEAVES:
        raise NotCompiled("it has too many paths")
    stamped = {isinstance(leaf, Stamped) for leaf in leaves}
    result = unified_shape(leaves)
    _require_one_column(result, len(stamped))
    loops = loops_around(slots)
    is_filter = len(slots) == 1 and not loops and all(leaf is columns[0] for leaf in leaves)
    return Compiled(
        arguments,
        result,
        stamped == {True},
        is_filter,
        _members(columns[0], slots[0]) if is_filter else (),
        columns[0],
        len(slots) == 1 and not may_be_nothing(slots[0]),
        slots,
        tuple(statements),
        tuple(surroundings.guards),
        _parts_of_documents(graph, slots, statements),
        partial(_tried, function, arguments, form, further, documents, is_open=True)
        if surroundings.is_told_apart and not is_open
        else None,
        graph.has_loops,
    )


def _parts_of_documents(
    graph: Graph, slots: tuple[Item, ...], statements: list[Statement]
) -> dict[int, DocumentPaths]:
    """Return the parts to read of the JSON that a function parses.

    Raises:
        NotCompiled: no column can hold one.
    """
    whole = {document.argument: ALL for document in graph.documents}
    paths = whole if graph.has_loops else paths_in_documents(slots, statements)
    found = {}
    for document in graph.documents:
        argument = document.argument
        of_one = ALL if argument in graph.whole else paths.get(argument, frozenset())
        found[argument] = parts_of(document.shape, of_one, graph.missing.get(argument, ()))
    return found


def _slots(
    graph: Graph,
    machine: Machine,
    function: Any,
    form: ResultKind,
    given: list[Item],
    by_name: dict[str, Item],
) -> tuple[Item, ...]:
    """Return the values that the function may emit; NOTHING where it may emit none."""
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    is_generator = isinstance(plain, types.FunctionType) and is_generator_function(plain)
    if is_generator and form is not ResultKind.FLAT:
        raise NotCompiled("it is a generator function")
    if isinstance(function, Mapping):
        items = {name: machine.objects.call(one, given, by_name) for name, one in function.items()}
        return (machine.objects.call(Row, [], items),)
    if isinstance(function, Keyed):
        return (machine.objects.keyed(function, given),)
    result = machine.objects.call(function, given, by_name)
    if form is ResultKind.FLAT:
        return _spread(graph, result)
    if form is ResultKind.FILTER:
        condition = graph.truth(result)
        return (graph.select(condition, given[0], NOTHING),)
    return (result,)


def _spread(graph: Graph, result: Item) -> tuple[Item, ...]:
    """Return the results of a function that returns a list, a tuple or None."""
    if isinstance(result, Listed):
        return result.items
    if isinstance(result, Generated):
        return graph.start(result)
    if isinstance(result, Nothing) or (isinstance(result, Const) and result.value is None):
        return ()
    if isinstance(result, Either):
        with graph.collected() as if_yes:
            yes = _spread(graph, result.yes)
        with graph.collected() as if_no:
            no = _spread(graph, result.no)
        graph.branch(result.condition, if_yes, if_no)
        return selected_slots(graph, result.condition, yes, no)
    if isinstance(result, Expression) and is_tuple(result.shape):
        if isinstance(result, Made) and result.present is not None:
            present = result.present
            return tuple(graph.select(present, field, NOTHING) for field in result.fields)
        return items_of(graph, result)
    if isinstance(result, Expression) and isinstance(result.shape, Lists):
        graph.require(result)
        with graph.iteration(result) as (loop, item):
            return (Looped(loop, item),)
    raise NotCompiled(f"it returns {named(result)} instead of a list of results")


def _members(column: Expression, slot: Item) -> tuple[int, ...]:
    """Return the union members that a filter lets through."""
    if not isinstance(column.shape, Union):
        return ()
    every = frozenset(range(len(column.shape.members)))
    if isinstance(slot, Either) and isinstance(slot.no, Nothing):
        return tuple(sorted(type_codes(slot.condition, every)))
    return tuple(sorted(every))


def _require_one_column(result: Shape, kinds: int) -> None:
    if kinds > 1:
        raise NotCompiled("it returns both TimestampedValues and other values")
    if isinstance(result, Mixed):
        raise NotCompiled(f"it produces {result}")
    arrow_type_of(result)
