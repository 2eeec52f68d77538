"""Timers of stateful DoFns, in the records of their keys.

A window that ends has a timer of sparkbeam at its expiry, which forgets the state of the window.
While the window has other timers it waits for the last of them, so that callbacks find all states
whole.
"""

from collections.abc import Callable, Iterator
from typing import Any

from apache_beam.coders import coder_impl
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor
from apache_beam.transforms import userstate
from apache_beam.transforms.window import BoundedWindow

from sparkbeam.plan.pardo_functions import par_do_payload
from sparkbeam.plan.urns import PAR_DO
from sparkbeam.upstream.beam import clear
from sparkbeam.wire.timestamps import MAX_MICROS
from sparkbeam.worker.grouping.shard_clock import ShardClock
from sparkbeam.worker.state.records import EVENT_TIME, PROCESSING_TIME, Record

EXPIRY = b"expiry"
"""Prefix of the ids of timers that forget the state of a window."""

_USER = b"timer"
"""Prefix of the ids of DoFns' timers, which end with a zero and the encoded window."""

Family = tuple[str, str]
"""Transform id and timer family id."""


class TimerStream(type(coder_impl.create_OutputStream())):  # type: ignore[misc]
    """Stream of the encoded timer settings of a DoFn."""

    def maybe_flush(self) -> None:
        """Do not flush: settings are taken between elements."""

    def close(self) -> None:
        """Do nothing: the stream lives as long as its processor."""

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        written: bytes = self.get()
        clear(self)
        return written


class Timers:
    """The timers of all stateful DoFns of a stage.

    Attributes:
        forget: empties all states that a record has for an encoded window.
        steps: the ids of the transforms that have state or timers.
    """

    record: Record
    moment: ShardClock
    forget: Callable[[Record, bytes], None]
    encode_window: Callable[[BoundedWindow], bytes]

    def __init__(
        self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor, state_name: str
    ) -> None:
        self._state_name = state_name
        self.streams: dict[Family, TimerStream] = {}
        self._domain: dict[Family, int] = {}
        self._coders: dict[Family, Any] = {}
        self.steps: list[str] = []
        for step, transform in descriptor.transforms.items():
            if transform.spec.urn != PAR_DO:
                continue
            payload = par_do_payload(transform.spec.payload)
            if payload.state_specs or payload.timer_family_specs:
                self.steps.append(step)
            for name, spec in payload.timer_family_specs.items():
                self.streams[step, name] = TimerStream()
                event_time = spec.time_domain == beam_runner_api_pb2.TimeDomain.EVENT_TIME
                self._domain[step, name] = EVENT_TIME if event_time else PROCESSING_TIME
        # A record knows the step by a name that it also has when its program starts again.
        self._known = {(state_name, name): (step, name) for step, name in self.streams}

    def bind(self, processor: bundle_processor.BundleProcessor) -> None:
        """Take the timer coders of the processor that the timers belong to."""
        self._coders = {
            family: processor.timers_info[family].timer_coder_impl for family in self.streams
        }

    def step_of(self, timer_id: bytes) -> str:
        """Return the id of the transform that has set a timer; empty if it is unknown."""
        is_own = timer_id.startswith(_USER + f"{self._state_name}\0".encode())
        return next(iter(self.steps), "") if is_own else ""

    def collect(self) -> None:
        """Store the timers that the DoFns have set and cleared in the current record."""
        for family, stream in self.streams.items():
            for timer in self._coders[family].decode_all(stream.take()):
                self._set(family, timer)

    def fire(self) -> Iterator[beam_fn_api_pb2.Elements.Timers]:
        """Fire timers of the current key one by one until none is due.

        Those in event time come first. Each comes as a message to the bundle processor, which
        has run the callback when the next one is requested.
        """
        while due := (
            self.record.pop_due(EVENT_TIME, self.moment.input_watermark)
            or self.record.pop_due(PROCESSING_TIME, self.moment.processing_limit())
        ):
            _, timer_id, payload = due
            if timer_id.startswith(EXPIRY):
                self._expire(timer_id, payload)
                continue
            stored, encoded = payload
            transform_id, family_id = self._known[stored]
            yield beam_fn_api_pb2.Elements.Timers(
                transform_id=transform_id, timer_family_id=family_id, timers=encoded
            )
            self.collect()

    def _expire(self, timer_id: bytes, window: bytes) -> None:
        """Forget the state of a window, or postpone that until its last timer has fired."""
        suffix = b"\0" + window
        left = [
            (-domain, fire)
            for id, (fire, domain, *_) in self.record.timers()
            if id.startswith(_USER) and id.endswith(suffix)
        ]
        if left:
            domain, fire = max(left)
            self.record.set_timer(timer_id, -domain, fire, None, window)
        else:
            self.forget(self.record, window)

    def _set(self, family: Family, timer: userstate.Timer) -> None:
        stored = self._state_name, family[1]
        window = self.encode_window(timer.windows[0])
        name = "\0".join((*stored, timer.dynamic_timer_tag, ""))
        timer_id = _USER + name.encode() + window
        if timer.clear_bit:
            self.record.clear_timer(timer_id)
            return
        assert timer.fire_timestamp is not None
        assert timer.hold_timestamp is not None
        self.record.set_timer(
            timer_id,
            self._domain[family],
            min(timer.fire_timestamp.micros, MAX_MICROS),
            timer.hold_timestamp.micros,
            (stored, self._coders[family].encode_nested(timer)),
        )


def parts_of(timer_id: bytes) -> tuple[str, str, bytes] | None:
    """Return family, dynamic tag and encoded window of a DoFn's timer; None for others."""
    if not timer_id.startswith(_USER):
        return None
    _, family, tag, window = timer_id[len(_USER) :].split(b"\0", 3)
    return family.decode(), tag.decode(), window
