"""Elements, or the values of pairs, with their times: the step with which ``Latest`` begins."""

from typing import Any

import numpy as np
import pyarrow as pa

from sparkbeam.columns import NotExact, Record, Shape
from sparkbeam.columns.python_types import is_tuple, tells_all
from sparkbeam.columns.vectors import Micros
from sparkbeam.upstream.beam import StampedPart
from sparkbeam.windows.choices import STAMP

_NAMES = ("0", "1")


def with_times(
    array: pa.Array, shape: Shape, part: StampedPart, times: Micros | None = None
) -> tuple[pa.Array, Record]:
    """Return elements of a column with their timestamps.

    Args:
        array: the elements.
        shape: the shape of each element.
        part: to what of each the timestamp is joined.
        times: the timestamps in microseconds; None for those of an empty column.

    Raises:
        NotExact: the elements are no pairs, and have to be, or their shape does not tell all.
    """
    if not tells_all(shape):
        raise NotExact("its results hold structs in lists or maps")
    stamps = pa.array(np.zeros(len(array), np.int64) if times is None else times)
    stamps = stamps.cast(STAMP.arrow_type)
    if part == "element":
        return _pairs((array, shape), (stamps, STAMP))
    if not isinstance(shape, Record) or not is_tuple(shape) or len(shape.fields) != 2:
        raise NotExact(f"its input is no pair, but {shape}")
    if array.null_count:
        raise NotExact("it meets None")
    key, value = ((array.field(at), field) for at, field in enumerate(shape.fields))
    return _pairs(key, _pairs(value, (stamps, STAMP)))


def _pairs(left: tuple[pa.Array, Any], right: tuple[pa.Array, Any]) -> tuple[pa.Array, Record]:
    array = pa.StructArray.from_arrays([left[0], right[0]], list(_NAMES))
    return array, Record(tuple, _NAMES, (left[1], right[1]))
