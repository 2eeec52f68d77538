"""Beam's rounding of timestamps and windows when they are encoded.

Beam's coders keep milliseconds. Times that are not encoded, such as those within a table that is
written as runs, or between the evaluation of a group and the next step, pass through these
functions instead, so that the result is the same. Timestamps are rounded towards zero, window ends
down, and both are limited to Beam's range.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Timestamp

from sparkbeam.common.integer_division import floored

_Times = Sequence[int] | npt.NDArray[np.int64]
_MIN, _MAX = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros
_MILLISECOND = 1000


def coded_micros(micros: int) -> int:
    """Round a timestamp in microseconds like the coder of elements."""
    if micros >= 0:
        return _MAX if micros >= _MAX else micros - micros % 1000
    return _MIN if micros <= _MIN else micros + -micros % 1000


def coded(timestamp: Timestamp) -> Timestamp:
    """Round a timestamp like the coder of elements."""
    return Timestamp(micros=coded_micros(timestamp.micros))


def coded_end(window: BoundedWindow) -> Timestamp:
    """Return the end of a window as an element's timestamp."""
    return coded(window.max_timestamp())


def coded_span(window: Any) -> tuple[int, int]:
    """Return start and end of an interval in microseconds, rounded like the coder of windows."""
    return _floor(window.start.micros), _floor(window.end.micros)


def coded_hold(micros: int) -> int:
    """Return a watermark hold for a pane with the timestamp ``micros``.

    It is not after the pane, in either direction of rounding.
    """
    return _floor(micros)


def coded_column(micros: _Times) -> npt.NDArray[np.int64]:
    """Round many timestamps like :func:`coded_micros`."""
    inside = _inside(micros)
    found = floored(inside, _MILLISECOND) * _MILLISECOND
    if len(inside) and inside.min() < 0:
        found[(inside < 0) & (found != inside)] += _MILLISECOND
    return found


def floored_column(micros: _Times) -> npt.NDArray[np.int64]:
    """Round window starts or ends like the coder of windows; see :func:`coded_span`."""
    return floored(_inside(micros), _MILLISECOND) * _MILLISECOND


def _inside(micros: _Times) -> npt.NDArray[np.int64]:
    try:
        column = np.asarray(micros, np.int64)
    except OverflowError:
        return np.array([max(_MIN, min(time, _MAX)) for time in micros], np.int64)
    is_inside = not len(column) or (column.min() >= _MIN and column.max() <= _MAX)
    return column if is_inside else np.clip(column, _MIN, _MAX)


def _floor(micros: int) -> int:
    inside = max(_MIN, min(micros, _MAX))
    return inside - inside % 1000
