"""Compilation of functions of one element to expressions over columns."""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.pvalue import Row

from sparkbeam.columns.calls import type_codes
from sparkbeam.columns.captured import Guard, Surroundings
from sparkbeam.columns.evaluate import Evaluation, Selection, by_rows, rows_of
from sparkbeam.columns.expressions import (
    NOTHING,
    Const,
    Either,
    Expression,
    Generated,
    IntervalParts,
    Item,
    Listed,
    Loop,
    Looped,
    Made,
    Nothing,
    Stamped,
    Statement,
    TimestampParts,
)
from sparkbeam.columns.fields import ALL, Paths, paths_needed
from sparkbeam.columns.graph import Graph, checked, named
from sparkbeam.columns.machine import Machine
from sparkbeam.columns.objects import Keyed, is_generator_function
from sparkbeam.columns.operators import items_of
from sparkbeam.columns.python_types import (
    NONE,
    Constants,
    Mixed,
    Shape,
    Table,
    Texts,
    Union,
    arrow_type_of,
    is_tuple,
    unified,
)
from sparkbeam.columns.reasons import FallBack, NotCompiled
from sparkbeam.columns.vectors import Positions, empty_column

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
    """A placeholder for a column among the call arguments of a function.

    Attributes:
        number: the number of the column.
    """

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
    """A placeholder for an IntervalWindow.

    Attributes:
        start, end: its bounds.
    """

    start: TimeArgument
    end: TimeArgument


@dataclass(frozen=True)
class Refused:
    """The outcome for a function that cannot be compiled.

    Attributes:
        reason: the reason, which completes "elements, because …".
    """

    reason: str


@dataclass(frozen=True)
class BlockResult:
    """The results of a function for a block.

    Attributes:
        values: the results.
        rows: the position of each result's element in the block, in ascending order; None if there
            is exactly one result per element, in order.
        times: the timestamp of each result in microseconds, if the results were TimestampedValues.
    """

    values: pa.Array
    rows: Positions | None = None
    times: Positions | None = None


@dataclass(frozen=True)
class _Leaf:
    """An emitted value.

    Attributes:
        selection: the elements that emit it.
        item: the value.
        number: the position among the results of an element.
        rounds: the iterations of the enclosing loop; None outside loops. The same for all leaves.
    """

    selection: Selection
    item: Item
    number: int
    rounds: Selection | None = None


@dataclass(frozen=True)
class Compiled:
    """A compiled function.

    Attributes:
        arguments: the required types of its argument columns.
        result: the type of its results; for TimestampedValues, of the values in them.
        is_timestamped: whether its results are TimestampedValues.
        is_filter: whether it emits either its first argument unchanged or nothing.
        members: the type codes of the union members that a filter may let through, in ascending
            order; :func:`member_of` makes a column of one.
    """

    arguments: tuple[Shape, ...]
    result: Shape
    is_timestamped: bool
    is_filter: bool
    members: tuple[int, ...]
    _argument: Expression
    _is_one_to_one: bool
    _slots: tuple[Item, ...]
    _statements: tuple[Statement, ...]
    _guards: tuple[Guard, ...]
    _opened: "Callable[[], Compiled | Refused] | None"
    _has_loops: bool

    @property
    def is_empty(self) -> bool:
        """Return whether it never emits a result."""
        return all(isinstance(slot, Nothing) for slot in self._slots)

    @property
    def outcome(self) -> Shape:
        """The type of its output: of a filter its input, or the only union member that it keeps."""
        shape = self.arguments[0]
        if self.is_filter and isinstance(shape, Union) and len(self.members) == 1:
            return shape.members[self.members[0]]
        return shape if self.is_filter else self.result

    def constant(self, *path: int) -> Any:
        """Return the constant that a part of each result always equals; None if there is none.

        Args:
            path: the position of a field, of a field in that, and so on.
        """
        item = self._slots[0] if len(self._slots) == 1 else None
        for at in path:
            parts = item.fields if isinstance(item, Made) else ()
            item = parts[at] if at < len(parts) else None
        return item.value if isinstance(item, Const) else None

    def needed(self, wanted: Paths) -> Paths:
        """Return the parts of its only argument that it reads or passes on, compiled or called.

        With several arguments this is all of them, as their types may differ from those at compile
        time; likewise with loops. Values that may differ in another process make no difference.

        Args:
            wanted: the parts of its results that are read later.
        """
        if len(self.arguments) > 1 or self._has_loops:
            return ALL
        if self._opened is not None:
            other = self._opened()
            if isinstance(other, Compiled) and other.outcome == self.outcome:
                return other.needed(wanted)
            return ALL
        if self.is_filter and self.outcome != self.arguments[0]:
            wanted = frozenset((*self.members, *path) for path in wanted)
        return paths_needed(self._argument, self._slots, self._statements, wanted)

    def evaluate(self, *columns: pa.Array, rows: Positions | None = None) -> BlockResult:
        """Evaluate a block.

        Args:
            columns: one column per argument.
            rows: the positions of the elements to evaluate, in ascending order; all if None.

        Raises:
            FallBack: Python might give another result or raise for this block, which must be
                processed element by element.
        """
        evaluation = self._run(columns, rows)
        leaves = self._leaves(evaluation)
        with _exactly():
            if self._is_one_to_one and len(leaves) == 1:
                values, times = self._columns(evaluation, leaves[0])
                output = BlockResult(values, None, times)
            else:
                output = self._gathered(evaluation, leaves)
        evaluation.update_metrics()
        return output

    def kept(self, *columns: pa.Array, rows: Positions | None = None) -> Positions:
        """Return the positions of the elements that a filter keeps.

        Args, raises: as :meth:`evaluate`.
        """
        assert self.is_filter
        evaluation = self._run(columns, rows)
        found = by_rows([rows_of(leaf.selection) for leaf in self._leaves(evaluation)])[0]
        evaluation.update_metrics()
        return found

    def _run(self, columns: tuple[pa.Array, ...], rows: Positions | None) -> Evaluation:
        for guard in self._guards:
            if not guard.holds():
                raise FallBack(f"{guard.name} has changed")
        evaluation = Evaluation(columns, rows)
        with _exactly():
            evaluation.run(self._statements, evaluation.top)
        return evaluation

    def _leaves(self, evaluation: Evaluation) -> list[_Leaf]:
        """Return the emitted values."""
        leaves: list[_Leaf] = []
        with _exactly():
            for number, slot in enumerate(self._slots):
                pending = [_Leaf(evaluation.top, slot, number)]
                while pending:
                    leaf = pending.pop()
                    selection, item = leaf.selection, leaf.item
                    if not selection.count or isinstance(item, Nothing):
                        continue
                    if isinstance(item, Either):
                        yes, no = evaluation.split(item.condition, selection)
                        pending += [
                            replace(leaf, selection=yes, item=item.yes),
                            replace(leaf, selection=no, item=item.no),
                        ]
                    elif isinstance(item, Looped):
                        rounds = evaluation.rounds(item.loop, selection)
                        pending.append(_Leaf(rounds, item.item, number, rounds))
                    else:
                        leaves.append(leaf)
        return leaves

    def _columns(self, evaluation: Evaluation, leaf: _Leaf) -> tuple[pa.Array, Positions | None]:
        selection, item = leaf.selection, leaf.item
        if not isinstance(item, Stamped):
            assert isinstance(item, Expression)
            return evaluation.column(item, selection, self.result), None
        assert isinstance(item.value, Expression)
        micros = evaluation.value(item.time.micros, selection)
        data = getattr(micros, "data", micros)
        times = np.broadcast_to(np.asarray(data, np.int64), (selection.count,))
        return evaluation.column(item.value, selection, self.result), times

    def _gathered(self, evaluation: Evaluation, leaves: list[_Leaf]) -> BlockResult:
        """Merge the results of all leaves, in the order of elements and loop iterations."""
        if not leaves:
            times = np.empty(0, np.int64) if self.is_timestamped else None
            nothing = None if self._is_one_to_one else np.empty(0, np.int64)
            return BlockResult(empty_column(self.result), nothing, times)
        parts = [self._columns(evaluation, leaf) for leaf in leaves]
        rounds = leaves[0].rounds
        rows, order = by_rows(
            [rows_of(leaf.selection, rounds) for leaf in leaves], [leaf.number for leaf in leaves]
        )
        if rounds is not None:
            rows = rows_of(rounds)[rows]
        values = parts[0][0]
        if len(parts) > 1:
            same = values.type if len({part[0].type for part in parts}) == 1 else None
            arrow_type = same or arrow_type_of(self.result)
            arrays = [part[0].cast(arrow_type) for part in parts]
            values = pa.concat_arrays(arrays).take(pa.array(order))
        stamps = [part[1] for part in parts if part[1] is not None]
        times = np.concatenate(stamps)[order] if stamps else None
        return BlockResult(values, None if self._is_one_to_one else rows, times)


def compile_function(
    function: "Callable[..., Any] | Mapping[str, Callable[..., Any]] | Keyed",
    *arguments: Shape,
    form: ResultKind = ResultKind.MAP,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Compiled | Refused:
    """Compile a function from its bytecode, without running user code.

    The compiled function gives the results of the function for any block, or raises
    :class:`~sparkbeam.columns.reasons.FallBack`. Captured values (globals, closure variables,
    attributes of ``self``) are read at compile time, and a block is evaluated only while the same
    objects are found, see :mod:`sparkbeam.columns.captured`.

    Args:
        function: a function, a bound method, a ``functools.partial``, an ``itemgetter`` or
            ``attrgetter``, or a NamedTuple class. A mapping from names to these makes Rows, and
            :class:`~sparkbeam.columns.objects.Keyed` makes pairs.
        arguments: the types of the argument columns.
        form: the meaning of its result.
        args: positional arguments after the first one: constants, and columns as
            :class:`Argument`, :class:`TimeArgument` or :class:`WindowArgument`; the remaining
            columns if None.
        kwargs: keyword arguments likewise.

    Returns:
        The compiled function, or the reason for its refusal.
    """
    if args is None:
        args = [Argument(at) for at in range(1, len(arguments))]
    return _tried(function, arguments, form, (args, kwargs or {}))


def _tried(*given: Any, is_open: bool = False) -> Compiled | Refused:
    try:
        return _compiled(*given, is_open=is_open)
    except NotCompiled as refusal:
        return Refused(str(refusal))
    except RecursionError:
        return Refused("it is nested too deeply")


def _compiled(
    function: Any, arguments: tuple[Shape, ...], form: ResultKind, further: Any, *, is_open: bool
) -> Compiled:
    args, kwargs = further
    graph, surroundings = Graph(), Surroundings(is_open=is_open)
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
    shapes, stamped = [], set()
    leaves = [leaf for slot in slots for leaf in islice(_flattened(slot), _MOST_LEAVES + 1)]
    if len(leaves) > _MOST_LEAVES:
        raise NotCompiled("it has too many paths")
    for leaf in leaves:
        stamped.add(isinstance(leaf, Stamped))
        shapes.append(_result_shape(leaf))
    result = shapes[0] if shapes else NONE
    for shape in shapes[1:]:
        result = unified(result, shape)
    _require_one_column(result, len(stamped))
    loops = _loops_around(slots)
    is_filter = len(slots) == 1 and not loops and all(leaf is columns[0] for leaf in leaves)
    return Compiled(
        arguments,
        result,
        stamped == {True},
        is_filter,
        _members(columns[0], slots[0]) if is_filter else (),
        columns[0],
        len(slots) == 1 and not _may_be_nothing(slots[0]),
        slots,
        tuple(statements),
        tuple(surroundings.guards),
        partial(_tried, function, arguments, form, further, is_open=True)
        if surroundings.is_told_apart and not is_open
        else None,
        graph.has_loops,
    )


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
    if isinstance(plain, types.FunctionType) and is_generator_function(plain):
        if form is not ResultKind.FLAT:
            raise NotCompiled("it is a generator function")
        if plain is not function:
            given = [machine.objects.held(function.__self__), *given]
        return machine.generated(plain, given, by_name)
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
        graph.add_statements(result.statements)
        return result.items
    if isinstance(result, Nothing) or (isinstance(result, Const) and result.value is None):
        return ()
    if isinstance(result, Either):
        with graph.collected() as if_yes:
            yes = _spread(graph, result.yes)
        with graph.collected() as if_no:
            no = _spread(graph, result.no)
        graph.branch(result.condition, if_yes, if_no)
        count = max(len(yes), len(no))
        pairs = zip(_padded(yes, count), _padded(no, count), strict=True)
        return tuple(graph.select(result.condition, *pair) for pair in pairs)
    if isinstance(result, Expression) and is_tuple(result.shape):
        if isinstance(result, Made) and result.present is not None:
            present = result.present
            return tuple(graph.select(present, field, NOTHING) for field in result.fields)
        return items_of(graph, result)
    raise NotCompiled(f"it returns {named(result)} in place of a list of results")


def _padded(items: tuple[Item, ...], count: int) -> tuple[Item, ...]:
    return items + (NOTHING,) * (count - len(items))


def _flattened(item: Item) -> Iterator[Item]:
    """Yield the possible values of a result on all paths."""
    if isinstance(item, Either):
        yield from _flattened(item.yes)
        yield from _flattened(item.no)
    elif isinstance(item, Looped):
        yield from _flattened(item.item)
    elif not isinstance(item, Nothing):
        yield item


def _loops_around(slots: tuple[Item, ...]) -> tuple[Loop, ...]:
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


def _members(column: Expression, slot: Item) -> tuple[int, ...]:
    """Return the union members that a filter lets through."""
    if not isinstance(column.shape, Union):
        return ()
    every = frozenset(range(len(column.shape.members)))
    if isinstance(slot, Either) and isinstance(slot.no, Nothing):
        return tuple(sorted(type_codes(slot.condition, every)))
    return tuple(sorted(every))


def _may_be_nothing(item: Item) -> bool:
    if isinstance(item, Either):
        return _may_be_nothing(item.yes) or _may_be_nothing(item.no)
    return isinstance(item, Nothing | Looped)


def _result_shape(leaf: Item) -> Shape:
    """Return the type of a result.

    Raises:
        NotCompiled: no column can hold it.
    """
    if isinstance(leaf, Stamped):
        checked(leaf.time.micros)
        return _result_shape(leaf.value)
    if not isinstance(leaf, Expression) or isinstance(
        leaf.shape, Texts | Constants | Mixed | Table
    ):
        raise NotCompiled(
            f"it gives {'a Timestamp' if isinstance(leaf, TimestampParts) else named(leaf)}"
        )
    if isinstance(leaf, Made):
        for field in leaf.fields:
            _result_shape(field)
    _check_constant(leaf)
    return leaf.shape


def _check_constant(leaf: Expression) -> None:
    values = [leaf.value] if isinstance(leaf, Const) else []
    graph = Graph()
    while values:
        value = values.pop()
        if type(value) is not tuple and not isinstance(value, tuple):
            checked(graph.const(value))
        else:
            values += value


def _require_one_column(result: Shape, kinds: int) -> None:
    if kinds > 1:
        raise NotCompiled("it returns both TimestampedValues and other values")
    if isinstance(result, Mixed):
        raise NotCompiled(f"it gives {result}")
    arrow_type_of(result)


@contextmanager
def _exactly() -> Iterator[None]:
    """Turn errors of Arrow into a refusal of the block."""
    with np.errstate(all="ignore"):
        try:
            yield
        except pa.ArrowException as error:
            raise FallBack("Arrow cannot compute it") from error
