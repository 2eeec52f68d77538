"""Cells of accumulators, read as arrays if they are numbers of a vectorized form."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from apache_beam.coders import coders

from sparkbeam.aggregate.aggregates import objects
from sparkbeam.aggregate.aggregator import merged
from sparkbeam.columns.vectors import Micros, Positions
from sparkbeam.windows.vectorized_form import Numbers
from sparkbeam.wire.row_packs import kinds_of
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.layouts.group_values import RunCoder
from sparkbeam.worker.layouts.number_cells import marks_of, numbers_in

_TIME_BYTES = 8


@dataclass(frozen=True)
class Accumulated:
    """Accumulators of some cells of one kind.

    Attributes:
        rows: the positions of the cells; None for all cells.
        times: the times before the accumulators, in microseconds.
        totals: numbers of the form, or accumulators in an array of objects.
    """

    rows: Positions | None
    times: list[Micros]
    totals: Numbers

    @property
    def are_numbers(self) -> bool:
        """True if the accumulators are numbers of the form."""
        return self.totals.dtype != object

    def of(self, column: Any) -> Any:
        """Return the values of these rows, of those of all."""
        return column if self.rows is None else column[self.rows]


class Cells:
    """Reader of cells.

    Args:
        times: the number of times before the accumulators of each cell.
        value: the coder of accumulators.
        combine: merges them.
    """

    def __init__(self, times: int, value: coders.Coder, combine: Combine) -> None:
        self._times = times
        self._runs = RunCoder(value.get_impl())
        self._combine = combine

    def read(self, cells: pa.Array) -> Iterator[Accumulated]:
        """Yield the contents of cells by kind; there is at least one cell."""
        marks = np.minimum(marks_of(cells, self._times), 0)
        kinds = kinds_of(marks)
        for kind in kinds:
            rows = np.flatnonzero(marks == kind) if len(kinds) > 1 else None
            some = cells if rows is None else cells.take(pa.array(rows))
            yield Accumulated(rows, *(self._runs_in(some) if kind == 0 else self._numbers_in(some)))

    def _numbers_in(self, cells: pa.Array) -> tuple[list[Micros], Numbers]:
        assert self._combine.form is not None
        return numbers_in(cells, self._times, self._combine.form.kind)

    def _runs_in(self, cells: pa.Array) -> tuple[list[Micros], Numbers]:
        size = self._times * _TIME_BYTES
        all_cells = cells.to_pylist()
        before = b"".join(cell[:size] for cell in all_cells)
        times = np.frombuffer(before, ">i8").astype(np.int64).reshape(len(all_cells), self._times)
        runs, fn = self._runs, self._combine.combine_fn
        found = objects([merged(fn, runs.decode(cell[size:])) for cell in all_cells])
        return list(times.T), found
