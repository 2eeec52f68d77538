"""Beam's trigger driver, with the timing of panes as Beam's model has it.

The panes of a window are early ones, then at most one on time, then late ones. The driver of the
Python SDK asks the output watermark alone, and that may be held back by another window. It then
calls a pane early that comes after the one on time, and lets it hold the watermark. The rule here
is that of the Java SDK, ``PaneInfoTracker`` in its runners' core: after the pane on time all are
late; and the first pane for which the input watermark is past the window is the one on time, as
long as the output watermark is not past it.
"""

from typing import Any

from apache_beam.transforms.trigger import GeneralTriggerDriver
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.grouping.moment import Moment


class TimedTriggerDriver(GeneralTriggerDriver):
    """The trigger driver of a windowing; its clock is a :class:`Moment`."""

    clock: Moment

    def _output(
        self,
        window: BoundedWindow,
        finished: bool,
        state: Any,
        output_watermark: Timestamp,
        maybe_ontime: bool,
    ) -> WindowedValue:
        latest = window.max_timestamp()
        if output_watermark <= latest and (
            self.clock.input_watermark > latest.micros
            or state.get_state(window, self.NONSPECULATIVE_INDEX)
        ):
            output_watermark, maybe_ontime = window.end, True
        return super()._output(window, finished, state, output_watermark, maybe_ontime)
