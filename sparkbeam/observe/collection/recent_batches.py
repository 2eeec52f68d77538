"""Micro-batches of the last hour, in compact form."""

import threading
from collections import deque
from dataclasses import dataclass, replace

from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.observe.figures.rates import seconds_behind

_SECONDS = 3600
_SECOND = 1_000_000


@dataclass(frozen=True)
class SecondSummary:
    """The micro-batches that ended within one second.

    Attributes:
        time: the second, since the epoch.
        seconds: the duration of the longest micro-batch.
        lag: seconds from the minimum source watermark to the end of the last micro-batch; None if
            undefined.
    """

    time: int
    number: int
    batches: int
    elements: int
    seconds: float
    lag: float | None


class History:
    """Figures of the micro-batches of an hour; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments: deque[SecondSummary] = deque(maxlen=_SECONDS)

    def record_batch(self, batch: MicroBatch) -> None:
        """Record a finished micro-batch, unless it is known."""
        moment = SecondSummary(
            time=batch.ended // _SECOND,
            number=batch.number,
            batches=1,
            elements=batch.elements,
            seconds=batch.duration / _SECOND,
            lag=seconds_behind(batch, batch.ended),
        )
        with self._lock:
            last = self._moments[-1] if self._moments else None
            if last is not None and moment.number <= last.number:
                return
            # A clock may have been set back.
            if last is not None and moment.time <= last.time:
                self._moments[-1] = replace(
                    moment,
                    time=last.time,
                    batches=last.batches + 1,
                    elements=last.elements + moment.elements,
                    seconds=max(last.seconds, moment.seconds),
                )
            else:
                self._moments.append(moment)
            while self._moments[0].time <= self._moments[-1].time - _SECONDS:
                self._moments.popleft()

    def since(self, time: int) -> list[SecondSummary]:
        """Return the moments from a second on; that of the last second may still change."""
        with self._lock:
            return [moment for moment in self._moments if moment.time >= time]
