"""As-of joins: each element with the one of another PCollection that is closest to it in time."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import coders, typecoders
from apache_beam.metrics import Metrics
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimerSpec, on_timer
from apache_beam.transforms.window import (
    BoundedWindow,
    GlobalWindow,
    NonMergingWindowFn,
    TimestampedValue,
)
from apache_beam.typehints import typehints
from apache_beam.utils.timestamp import Duration, Timestamp

from sparkbeam.coders import OrderedIntCoder
from sparkbeam.common.arguments import flag, one_of, shown
from sparkbeam.errors import ConfigurationError
from sparkbeam.joins.closest import NEVER, Closest, Walk
from sparkbeam.plan.same_windows import in_same_windows
from sparkbeam.plan.time_params import EventTimeSpec
from sparkbeam.state import SortedMultimapStateSpec

DIRECTIONS = ("backward", "forward", "nearest")

_Tagged = tuple[Any, tuple[bool, int, bytes]]
"""A key, and of an element whether it is of the left, its time in microseconds, its encoding."""

_END = GlobalWindow().max_timestamp().micros
_MILLI = 1000


class AsOfJoin(beam.PTransform[Any, Any]):
    """Joins each element with the closest one in time of another PCollection, key by key.

    ::

        matched = (trades, quotes) | AsOfJoin()  # (symbol, (trade, quote or None))

    The two inputs, as a tuple or as a dict with ``left`` and ``right``, are pairs of key and
    value in the same windows. For each element on the left there is one of the output, with its
    time and window: ``(key, (left, right))``, where ``right`` is None if none is close enough.
    Times are compared to the microsecond. Of elements on the right with one time the last one by
    encoding counts (``forward``: the first), whatever the order in which they came.

    In streaming an element on the left comes out when nothing can change its match any more: when
    the watermark has passed it and the allowed lateness of the windowing and, if the match may be
    a later one, that too. So the results are those of a batch. What is later than the allowed
    lateness is dropped, and counted by ``dropped_late`` of ``sparkbeam.AsOfJoin``. State is kept of
    what has not come out, and of the elements on the right that may still be a match: in the
    global window with direction ``backward`` the last one of each key.

    Args:
        direction: ``backward``, the latest at or before an element; ``forward``, the first at or
            after it; ``nearest``, the closer one of both, and of two that are equally close the
            earlier.
        tolerance: how far apart the two may be, in seconds or as a Duration; None for any distance.
        allow_exact_matches: whether two of the same time match.

    Raises:
        ConfigurationError: an argument or the windows cannot be.
    """

    def __init__(
        self,
        direction: str = "backward",
        tolerance: Any = None,
        *,
        allow_exact_matches: bool = True,
    ) -> None:
        super().__init__()
        self._closest = Closest(
            one_of("direction", direction, DIRECTIONS),
            None if tolerance is None else _micros(tolerance),
            flag("allow_exact_matches", allow_exact_matches),
        )

    def expand(self, pcoll: Any) -> Any:
        """Beam's hook: makes the parts of the transform."""
        left, right = _inputs(pcoll)
        (key, left_type), (_, right_type) = _types(left, "left"), _types(right, "right")
        of_left, of_right = map(typecoders.registry.get_coder, (left_type, right_type))
        windowing = left.windowing
        if not in_same_windows(left, right):
            raise ConfigurationError(
                f"AsOfJoin '{self.label}': left and right are in different windows: give both the "
                "same beam.WindowInto(…)."
            )
        if not isinstance(windowing.windowfn, NonMergingWindowFn):
            raise ConfigurationError(
                f"AsOfJoin '{self.label}' cannot join in windows that merge, such as sessions: "
                "join first, and give the result such windows."
            )
        tagged_type = beam.typehints.Tuple[key, beam.typehints.Tuple[bool, int, bytes]]
        tagged = [
            side | name >> beam.ParDo(_Tag(is_left, coder)).with_output_types(tagged_type)
            for name, side, is_left, coder in (
                ("Left", left, True, of_left),
                ("Right", right, False, of_right),
            )
        ]
        matched = beam.typehints.Tuple[left_type, beam.typehints.Optional[right_type]]
        lateness = windowing.allowed_lateness.micros
        join = beam.ParDo(_join(self._closest, of_left, of_right, lateness))
        return (
            tagged
            | "Both" >> beam.Flatten()
            | "Join" >> join.with_output_types(beam.typehints.Tuple[key, matched])
        )


class _Tag(beam.DoFn):
    """Makes elements of both sides alike: whether it is of the left, its time, its encoding."""

    def __init__(self, is_left: bool, coder: coders.Coder) -> None:
        self._is_left = is_left
        self._coder = coder

    def process(
        self, element: tuple[Any, Any], time: Any = beam.DoFn.TimestampParam
    ) -> Iterator[_Tagged]:
        key, value = element
        yield key, (self._is_left, time.micros, self._coder.encode(value))


class _Encoded(coders.Coder):
    """Of values that are encoded already, by a coder that the state depends on."""

    def __init__(self, coder: coders.Coder) -> None:
        self._coder = coder

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, encoded: bytes) -> bytes:
        return encoded

    def is_deterministic(self) -> bool:
        return True


class _States(NamedTuple):
    """What there is of a key in a window.

    Attributes:
        left, right: the encoded elements by their times.
        awaited: when the timer fires, and what it holds the watermark at.
        time: how far event time is, and the hold.
        due: fires when something may be final.
    """

    left: Any
    right: Any
    awaited: Any
    time: Any
    due: Any


class _Joining:
    """Joins the elements of keys.

    Args:
        closest: which element is a match.
        of_left: the coder of one side.
        of_right: that of the other one.
        lateness: how late an element may come, in microseconds.
    """

    def __init__(
        self, closest: Closest, of_left: coders.Coder, of_right: coders.Coder, lateness: int
    ) -> None:
        self._closest = closest
        self._of_left = of_left
        self._of_right = of_right
        self._lateness = lateness
        self._late = Metrics.counter("sparkbeam.AsOfJoin", "dropped_late")

    def take(self, element: _Tagged, window: BoundedWindow, at: _States) -> None:
        """Keeps an element."""
        _, (is_left, micros, value) = element
        if micros < at.time.arrived - self._lateness:
            self._late.inc()
            return
        (at.left if is_left else at.right).put(micros, value)
        next_due, hold = at.awaited.read() or (NEVER, NEVER)
        fire = _fire(micros + 1, self._lateness, window)
        is_first = is_left and micros < hold
        if fire < next_due:
            at.due.set(Timestamp(micros=fire))
        if is_first:
            at.time.hold(micros)
        if fire < next_due or is_first:
            at.awaited.write((min(fire, next_due), micros if is_first else hold))

    def finish(
        self, key: Any, window: BoundedWindow, at: _States
    ) -> Iterator[TimestampedValue[Any]]:
        """Puts out the elements on the left whose match is final."""
        closest, lateness = self._closest, self._lateness
        known = NEVER if at.time.final >= _last(window, lateness) else at.time.final - lateness
        walk = Walk(at.right.all_entries())
        done, following, final = None, None, NEVER
        for micros, value in at.left.all_entries():
            match, final = closest.match(micros, *walk.around(micros))
            if final > known:
                following = micros
                break
            done = micros
            found = None if match is None else self._of_right.decode(match)
            pair = self._of_left.decode(value), found
            yield TimestampedValue((key, pair), Timestamp(micros=micros))
        if done is not None:
            at.left.remove_until(done)
        _forget(closest, at.right, known if following is None else min(known, following))
        at.time.hold(following)
        fire = NEVER if following is None else _fire(final, lateness, window)
        if following is None:
            fire = _next_to_forget(closest, at.right, known, lateness, window)
        if fire < NEVER:
            at.due.set(Timestamp(micros=fire))
            at.awaited.write((fire, NEVER if following is None else following))
        else:
            at.awaited.clear()


def _join(
    closest: Closest, of_left: coders.Coder, of_right: coders.Coder, lateness: int
) -> beam.DoFn:
    """The DoFn that joins; for the arguments see :class:`_Joining`."""
    left_spec = SortedMultimapStateSpec("left", OrderedIntCoder(), _Encoded(of_left))
    right_spec = SortedMultimapStateSpec("right", OrderedIntCoder(), _Encoded(of_right))
    two_times = coders.TupleCoder((coders.VarIntCoder(), coders.VarIntCoder()))
    awaited_spec = ReadModifyWriteStateSpec("awaited", two_times)
    time_spec = EventTimeSpec("time")
    due_spec = TimerSpec("due", TimeDomain.WATERMARK)
    joining = _Joining(closest, of_left, of_right, lateness)

    class Join(beam.DoFn):
        def process(
            self,
            element: _Tagged,
            window: Any = beam.DoFn.WindowParam,
            left: Any = beam.DoFn.StateParam(left_spec),
            right: Any = beam.DoFn.StateParam(right_spec),
            awaited: Any = beam.DoFn.StateParam(awaited_spec),
            time: Any = beam.DoFn.StateParam(time_spec),
            due: Any = beam.DoFn.TimerParam(due_spec),
        ) -> None:
            joining.take(element, window, _States(left, right, awaited, time, due))

        @on_timer(due_spec)
        def finish(
            self,
            key: Any = beam.DoFn.KeyParam,
            window: Any = beam.DoFn.WindowParam,
            left: Any = beam.DoFn.StateParam(left_spec),
            right: Any = beam.DoFn.StateParam(right_spec),
            awaited: Any = beam.DoFn.StateParam(awaited_spec),
            time: Any = beam.DoFn.StateParam(time_spec),
            due: Any = beam.DoFn.TimerParam(due_spec),
        ) -> Iterator[TimestampedValue[Any]]:
            return joining.finish(key, window, _States(left, right, awaited, time, due))

    return Join()


def _last(window: BoundedWindow, lateness: int) -> int:
    """The watermark at which no element of a window can come any more."""
    return _END if isinstance(window, GlobalWindow) else min(_END, window.end.micros + lateness)


def _fire(known: int, lateness: int, window: BoundedWindow) -> int:
    """The watermark at which all elements before a time are known, in whole milliseconds."""
    return min(-(-(known + lateness) // _MILLI) * _MILLI, _last(window, lateness))


def _forget(closest: Closest, right: Any, oldest: int) -> None:
    """Removes what cannot be a match of an element at a time or later."""
    if closest.direction == "forward" or oldest == NEVER:
        right.remove_until(oldest - 1)
        return
    if closest.tolerance is not None:
        right.remove_until(oldest - closest.tolerance - 1)
    kept = right.floor(oldest - 1)
    if kept is None:
        return
    time, values = kept
    right.remove_until(time - 1)
    if len(values) > 1:
        right.remove(time)
        right.put(time, max(values))


def _next_to_forget(
    closest: Closest, right: Any, known: int, lateness: int, window: BoundedWindow
) -> int:
    """The watermark at which something on the right can go; NEVER if none can."""
    last = next(iter(right.all_entries(reverse=True)), None)
    if last is None:
        return NEVER
    if last[0] >= known:
        return _fire(last[0] + 1, lateness, window)
    if closest.tolerance is None:
        return NEVER
    return _fire(last[0] + closest.tolerance + 1, lateness, window)


def _micros(tolerance: Any) -> int:
    try:
        micros = Duration.of(tolerance).micros
    except (TypeError, ValueError, OverflowError):
        micros = -1
    if isinstance(tolerance, bool) or not 0 <= micros < NEVER:
        raise ConfigurationError(
            f"tolerance={shown(tolerance)} is no such time: it is a number of seconds of at least "
            "0, a Duration, or None for any distance."
        )
    return int(micros)


def _inputs(pcoll: Any) -> tuple[Any, Any]:
    if isinstance(pcoll, Mapping) and pcoll.keys() == {"left", "right"}:
        return pcoll["left"], pcoll["right"]
    if isinstance(pcoll, tuple | list) and len(pcoll) == 2:
        return pcoll[0], pcoll[1]
    raise ConfigurationError(
        "AsOfJoin takes two PCollections: write (left, right) | AsOfJoin(), or "
        "{'left': left, 'right': right} | AsOfJoin()."
    )


def _types(pcoll: Any, side: str) -> tuple[Any, Any]:
    """The types of keys and values."""
    kind = pcoll.element_type
    if kind is None or kind == typehints.Any:
        return typehints.Any, typehints.Any
    parts: tuple[Any, ...] = getattr(kind, "tuple_types", ())
    if len(parts) != 2:
        raise ConfigurationError(
            f"The elements on the {side} of AsOfJoin are {shown(kind)}: they have to be pairs of "
            "key and value."
        )
    return parts[0], parts[1]
