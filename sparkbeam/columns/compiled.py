"""Compiled functions, and their evaluation over blocks."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sparkbeam.columns.captured import Guard
from sparkbeam.columns.evaluate import Evaluation, Leaf, by_rows, rows_of
from sparkbeam.columns.expressions import (
    Const,
    Expression,
    Item,
    Made,
    Nothing,
    Statement,
)
from sparkbeam.columns.fields import ALL, Paths, paths_needed
from sparkbeam.columns.json_kernels import DocumentPaths, shape_in
from sparkbeam.columns.python_types import (
    RecordShape,
    Shape,
    Union,
)
from sparkbeam.columns.reasons import FallBack
from sparkbeam.columns.vectors import Positions, Vector

_MOST_TYPES = 20
"""Types of JSON for which a function is compiled."""


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
        rows: the position of each result's element in the block, in ascending order; None if there
            is exactly one result per element, in order.
        times: the timestamp of each result in microseconds, if the results were TimestampedValues.
    """

    values: pa.Array
    rows: Positions | None = None
    times: Positions | None = None


@dataclass(frozen=True)
class Compiled:
    """A compiled function.

    Attributes:
        arguments: the required types of its argument columns.
        result: the type of its results; for TimestampedValues, of the values in them.
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
    _documents: Mapping[int, DocumentPaths]
    _opened: "Callable[[], Compiled | Refused | DataDependent] | None"
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
        evaluation, leaves = self._run(columns, rows)
        with _exactly():
            if self._is_one_to_one and len(leaves) == 1:
                values, times = evaluation.result(leaves[0], self.result)
                output = BlockResult(values, None, times)
            else:
                values, places, times = evaluation.gathered(leaves, self.result)
                if times is None and self.is_timestamped:
                    times = np.empty(0, np.int64)
                output = BlockResult(values, None if self._is_one_to_one else places, times)
        evaluation.update_metrics()
        return output

    def selected_rows(self, *columns: pa.Array, rows: Positions | None = None) -> Positions:
        """Return the positions of the elements that a filter keeps.

        Args, raises: as :meth:`evaluate`.
        """
        assert self.is_filter
        evaluation, leaves = self._run(columns, rows)
        found = by_rows([rows_of(leaf.selection) for leaf in leaves])[0]
        evaluation.update_metrics()
        return found

    def _run(
        self, columns: tuple[pa.Array, ...], rows: Positions | None
    ) -> tuple[Evaluation, list[Leaf]]:
        for guard in self._guards:
            if not guard.holds():
                raise FallBack(f"{guard.name} has changed")
        evaluation = Evaluation(columns, rows, self._documents)
        with _exactly():
            evaluation.run(self._statements, evaluation.top)
            return evaluation, evaluation.leaves(self._slots, evaluation.top)


@dataclass(frozen=True)
class DataDependent:
    """A function that parses JSON: only the data tell its type.

    Attributes:
        reason: the reason why it takes elements if the data do not tell.
    """

    reason: ClassVar[str] = "its JSON has objects of many types"

    _text: Expression
    _documents: tuple[RecordShape, ...]
    _compile: "Callable[[tuple[RecordShape, ...]], Compiled | Refused | DataDependent]"
    _known: "dict[Shape, Compiled | Refused | DataDependent]" = field(
        default_factory=dict, init=False, compare=False
    )

    def compiled_for(self, *columns: pa.Array) -> Compiled | Refused:
        """Return the function for JSON like that of a block.

        Args:
            columns: one column per argument.

        Raises:
            FallBack: the JSON is not objects of one type.
        """
        with _exactly():
            evaluation = Evaluation(columns)
            text = evaluation.value(self._text, evaluation.top)
        shape = shape_in(text.data) if isinstance(text, Vector) else None
        if shape is None:
            raise FallBack("it parses the same JSON for all elements")
        found = self._known.get(shape)
        if found is None:
            if len(self._known) == _MOST_TYPES:
                raise FallBack(self.reason)
            found = self._known[shape] = self._compile((*self._documents, shape))
        return found.compiled_for(*columns) if isinstance(found, DataDependent) else found


@contextmanager
def _exactly() -> Iterator[None]:
    """Turn errors of Arrow into a refusal of the block."""
    with np.errstate(all="ignore"):
        try:
            yield
        except pa.ArrowException as error:
            raise FallBack("Arrow cannot compute it") from error
