"""The micro-batches of the last hour, in little room."""

import threading
from collections import deque
from dataclasses import dataclass, replace

from sparkbeam.progress.micro_batch import MicroBatch

_SECONDS = 3600
_SECOND = 1_000_000


@dataclass(frozen=True)
class Moment:
    """The micro-batches that have ended within a second.

    Attributes:
        time: the second, since the epoch.
        number: of the last one.
        batches: how many there were.
        elements: how many the pipeline has taken in with them.
        seconds: how long the longest took.
        lag: from the least watermark of the sources until the end of the last one, in seconds;
            None where that has no meaning.
    """

    time: int
    number: int
    batches: int
    elements: int
    seconds: float
    lag: float | None


class History:
    """What micro-batches were like, for an hour; may be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moments: deque[Moment] = deque(maxlen=_SECONDS)

    def note(self, batch: MicroBatch) -> None:
        """Takes a micro-batch in, which has ended; one that is known already changes nothing."""
        moment = _moment(batch)
        with self._lock:
            last = self._moments[-1] if self._moments else None
            if last is not None and moment.number <= last.number:
                return
            # A clock may have been set back.
            if last is not None and moment.time <= last.time:
                self._moments[-1] = _together(last, moment)
            else:
                self._moments.append(moment)
            while self._moments[0].time <= self._moments[-1].time - _SECONDS:
                self._moments.popleft()

    def since(self, time: int) -> list[Moment]:
        """What ended in a second, or later; that of the last second may still grow."""
        with self._lock:
            return [moment for moment in self._moments if moment.time >= time]


def _moment(batch: MicroBatch) -> Moment:
    lag = None
    if batch.source_watermark is not None:
        lag = max(0.0, (batch.ended - batch.source_watermark) / _SECOND)
    return Moment(
        time=batch.ended // _SECOND,
        number=batch.number,
        batches=1,
        elements=batch.elements,
        seconds=batch.duration / _SECOND,
        lag=lag,
    )


def _together(first: Moment, second: Moment) -> Moment:
    return replace(
        second,
        time=first.time,
        batches=first.batches + 1,
        elements=first.elements + second.elements,
        seconds=max(first.seconds, second.seconds),
    )
