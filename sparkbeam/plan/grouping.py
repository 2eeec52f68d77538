"""Strategies of a GroupByKey, and the choice of one; no other module decides it.

With the default trigger a window fires once in batch, at the end of the input. In streaming it
fires when the watermark passes its end, and for late elements. The firing times are therefore
known without a trigger driver: the window of a non-merging WindowFn is equivalent to a part of the
key, and sessions merge in order of their start. The same holds for a combine in batch with any
trigger, which is evaluated behind the grouping (:mod:`sparkbeam.plan.lifting`). Everything else is
left to Beam's trigger driver.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.trigger import DefaultTrigger
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
)

from sparkbeam.accumulators.counted_accumulators import uncounted
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.plan.row_formats import AggregateRows, GroupRows, KeyedRows, RowFormat

_STAMPS = {
    TimestampCombiner.OUTPUT_AT_EARLIEST: "earliest",
    TimestampCombiner.OUTPUT_AT_LATEST: "latest",
}


class GroupStrategy(Enum):
    """Strategy of a GroupByKey, described by its value for people.

    In batch it reads rows of the format that :class:`Grouping` has, in streaming it keeps groups in
    state; :mod:`sparkbeam.worker.grouping.strategies` has both.
    """

    WINDOWS = "by key and window"
    """A group for each key and window, which fires at the end of the window."""

    SESSIONS = "by key and session"
    """The sessions of a key, which fire at their ends."""

    MERGING = "by the WindowFn"
    """The WindowFn merges the windows of a key, in one call for each key; in batch."""

    TRIGGERS = "by Beam's trigger driver"
    """Beam's trigger driver makes the panes of a key."""


class SessionAggregator(Enum):
    """Way to combine the sessions of a key before the shuffle; see :mod:`sparkbeam.aggregate`."""

    CANONICAL = "canonical"
    """Beam's own merge over all sessions, for each element."""

    ORDERED = "ordered"
    """Element by element, into sessions in their order."""

    COLUMNAR = "columnar"
    """Many elements at once, as columns."""


@dataclass(frozen=True)
class Grouping:
    """Decision on the execution of a GroupByKey.

    Attributes:
        format: the format of the rows on the way to it.
        reason: the reason for the strategy, in words.
        combines: the values are accumulators, and the stage merges them first of all.
        aggregator: the way in which the accumulators were made of elements, session by session;
            None if no sessions are combined, or they stay apart before the shuffle.
        aggregator_reason: the reason for the aggregator, in words.
        by_time: the trigger sees the elements of a micro-batch one timestamp after the other.
        counted: each accumulator has the number of its elements before it, which the trigger
            counts.
        by_stamp: an accumulator holds elements with the same timestamp.
    """

    strategy: GroupStrategy
    format: RowFormat
    reason: str
    combines: bool
    aggregator: SessionAggregator | None = None
    aggregator_reason: str = ""
    by_time: bool = False
    counted: bool = False
    by_stamp: bool = False

    @property
    def merges_columns(self) -> bool:
        """True if it merges accumulators over columns, in batch."""
        return isinstance(self.format, AggregateRows) and self.format.packed

    @property
    def merges_numbers(self) -> bool:
        """True if it keeps accumulators in state, and merges numbers that stand for some, too."""
        is_driven = self.strategy is GroupStrategy.TRIGGERS
        return self.combines and self.format.stored and not is_driven


def decide(
    windowing: Windowing,
    *,
    combines: Callable[[], CombineFn] | None,
    streaming: bool,
    sessions: SessionAggregator | None = None,
    fires: Windowing | None = None,
) -> Grouping:
    """Decide the strategy of the GroupByKey of elements with a windowing.

    Args:
        combines: returns the CombineFn that merges the values behind it, which are accumulators;
            None if they are not.
        sessions: the requested way to combine sessions; None leaves the choice to sparkbeam.
        fires: has the trigger that is evaluated behind it, by the number of elements; None if there
            is none.
    """
    if streaming:
        return _in_streaming(windowing, merges=combines is not None)
    strategy, reason = _in_batch(windowing, fires)
    combine_fn = None if combines is None else combines()
    if strategy is GroupStrategy.SESSIONS:
        return _of_sessions(combine_fn, sessions, reason)
    if strategy is not GroupStrategy.WINDOWS:
        return Grouping(strategy, KeyedRows(), reason, combine_fn is not None)
    form = None if combine_fn is None else form_of(combine_fn)
    # Windows that are identified by their start.
    has_totals = type(windowing.windowfn) in (GlobalWindows, FixedWindows, SlidingWindows)
    if form is None or not has_totals:
        return Grouping(strategy, GroupRows(), reason, combine_fn is not None)
    reason = f"{reason}, and {form.name} has a vectorized form"
    return Grouping(strategy, AggregateRows(), reason, combines=True)


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


def _aggregator(
    combine_fn: CombineFn, asked: SessionAggregator | None
) -> tuple[SessionAggregator, str]:
    if asked is not None:
        return asked, "--session_aggregator says so"
    form = form_of(combine_fn)
    if form is None:
        name = type(uncounted(combine_fn)).__name__
        return SessionAggregator.ORDERED, f"{name} has no vectorized form"
    return SessionAggregator.COLUMNAR, f"{form.name} has a vectorized form"


def _in_batch(windowing: Windowing, fires: Windowing | None) -> tuple[GroupStrategy, str]:
    how = "fire once"
    if fires is not None:
        how = f"come with their element counts, on which {fires.triggerfn} fires"
    fire_once = f"{_windows(windowing)} {how}"
    if not _fires_once(windowing):
        return GroupStrategy.TRIGGERS, _trigger(windowing)
    if type(windowing.windowfn) is Sessions:
        return GroupStrategy.SESSIONS, fire_once
    if windowing.windowfn.is_merging():
        return GroupStrategy.MERGING, f"{_windows(windowing)} merge and {how}"
    stamp = stamp_of(windowing)
    told = fire_once if stamp is None else f"{fire_once}, with the {stamp} timestamp"
    return GroupStrategy.WINDOWS, told


def _of_sessions(
    combine_fn: CombineFn | None, asked: SessionAggregator | None, reason: str
) -> Grouping:
    """Return the decision on sessions in batch."""
    combines = combine_fn is not None
    how = (None, "") if combine_fn is None else _aggregator(combine_fn, asked)
    if asked is SessionAggregator.CANONICAL:
        return Grouping(GroupStrategy.MERGING, KeyedRows(), reason, combines, *how)
    has_form = combine_fn is not None and form_of(combine_fn) is not None
    rows = AggregateRows(sessions=True, packed=has_form)
    return Grouping(GroupStrategy.SESSIONS, rows, reason, combines, *how)


def _in_streaming(windowing: Windowing, *, merges: bool) -> Grouping:
    is_default, window_fn = _fires_once(windowing), windowing.windowfn
    strategy, reason = GroupStrategy.TRIGGERS, _trigger(windowing)
    if is_default:
        strategy, reason = GroupStrategy.WINDOWS, f"{_windows(windowing)} fire at their end"
        if type(window_fn) is Sessions:
            strategy = GroupStrategy.SESSIONS
        elif window_fn.is_merging():
            strategy, reason = GroupStrategy.TRIGGERS, f"{_windows(windowing)} merge"
    return Grouping(
        strategy,
        KeyedRows(stored=True),
        reason,
        merges,
        counted=merges and not is_default,
        by_stamp=merges and tells_stamps(windowing),
    )


def _fires_once(windowing: Windowing) -> bool:
    """Return whether windows fire at their end, and for late elements."""
    return isinstance(windowing.triggerfn, DefaultTrigger)


def _trigger(windowing: Windowing) -> str:
    return f"the trigger is {windowing.triggerfn}"


def _windows(windowing: Windowing) -> str:
    return str(type(windowing.windowfn).__name__)
