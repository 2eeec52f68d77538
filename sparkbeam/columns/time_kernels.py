"""Operations on points in time: Beam's Timestamps, and ``datetime``.

Columns hold either as Arrow timestamps.
"""

from typing import TypeGuard

import numpy as np
import pyarrow as pa

from sparkbeam.columns import number_kernels
from sparkbeam.columns.expressions import (
    Apply,
    Expression,
    IntervalParts,
    Item,
    TimestampParts,
)
from sparkbeam.columns.graph import Graph
from sparkbeam.columns.operators import binary
from sparkbeam.columns.python_types import FLOAT, INT, Opaque, Shape
from sparkbeam.columns.reasons import FallBack, NotCompiled
from sparkbeam.columns.vectors import Value, Vector, bare, numpy_of

_MICROS = 1_000_000
_OF_DATETIMES = frozenset(["s", "ms", "us"])
"""Units that Arrow converts to datetimes; nanoseconds become pandas Timestamps."""


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
    micros = binary(graph, "-", window.end.micros, graph.const(1))
    assert isinstance(micros, Expression)
    return TimestampParts(micros)


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
