"""The values of a CoGroupByKey by tag, if groups are columns."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkbeam.columns.python_types import NONE, STR, Lists, RecordShape, Shape, Union
from sparkbeam.columns.vectors import Positions, take, union_places
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.refusals import count_refused
from sparkbeam.worker.row_formats.pairs import halves_of
from sparkbeam.worker.value_columns import Column, column_of

_NAMES = ("0", "1")
_MOST_PAIRS = 1 << 20

_Tagged = tuple[Positions, pa.Array, Shape]
"""Positions of values among those of all groups, the values, and their shape."""


class TaggedLists:
    """Pairs of a key and a dict of lists per tag, made from pairs of a key and a list."""

    def __init__(self, tags: tuple[str, ...]) -> None:
        self._tags = tags

    def over(self, block: Block) -> Block | None:
        """Return the results for a block; None if it has to go element by element."""
        column = block.column
        if column is None:
            return None
        found = self._collected(column)
        if found is None:
            count_refused("its groups are not columns by tag")
            return None
        return block.with_column(found, None)

    def _collected(self, column: Column) -> Column | None:
        halves = halves_of(column)
        if halves is None:
            return None
        (keys, of_keys), (lists, of_lists) = halves
        if not isinstance(of_lists, Lists) or lists.null_count:
            return None
        bounds = lists.offsets.to_numpy()
        items = lists.values.slice(bounds[0], bounds[-1] - bounds[0])
        by_tag = _by_tag(items, of_lists.item)
        if by_tag is None or not set(by_tag) <= set(self._tags):
            return None
        groups = np.repeat(np.arange(len(lists)), np.diff(bounds))
        arrays, fields = [], []
        products = np.ones(len(lists))
        for tag in self._tags:
            rows, values, of_tag = by_tag.get(tag, (np.empty(0, np.int64), pa.nulls(0), NONE))
            counts = np.bincount(groups[rows], minlength=len(lists))
            products *= counts
            ends = np.concatenate([[0], np.cumsum(counts)])
            arrays.append(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values))
            fields.append(Lists(of_tag))
        if products.sum() > _MOST_PAIRS:  # Of a join, which would all be in memory.
            return None
        collected = pa.StructArray.from_arrays(arrays, self._tags)
        pairs = pa.StructArray.from_arrays([keys, collected], _NAMES)
        of_dict = RecordShape(dict, self._tags, tuple(fields))
        return column_of(pairs, RecordShape(tuple, _NAMES, (of_keys, of_dict)))


def _by_tag(items: pa.Array, shape: Shape) -> dict[str, _Tagged] | None:
    """Return the values with each tag; None if they form no column."""
    found: dict[str, _Tagged] = {}
    for rows, pairs, of_pair in _members(items, shape):
        halves = halves_of(column_of(pairs, of_pair))
        if halves is None or halves[0][1] != STR or halves[0][0].null_count:
            return None
        (tags, _), (values, of_values) = halves
        for tag, places in _places(tags):
            if tag in found:
                return None
            of_tag = values if len(places) == len(values) else values.take(pa.array(places))
            found[tag] = rows[places], of_tag, of_values
    return found


def _members(items: pa.Array, shape: Shape) -> Iterator[tuple[Positions, pa.Array, Shape]]:
    """Yield the values of each member of a union, or all values of another column."""
    if not isinstance(shape, Union):
        yield np.arange(len(items)), items, shape
        return
    codes, offsets = union_places(items)
    for code, member in enumerate(shape.members):
        rows = np.flatnonzero(codes == code)
        if len(rows):
            yield rows, take(items.field(code), offsets[rows]), member


def _places(tags: pa.Array) -> Iterator[tuple[str, Positions]]:
    """Yield each tag and its positions."""
    if pa.types.is_dictionary(tags.type):
        tags = tags.dictionary_decode()
    if len(tags) and pc.all(pc.equal(tags, tags[0])).as_py():
        yield tags[0].as_py(), np.arange(len(tags))
        return
    found = tags.dictionary_encode()
    numbers = found.indices.to_numpy()
    for number, tag in enumerate(found.dictionary.to_pylist()):
        yield tag, np.flatnonzero(numbers == number)
