"""Columns of bytes by their buffers."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where each value of binary begins, and the last ends, in the buffer of all."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]


def buffer_of(array: pa.Array) -> Bytes:
    """The buffer of the values of binary."""
    data = array.buffers()[2]
    return np.frombuffer(b"" if data is None else data, np.uint8)


def bytes_of(array: pa.Array) -> Bytes:
    """The bytes of all values of binary, one after the other."""
    offsets = offsets_of(array)
    return buffer_of(array)[int(offsets[0]) : int(offsets[-1])]


def binary(offsets: npt.NDArray[np.int32], data: npt.NDArray[Any]) -> pa.Array:
    """Binary: the bytes of an array, cut where values begin and the last ends."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def fixed_cells(values: npt.NDArray[Any]) -> pa.Array:
    """The bytes of each value of an array, as binary."""
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.dtype.itemsize
    return binary(offsets, values)
