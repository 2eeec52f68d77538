"""What a stage reads: from rows to windowed values, one function for each layout.

Rows of an exchange by key come sorted, so a group is a run of rows with equal
keys, and every function here is one linear pass that holds one group at a time.
"""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from apache_beam.coders import coder_impl, coders
from apache_beam.transforms import trigger
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    TimestampCombiner,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue

from sparkbeam.worker.sinks import SESSION_HEADER, combine_stamps, stripped_coder
from sparkbeam.worker.values import RunCoder, ValuesBuilder

Row = tuple[bytes, int, bytes]
"""Key, order and value of a row of data."""

ONLY_FIRING = trigger.BatchGlobalTriggerDriver.ONLY_FIRING


def chunks(rows: Iterator[Row], coder: coders.WindowedValueCoder) -> Iterator[WindowedValue]:
    """``Layout.CHUNKS``."""
    decode_all = coder.get_impl().decode_all
    for _, _, value in rows:
        yield from decode_all(value)


def groups(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[WindowedValue]:
    """``Layout.GROUPS``: one pane for each key and window."""
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_from_stream
    runs = RunCoder(pair.value_coder().get_impl())
    combine = combine_stamps(windowing)
    decode_window = (
        None
        if isinstance(windowing.windowfn, GlobalWindows)
        else windowing.windowfn.get_window_coder().decode
    )
    global_end = GlobalWindow().max_timestamp()
    global_windows = (GlobalWindow(),)
    for composite, group in groupby(rows, itemgetter(0)):
        values = ValuesBuilder(runs)
        stamp: int | None = None
        for _, order, run in group:
            values.append(run)
            if combine is not None:
                stamp = order if stamp is None else combine(stamp, order)
        stream = coder_impl.create_InputStream(composite)
        key = decode_key(stream, True)
        if decode_window is None:
            windows, end = global_windows, global_end
        else:
            window = decode_window(stream.read_all(False))
            windows, end = (window,), window.max_timestamp()
        timestamp = end if stamp is None else Timestamp(micros=stamp)
        yield WindowedValue((key, values.values()), timestamp, windows, ONLY_FIRING)


def sessions(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[WindowedValue]:
    """``Layout.SESSIONS``: rows of a key come by start, so sessions merge in one pass.

    Beam's rule: a session takes the next one in when that starts before its end.
    """
    pair = coder.wrapped_value_coder
    decode_key = pair.key_coder().get_impl().decode_nested
    runs = RunCoder(pair.value_coder().get_impl())
    at_end = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EOW
    combine = combine_stamps(windowing) or max

    def session(key: Any, start: int, end: int, stamp: int, values: ValuesBuilder) -> WindowedValue:
        window = IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))
        timestamp = window.max_timestamp() if at_end else Timestamp(micros=stamp)
        return WindowedValue((key, values.values()), timestamp, (window,), ONLY_FIRING)

    for encoded_key, group in groupby(rows, itemgetter(0)):
        key = decode_key(encoded_key)
        values: ValuesBuilder | None = None
        start = end = stamp = 0
        for _, next_start, cell in group:
            next_end, next_stamp = SESSION_HEADER.unpack_from(cell)
            if values is None or next_start >= end:
                if values is not None:
                    yield session(key, start, end, stamp, values)
                values = ValuesBuilder(runs)
                start, end, stamp = next_start, next_end, next_stamp
            end = max(end, next_end)
            stamp = combine(stamp, next_stamp)
            values.append(cell[SESSION_HEADER.size :])
        if values is not None:
            yield session(key, start, end, stamp, values)


def triggered(
    rows: Iterator[Row], coder: coders.WindowedValueCoder, windowing: Windowing
) -> Iterator[WindowedValue]:
    """``Layout.TRIGGERED``: Beam's batch trigger driver decides which panes there are."""
    decode_key = coder.wrapped_value_coder.key_coder().get_impl().decode_nested
    runs = RunCoder(stripped_coder(coder).get_impl())
    driver = trigger.create_trigger_driver(windowing, is_batch=True)
    for encoded_key, group in groupby(rows, itemgetter(0)):
        elements = [element for _, _, run in group for element in runs.decode(run)]
        yield from driver.process_entire_key(decode_key(encoded_key), elements)


def keyed(
    rows: Iterator[Row], coder: coders.WindowedValueCoder
) -> Iterator[Iterator[WindowedValue]]:
    """``Layout.KEYED`` and ``Layout.TIME_SORTED``: the elements of one key after the other."""
    decode = RunCoder(coder.get_impl()).decode

    def elements(group: Iterator[Row]) -> Iterator[WindowedValue]:
        for _, _, run in group:
            yield from decode(run)

    for _, group in groupby(rows, itemgetter(0)):
        yield elements(group)
