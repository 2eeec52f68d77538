"""Steps of a query: selections, aggregations in windows, and joins."""

from dataclasses import dataclass, replace

from sparkbeam_sql.calcite_values import Value
from sparkbeam_sql.combines import Order


@dataclass(frozen=True)
class Scan:
    """The elements of a table."""

    table: str


@dataclass(frozen=True)
class Constants:
    """Rows of constants, in columns ``c0``, ``c1``, …."""

    rows: tuple[tuple[Value, ...], ...]
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Project:
    """Rows of expressions, in columns ``c0``, ``c1``, …, over the rows for which a condition holds.

    The columns of an :class:`Aggregate` are ``k0``, … for the keys, ``a0``, … for the aggregates.
    """

    step: "Step"
    values: tuple[Value, ...]
    condition: str | None = None


@dataclass(frozen=True)
class Windows:
    """Windows of an aggregation.

    Attributes:
        function: ``TUMBLE``, ``HOP`` or ``SESSION``.
        size: their size, or the gap, in microseconds.
        period: of those of ``HOP``, in microseconds.
    """

    function: str
    time: Value
    size: int
    period: int = 0


@dataclass(frozen=True)
class Aggregate:
    """Aggregates of the rows with the same keys.

    Attributes:
        step: makes the rows: the keys, followed by an input of each aggregate.
        functions: of the aggregates: ``sum``, ``decimals`` for a sum of these, ``min``, ``max``,
            ``distinct``, or the alias of one of the user.
        windows: the windows; None for those of the input.
        bounds: the start and the end of the window follow as two columns.
        nullable: whether each aggregate meets None.
        single: there is at most one row in each window.
    """

    step: "Step"
    keys: int
    functions: tuple[str, ...]
    nullable: tuple[bool, ...]
    windows: Windows | None = None
    bounds: bool = False
    single: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Assigned:
    """Rows in windows, with the start and the end of the window as two columns behind theirs."""

    step: Project
    windows: Windows


@dataclass(frozen=True)
class JoinSteps:
    """A join by equal keys; the columns of the right side follow those of the left."""

    left: Project
    right: Project
    how: str
    left_keys: tuple[Value, ...]
    right_keys: tuple[Value, ...]


@dataclass(frozen=True)
class Unnest:
    """Rows for each element of an array, which is the column behind those of the row.

    Attributes:
        outer: a row without elements stays, with None.
    """

    step: Project
    array: Value
    element: Value
    outer: bool = False


@dataclass(frozen=True)
class Top:
    """The first rows of each window in an order.

    Attributes:
        orders: the columns by which they are ordered, the first one first.
        skipped: the number of rows before these.
    """

    step: "Step"
    orders: tuple[Order, ...]
    count: int
    skipped: int


@dataclass(frozen=True)
class Union:
    """The rows of several steps."""

    steps: tuple["Step", ...]


Step = Scan | Constants | Project | Aggregate | Assigned | JoinSteps | Unnest | Top | Union


def columns_of(step: Project | Constants) -> tuple[Value, ...]:
    """Return the columns of the rows that a step makes, as what follows has them."""
    return tuple(replace(value, source=f"row.c{at}") for at, value in enumerate(step.values))


def is_single(step: Step) -> bool:
    """Return whether a step makes at most one row in each window."""
    if isinstance(step, Project):
        return is_single(step.step)
    return isinstance(step, Aggregate) and step.single


def lacks_row(step: Step) -> bool:
    """Return whether a step may make no row in a window where SQL has one.

    That is the row of an aggregate without GROUP BY over no rows. Joins are left out.
    """
    match step:
        case Aggregate():
            return step.whole or lacks_row(step.step)
        case Project() | Top() | Assigned() | Unnest():
            return lacks_row(step.step)
        case Union():
            return any(map(lacks_row, step.steps))
    return False
