"""Cells with numbers of a vectorized form in place of a run of accumulators.

They are written and read as arrays. A reader of cells of both kinds distinguishes them by the count
of the run, which is negative for numbers: a *mark*, which distinguishes ints from floats.
"""

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.windows.vectorized_form import FLOATS, INTS, Kind, Numbers, kind_of_leaves, leaves_of
from sparkbeam.wire.binary import buffer_of, fixed_cells, offsets_of

_COUNT = np.dtype(">i4")
_TIME = np.dtype(">i8")

END_AND_STAMP = struct.Struct(">qq")
"""Prefix of a window's accumulators: its end and the combined timestamp, in microseconds."""


def number_cells(times: Sequence[npt.NDArray[np.int64]], numbers: Numbers) -> pa.Array:
    """Return cells of numbers.

    Args:
        times: the times before the numbers of each cell, in microseconds.
        numbers: the numbers.
    """
    cells = np.empty(len(numbers), _kind_of_cell(len(times), numbers.dtype))
    for at, column in enumerate(times):
        cells[f"time{at}"] = column
    cells["mark"] = mark_of(numbers.dtype)
    cells["number"] = numbers
    return fixed_cells(cells)


def marks_of(cells: pa.Array, times: int) -> npt.NDArray[np.int64]:
    """Return the run counts behind this many times; negative counts mark numbers."""
    starts = offsets_of(cells)[:-1].astype(np.int64) + times * _TIME.itemsize
    data = buffer_of(cells)
    found = data[starts[:, np.newaxis] + np.arange(_COUNT.itemsize)]
    marks: npt.NDArray[np.int64] = found.view(_COUNT).reshape(len(cells)).astype(np.int64)
    return marks


def numbers_in(
    cells: pa.Array, times: int, like: Kind
) -> tuple[list[npt.NDArray[np.int64]], Numbers]:
    """Return the inverse of :func:`number_cells`.

    Args:
        cells: binary, at least one, with one mark.
        times: the number of times in each cell.
        like: the type of the form's numbers.
    """
    of_numbers = marked(int(marks_of(cells.slice(0, 1), times)[0]), like)
    kind = _kind_of_cell(times, of_numbers)
    found = np.frombuffer(cells.buffers()[2], kind, len(cells), int(offsets_of(cells)[0]))
    columns = [found[f"time{at}"].astype(np.int64) for at in range(times)]
    return columns, found["number"].astype(of_numbers)


def mark_of(kind: Kind) -> int:
    """Return a mark with a bit for each number that is set for a float."""
    bits = sum((leaf == FLOATS) << at for at, leaf in enumerate(leaves_of(kind)))
    return -1 - bits


def marked(mark: int, like: Kind) -> Kind:
    """Return the type of numbers with a mark."""
    bits = -1 - mark
    leaves = enumerate(leaves_of(like))
    return kind_of_leaves(like, (FLOATS if bits >> at & 1 else INTS for at, _ in leaves))


def _kind_of_cell(times: int, number: Kind) -> Kind:
    before = [(f"time{at}", _TIME) for at in range(times)]
    return np.dtype([*before, ("mark", _COUNT), ("number", number.newbyteorder(">"))])
