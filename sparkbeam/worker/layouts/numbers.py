"""Cells in which numbers of a vectorised form stand where a run of accumulators would.

They are written and read as arrays. Who reads cells of both kinds tells them apart by the count of
the run, which is negative for numbers: a *mark*, which tells ints from floats.
"""

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkbeam.windows.form import FLOATS, INTS, Kind, Numbers, kind_of_leaves, leaves_of

_COUNT = struct.Struct(">i")
_TIME = np.dtype(">i8")


def number_cells(times: Sequence[npt.NDArray[np.int64]], numbers: Numbers) -> list[bytes]:
    """Cells of numbers.

    Args:
        times: what each cell has before its numbers, in microseconds.
        numbers: the numbers.
    """
    cells = np.empty(len(numbers), _kind_of_cell(len(times), numbers.dtype))
    for at, column in enumerate(times):
        cells[f"time{at}"] = column
    cells["mark"] = _mark(numbers.dtype)
    cells["number"] = numbers
    packed, size = cells.tobytes(), cells.dtype.itemsize
    return [packed[start : start + size] for start in range(0, len(packed), size)]


def mark_of(cell: bytes, times: int) -> int:
    """The count of the run behind so many times; a negative one is a mark."""
    return int(_COUNT.unpack_from(cell, times * _TIME.itemsize)[0])


def numbers_in(
    cells: pa.Array, times: int, like: Kind
) -> tuple[list[npt.NDArray[np.int64]], Numbers] | None:
    """The inverse of :func:`number_cells`; None if there are other cells, or of both kinds.

    Args:
        cells: binary, of which there is one at least.
        times: how many of them each cell has.
        like: the type of the form's numbers.
    """
    mark = mark_of(cells[0].as_py(), times)
    if mark >= 0:
        return None
    of_numbers = _marked(mark, like)
    kind = _kind_of_cell(times, of_numbers)
    size = kind.itemsize
    _, offsets, data = cells.buffers()
    starts = np.frombuffer(offsets, np.int32)[cells.offset : cells.offset + len(cells) + 1]
    if (np.diff(starts) != size).any():
        return None
    found = np.frombuffer(data, kind, len(cells), int(starts[0]))
    if (found["mark"] != mark).any():
        return None
    columns = [found[f"time{at}"].astype(np.int64) for at in range(times)]
    return columns, found["number"].astype(of_numbers)


def _mark(kind: Kind) -> int:
    """A mark with a bit for each number that is set for a float."""
    bits = sum((leaf == FLOATS) << at for at, leaf in enumerate(leaves_of(kind)))
    return -1 - bits


def _marked(mark: int, like: Kind) -> Kind:
    """The type of numbers with a mark."""
    bits = -1 - mark
    leaves = enumerate(leaves_of(like))
    return kind_of_leaves(like, (FLOATS if bits >> at & 1 else INTS for at, _ in leaves))


def _kind_of_cell(times: int, number: Kind) -> Kind:
    before = [(f"time{at}", _TIME) for at in range(times)]
    return np.dtype([*before, ("mark", ">i4"), ("number", number.newbyteorder(">"))])
