"""Pairs in columns on the way through a GroupByKey."""

from collections.abc import Iterable, Iterator

from apache_beam.coders import coders

from sparkbeam.columns.python_types import Lists, RecordShape, Shape, Union
from sparkbeam.plan.join_columns import as_side, is_plain_key


def as_pair(coder: coders.Coder, pair: Shape) -> RecordShape | None:
    """Return the shape of pairs behind a GroupByKey; None if it takes them as elements.

    Args:
        pair: the shape of a pair, as columns.
    """
    side = as_side(coder, pair)
    return side if isinstance(side, RecordShape) and is_plain_key(side.fields[0]) else None


def groups_of(pairs: Iterable[Shape]) -> Iterator[RecordShape]:
    """Yield the shapes of groups as columns.

    Args:
        pairs: the shapes of the elements that are columns.
    """
    by_key: dict[Shape, dict[Shape, None]] = {}
    for pair in pairs:
        assert isinstance(pair, RecordShape)
        key, value = pair.fields
        by_key.setdefault(key, {})[value] = None
    for key, values in by_key.items():
        item = joined_shape(list(values))
        if item is not None:
            yield RecordShape(tuple, ("0", "1"), (key, Lists(item)))


def joined_shape(shapes: list[Shape]) -> Shape | None:
    """Return the shape of values of several shapes as one column; None if no column holds them."""
    if len(shapes) == 1:
        return shapes[0]
    members = tuple(shape for shape in sorted(shapes, key=str) if isinstance(shape, RecordShape))
    return Union(members) if len(members) == len(shapes) <= _MOST_MEMBERS else None


_MOST_MEMBERS = 100
"""Maximum number of members of a union: its type codes are bytes."""
