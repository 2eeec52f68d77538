"""Timers of stateful DoFns: the streams that settings arrive on, and what batch makes of them.

In batch the timers of a key fire once all its elements are there. The watermark then
goes to the end of time, event-time timers fire in the order of their timestamps, and
what a callback sets fires too. Processing-time timers follow when no event-time timer
is left: processing time, too, goes to its end.
"""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from apache_beam.coders import coder_impl
from apache_beam.portability.api import beam_fn_api_pb2, beam_runner_api_pb2
from apache_beam.runners.worker import bundle_processor
from apache_beam.transforms import userstate
from apache_beam.utils import proto_utils

Family = tuple[str, str]
"""Transform id and timer family id."""

Identity = tuple[Family, str, Any]
"""Family, dynamic tag and window: a new setting replaces the one with the same identity."""

EVENT_TIME, PROCESSING_TIME = 0, 1
"""The domains of timers; event time fires first."""


class TimerStream(type(coder_impl.create_OutputStream())):  # type: ignore[misc]
    """Where a DoFn's timer settings arrive, encoded one after the other."""

    def maybe_flush(self) -> None:
        """Settings are taken between elements, not here."""

    def close(self) -> None:
        """The stream lives as long as its processor."""

    def take(self) -> bytes:
        """What has been written since the last call."""
        written: bytes = self.get()
        self._clear()
        return written


class Timers(ABC):
    """The timers of all stateful DoFns of a stage.

    Attributes:
        streams: where settings arrive, by family.
        domain: of each family.
    """

    def __init__(self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> None:
        self.streams: dict[Family, TimerStream] = {}
        self.domain: dict[Family, int] = {}
        self._coders: dict[Family, Any] = {}
        for family, spec in _families(descriptor):
            self.streams[family] = TimerStream()
            event_time = spec.time_domain == beam_runner_api_pb2.TimeDomain.EVENT_TIME
            self.domain[family] = EVENT_TIME if event_time else PROCESSING_TIME

    def bind(self, processor: bundle_processor.BundleProcessor) -> None:
        """Takes the timer coders of the processor that the timers belong to."""
        self._coders = {
            family: processor.timers_info[family].timer_coder_impl for family in self.streams
        }

    @abstractmethod
    def fire(self) -> Iterator[beam_fn_api_pb2.Elements.Timers]:
        """Fires one timer of the key at hand after the other until none is due.

        Each comes as a message to the bundle processor, which has run the
        callback when the next one is asked for.
        """

    def _settings(self) -> Iterator[tuple[Family, userstate.Timer]]:
        """What the DoFns have set and cleared since the last call."""
        for family, stream in self.streams.items():
            for timer in self._coders[family].decode_all(stream.take()):
                yield family, timer

    def _encoded(self, family: Family, timer: userstate.Timer) -> bytes:
        encoded: bytes = self._coders[family].encode_nested(timer)
        return encoded

    @staticmethod
    def _message(family: Family, encoded: bytes) -> beam_fn_api_pb2.Elements.Timers:
        transform_id, family_id = family
        return beam_fn_api_pb2.Elements.Timers(
            transform_id=transform_id, timer_family_id=family_id, timers=encoded
        )


class KeyTimers(Timers):
    """The pending timers of the key at hand, in batch."""

    def __init__(self, descriptor: beam_fn_api_pb2.ProcessBundleDescriptor) -> None:
        super().__init__(descriptor)
        self._pending: dict[Identity, tuple[int, userstate.Timer]] = {}
        self._due: list[tuple[int, int, int, Identity]] = []
        self._count = 0

    def fire(self) -> Iterator[beam_fn_api_pb2.Elements.Timers]:
        """Fires one timer after the other until none is left."""
        self._collect()
        while self._due:
            _, _, setting, identity = heapq.heappop(self._due)
            current = self._pending.get(identity)
            if current is None or current[0] != setting:
                continue  # Cleared or set anew since.
            del self._pending[identity]
            family, _, _ = identity
            yield self._message(family, self._encoded(family, current[1]))
            self._collect()

    def _collect(self) -> None:
        for family, timer in self._settings():
            identity = (family, timer.dynamic_timer_tag, timer.windows[0])
            self._pending.pop(identity, None)
            if timer.clear_bit:
                continue
            assert timer.fire_timestamp is not None
            self._count += 1
            self._pending[identity] = (self._count, timer)
            due = (self.domain[family], timer.fire_timestamp.micros, self._count, identity)
            heapq.heappush(self._due, due)


def _families(
    descriptor: beam_fn_api_pb2.ProcessBundleDescriptor,
) -> Iterator[tuple[Family, beam_runner_api_pb2.TimerFamilySpec]]:
    for transform_id, transform in descriptor.transforms.items():
        if transform.spec.urn == _PAR_DO:
            payload = proto_utils.parse_Bytes(
                transform.spec.payload, beam_runner_api_pb2.ParDoPayload
            )
            for family_id, spec in payload.timer_family_specs.items():
                yield (transform_id, family_id), spec


_PAR_DO = bundle_processor.common_urns.primitives.PAR_DO.urn
