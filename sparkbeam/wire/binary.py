"""Binary columns by their buffers."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return the start offset of each value, and the end of the last, in the values buffer."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)
    return offsets[array.offset : array.offset + len(array) + 1]


def buffer_of(array: pa.Array) -> Bytes:
    """Return the values buffer of a binary array."""
    data = array.buffers()[2]
    return np.frombuffer(b"" if data is None else data, np.uint8)


def bytes_of(array: pa.Array) -> Bytes:
    """Return the concatenated bytes of all values."""
    offsets = offsets_of(array)
    return buffer_of(array)[int(offsets[0]) : int(offsets[-1])]


def binary(offsets: npt.NDArray[np.int32], data: npt.NDArray[Any]) -> pa.Array:
    """Build a binary array from bytes and offsets."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def fixed_cells(values: npt.NDArray[Any]) -> pa.Array:
    """Return the bytes of each value of an array as a binary array."""
    offsets = np.arange(len(values) + 1, dtype=np.int32) * values.dtype.itemsize
    return binary(offsets, values)


def take_cells(array: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    """Return the values of a binary array at some positions.

    Values of one length are copied by numpy, several times faster than by Arrow.
    """
    lengths = np.diff(offsets_of(array))
    if not len(lengths) or not lengths[0] or (lengths != lengths[0]).any():
        return array.take(pa.array(rows))
    return fixed_cells(bytes_of(array).view(f"V{lengths[0]}")[rows])


def between(data: Bytes, starts: npt.NDArray[Any], ends: npt.NDArray[Any]) -> pa.Array:
    """Return the parts of bytes between ascending offsets, at least one, as a binary array."""
    bounds = np.stack([starts, ends], axis=1).astype(np.int32).ravel()
    pieces = binary(np.append(bounds, bounds[-1]), data)
    return pieces.take(pa.array(np.arange(0, len(bounds), 2)))
