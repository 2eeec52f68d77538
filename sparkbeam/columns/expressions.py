"""Expressions over columns, and statements with effects.

A function becomes statements for its branches and loops, and the expressions that these evaluate.
Expressions are compared by identity: :class:`~sparkbeam.columns.graph.Graph` makes each only once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from apache_beam.metrics.execution import MetricUpdater

from sparkbeam.columns.python_types import RecordShape, Shape


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression: one value per element."""

    shape: Shape


@dataclass(frozen=True, eq=False)
class Const(Expression):
    """A plain, immutable value that is equal for all elements."""

    value: Any


@dataclass(frozen=True, eq=False)
class ColumnRef(Expression):
    """An argument of the function, or a field in it.

    Attributes:
        argument: the number of the argument, that of a loop, document or pick, or :data:`UNKNOWN`.
        path: the position of the field, of the field in that, and so on.
    """

    argument: int
    path: tuple[int, ...] = ()


UNKNOWN = -1
"""Argument number of values that each process resolves itself."""

FIRST_MADE = -2
"""Argument number of the first loop, document or pick; later ones are below."""


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop over lists, with an iteration per item.

    Attributes:
        lists: one per element, or per iteration of the enclosing loop.
    """

    argument: int
    lists: Expression


@dataclass(frozen=True, eq=False)
class Document:
    """JSON objects that a function parses."""

    argument: int
    text: Expression
    shape: RecordShape


@dataclass(frozen=True, eq=False)
class OfUnion(Expression):
    """A field of elements of several classes.

    Attributes:
        positions: the position of the field in each union member; None where it is missing.
    """

    column: ColumnRef
    positions: tuple[int | None, ...]
    name: str


@dataclass(frozen=True, eq=False)
class Apply(Expression):
    """The result of a kernel for other values."""

    kernel: Callable[..., Any]
    args: tuple[Expression, ...]


@dataclass(frozen=True, eq=False)
class Select(Expression):
    """A conditional value; only the chosen side is evaluated."""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, eq=False)
class Made(Expression):
    """A record that is built from other values.

    Attributes:
        present: where it is not None; everywhere if None.
    """

    fields: tuple[Expression, ...]
    present: Expression | None = None

    @property
    def record(self) -> RecordShape:
        """Its type."""
        assert isinstance(self.shape, RecordShape)
        return self.shape


@dataclass(frozen=True, eq=False)
class Collected(Expression):
    """A list of the values that loops emit."""

    items: "tuple[Item, ...]"


@dataclass(frozen=True, eq=False)
class Pick:
    """Items of lists.

    Attributes:
        places: the position of the item in each list; where it is None, so is the item.
    """

    argument: int
    lists: Expression
    places: Expression


@dataclass(frozen=True, eq=False)
class TimestampParts:
    """A Beam Timestamp, in microseconds."""

    micros: Expression


@dataclass(frozen=True, eq=False)
class DurationParts:
    """A Beam Duration, in microseconds."""

    micros: Expression


@dataclass(frozen=True, eq=False)
class IntervalParts:
    """An IntervalWindow, which no column holds."""

    start: TimestampParts
    end: TimestampParts


@dataclass(frozen=True, eq=False)
class Assigned:
    """The context in which a WindowFn assigns windows."""

    timestamp: TimestampParts
    element: "Item"


@dataclass(frozen=True, eq=False)
class Stamped:
    """A TimestampedValue."""

    value: "Item"
    time: TimestampParts


@dataclass(frozen=True, eq=False)
class Held:
    """A Python object that columns cannot hold: a function, a class, a module or ``self``."""

    value: Any


@dataclass(frozen=True, eq=False)
class ClassOf:
    """The class of elements of a union."""

    column: ColumnRef


@dataclass(frozen=True, eq=False)
class Method:
    """A method that is about to be called."""

    owner: "Item"
    name: str


@dataclass(frozen=True, eq=False)
class Listed:
    """A list built by the function."""

    items: "tuple[Item, ...]"


@dataclass(frozen=True, eq=False)
class Appended:
    """The values that an iteration of a loop appends to a list; NOTHING where it may not."""

    items: "tuple[Item, ...]"


@dataclass(frozen=True, eq=False)
class Contents:
    """The contents of a mutable set, list or dict: items or keys.

    Attributes:
        kind: set, list or dict.
    """

    kind: type
    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Iterated:
    """The remaining items of an unrolled loop."""

    items: "tuple[Item, ...]"


@dataclass(frozen=True, eq=False)
class Generated:
    """A generator that has not started.

    Attributes:
        around: the loop whose iteration made it.
        updates: whether it may update a metric.
    """

    items: "tuple[Item, ...]"
    statements: "tuple[Statement, ...]"
    around: Loop | None
    updates: bool


@dataclass(frozen=True, eq=False)
class Named:
    """Keyword arguments on their way to a call."""

    items: "dict[str, Item]"


@dataclass(frozen=True, eq=False)
class Slice:
    """A slice with constant bounds."""

    value: slice


@dataclass(frozen=True, eq=False)
class Either:
    """Conditional values of different types, which no column can hold."""

    condition: Expression
    yes: "Item"
    no: "Item"


@dataclass(frozen=True, eq=False)
class Looped:
    """The values that a loop emits in each iteration."""

    loop: Loop
    item: "Item"


@dataclass(frozen=True, eq=False)
class Nothing:
    """The absence of a value: nothing is emitted."""


Item: TypeAlias = (
    Expression
    | TimestampParts
    | DurationParts
    | IntervalParts
    | Assigned
    | Stamped
    | Held
    | ClassOf
    | Method
    | Listed
    | Appended
    | Contents
    | Iterated
    | Generated
    | Named
    | Slice
    | Either
    | Looped
    | Nothing
)
"""Any value on the stack of a function."""

NULL = Held(object())
"""Marker that the bytecode pushes beside a callable."""

NOTHING = Nothing()


@dataclass(frozen=True, eq=False)
class Evaluate:
    """Evaluation of an expression at this point, as it may fail."""

    node: Expression


@dataclass(frozen=True, eq=False)
class Branch:
    """Branch into the elements that satisfy a condition, and the rest."""

    condition: Expression
    yes: "tuple[Statement, ...]"
    no: "tuple[Statement, ...]"


@dataclass(frozen=True, eq=False)
class Fail:
    """Refusal of the block if an element gets here."""

    reason: str


@dataclass(frozen=True, eq=False)
class Update:
    """Update of a metric by each value of an expression.

    Attributes:
        adds_up: whether one update by the sum is equivalent.
    """

    updater: MetricUpdater
    amount: Expression
    adds_up: bool


@dataclass(frozen=True, eq=False)
class Repeat:
    """Execution of statements in each iteration of a loop."""

    loop: Loop
    statements: "tuple[Statement, ...]"


@dataclass(frozen=True, eq=False)
class Make:
    """Parsing of JSON or taking of items at this point, as it may fail."""

    source: Document | Pick


Statement: TypeAlias = Evaluate | Branch | Fail | Update | Repeat | Make
