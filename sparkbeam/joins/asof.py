"""As-of joins: match each element with the closest one in time of another PCollection."""

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
from sparkbeam.joins.closest import NEVER, Closest, MatchCursor
from sparkbeam.plan.same_windows import in_same_windows
from sparkbeam.plan.time_params import EventTimeSpec
from sparkbeam.state import SortedMultimapStateSpec

DIRECTIONS = ("backward", "forward", "nearest")

_Tagged = tuple[Any, tuple[bool, int, bytes]]
"""Key and element: whether it is from the left, its timestamp in microseconds, its encoding."""

_LATE = Metrics.counter("sparkbeam.AsOfJoin", "dropped_late")
_END = GlobalWindow().max_timestamp().micros
_MILLI = 1000


class AsOfJoin(beam.PTransform[Any, Any]):
    """Joins each element with the closest one in time of another PCollection, by key.

    ::

        matched = (trades, quotes) | AsOfJoin()  # (symbol, (trade, quote or None))

    The two inputs, a tuple or a dict with ``left`` and ``right``, are key-value pairs in the same
    windows. Each left element gives one output element with its timestamp and window: ``(key,
    (left, right))``, where ``right`` is None if no element is close enough. Timestamps are compared
    in microseconds. Of right elements with equal timestamps the last one by encoding is used, and
    of later ones than the left element the first, independent of the order of arrival.

    In streaming a left element is output when its match is final: when the watermark has passed its
    timestamp plus the allowed lateness of the windowing and, if the match may be a later element,
    that one's as well. So the results equal those of a batch. Elements beyond the allowed lateness
    are dropped and counted in ``dropped_late`` of ``sparkbeam.AsOfJoin``. State holds pending left
    elements, and the right elements that may still match: in the global window with direction
    ``backward``, the last one of each key.

    Args:
        direction: ``backward``, the latest at or before an element; ``forward``, the first at or
            after it; ``nearest``, the closer of both, and on a tie the earlier.
        tolerance: the largest distance in time, in seconds or as a Duration; None for no limit.

    Raises:
        ConfigurationError: an argument or the windows are invalid.
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
                f"AsOfJoin '{self.label}' cannot join in merging windows, such as sessions: "
                "join first, then assign these windows to the result."
            )
        tagged_type = beam.typehints.Tuple[key, beam.typehints.Tuple[bool, int, bytes]]
        tagged = [
            side | name >> beam.ParDo(_TagSide(is_left, coder)).with_output_types(tagged_type)
            for name, side, is_left, coder in (
                ("Left", left, True, of_left),
                ("Right", right, False, of_right),
            )
        ]
        matched = beam.typehints.Tuple[left_type, beam.typehints.Optional[right_type]]
        lateness = windowing.allowed_lateness.micros
        join = beam.ParDo(_join(_Joining(self._closest, of_left, of_right, lateness)))
        return (
            tagged
            | "Both" >> beam.Flatten()
            | "Join" >> join.with_output_types(beam.typehints.Tuple[key, matched])
        )


class _TagSide(beam.DoFn):
    """Unify the elements of both sides: a flag for the left one, the timestamp, the encoding."""

    def __init__(self, is_left: bool, coder: coders.Coder) -> None:
        self._is_left = is_left
        self._coder = coder

    def process(
        self, element: tuple[Any, Any], time: Any = beam.DoFn.TimestampParam
    ) -> Iterator[_Tagged]:
        key, value = element
        yield key, (self._is_left, time.micros, self._coder.encode(value))


class _Encoded(coders.Coder):
    """Coder of encoded values; keeps the inner coder as part of the state's type."""

    def __init__(self, coder: coders.Coder) -> None:
        self._coder = coder

    def encode(self, value: bytes) -> bytes:
        return value

    def decode(self, encoded: bytes) -> bytes:
        return encoded

    def is_deterministic(self) -> bool:
        return True


class _States(NamedTuple):
    """State of a key in a window.

    Attributes:
        left, right: encoded elements by timestamp.
        awaited: the timer's firing time and its watermark hold.
        due: fires when a match may be final.
    """

    left: Any
    right: Any
    awaited: Any
    time: Any
    due: Any


class _Joining(NamedTuple):
    """Join logic for one key and window.

    Attributes:
        of_left, of_right: the coders of both sides.
        lateness: the allowed lateness, in microseconds.
    """

    closest: Closest
    of_left: coders.Coder
    of_right: coders.Coder
    lateness: int

    def add(self, element: _Tagged, window: BoundedWindow, at: _States) -> None:
        """Add an element to the state."""
        _, (is_left, micros, value) = element
        if micros < at.time.arrived - self.lateness:
            _LATE.inc()
            return
        (at.left if is_left else at.right).put(micros, value)
        next_due, hold = at.awaited.read() or (NEVER, NEVER)
        fire = _fire(micros + 1, self.lateness, window)
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
        """Output the left elements with a final match."""
        closest, lateness = self.closest, self.lateness
        known = NEVER if at.time.final >= _last(window, lateness) else at.time.final - lateness
        walk = MatchCursor(at.right.all_entries())
        done, following, final = None, None, NEVER
        for micros, value in at.left.all_entries():
            match, final = closest.match(micros, *walk.around(micros))
            if final > known:
                following = micros
                break
            done = micros
            found = None if match is None else self.of_right.decode(match)
            pair = self.of_left.decode(value), found
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


def _join(joining: _Joining) -> beam.DoFn:
    """Return the DoFn of the join."""
    left_spec = SortedMultimapStateSpec("left", OrderedIntCoder(), _Encoded(joining.of_left))
    right_spec = SortedMultimapStateSpec("right", OrderedIntCoder(), _Encoded(joining.of_right))
    two_times = coders.TupleCoder((coders.VarIntCoder(), coders.VarIntCoder()))
    awaited_spec = ReadModifyWriteStateSpec("awaited", two_times)
    time_spec = EventTimeSpec("time")
    due_spec = TimerSpec("due", TimeDomain.WATERMARK)

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
            joining.add(element, window, _States(left, right, awaited, time, due))

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
    """Return the watermark after which a window gets no more elements."""
    return _END if isinstance(window, GlobalWindow) else min(_END, window.end.micros + lateness)


def _fire(known: int, lateness: int, window: BoundedWindow) -> int:
    """Return the watermark in whole milliseconds at which all elements before a time are known."""
    return min(-(-(known + lateness) // _MILLI) * _MILLI, _last(window, lateness))


def _forget(closest: Closest, right: Any, oldest: int) -> None:
    """Remove right elements that cannot match at a time or later."""
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
    """Return the watermark at which a right element can be removed; NEVER if none can."""
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
            f"tolerance={shown(tolerance)} must be a duration: give seconds of at least 0, "
            "a Duration, or None for no limit."
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
    """Return the types of keys and values."""
    kind = pcoll.element_type
    if kind is None or kind == typehints.Any:
        return typehints.Any, typehints.Any
    parts: tuple[Any, ...] = getattr(kind, "tuple_types", ())
    if len(parts) != 2:
        raise ConfigurationError(
            f"The elements on the {side} of AsOfJoin must be pairs of key and value, got "
            f"{shown(kind)}."
        )
    return parts[0], parts[1]
