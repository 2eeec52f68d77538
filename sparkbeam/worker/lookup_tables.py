"""Side inputs that are dicts, lists or sets, as tables in which functions over columns look up."""

from itertools import chain
from operator import is_
from typing import Any, NamedTuple

import pyarrow as pa

from sparkbeam.columns.lookups import table_array
from sparkbeam.columns.python_types import BYTES, INT, NONE, STR, Shape, Table
from sparkbeam.worker.value_columns import Column, column_of, column_of_values

_KINDS = (dict, list, set, frozenset)
_KEYS = frozenset([INT, STR, BYTES])
_MOST = 4
"""Maximum number of keys of a table for each element, as they are hashed for each block."""


class _Known(NamedTuple):
    """Sources of a table, and the length of each part."""

    values: tuple[Any, ...]
    lengths: list[int]
    column: Column | None


class Tables:
    """Tables, with the last one of each argument kept, as the next block may need it."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def of(self, argument: int, values: tuple[Any, ...], count: int) -> Column | None:
        """Return a column of tables; None if the values are none, or too large.

        Args:
            values: its value in each window, of which there is at least one.
            count: the number of elements that may look something up.
        """
        kind = type(values[0])
        if kind not in _KINDS or any(type(one) is not kind for one in values):
            return None
        lengths = list(map(len, values))
        if sum(lengths) > _MOST * count:
            return None
        known = self._known.get(argument)
        if known is None or known.lengths != lengths or not all(map(is_, known.values, values)):
            known = self._known[argument] = _Known(values, lengths, _column(kind, values, lengths))
        return known.column


def _column(kind: type, values: tuple[Any, ...], lengths: list[int]) -> Column | None:
    keys = column_of_values(list(chain.from_iterable(values)))
    if keys is None or keys.shape not in _KEYS or keys.array.null_count:
        return None
    items: Any = None
    shape: Shape = NONE
    if kind is dict:
        found = column_of_values(list(chain.from_iterable(one.values() for one in values)))
        if found is None or _has_absent(found.array):
            return None
        items, shape = found.array, found.shape
    array = table_array(keys.array, items, lengths)
    return column_of(array, Table(kind, keys.shape, shape))


def _has_absent(array: pa.Array) -> bool:
    """Return whether a tuple is None: lookups read parts of tuples only."""
    if not pa.types.is_struct(array.type):
        return False
    parts = (array.field(at) for at in range(array.type.num_fields))
    return array.null_count > 0 or any(map(_has_absent, parts))
