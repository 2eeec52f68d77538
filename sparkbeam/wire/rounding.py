"""Beam's rounding of times: what becomes of a timestamp and of a window when they are encoded.

Beam's coders keep milliseconds. Where elements do not travel encoded, as within a table that is
written as runs, or from the evaluation of a group to the next step, their times go through
these functions instead, so that it makes no difference. Timestamps go towards zero, the ends of
windows down, and none of them passes the ends of time.
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
    """A timestamp in microseconds as the coder of elements gives it back."""
    if micros >= 0:
        return _MAX if micros >= _MAX else micros - micros % 1000
    return _MIN if micros <= _MIN else micros + -micros % 1000


def coded(timestamp: Timestamp) -> Timestamp:
    """A timestamp as the coder of elements gives it back."""
    return Timestamp(micros=coded_micros(timestamp.micros))


def coded_end(window: BoundedWindow) -> Timestamp:
    """The end of a window as an element's timestamp."""
    return coded(window.max_timestamp())


def coded_span(window: Any) -> tuple[int, int]:
    """Start and end of an interval in microseconds, as the coder of windows gives them back."""
    return _floor(window.start.micros), _floor(window.end.micros)


def coded_hold(micros: int) -> int:
    """A time up to which the watermark may go before a pane with the timestamp ``micros``.

    It is not after the pane, whichever way that is rounded.
    """
    return _floor(micros)


def coded_column(micros: _Times) -> npt.NDArray[np.int64]:
    """As :func:`coded_micros`, of many."""
    return towards_zero(_inside(micros))


def towards_zero(micros: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Times within time's bounds as :func:`coded_micros` has them."""
    found = floored(micros, _MILLISECOND) * _MILLISECOND
    if len(micros) and micros.min() < 0:
        found[(micros < 0) & (found != micros)] += _MILLISECOND
    return found


def floored_column(micros: _Times) -> npt.NDArray[np.int64]:
    """Starts or ends of windows as the coder of windows gives them back; see :func:`coded_span`."""
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
