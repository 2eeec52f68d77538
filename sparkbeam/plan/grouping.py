"""How a GroupByKey is done: the one place that decides it.

With the default trigger a window fires once in batch, at the end of the input, and in streaming
when the watermark passes its end, and for late elements. So nobody needs to be asked when: the
window of a non-merging WindowFn is as good as a part of the key, and sessions merge in order of
their start. All else is up to Beam's trigger driver.
"""

from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import GlobalWindows, Sessions, TimestampCombiner

from sparkbeam.plan.model import Evaluator, Grouping

_STAMPS = {
    TimestampCombiner.OUTPUT_AT_EARLIEST: "earliest",
    TimestampCombiner.OUTPUT_AT_LATEST: "latest",
}


def decide(windowing: Windowing, *, combines: bool, streaming: bool) -> Grouping:
    """How the GroupByKey of elements with a windowing is done.

    Args:
        windowing: theirs.
        combines: the values are accumulators, which are merged behind it.
        streaming: the pipeline is a streaming query.
    """
    evaluator, reason = _in_streaming(windowing) if streaming else _in_batch(windowing)
    return Grouping(evaluator, reason, combines)


def _in_batch(windowing: Windowing) -> tuple[Evaluator, str]:
    window_fn = windowing.windowfn
    fire_once = f"{_windows(windowing)} fire once"
    if not isinstance(windowing.triggerfn, DefaultTrigger):
        return Evaluator.PANES, _trigger(windowing)
    if type(window_fn) is Sessions:
        return Evaluator.SESSIONS, fire_once
    if window_fn.is_merging():
        return Evaluator.MERGING, f"{_windows(windowing)} merge and fire once"
    if windowing.timestamp_combiner in _STAMPS:
        stamp = _STAMPS[windowing.timestamp_combiner]
        return Evaluator.STAMPED, f"{fire_once}, with the {stamp} timestamp"
    is_global = isinstance(window_fn, GlobalWindows)
    return Evaluator.GLOBAL if is_global else Evaluator.WINDOWED, fire_once


def _in_streaming(windowing: Windowing) -> tuple[Evaluator, str]:
    window_fn = windowing.windowfn
    is_default = isinstance(windowing.triggerfn, DefaultTrigger)
    if not window_fn.is_merging():
        if is_default:
            return Evaluator.STORED_WINDOWS, f"{_windows(windowing)} fire at their end"
        return Evaluator.DRIVEN_WINDOWS, _trigger(windowing)
    reason = f"{_windows(windowing)} merge" if is_default else _trigger(windowing)
    are_sessions = type(window_fn) is Sessions
    return Evaluator.DRIVEN_SESSIONS if are_sessions else Evaluator.DRIVEN_MERGING, reason


def _trigger(windowing: Windowing) -> str:
    return f"the trigger is {windowing.triggerfn}"


def _windows(windowing: Windowing) -> str:
    return str(type(windowing.windowfn).__name__)
