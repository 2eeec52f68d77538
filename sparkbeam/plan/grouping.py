"""Choice of the evaluator of a GroupByKey; no other module decides it.

With the default trigger a window fires once in batch, at the end of the input. In streaming it
fires when the watermark passes its end, and for late elements. The firing times are therefore
known without a trigger driver: the window of a non-merging WindowFn is equivalent to a part of the
key, and sessions merge in order of their start. The same holds for a combine in batch with any
trigger, which is evaluated behind the grouping (:mod:`sparkbeam.plan.lifting`). Everything else is
left to Beam's trigger driver.
"""

from collections.abc import Callable

from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    WindowFn,
)

from sparkbeam.plan.model import Evaluator, Grouping, SessionAggregator
from sparkbeam.windows.counted_accumulators import uncounted
from sparkbeam.windows.vectorized_forms import form_of

_OF_WINDOWS = frozenset([Evaluator.GLOBAL, Evaluator.WINDOWED, Evaluator.STAMPED])

_STAMPS = {
    TimestampCombiner.OUTPUT_AT_EARLIEST: "earliest",
    TimestampCombiner.OUTPUT_AT_LATEST: "latest",
}


def decide(
    windowing: Windowing,
    *,
    combines: Callable[[], CombineFn] | None,
    streaming: bool,
    sessions: SessionAggregator | None = None,
    fires: Windowing | None = None,
) -> Grouping:
    """Decide the evaluator of the GroupByKey of elements with a windowing.

    Args:
        windowing: the windowing of the elements.
        combines: returns the CombineFn that merges the values behind it, which are accumulators;
            None if they are not.
        streaming: the pipeline is a streaming query.
        sessions: the requested way to combine sessions; None leaves the choice to sparkbeam.
        fires: has the trigger that is evaluated behind it, by the number of elements; None if there
            is none.
    """
    evaluator, reason = _in_streaming(windowing) if streaming else _in_batch(windowing, fires)
    if evaluator in _OF_WINDOWS and combines is not None and makes_totals(windowing.windowfn):
        form = form_of(combines())
        if form is not None:
            reason = f"{reason}, and {form.name} has a vectorised form"
            return Grouping(Evaluator.TOTALS, reason, combines=True)
    if evaluator is not Evaluator.SESSIONS:
        in_state = streaming and combines is not None
        return Grouping(
            evaluator,
            reason,
            combines is not None,
            counted=in_state and not _fires_once(windowing),
            by_stamp=in_state and tells_stamps(windowing),
        )
    if sessions is SessionAggregator.CANONICAL:
        evaluator = Evaluator.MERGING
    if combines is None:
        return Grouping(evaluator, reason, combines=False)
    if evaluator is Evaluator.SESSIONS and form_of(combines()) is not None:
        evaluator = Evaluator.SESSION_TOTALS
    return Grouping(evaluator, reason, True, *_aggregator(combines(), sessions))


def stamp_of(windowing: Windowing) -> str | None:
    """Return the name of the elements' timestamp that a group has; None for its window's end."""
    return _STAMPS.get(windowing.timestamp_combiner)


def tells_stamps(windowing: Windowing) -> bool:
    """Return whether elements in a stream that differ only in their timestamps count as different.

    The earliest timestamp counts among those that are not behind the output watermark, which is
    not known before the shuffle. The same holds for the latest timestamp in sessions, whose
    elements are late one by one.
    """
    is_earliest = windowing.timestamp_combiner == TimestampCombiner.OUTPUT_AT_EARLIEST
    return is_earliest or (stamp_of(windowing) is not None and windowing.windowfn.is_merging())


def makes_totals(window_fn: WindowFn) -> bool:
    """Return whether the windows of a WindowFn are identified by their start."""
    return type(window_fn) in (GlobalWindows, FixedWindows, SlidingWindows)


def _aggregator(
    combine_fn: CombineFn, asked: SessionAggregator | None
) -> tuple[SessionAggregator, str]:
    if asked is not None:
        return asked, "--session_aggregator says so"
    form = form_of(combine_fn)
    if form is None:
        name = type(uncounted(combine_fn)).__name__
        return SessionAggregator.ORDERED, f"{name} has no vectorised form"
    return SessionAggregator.COLUMNAR, f"{form.name} has a vectorised form"


def _in_batch(windowing: Windowing, fires: Windowing | None) -> tuple[Evaluator, str]:
    window_fn = windowing.windowfn
    how = "fire once"
    if fires is not None:
        how = f"come with the number of their elements, by which {fires.triggerfn} fires"
    fire_once = f"{_windows(windowing)} {how}"
    if not _fires_once(windowing):
        return Evaluator.PANES, _trigger(windowing)
    if type(window_fn) is Sessions:
        return Evaluator.SESSIONS, fire_once
    if window_fn.is_merging():
        return Evaluator.MERGING, f"{_windows(windowing)} merge and {how}"
    stamp = stamp_of(windowing)
    if stamp is not None:
        return Evaluator.STAMPED, f"{fire_once}, with the {stamp} timestamp"
    is_global = isinstance(window_fn, GlobalWindows)
    return Evaluator.GLOBAL if is_global else Evaluator.WINDOWED, fire_once


def _in_streaming(windowing: Windowing) -> tuple[Evaluator, str]:
    window_fn = windowing.windowfn
    is_default = _fires_once(windowing)
    are_sessions = type(window_fn) is Sessions
    if is_default and (are_sessions or not window_fn.is_merging()):
        evaluator = Evaluator.STORED_SESSIONS if are_sessions else Evaluator.STORED_WINDOWS
        return evaluator, f"{_windows(windowing)} fire at their end"
    if not window_fn.is_merging():
        return Evaluator.DRIVEN_WINDOWS, _trigger(windowing)
    reason = f"{_windows(windowing)} merge" if is_default else _trigger(windowing)
    return Evaluator.DRIVEN_SESSIONS if are_sessions else Evaluator.DRIVEN_MERGING, reason


def _fires_once(windowing: Windowing) -> bool:
    """Return whether windows fire at their end, and for late elements."""
    return isinstance(windowing.triggerfn, DefaultTrigger)


def _trigger(windowing: Windowing) -> str:
    return f"the trigger is {windowing.triggerfn}"


def _windows(windowing: Windowing) -> str:
    return str(type(windowing.windowfn).__name__)
