"""Notes what comes out of a pipeline that runs in this process, with all that belongs to it."""

from typing import Any

import apache_beam as beam

found: list[tuple[Any, str, int, str]] = []
"""Of each element the value, the window, the timestamp in microseconds, and the pane."""


def note(
    element: Any,
    window: Any = beam.DoFn.WindowParam,
    timestamp: Any = beam.DoFn.TimestampParam,
    pane: Any = beam.DoFn.PaneInfoParam,
) -> None:
    """The function of the last step."""
    found.append((element, repr(window), timestamp.micros, repr(pane)))
