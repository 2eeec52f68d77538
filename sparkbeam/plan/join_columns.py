"""Columns on the sides of a join by Spark, and behind the join."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from apache_beam.coders import coders

from sparkbeam.columns import Refused
from sparkbeam.columns.python_types import NONE, Opaque, RecordShape, Scalar, Shape
from sparkbeam.columns.vectors import empty_column
from sparkbeam.plan.join_payload import JoinSpec
from sparkbeam.plan.round_trips import round_tripped

_NAMES = ("0", "1", "2")
_PAIR = 2


def why_no_cells(shape: Shape) -> str | None:
    """Return why values do not travel one per row as parts of columns; None if they do."""
    match shape:
        case RecordShape():
            return next(filter(None, map(why_no_cells, shape.fields)), None)
        case Opaque():
            kind = shape.arrow_type
            is_fixed = pa.types.is_temporal(kind) and not pa.types.is_interval(kind)
            return None if is_fixed or pa.types.is_decimal(kind) else f"its elements hold {kind}"
    return None if isinstance(shape, Scalar) else f"its elements are {shape}"


def as_side(coder: coders.Coder, pair: Shape, *, keys_only: bool = False) -> RecordShape | Refused:
    """Return the shape of a join side's pairs behind the join, or the reason why it takes elements.

    Args:
        coder: the coder of the pairs of a key and an element.
        pair: the shape of a pair, as columns.
        keys_only: the values of the side are dropped.
    """
    if not isinstance(pair, RecordShape) or pair.type is not tuple or len(pair.fields) != _PAIR:
        return Refused(f"its elements are {pair}")
    key, shape = pair.fields
    if keys_only:
        return pair
    reason = why_no_cells(shape)
    if reason is not None:
        return Refused(reason)
    back = round_tripped(coder.value_coder(), empty_column(shape), shape)
    if back is None:
        return Refused(f"the coder {coder.value_coder()} may decode to other values")
    return RecordShape(tuple, pair.names, (key, back))


def triples(
    spec: JoinSpec, lefts: Iterable[Shape], rights: Iterable[Shape]
) -> Iterator[RecordShape]:
    """Yield the shapes of the results of a join as columns.

    Args:
        lefts: the shapes of the pairs of the left side that are columns.
        rights: the shapes of the pairs of the right side that are columns.
    """
    of_left = [pair.fields for pair in lefts if isinstance(pair, RecordShape)]
    of_right = [pair.fields for pair in rights if isinstance(pair, RecordShape)]
    found: dict[RecordShape, None] = {}
    for key, left in of_left:
        if not is_plain_key(key):
            continue
        if not spec.keeps_right or spec.how in ("left", "outer"):
            found[triple(key, left, NONE)] = None
        for _, right in of_right if spec.keeps_right else ():
            found[triple(key, left, right)] = None
    if spec.how in ("right", "outer"):
        found |= {triple(key, NONE, right): None for key, right in of_right if is_plain_key(key)}
    yield from found


def triple(key: Shape, left: Shape, right: Shape) -> RecordShape:
    """Return the shape of the results of a join with this key and these elements of both sides."""
    return RecordShape(tuple, _NAMES, (key, left, right))


def is_plain_key(shape: Shape) -> bool:
    """Return whether keys that are read from their encodings become columns again."""
    if isinstance(shape, RecordShape):
        return shape.type is tuple and bool(shape.fields) and all(map(is_plain_key, shape.fields))
    return isinstance(shape, Scalar)
