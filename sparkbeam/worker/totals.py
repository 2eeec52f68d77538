"""Accumulators in columns: a number of the vectorised form stands for each."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa

from sparkbeam.columns.shapes import FLOAT, INT, Record, Scalar
from sparkbeam.windows.forms import Form, Numbers
from sparkbeam.worker.columns import Column, column_of, column_of_values

_NAMES = ("0", "1")


@dataclass(frozen=True)
class Totals(Column):
    """Pairs of a key and a number that its accumulators have come to.

    To who asks for the values they are pairs of the key and what ``make`` takes the number for.
    """

    def outputs(self) -> Column:
        """Keys with what a combine gives."""
        return column_of(self.array, self.shape)


@dataclass(frozen=True)
class Combine:
    """How accumulators are merged, and what they come to.

    Attributes:
        combine_fn: merges them.
        form: its vectorised form; None if it has none.
        label: of the step.
    """

    combine_fn: beam.CombineFn
    form: Form | None
    label: str

    def grouped(self, keys: list[Any], places: Numbers, numbers: Numbers) -> Totals | None:
        """Keys, each with a list of one accumulator; None where keys make no column.

        Args:
            keys: what there are.
            places: of each number's key among them.
            numbers: in the vectorised form.
        """
        column = column_of_values(keys)
        if column is None:
            return None
        array = pa.StructArray.from_arrays(
            [column.array.take(pa.array(places)), pa.array(numbers)], _NAMES
        )
        kind: Scalar = INT if numbers.dtype == np.int64 else FLOAT
        shape = Record(tuple, _NAMES, (column.shape, kind))
        return Totals(array, shape, partial(self._pairs, shape=shape, in_list=True))

    def merged(self, totals: Totals) -> Totals:
        """The same, each with an accumulator."""
        assert isinstance(totals.shape, Record)
        make = partial(self._pairs, shape=totals.shape, in_list=False)
        return Totals(totals.array, totals.shape, make)

    def _pairs(self, array: pa.Array, *, shape: Record, in_list: bool) -> list[tuple[Any, Any]]:
        assert self.form is not None
        keys = column_of(array.field(0), shape.fields[0]).values()
        numbers = array.field(1).to_numpy()
        found: list[Any] = self.form.accumulators(numbers, self.combine_fn)
        if in_list:
            found = [[accumulator] for accumulator in found]
        return list(zip(keys, found, strict=True))
