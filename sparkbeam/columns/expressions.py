"""Expressions over columns, and what a function does with them.

A function becomes statements that follow its branches and loops, and the expressions that these
evaluate. Expressions are compared by identity: :class:`~sparkbeam.columns.graph.Graph`
makes each of them once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from apache_beam.metrics.execution import MetricUpdater

from sparkbeam.columns.python_types import Record, Shape, Union


@dataclass(frozen=True, eq=False)
class Node:
    """A value for each element.

    Attributes:
        shape: what it is to Python.
    """

    shape: Shape


@dataclass(frozen=True, eq=False)
class Const(Node):
    """The same plain, immutable value for all elements."""

    value: Any


@dataclass(frozen=True, eq=False)
class Column(Node):
    """An argument of the function, or a field in it.

    Attributes:
        argument: the number of the argument, that of a loop, or :data:`UNKNOWN`.
        path: the position of the field, of the field in that, and so on.
    """

    argument: int
    path: tuple[int, ...] = ()


UNKNOWN = -1
"""In the place of the number of an argument: what every process finds for itself."""

_FIRST_LOOP = -2


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop over lists, with a round for each of their items.

    Attributes:
        number: of the loop in its function.
        lists: one for each element, or for each round of the loop around it.
    """

    number: int
    lists: Node

    @property
    def argument(self) -> int:
        """In the place of the number of an argument: the items."""
        return _FIRST_LOOP - self.number


@dataclass(frozen=True, eq=False)
class OfUnion(Node):
    """A field of elements of several classes.

    Attributes:
        column: the elements.
        positions: that of the field in each member of the union; None where there is none.
        name: of the field.
    """

    column: Column
    positions: tuple[int | None, ...]
    name: str


@dataclass(frozen=True, eq=False)
class Apply(Node):
    """What a kernel makes of other values."""

    kernel: Callable[..., Any]
    args: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Select(Node):
    """One value where a condition holds, another one elsewhere; neither is evaluated in vain."""

    condition: Node
    yes: Node
    no: Node


@dataclass(frozen=True, eq=False)
class Made(Node):
    """A record that is made of other values.

    Attributes:
        fields: the values.
        present: where it is a record and not None; everywhere if it is None.
    """

    fields: tuple[Node, ...]
    present: Node | None = None

    @property
    def record(self) -> Record:
        """The shape."""
        assert isinstance(self.shape, Record)
        return self.shape


@dataclass(frozen=True, eq=False)
class Moment:
    """A Beam Timestamp, in microseconds."""

    micros: Node


@dataclass(frozen=True, eq=False)
class Stamped:
    """A TimestampedValue."""

    value: "Item"
    time: Moment


@dataclass(frozen=True, eq=False)
class Held:
    """A Python object of which columns are not made: a function, a class, a module, ``self``."""

    value: Any


@dataclass(frozen=True, eq=False)
class ClassOf:
    """The class of elements of a union."""

    column: Column


@dataclass(frozen=True, eq=False)
class Method:
    """What is about to be called as a method."""

    owner: "Item"
    name: str


@dataclass(frozen=True, eq=False)
class Listed:
    """A list that the function makes."""

    items: "tuple[Item, ...]"


@dataclass(frozen=True, eq=False)
class Contents:
    """What a set, list or dict that may change has in it: items, or keys.

    Attributes:
        kind: set, list or dict.
        items: plain data.
    """

    kind: type
    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Iterated:
    """What is left of the items that a loop goes through, one round after the other."""

    items: "tuple[Item, ...]"


@dataclass(frozen=True, eq=False)
class Generated:
    """A generator that nobody has asked yet.

    Attributes:
        items: what it puts out.
        statements: what it does.
    """

    items: "tuple[Item, ...]"
    statements: "tuple[Statement, ...]"


@dataclass(frozen=True, eq=False)
class Named:
    """Arguments by name, on their way to a call."""

    items: "dict[str, Item]"


@dataclass(frozen=True, eq=False)
class Slice:
    """A slice with constant bounds."""

    value: slice


@dataclass(frozen=True, eq=False)
class Either:
    """Values of which no column can be made, as they differ in type."""

    condition: Node
    yes: "Item"
    no: "Item"


@dataclass(frozen=True, eq=False)
class Looped:
    """What is put out in each round of a loop."""

    loop: Loop
    item: "Item"


@dataclass(frozen=True, eq=False)
class Nothing:
    """No value at all: what a call does not put out."""


Item: TypeAlias = (
    Node
    | Moment
    | Stamped
    | Held
    | ClassOf
    | Method
    | Listed
    | Contents
    | Iterated
    | Generated
    | Named
    | Slice
    | Either
    | Looped
    | Nothing
)
"""Whatever a function can have on its stack."""

NULL = Held(object())
"""What the bytecode puts beside a function that is to be called."""

NOTHING = Nothing()


@dataclass(frozen=True, eq=False)
class Evaluate:
    """Evaluates an expression here, as it may fail."""

    node: Node


@dataclass(frozen=True, eq=False)
class Branch:
    """Goes on in one way for the elements for which a condition holds, and in another one."""

    condition: Node
    yes: "tuple[Statement, ...]"
    no: "tuple[Statement, ...]"


@dataclass(frozen=True, eq=False)
class Fail:
    """Refuses the block, if any element gets here."""

    reason: str


@dataclass(frozen=True, eq=False)
class Update:
    """Updates a metric by each of the values of an expression.

    Attributes:
        updater: of the metric.
        amount: the expression.
        adds_up: one update by their sum comes to the same.
    """

    updater: MetricUpdater
    amount: Node
    adds_up: bool


@dataclass(frozen=True, eq=False)
class Repeat:
    """Does something in each round of a loop."""

    loop: Loop
    statements: "tuple[Statement, ...]"


Statement: TypeAlias = Evaluate | Branch | Fail | Update | Repeat


def is_type_of(column: Column, kinds: tuple[type, ...]) -> tuple[int, ...]:
    """The type codes of the members of a union that are subclasses of one of some classes."""
    assert isinstance(column.shape, Union)
    members = column.shape.members
    return tuple(code for code, one in enumerate(members) if issubclass(one.type, kinds))
