"""Cells in which numbers of a vectorised form stand where a run of accumulators would.

They are written and read as arrays. Who reads cells of both kinds tells them apart by the count of
the run, which is negative for numbers: a *mark*, which tells ints from floats.
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
"""Before the accumulators of a window: its end and the combined timestamp, in microseconds."""


def number_cells(times: Sequence[npt.NDArray[np.int64]], numbers: Numbers) -> pa.Array:
    """Cells of numbers.

    Args:
        times: what each cell has before its numbers, in microseconds.
        numbers: the numbers.
    """
    cells = np.empty(len(numbers), _kind_of_cell(len(times), numbers.dtype))
    for at, column in enumerate(times):
        cells[f"time{at}"] = column
    cells["mark"] = mark_of(numbers.dtype)
    cells["number"] = numbers
    return fixed_cells(cells)


def marks_of(cells: pa.Array, times: int) -> npt.NDArray[np.int64]:
    """The counts of the runs behind so many times; negative ones are marks of numbers."""
    starts = offsets_of(cells)[:-1].astype(np.int64) + times * _TIME.itemsize
    data = buffer_of(cells)
    found = data[starts[:, np.newaxis] + np.arange(_COUNT.itemsize)]
    marks: npt.NDArray[np.int64] = found.view(_COUNT).reshape(len(cells)).astype(np.int64)
    return marks


def numbers_in(
    cells: pa.Array, times: int, like: Kind
) -> tuple[list[npt.NDArray[np.int64]], Numbers]:
    """The inverse of :func:`number_cells`.

    Args:
        cells: binary, of which there is one at least, with one mark.
        times: how many of them each cell has.
        like: the type of the form's numbers.
    """
    of_numbers = marked(int(marks_of(cells.slice(0, 1), times)[0]), like)
    kind = _kind_of_cell(times, of_numbers)
    found = np.frombuffer(cells.buffers()[2], kind, len(cells), int(offsets_of(cells)[0]))
    columns = [found[f"time{at}"].astype(np.int64) for at in range(times)]
    return columns, found["number"].astype(of_numbers)


def mark_of(kind: Kind) -> int:
    """A mark with a bit for each number that is set for a float."""
    bits = sum((leaf == FLOATS) << at for at, leaf in enumerate(leaves_of(kind)))
    return -1 - bits


def marked(mark: int, like: Kind) -> Kind:
    """The type of numbers with a mark."""
    bits = -1 - mark
    leaves = enumerate(leaves_of(like))
    return kind_of_leaves(like, (FLOATS if bits >> at & 1 else INTS for at, _ in leaves))


def _kind_of_cell(times: int, number: Kind) -> Kind:
    before = [(f"time{at}", _TIME) for at in range(times)]
    return np.dtype([*before, ("mark", _COUNT), ("number", number.newbyteorder(">"))])
