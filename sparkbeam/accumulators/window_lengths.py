"""The lengths of windows that depend on nothing but the time."""

from apache_beam.transforms.window import FixedWindows, Sessions, SlidingWindows, WindowFn

_MILLI = 1000
"""Resolution of windows in Beam's coders, milliseconds: finer ones are not told apart."""


def slots_of(window_fn: WindowFn) -> tuple[int, int] | None:
    """Return offset and length of the spans of time in which all elements get the same windows.

    None if there are none. Both are in microseconds.
    """
    match window_fn:
        case FixedWindows():
            return window_fn.offset.micros, window_fn.size.micros
        case SlidingWindows() if window_fn.size.micros % window_fn.period.micros == 0:
            return window_fn.offset.micros, window_fn.period.micros
    return None


def whole_slots_of(window_fn: WindowFn) -> tuple[int, int] | None:
    """Return the result of :func:`slots_of`; None also if spans are finer than a millisecond."""
    bounds = slots_of(window_fn)
    return None if bounds is None or any(micros % _MILLI for micros in bounds) else bounds


def whole_gap_of(window_fn: WindowFn) -> int | None:
    """Return the gap of sessions, in microseconds; None of others, and where it is finer."""
    if type(window_fn) is not Sessions or window_fn.gap_size.micros % _MILLI:
        return None
    gap: int = window_fn.gap_size.micros
    return gap
