"""Points and spans of time: Beam's Timestamps and Durations, and ``datetime``.

Columns hold Timestamps and ``datetime`` as Arrow timestamps.
"""

from typing import TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa
from apache_beam.utils.timestamp import Timestamp

from sparkbeam.columns import number_kernels
from sparkbeam.columns.expressions import (
    Apply,
    Const,
    DurationParts,
    Expression,
    IntervalParts,
    Item,
    TimestampParts,
)
from sparkbeam.columns.graph import Graph, named
from sparkbeam.columns.operators import as_number, binary
from sparkbeam.columns.python_types import FLOAT, INT, NUMBERS, Opaque, Shape
from sparkbeam.columns.reasons import FallBack, NotCompiled
from sparkbeam.columns.vectors import Value, Vector, bare, numpy_of

_MICROS = 1_000_000
_OF_DATETIMES = frozenset(["s", "ms", "us"])
"""Units that Arrow converts to datetimes; nanoseconds become pandas Timestamps."""


Time: TypeAlias = TimestampParts | DurationParts

_ARITHMETIC: dict[tuple[str, type[Time], type[Time]], type[Time]] = {
    ("+", TimestampParts, DurationParts): TimestampParts,
    ("+", DurationParts, TimestampParts): TimestampParts,
    ("+", DurationParts, DurationParts): DurationParts,
    ("-", TimestampParts, TimestampParts): DurationParts,
    ("-", TimestampParts, DurationParts): TimestampParts,
    ("-", DurationParts, DurationParts): DurationParts,
    ("%", TimestampParts, DurationParts): DurationParts,
    ("%", DurationParts, DurationParts): DurationParts,
}
"""The results of Beam's operators, in which numbers are Durations in seconds."""


def computed(graph: Graph, symbol: str, left: Item, right: Item) -> Item:
    """Compute ``left + right`` and other binary operators, of times as well.

    Raises:
        NotCompiled: the operands have no exact columnar form.
    """
    one, other = _time(graph, left), _time(graph, right)
    if one is None and other is None:
        return binary(graph, symbol, left, right)
    if other is None:
        other = duration(graph, right)
    if one is None and symbol != "%":
        one = duration(graph, left)
    kind = _ARITHMETIC.get((symbol, type(one), type(other)))  # type: ignore[arg-type]
    if one is None or kind is None:
        raise NotCompiled(f"it computes {named(left)} {symbol} {named(right)}")
    return kind(binary(graph, symbol, one.micros, other.micros))


def _time(graph: Graph, item: Item) -> Time | None:
    if isinstance(item, DurationParts):
        return item
    micros = micros_in(graph, item)
    return None if micros is None else TimestampParts(micros)


def moment(graph: Graph, item: Item) -> TimestampParts:
    """Return the Beam Timestamp of seconds given as an int, a float or a Timestamp."""
    micros = micros_in(graph, item)
    return TimestampParts(_micros_of_seconds(graph, item) if micros is None else micros)


def duration(graph: Graph, item: Item) -> DurationParts:
    """Return the Beam Duration of seconds given as an int, a float or a Duration."""
    if isinstance(item, DurationParts):
        return item
    return DurationParts(_micros_of_seconds(graph, item))


def time_of(graph: Graph, kind: type, seconds: Item, micros: Item) -> Time:
    """Return a Timestamp or a Duration of seconds and microseconds."""
    refusal = f"it makes a {kind.__name__} of something other than a number"
    parts = [_number(part, refusal) for part in (seconds, micros)]
    total = _micros_of_seconds(graph, parts[0])
    if not isinstance(micros, Const) or micros.value:
        total = binary(graph, "+", total, _whole(graph, as_number(graph, parts[1])))
    return TimestampParts(total) if kind is Timestamp else DurationParts(total)


def _micros_of_seconds(graph: Graph, seconds: Item) -> Expression:
    number = _number(seconds, f"it uses {named(seconds)} as a timestamp")
    if isinstance(number, Const):
        return _whole(graph, Const(number.shape, number.value * _MICROS))
    return _whole(graph, binary(graph, "*", as_number(graph, number), graph.const(_MICROS)))


def _whole(graph: Graph, number: Expression) -> Expression:
    if isinstance(number, Const):
        return graph.folded(int, number.value)
    if number.shape == FLOAT:
        return graph.apply(number_kernels.truncated, INT, number)
    graph.require(number)
    return number


def _number(item: Item, refusal: str) -> Expression:
    if not isinstance(item, Expression) or item.shape not in NUMBERS:
        raise NotCompiled(refusal)
    return item


def is_timestamp(shape: Shape) -> bool:
    """Return whether values are Beam Timestamps."""
    return _is_time(shape) and not shape.is_as_in_arrow


def is_datetime(shape: Shape) -> bool:
    """Return whether values are Python's ``datetime``."""
    return _is_time(shape) and shape.is_as_in_arrow and shape.arrow_type.unit in _OF_DATETIMES


def _is_time(shape: Shape) -> TypeGuard[Opaque]:
    return isinstance(shape, Opaque) and pa.types.is_timestamp(shape.arrow_type)


def micros_of(graph: Graph, timestamp: Expression) -> Expression:
    """Return the microseconds of Timestamps."""
    if isinstance(timestamp, Apply) and timestamp.kernel is number_kernels.timestamps:
        return timestamp.args[0]
    return graph.apply(since_epoch, INT, timestamp)


def micros_in(graph: Graph, item: Item) -> Expression | None:
    """Return the microseconds of Timestamps; None for other values."""
    if isinstance(item, TimestampParts):
        return item.micros
    if isinstance(item, Expression) and is_timestamp(item.shape):
        return micros_of(graph, item)
    return None


def whole_seconds(graph: Graph, micros: Expression) -> Item:
    """Return the seconds of Timestamps, rounded down."""
    return binary(graph, "//", micros, graph.const(_MICROS))


def newest(graph: Graph, window: IntervalParts) -> TimestampParts:
    """Return the last Timestamp in a window."""
    return TimestampParts(binary(graph, "-", window.end.micros, graph.const(1)))


def of_datetime(graph: Graph, owner: Expression, name: str, args: tuple[Item, ...]) -> Item:
    """Call a method of a ``datetime``.

    Raises:
        NotCompiled: it has no columnar form.
    """
    if name != "timestamp" or args:
        raise NotCompiled(f"it calls datetime.{name}")
    assert _is_time(owner.shape)
    if owner.shape.arrow_type.tz is None:
        return graph.apply(local_seconds, FLOAT, owner)
    return binary(graph, "/", graph.apply(since_epoch, INT, owner), graph.const(_MICROS))


def since_epoch(value: Value) -> Vector:
    """Return the microseconds since 1970 in UTC."""
    array = bare(value)
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64())
    return Vector(numpy_of(micros))


def local_seconds(value: Value) -> Vector:
    """Return the seconds since 1970 of datetimes without a zone, in the zone of this process."""
    try:
        seconds = [moment.timestamp() for moment in bare(value).to_pylist()]
    except (OverflowError, OSError, ValueError):
        raise FallBack("a datetime is out of range") from None
    return Vector(np.array(seconds, np.float64))
