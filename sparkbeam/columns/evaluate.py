"""Evaluation of the statements and expressions of a compiled function over a block.

Elements on the same path through the function form a *selection*, which a branch splits in two. An
expression is evaluated once per selection; nested selections take their values from that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.metrics.execution import MetricUpdater

from sparkbeam.columns.expressions import (
    Apply,
    Branch,
    Collected,
    ColumnRef,
    Const,
    Document,
    Either,
    Expression,
    Fail,
    Item,
    Loop,
    Looped,
    Made,
    Make,
    Nothing,
    OfUnion,
    Pick,
    Repeat,
    Select,
    Stamped,
    Statement,
    Update,
)
from sparkbeam.columns.graph import is_present
from sparkbeam.columns.json_kernels import DocumentPaths, parsed
from sparkbeam.columns.list_kernels import flattened, items_at, lists_of
from sparkbeam.columns.metric_calls import amounts_of, sum_of
from sparkbeam.columns.python_types import (
    NONE,
    Lists,
    RecordShape,
    Shape,
    Union,
    arrow_type_of,
)
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import (
    Bools,
    Positions,
    Value,
    Vector,
    as_arrow,
    empty_column,
    loaded,
    merged,
    repeated,
    selected,
    union_places,
)


class Selection:
    """Some elements of a block.

    Args:
        parent: the selection that contains them; None for the whole block.
        locate: returns the positions in the parent; called at most once, on demand.

    Attributes:
        loops: the iterations of loops over their lists.
        made: the items of the loop whose iterations these are, the JSON that is parsed for these
            elements, and the items that are taken for them, by argument number.
    """

    def __init__(
        self,
        count: int,
        parent: "Selection | None" = None,
        locate: Callable[[], Positions] | None = None,
    ) -> None:
        self.count = count
        self.values: dict[Expression, Value] = {}
        self._parent = parent
        self._locate = locate
        self._positions: Positions | None = None
        self.loops: dict[Loop, Selection] = {}
        self.made: dict[int, pa.Array] = {}
        self._parts: dict[Expression, tuple[Selection, Selection]] = {}

    def positions(self) -> Positions:
        """Return the positions in the parent."""
        if self._positions is None:
            assert self._locate is not None
            self._positions = self._locate()
        return self._positions

    def rows(self, base: "Selection | None" = None) -> Positions | None:
        """Return the positions in an enclosing selection; None if they are all of it.

        Args:
            base: the enclosing selection; the block if None.
        """
        if self._parent is None or self is base:
            return None
        above = self._parent.rows(base)
        return self.positions() if above is None else above[self.positions()]

    def with_made(self, argument: int) -> "Selection | None":
        """Return the selection for which an argument was made: this one or an enclosing one."""
        found: Selection | None = self
        while found is not None and argument not in found.made:
            found = found._parent
        return found

    def known(self, node: Expression) -> Value:
        """Return the value of an expression that was evaluated here or in an enclosing selection.

        Raises:
            KeyError: it has not been evaluated.
        """
        if node in self.values or self._parent is None:
            return self.values[node]
        value = self._parent.known(node)
        if isinstance(value, Vector):
            value = self.values[node] = value.take(self.positions())
        return value

    def split(self, condition: Expression, mask: Bools) -> "tuple[Selection, Selection]":
        """Split into the elements for which a condition holds, and the others."""
        if condition not in self._parts:
            held = int(np.count_nonzero(mask))
            self._parts[condition] = (
                self._part(held, partial(np.flatnonzero, mask)),
                self._part(self.count - held, lambda: np.flatnonzero(~mask)),
            )
        return self._parts[condition]

    def _part(self, count: int, locate: Callable[[], Positions]) -> "Selection":
        if count == 0:
            return _NONE
        return self if count == self.count else Selection(count, self, locate)


_NONE = Selection(0)


@dataclass(frozen=True)
class Leaf:
    """A value that is emitted.

    Attributes:
        number: the position among the results of an element.
        rounds: the iterations of the enclosing loop; None outside loops. The same for all leaves.
    """

    selection: Selection
    item: Item
    number: int
    rounds: Selection | None = None


class Evaluation:
    """The evaluation of a function over one block.

    Args:
        arguments: the argument columns, all of the same length.
        rows: the positions of the elements; all if None.
        documents: the parts to read of JSON, by argument number.
    """

    def __init__(
        self,
        arguments: tuple[pa.Array, ...],
        rows: Positions | None = None,
        documents: Mapping[int, DocumentPaths] = MappingProxyType({}),
    ) -> None:
        self._arguments = arguments
        self._documents = documents
        self._updates: list[tuple[MetricUpdater, list[int]]] = []
        self._all = Selection(len(arguments[0]))
        self._sources: dict[int, Document | Pick] = {}
        self.top = self._all
        if rows is not None:
            self.top = Selection(len(rows), self._all, lambda: rows)

    def run(self, statements: tuple[Statement, ...], selection: Selection) -> None:
        """Evaluate statements in order.

        Raises:
            FallBack: Python might give another result, or raise.
        """
        if not selection.count:
            return
        for statement in statements:
            if isinstance(statement, Branch):
                yes, no = self.split(statement.condition, selection)
                self.run(statement.yes, yes)
                self.run(statement.no, no)
            elif isinstance(statement, Repeat):
                self.run(statement.statements, self.rounds(statement.loop, selection))
            elif isinstance(statement, Make):
                self._sources[statement.source.argument] = statement.source
                self._make(statement.source, selection)
            elif isinstance(statement, Fail):
                raise FallBack(statement.reason)
            elif isinstance(statement, Update):
                given = self.value(statement.amount, selection), selection.count
                found = [sum_of(*given)] if statement.adds_up else amounts_of(*given)
                self._updates.append((statement.updater, found))
            else:
                self.value(statement.node, selection)

    def update_metrics(self) -> None:
        """Update the metrics, after everything that may fail."""
        for updater, amounts in self._updates:
            for amount in amounts:
                updater(amount)

    def split(self, condition: Expression, selection: Selection) -> tuple[Selection, Selection]:
        """Split into the elements for which a condition holds, and the others."""
        held = self.value(condition, selection)
        if isinstance(held, Vector):
            return selection.split(condition, held.data)
        return (selection, _NONE) if held else (_NONE, selection)

    def rounds(self, loop: Loop, selection: Selection) -> Selection:
        """Return the iterations of a loop for a non-empty selection."""
        found = selection.loops.get(loop)
        if found is None:
            items, counts = flattened(self.value(loop.lists, selection))
            found = Selection(
                len(items), selection, lambda: np.repeat(np.arange(selection.count), counts)
            )
            found.made[loop.argument] = items
            selection.loops[loop] = found
        return found

    def _make(self, source: Document | Pick, selection: Selection) -> None:
        if isinstance(source, Document):
            text = self.value(source.text, selection)
            array = parsed(text, source.shape, self._documents[source.argument])
        else:
            places = self.value(source.places, selection)
            array = items_at(self.value(source.lists, selection), places)
        selection.made[source.argument] = array

    def _base(self, column: ColumnRef, selection: Selection) -> Selection:
        """Return the selection whose values a column has.

        It is the block, the iterations of a loop, or the elements for which JSON is parsed or items
        are taken.
        """
        if column.argument >= 0:
            return self._all
        base = selection.with_made(column.argument)
        if base is None:
            self._make(self._sources[column.argument], selection)
        return base or selection

    def value(self, node: Expression, selection: Selection) -> Value:
        """Evaluate an expression for a non-empty selection."""
        if isinstance(node, Const):
            return node.value
        try:
            return selection.known(node)
        except KeyError:
            pass
        if isinstance(node, ColumnRef):
            base = self._base(node, selection)
            base.values[node] = loaded(self._array(node, base), node.shape)
            return selection.known(node)
        value = self._evaluated(node, selection)
        selection.values[node] = value
        return value

    def _evaluated(self, node: Expression, selection: Selection) -> Value:
        match node:
            case Select():
                return self._select(node, selection)
            case OfUnion():
                return self._of_union(node, selection)
            case Collected():
                return self._collected(node, selection)
            case Apply() if node.kernel is is_present and isinstance(node.args[0], ColumnRef):
                return self._present(node.args[0], selection)
            case Apply():
                args = [self.value(arg, selection) for arg in node.args]
                if not any(isinstance(arg, Vector) for arg in args):
                    args[0] = repeated(args[0], node.args[0].shape, selection.count)
                return node.kernel(*args)
        raise FallBack("it computes with a record")  # pragma: no cover

    def _present(self, column: ColumnRef, selection: Selection) -> Value:
        if not isinstance(column.shape, RecordShape):
            return is_present(self.value(column, selection))
        base = self._base(column, selection)
        array = self._array(column, base)
        if not array.null_count:
            return True
        present = Vector(np.asarray(pc.is_valid(array)))
        rows = selection.rows(base)
        return present if rows is None else present.take(rows)

    def _select(self, node: Select, selection: Selection) -> Value:
        condition = self.value(node.condition, selection)
        yes, no = self.split(node.condition, selection)
        if not no.count or not yes.count:
            chosen = node.yes if yes.count else node.no
            if chosen.shape == NONE:
                return repeated(None, node.shape, selection.count)
            return self.value(chosen, selection)
        assert isinstance(condition, Vector)
        both = [self._at_hand(one, selection) for one in (node.yes, node.no)]
        if all(found for found, _ in both):
            return selected(condition.data, both[0][1], both[1][1], node.shape)
        ways = (self.value(node.yes, yes), self.value(node.no, no))
        return merged((yes.positions(), no.positions()), ways, node.shape)

    def _at_hand(self, node: Expression, selection: Selection) -> tuple[bool, Value]:
        is_column = isinstance(node, ColumnRef) and node.argument not in self._sources
        if is_column or isinstance(node, Const):
            return True, self.value(node, selection)
        found = selection.values.get(node)
        return found is not None, found

    def _of_union(self, node: OfUnion, selection: Selection) -> Value:
        base = self._base(node.column, selection)
        array, rows = self._array(node.column, base), selection.rows(base)
        codes, offsets = union_places(array)
        if rows is not None:
            codes, offsets = codes[rows], offsets[rows]
        result: Vector | None = None
        for code in np.unique(codes):
            position = node.positions[code]
            if position is None:
                raise FallBack(f"an element has no attribute {node.name}")
            mask = codes == code
            part = array.field(int(code)).field(position).take(pa.array(offsets[mask]))
            vector = loaded(part, node.shape)
            result = vector if mask.all() else _put(result, mask, vector, node.shape)
        assert result is not None
        return result

    def _array(self, column: ColumnRef, base: Selection) -> pa.Array:
        """Return the Arrow array of an argument or of a field."""
        at = column.argument
        array = self._arguments[at] if at >= 0 else base.made[at]
        for position in column.path:
            if position >= array.type.num_fields:  # Whole documents have all keys.
                return array.is_valid()
            array = array.field(position)
        if isinstance(column.shape, Union) and any(
            array.field(at).null_count for at in range(array.type.num_fields)
        ):
            raise FallBack("an element is None")
        return array

    def column(self, node: Expression, selection: Selection, shape: Shape) -> pa.Array:
        """Evaluate an expression to an Arrow array, for the result of a function.

        Args:
            shape: the type of the result, which may be None elsewhere.
        """
        if isinstance(node, ColumnRef) and isinstance(node.shape, RecordShape | Union):
            base = self._base(node, selection)
            array, rows = self._array(node, base), selection.rows(base)
            return array if rows is None else array.take(pa.array(rows))
        if isinstance(node, Const) and isinstance(node.shape, RecordShape):
            parts = zip(node.shape.fields, node.value, strict=True)
            node = Made(node.shape, tuple(Const(*part) for part in parts))
        if isinstance(node, Made):
            return self._struct(node, selection, shape)
        value = self.value(node, selection)
        if not isinstance(value, Vector):
            value = repeated(value, shape, selection.count)
        return as_arrow(value, shape)

    def _struct(self, node: Made, selection: Selection, shape: Shape) -> pa.Array:
        assert isinstance(shape, RecordShape)
        mask = None
        if node.present is not None:
            present = self.value(node.present, selection)
            if isinstance(present, Vector):
                mask = pa.array(~present.data)
            elif not present:
                mask = pa.repeat(True, selection.count)
        arrays = [
            self.column(field, selection, one)
            for field, one in zip(node.fields, shape.fields, strict=True)
        ]
        fields = [
            pa.field(name, array.type) for name, array in zip(shape.names, arrays, strict=True)
        ]
        if not fields:
            return pa.array([{}] * selection.count, pa.struct([]))
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)

    def leaves(self, slots: tuple[Item, ...], selection: Selection) -> list[Leaf]:
        """Return the values that are emitted."""
        leaves: list[Leaf] = []
        for number, slot in enumerate(slots):
            pending = [Leaf(selection, slot, number)]
            while pending:
                leaf = pending.pop()
                if not leaf.selection.count or isinstance(leaf.item, Nothing):
                    continue
                if isinstance(leaf.item, Either):
                    yes, no = self.split(leaf.item.condition, leaf.selection)
                    pending += [
                        replace(leaf, selection=yes, item=leaf.item.yes),
                        replace(leaf, selection=no, item=leaf.item.no),
                    ]
                elif isinstance(leaf.item, Looped):
                    rounds = self.rounds(leaf.item.loop, leaf.selection)
                    pending.append(Leaf(rounds, leaf.item.item, number, rounds))
                else:
                    leaves.append(leaf)
        return leaves

    def gathered(
        self, leaves: list[Leaf], shape: Shape, within: Selection | None = None
    ) -> tuple[pa.Array, Positions, Positions | None]:
        """Merge the values of all leaves, in the order of elements and loop iterations.

        Args:
            within: the selection that emits them; the block if None.

        Returns:
            The values, the positions of their elements, and the times of TimestampedValues.
        """
        if not leaves:
            return empty_column(shape), np.empty(0, np.int64), None
        parts = [self.result(leaf, shape) for leaf in leaves]
        rounds = leaves[0].rounds
        base = within if rounds is None else rounds
        rows, order = by_rows(
            [rows_of(leaf.selection, base) for leaf in leaves], [leaf.number for leaf in leaves]
        )
        if rounds is not None:
            rows = rows_of(rounds, within)[rows]
        values = parts[0][0]
        if len(parts) > 1:
            same = values.type if len({part[0].type for part in parts}) == 1 else None
            arrays = [part[0].cast(same or arrow_type_of(shape)) for part in parts]
            values = pa.concat_arrays(arrays).take(pa.array(order))
        stamps = [part[1] for part in parts if part[1] is not None]
        return values, rows, np.concatenate(stamps)[order] if stamps else None

    def result(self, leaf: Leaf, shape: Shape) -> tuple[pa.Array, Positions | None]:
        """Return the values of a leaf, and the times of TimestampedValues."""
        selection, item = leaf.selection, leaf.item
        if not isinstance(item, Stamped):
            assert isinstance(item, Expression)
            return self.column(item, selection, shape), None
        assert isinstance(item.value, Expression)
        micros = self.value(item.time.micros, selection)
        data = getattr(micros, "data", micros)
        times = np.broadcast_to(np.asarray(data, np.int64), (selection.count,))
        return self.column(item.value, selection, shape), times

    def _collected(self, node: Collected, selection: Selection) -> Vector:
        assert isinstance(node.shape, Lists)
        leaves = self.leaves(node.items, selection)
        values, rows, _ = self.gathered(leaves, node.shape.item, selection)
        return lists_of(values, np.bincount(rows, minlength=selection.count))


def _put(into: Vector | None, mask: Bools, part: Vector, shape: Shape) -> Vector:
    """Scatter part of a column to the masked positions, and keep the others."""
    if into is None:
        into = repeated(None, shape, len(mask))
    places = np.flatnonzero(mask), np.flatnonzero(~mask)
    return merged(places, (part, into.take(places[1])), shape)


def rows_of(selection: Selection, base: Selection | None = None) -> Positions:
    """Return positions in an enclosing selection; see :meth:`Selection.rows`."""
    rows = selection.rows(base)
    return np.arange(selection.count) if rows is None else rows


def by_rows(rows: list[Positions], slots: list[int] | None = None) -> tuple[Positions, Positions]:
    """Merge sorted positions, by slot for equal ones; return them and the permutation."""
    if not rows:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if len(rows) == 1:
        return rows[0], np.arange(len(rows[0]))
    every = np.concatenate(rows)
    numbers = np.concatenate(
        [np.full(len(one), slot) for one, slot in zip(rows, slots or [0] * len(rows), strict=True)]
    )
    order = np.lexsort((numbers, every))
    return every[order], order
