"""Accumulators in columns, represented by numbers of the vectorized form."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from sparkbeam.accumulators.vectorized_accumulator import (
    Numbers,
    VectorizedAccumulator,
    as_column,
    from_column,
    parts_of,
)
from sparkbeam.columns.python_types import Opaque, RecordShape
from sparkbeam.worker.value_columns import Column, column_of, column_of_keys

_NAMES = ("0", "1")


@dataclass(frozen=True)
class Totals(Column):
    """Pairs of a key and the aggregated numbers of its accumulators.

    Their values are pairs of the key and the object that ``make`` makes of the numbers.
    """

    form: VectorizedAccumulator

    def outputs(self) -> Column:
        """Return keys with the results of a combine."""
        assert isinstance(self.shape, RecordShape)
        outputs, shape = self.form.outputs(from_column(self.array.field(1)))
        array = pa.StructArray.from_arrays([self.array.field(0), outputs], _NAMES)
        return column_of(array, RecordShape(tuple, _NAMES, (self.shape.fields[0], shape)))


@dataclass(frozen=True)
class Combine:
    """Merge of accumulators, and extraction of their results.

    Attributes:
        form: its vectorized form; None if it has none.
    """

    combine_fn: beam.CombineFn
    form: VectorizedAccumulator | None
    label: str

    def grouped(self, keys: list[Any], places: Numbers, numbers: Numbers) -> Totals | None:
        """Return keys, each with a list of one accumulator; None if keys make no column.

        Args:
            places: the position of each number's key among them.
        """
        column = column_of_keys(keys)
        return None if column is None else self._totals(column.take(places), numbers, in_list=True)

    def groups(self, keys: list[Any], numbers: Numbers) -> Totals | list[tuple[Any, list[Any]]]:
        """Return keys, each with a list of one accumulator; as columns if the keys make one.

        Args:
            numbers: of each key.
        """
        found = self.grouped(keys, np.arange(len(keys)), numbers)
        if found is not None:
            return found
        assert self.form is not None
        accumulators = self.form.accumulators(numbers, self.combine_fn)
        return [(key, [one]) for key, one in zip(keys, accumulators, strict=True)]

    def unlisted(self, totals: Totals) -> Totals:
        """Return the same with an accumulator for each key, not a list of one.

        They are merged already, by :mod:`.grouping.combined`.
        """
        assert isinstance(totals.shape, RecordShape)
        make = partial(self._pairs, shape=totals.shape, in_list=False)
        return replace(totals, make=make)

    def uncounted(self, totals: Totals) -> tuple[Numbers, Totals]:
        """Return the element count of each accumulator, and the accumulators without the counts.

        Args:
            totals: as of this combine, and of a count before it.
        """
        assert isinstance(totals.shape, RecordShape)
        counts, numbers = parts_of(from_column(totals.array.field(1)))
        keys = column_of(totals.array.field(0), totals.shape.fields[0])
        return counts, self._totals(keys, numbers, in_list=False)

    def _totals(self, keys: Column, numbers: Numbers, *, in_list: bool) -> Totals:
        array = pa.StructArray.from_arrays([keys.array, as_column(numbers)], _NAMES)
        shape = RecordShape(tuple, _NAMES, (keys.shape, Opaque(array.type.field(1).type)))
        assert self.form is not None
        make = partial(self._pairs, shape=shape, in_list=in_list)
        return Totals(array, shape, make, self.form)

    def _pairs(
        self, array: pa.Array, *, shape: RecordShape, in_list: bool
    ) -> list[tuple[Any, Any]]:
        assert self.form is not None
        keys = column_of(array.field(0), shape.fields[0]).values()
        numbers = from_column(array.field(1))
        found: list[Any] = self.form.accumulators(numbers, self.combine_fn)
        if in_list:
            found = [[accumulator] for accumulator in found]
        return list(zip(keys, found, strict=True))
