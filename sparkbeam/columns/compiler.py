"""Compiles functions of one element to expressions over columns."""

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
    Generated,
    Item,
    Listed,
    Loop,
    Looped,
    Made,
    Moment,
    Node,
    Nothing,
    Stamped,
    Statement,
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
from sparkbeam.columns.reasons import NotCompiled, NotExact
from sparkbeam.columns.vectors import Positions, empty_column

_MOST_LEAVES = 100


class Form(Enum):
    """What the result of a function means.

    MAP: the one result for the element. FILTER: whether the element stays. FLAT: the results,
    in a list or tuple or None, or what a generator function yields: also what Beam makes of
    the functions of its Map, MapTuple, Filter and WithKeys, and ``DoFn.process``.
    """

    MAP = "map"
    FILTER = "filter"
    FLAT = "flat"


@dataclass(frozen=True)
class Argument:
    """Among what a function is called with: a column.

    Attributes:
        number: of which argument.
    """

    number: int


@dataclass(frozen=True)
class Refused:
    """A function stays with elements.

    Attributes:
        reason: why, as the end of "elements, because …".
    """

    reason: str


@dataclass(frozen=True)
class Output:
    """What a function gave for a block.

    Attributes:
        values: the results.
        rows: the position in the block of the element that each is of, in ascending order;
            None where there is one result for each element, in their order.
        times: the timestamp of each result in microseconds, where the results were
            TimestampedValues.
    """

    values: pa.Array
    rows: Positions | None = None
    times: Positions | None = None


@dataclass(frozen=True)
class _Leaf:
    """A value that is put out.

    Attributes:
        selection: for which elements.
        item: the value.
        number: as which of their results.
        rounds: of the loop in which that is; None where it is in none. It is the same of all.
    """

    selection: Selection
    item: Item
    number: int
    rounds: Selection | None = None


@dataclass(frozen=True)
class Compiled:
    """A function over columns.

    Attributes:
        arguments: what the columns of its arguments have to be.
        result: what its results are; of TimestampedValues, the values in them.
        is_timestamped: whether its results are TimestampedValues.
        is_filter: whether it hands its first argument on as it is, or not at all.
        members: the type codes of those members of a union that a filter of its elements may
            let through, in ascending order; :func:`member_of` makes a column of one.
    """

    arguments: tuple[Shape, ...]
    result: Shape
    is_timestamped: bool
    is_filter: bool
    members: tuple[int, ...]
    _argument: Node
    _is_one_to_one: bool
    _slots: tuple[Item, ...]
    _statements: tuple[Statement, ...]
    _guards: tuple[Guard, ...]
    _opened: "Callable[[], Compiled | Refused] | None"
    _has_loops: bool

    @property
    def is_empty(self) -> bool:
        """Whether it has no results, for any element."""
        return all(isinstance(slot, Nothing) for slot in self._slots)

    @property
    def outcome(self) -> Shape:
        """What comes out of it: what a filter gets, or the one member of a union that it keeps."""
        shape = self.arguments[0]
        if self.is_filter and isinstance(shape, Union) and len(self.members) == 1:
            return shape.members[self.members[0]]
        return shape if self.is_filter else self.result

    def constant(self, *path: int) -> Any:
        """What a part of each result always is, a constant; None where it is anything else.

        Args:
            path: the position of a field, of the field in that, and so on.
        """
        item = self._slots[0] if len(self._slots) == 1 else None
        for at in path:
            item = item.fields[at] if isinstance(item, Made) else None
        return item.value if isinstance(item, Const) else None

    def needed(self, wanted: Paths) -> Paths:
        """The parts of its one argument that it looks at or hands on, evaluated or called.

        Of several it is all: they may be others than it was compiled for. So it is with a loop.
        What another process may find otherwise in its modules makes no difference.

        Args:
            wanted: the parts of its results that somebody looks at.
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

    def evaluate(self, *columns: pa.Array, rows: Positions | None = None) -> Output:
        """The results for a block.

        Args:
            columns: of each argument.
            rows: the positions of those elements that are meant, in ascending order, if not
                all.

        Raises:
            NotExact: Python might give something else for this block, or raise an exception:
                it has to go element by element.
        """
        evaluation = self._run(columns, rows)
        leaves = self._leaves(evaluation)
        with _exactly():
            if self._is_one_to_one and len(leaves) == 1:
                values, times = self._columns(evaluation, leaves[0])
                output = Output(values, None, times)
            else:
                output = self._gathered(evaluation, leaves)
        evaluation.update_metrics()
        return output

    def kept(self, *columns: pa.Array, rows: Positions | None = None) -> Positions:
        """The positions of the elements that stay; of a filter only.

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
                raise NotExact(f"{guard.name} has changed")
        evaluation = Evaluation(columns, rows)
        with _exactly():
            evaluation.run(self._statements, evaluation.top)
        return evaluation

    def _leaves(self, evaluation: Evaluation) -> list[_Leaf]:
        """The values that are put out."""
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
            assert isinstance(item, Node)
            return evaluation.column(item, selection, self.result), None
        assert isinstance(item.value, Node)
        micros = evaluation.value(item.time.micros, selection)
        data = getattr(micros, "data", micros)
        times = np.broadcast_to(np.asarray(data, np.int64), (selection.count,))
        return evaluation.column(item.value, selection, self.result), times

    def _gathered(self, evaluation: Evaluation, leaves: list[_Leaf]) -> Output:
        """The results of all leaves in the order of their elements, and of rounds of a loop."""
        if not leaves:
            times = np.empty(0, np.int64) if self.is_timestamped else None
            nothing = None if self._is_one_to_one else np.empty(0, np.int64)
            return Output(empty_column(self.result), nothing, times)
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
        return Output(values, None if self._is_one_to_one else rows, times)


def compile_function(
    function: "Callable[..., Any] | Mapping[str, Callable[..., Any]] | Keyed",
    *arguments: Shape,
    form: Form = Form.MAP,
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Compiled | Refused:
    """Compiles a function by its bytecode, without calling it or any code that it uses.

    The function over columns gives what the function gives, for any block, or raises
    :class:`~sparkbeam.columns.reasons.NotExact`. What it takes from around it (globals,
    variables of functions around it, attributes of ``self``) is looked at now, and a block
    is evaluated only as long as the same objects are still there, see
    :mod:`sparkbeam.columns.captured`.

    Args:
        function: a function, a bound method, a ``functools.partial``, an ``itemgetter`` or
            ``attrgetter``, a NamedTuple class. A mapping from names to such makes Rows, and
            :class:`~sparkbeam.columns.objects.Keyed` pairs.
        arguments: what the columns of its arguments hold.
        form: what its result means.
        args: with what it is called behind the first argument: constants, and columns in the place
            of an :class:`Argument`; with the other columns if None.
        kwargs: likewise by name.

    Returns:
        The function over columns, or why there is none.
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
        return Refused("it is too deep")


def _compiled(
    function: Any, arguments: tuple[Shape, ...], form: Form, further: Any, *, is_open: bool
) -> Compiled:
    args, kwargs = further
    graph, surroundings = Graph(), Surroundings(is_open=is_open)
    machine = Machine(graph, surroundings)
    columns = [graph.column(shape, number) for number, shape in enumerate(arguments)]
    held = machine.objects.held

    def item(value: Any) -> Item:
        return columns[value.number] if isinstance(value, Argument) else held(value)

    with graph.collected() as statements:
        by_name = {name: item(value) for name, value in kwargs.items()}
        given: list[Item] = [columns[0], *map(item, args)]
        slots = _slots(graph, machine, function, form, given, by_name)
    shapes, stamped = [], set()
    leaves = [leaf for slot in slots for leaf in islice(_flattened(slot), _MOST_LEAVES + 1)]
    if len(leaves) > _MOST_LEAVES:
        raise NotCompiled("it has too many ways through it")
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
    form: Form,
    given: list[Item],
    by_name: dict[str, Item],
) -> tuple[Item, ...]:
    """What the function puts out at most, each for those elements for which it does."""
    plain = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(plain, types.FunctionType) and is_generator_function(plain):
        if form is not Form.FLAT:
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
    if form is Form.FLAT:
        return _spread(graph, result)
    if form is Form.FILTER:
        condition = graph.truth(result)
        return (graph.select(condition, given[0], NOTHING),)
    return (result,)


def _spread(graph: Graph, result: Item) -> tuple[Item, ...]:
    """The results of a function that gives them in a list or tuple, or None."""
    if isinstance(result, Listed):
        return result.items
    if isinstance(result, Generated):
        graph.take(result.statements)
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
    if isinstance(result, Node) and is_tuple(result.shape):
        if isinstance(result, Made) and result.present is not None:
            present = result.present
            return tuple(graph.select(present, field, NOTHING) for field in result.fields)
        return items_of(graph, result)
    raise NotCompiled(f"it gives {named(result)} where many results are expected")


def _padded(items: tuple[Item, ...], count: int) -> tuple[Item, ...]:
    return items + (NOTHING,) * (count - len(items))


def _flattened(item: Item) -> Iterator[Item]:
    """What a result may be, on any way."""
    if isinstance(item, Either):
        yield from _flattened(item.yes)
        yield from _flattened(item.no)
    elif isinstance(item, Looped):
        yield from _flattened(item.item)
    elif not isinstance(item, Nothing):
        yield item


def _loops_around(slots: tuple[Item, ...]) -> tuple[Loop, ...]:
    """The loops in which results are put out, from the outer one to the inner one.

    Raises:
        NotCompiled: some are put out in other loops: their order would not follow from it.
    """
    found = {around for slot in slots for around in _loops_in(slot, ())}
    if len(found) > 1:
        raise NotCompiled("it puts out results in several loops, or in one and outside of it")
    return found.pop() if found else ()


def _loops_in(item: Item, around: tuple[Loop, ...]) -> Iterator[tuple[Loop, ...]]:
    if isinstance(item, Either):
        yield from _loops_in(item.yes, around)
        yield from _loops_in(item.no, around)
    elif isinstance(item, Looped):
        yield from _loops_in(item.item, (*around, item.loop))
    elif not isinstance(item, Nothing):
        yield around


def _members(column: Node, slot: Item) -> tuple[int, ...]:
    """The members of a union that get through a filter."""
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
    """What a result is.

    Raises:
        NotCompiled: no column holds it.
    """
    if isinstance(leaf, Stamped):
        checked(leaf.time.micros)
        return _result_shape(leaf.value)
    if not isinstance(leaf, Node) or isinstance(leaf.shape, Texts | Constants | Mixed | Table):
        raise NotCompiled(f"it gives {'a Timestamp' if isinstance(leaf, Moment) else named(leaf)}")
    if isinstance(leaf, Made):
        for field in leaf.fields:
            _result_shape(field)
    _check_constant(leaf)
    return leaf.shape


def _check_constant(leaf: Node) -> None:
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
        raise NotCompiled("it gives TimestampedValues and others")
    if isinstance(result, Mixed):
        raise NotCompiled(f"it gives {result}")
    arrow_type_of(result)


@contextmanager
def _exactly() -> Iterator[None]:
    """Takes an error of Arrow's for what it is: something that cannot be computed here."""
    with np.errstate(all="ignore"):
        try:
            yield
        except pa.ArrowException as error:
            raise NotExact("Arrow cannot compute it") from error
