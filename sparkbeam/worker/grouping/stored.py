"""Common base of groupings whose windows fire once at their end, and then for late elements."""

from collections.abc import Iterable
from typing import Any

from apache_beam.coders import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import AccumulationMode
from apache_beam.transforms.window import BoundedWindow
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue

from sparkbeam.accumulators.vectorized_accumulator import Numbers
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.wire.rounding import coded
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.group_timestamps import ON_TIME, stamps_of
from sparkbeam.worker.grouping.triggered import StreamGrouping


class StoredGrouping(StreamGrouping):
    """A grouping with the default trigger, without Beam's trigger driver."""

    def _prepare(self, coder: coders.WindowedValueCoder, windowing: Windowing) -> None:
        value = coder.wrapped_value_coder.value_coder().get_impl()
        self._encode, self._decode = value.encode, value.decode
        combine_fn = self._combine_fn
        self._combine = None if combine_fn is None else Combine(combine_fn, form_of(combine_fn), "")
        self._stamps = stamps_of(windowing)
        self._accumulates = windowing.accumulation_mode == AccumulationMode.ACCUMULATING

    def _encoded_numbers(self, numbers: Numbers) -> list[bytes]:
        """Return the encoded accumulators for numbers of the vectorized form."""
        assert self._combine is not None
        assert self._combine.form is not None
        combine_fn, encode = self._combine.combine_fn, self._encode
        found = self._combine.form.accumulators(numbers, combine_fn)
        return [encode(combine_fn.compact(accumulator)) for accumulator in found]

    def _combined(self, stored: list[bytes]) -> bytes:
        """Merge several encoded accumulators into one."""
        assert self._combine_fn is not None
        if len(stored) == 1:
            return stored[0]
        merged = self._combine_fn.merge_accumulators(map(self._decode, stored))
        return bytes(self._encode(self._combine_fn.compact(merged)))

    def _stamp(
        self, window: BoundedWindow, held: Iterable[int | None], stamps: Iterable[Timestamp]
    ) -> int | None:
        """Return the combined timestamp of the elements not behind the output watermark.

        Args:
            window: of all.
            held: the combined earlier timestamps, in microseconds, if there are any.
            stamps: the timestamps of new elements, as assigned to the window.
        """
        combiner, output = self._stamps, self._moment.output_watermark
        merged = combiner.merge(window, (stamp for stamp in stamps if stamp.micros >= output))
        before = [Timestamp(micros=micros) for micros in held if micros is not None]
        found = combiner.combine_all(before if merged is None else [*before, merged])
        return None if found is None else int(found.micros)

    def _new_pane(
        self,
        key: Any,
        values: Any,
        window: BoundedWindow,
        latest: Timestamp,
        stamp: int | None,
        panes: int,
        *,
        on_time: bool,
    ) -> WindowedValue:
        """Return the next pane of a window after this many, none of which was early."""
        timestamp = latest if stamp is None else Timestamp(micros=stamp)
        # See trigger_timing.py.
        on_time = on_time or self._moment.output_watermark <= latest.micros
        info = ON_TIME if on_time else _FIRST_LATE
        if panes:
            info = PaneInfo(False, False, PaneInfoTiming.LATE, panes, panes)
        return WindowedValue((key, values), coded(timestamp), (window,), info)


_FIRST_LATE = PaneInfo(True, False, PaneInfoTiming.LATE, 0, 0)
