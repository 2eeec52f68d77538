"""Incremental joins of streams."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import apache_beam as beam
from apache_beam import coders
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints import typehints
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp

from sparkbeam.common import arguments
from sparkbeam.errors import ConfigurationError

_LEFT, _RIGHT = 0, 1
_Pair = typehints.Tuple
_MOST_SECONDS = 1e9
_STEP = Duration(micros=1000)
"""The smallest difference in Beam's encoded timestamps."""


class IncrementalJoin(beam.PTransform[Any, Any]):
    """Joins two keyed PCollections; each pair is output as soon as both elements have arrived.

    ``(left, right) | IncrementalJoin(ttl=600)`` takes two PCollections of ``(key, value)`` and
    returns ``(key, (left_value, right_value))`` for all pairs with the same key and window whose
    timestamps differ by at most ``ttl``, independent of the order of arrival. A pair has the later
    timestamp of the two.

    An element is kept until the watermark has passed all its possible partners. Works on all Beam
    runners with ordered list state.

    Args:
        ttl: in seconds of event time; None keeps elements forever, or until their window expires.

    Raises:
        ConfigurationError: the ttl is invalid, or there are not two PCollections.
    """

    def __init__(self, *, ttl: float | None) -> None:
        super().__init__()
        self._ttl: Duration | None = None
        if ttl is not None:
            seconds = arguments.duration("ttl", ttl, "seconds", most=_MOST_SECONDS)
            self._ttl = Duration(micros=round(seconds * 1000) * 1000)

    def expand(self, pcolls: Any) -> beam.PCollection[Any]:
        if not isinstance(pcolls, tuple) or len(pcolls) != 2:
            raise ConfigurationError(
                "IncrementalJoin takes two PCollections: (left, right) | IncrementalJoin(ttl=…)."
            )
        (key, left), (right_key, right) = map(_types, pcolls)
        key = key if key == right_key else Any
        sides = [
            side | name >> _sided(number).with_output_types(_Pair[key, _Pair[int, Any]])
            for number, (side, name) in enumerate(zip(pcolls, ("Left", "Right"), strict=True))
        ]
        of_left, of_right = coders.registry.get_coder(left), coders.registry.get_coder(right)
        pairs = beam.ParDo(_join_fn(of_left, of_right, self._ttl)).with_output_types(
            _Pair[key, _Pair[left, right]]
        )
        return tuple(sides) | beam.Flatten() | "Join" >> pairs


def _sided(side: int) -> Any:
    """Tag the elements of a side."""
    return beam.MapTuple(lambda key, value: (key, (side, value)))


def _types(pcoll: beam.PCollection[Any]) -> tuple[Any, Any]:
    """Return the types of keys and values."""
    kind = pcoll.element_type
    if isinstance(kind, typehints.TupleHint.TupleConstraint) and len(kind.tuple_types) == 2:
        key, value = kind.tuple_types
        return key, value
    return Any, Any


def _join_fn(
    left_coder: coders.Coder, right_coder: coders.Coder, ttl: Duration | None
) -> beam.DoFn:
    """Return the DoFn; its class carries the coders of the state."""
    sides = OrderedListStateSpec("left", left_coder), OrderedListStateSpec("right", right_coder)
    oldest_spec = ReadModifyWriteStateSpec("oldest", coders.TimestampCoder())
    expiry_spec = TimerSpec("expiry", TimeDomain.WATERMARK)

    class JoinFn(beam.DoFn):
        """Stores the elements of a key by timestamp, and searches for partners nearby."""

        def process(
            self,
            element: tuple[Any, tuple[int, Any]],
            now: Any = beam.DoFn.TimestampParam,
            window: Any = beam.DoFn.WindowParam,
            left: Any = beam.DoFn.StateParam(sides[_LEFT]),
            right: Any = beam.DoFn.StateParam(sides[_RIGHT]),
            oldest: Any = beam.DoFn.StateParam(oldest_spec),
            expiry: Any = beam.DoFn.TimerParam(expiry_spec),
        ) -> Iterator[Any]:
            _, (side, value) = element
            own, other = (left, right) if side == _LEFT else (right, left)
            own.add((now, value))
            yield from _pairs(element, now, _near(other, now, ttl))
            before = oldest.read()
            if ttl is not None and (before is None or now < before):
                _await(now, ttl, window, oldest, expiry)

        @on_timer(expiry_spec)
        def expire(
            self,
            now: Any = beam.DoFn.TimestampParam,
            window: Any = beam.DoFn.WindowParam,
            left: Any = beam.DoFn.StateParam(sides[_LEFT]),
            right: Any = beam.DoFn.StateParam(sides[_RIGHT]),
            oldest: Any = beam.DoFn.StateParam(oldest_spec),
            expiry: Any = beam.DoFn.TimerParam(expiry_spec),
        ) -> None:
            """Remove elements without possible partners."""
            assert ttl is not None  # Otherwise no timer is set.
            rest = _forget(_minus(now, ttl), left, right)
            if rest:
                _await(min(rest), ttl, window, oldest, expiry)
            else:
                oldest.clear()

    return JoinFn()


def _pairs(
    element: tuple[Any, tuple[int, Any]], now: Timestamp, partners: Any
) -> Iterator[TimestampedValue[Any]]:
    """Yield an element with each of its partners."""
    key, (side, value) = element
    for stamp, partner in partners:
        pair = (value, partner) if side == _LEFT else (partner, value)
        yield TimestampedValue((key, pair), max(now, stamp))


def _near(state: Any, now: Timestamp, ttl: Duration | None) -> Any:
    """Return the entries within a distance of a time."""
    if ttl is None:
        return state.read()
    return state.read_range(_minus(now, ttl), _plus(now, ttl))


def _forget(limit: Timestamp, *sides: Any) -> list[Timestamp]:
    """Remove entries before a limit; return the oldest remaining timestamp of each side."""
    rest = []
    for side in sides:
        side.clear_range(MIN_TIMESTAMP, limit)
        rest += [stamp for stamp, _ in islice(side.read(), 1)]
    return rest


def _await(first: Timestamp, ttl: Duration, window: Any, oldest: Any, timer: Any) -> None:
    """Record the oldest element, and set the timer to the end of its possible matches.

    Not needed if its window ends before.
    """
    oldest.write(first)
    due = _plus(first, ttl)
    if due <= window.max_timestamp():
        timer.set(due)


def _plus(moment: Timestamp, ttl: Duration) -> Timestamp:
    """Return the first time after a span."""
    return moment + ttl + _STEP if moment < MAX_TIMESTAMP - (ttl + _STEP) else MAX_TIMESTAMP


def _minus(moment: Timestamp, ttl: Duration) -> Timestamp:
    return moment - ttl if moment > MIN_TIMESTAMP + ttl else MIN_TIMESTAMP
