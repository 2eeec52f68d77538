"""Timestamps and panes of groups."""

from collections.abc import Callable
from typing import Any

from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.timeutil import TimestampCombinerImpl
from apache_beam.transforms.window import GlobalWindows, TimestampCombiner
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming

ON_TIME = PaneInfo(
    is_first=True,
    is_last=False,
    timing=PaneInfoTiming.ON_TIME,
    index=0,
    nonspeculative_index=0,
)
"""The pane of a window that fires once, as Beam's trigger driver marks it."""

ONLY_FIRING = trigger.BatchGlobalTriggerDriver.ONLY_FIRING


def combine_stamps(windowing: Windowing) -> Callable[[int, int], int] | None:
    """Return the function that combines two timestamps of a group; None for the window's end.

    The timestamps are in microseconds.
    """
    return {TimestampCombiner.OUTPUT_AT_EARLIEST: min, TimestampCombiner.OUTPUT_AT_LATEST: max}.get(
        windowing.timestamp_combiner
    )


def pane_of(windowing: Windowing) -> PaneInfo:
    """Return the pane of a group that fires once."""
    is_at_end = combine_stamps(windowing) is None
    is_global = isinstance(windowing.windowfn, GlobalWindows)
    return ONLY_FIRING if is_global and is_at_end else ON_TIME


def stamps_of(windowing: Windowing) -> TimestampCombinerImpl:
    """Return the combiner of the timestamps of a group."""
    # Beam's annotation has the enumeration, not its values.
    combiner: Any = windowing.timestamp_combiner
    return TimestampCombiner.get_impl(combiner, windowing.windowfn)
