"""Progress of a streaming query, from the figures of its micro-batches."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from apache_beam.utils.timestamp import Timestamp

from sparkbeam.observe.figures.micro_batch import MicroBatch
from sparkbeam.observe.figures.phases import Phases
from sparkbeam.observe.figures.progress import (
    StageProgress,
    StageState,
    StreamingProgress,
    WatermarkHolder,
)
from sparkbeam.observe.figures.rates import is_long_ago, recent_rate, seconds_behind
from sparkbeam.plan.model import Plan
from sparkbeam.wire.reports import TaskReport
from sparkbeam.wire.timestamps import MIN_MICROS

_SECOND = 1e6


class StreamTracker:
    """Progress of a query; thread-safe.

    Args:
        clock: returns the time in seconds since the epoch.
    """

    def __init__(self, plan: Plan, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._names = {stage.id: stage.name for stage in plan.stages}
        self._recent: deque[MicroBatch] = deque()
        self._end: StageState | None = None

    def record_batch(self, batch: MicroBatch) -> None:
        """Record a finished micro-batch."""
        with self._lock:
            self._recent.append(batch)
            while len(self._recent) > 1 and is_long_ago(self._recent[1], batch):
                self._recent.popleft()

    def end(self, reports: Iterable[TaskReport] | None) -> None:
        """Record the end of the query.

        Args:
            reports: None if it failed or was cancelled.
        """
        with self._lock:
            self._end = StageState.STOPPED if reports is None else StageState.DONE

    def phases(self) -> tuple[int, Phases]:
        """Return the number of the last micro-batch with its phases."""
        with self._lock:
            last = self._recent[-1] if self._recent else None
        return (0, {}) if last is None else (last.number, last.phases)

    def snapshot(self) -> StreamingProgress:
        """Return the query at the end of its last micro-batch."""
        with self._lock:
            recent = list(self._recent)
            end = self._end
        if not recent:
            state = end or StageState.WAITING
            stages = tuple(StageProgress(name, state) for name in self._names.values())
            return StreamingProgress(state, stages=stages)
        return query_progress(recent, self._names, self._clock(), end or StageState.RUNNING)


def query_progress(
    recent: Sequence[MicroBatch], names: Mapping[str, str], now: float, state: StageState
) -> StreamingProgress:
    """Return a query at the end of the last of some micro-batches.

    Args:
        recent: the micro-batches in order, at least one.
        now: the time in seconds since the epoch.
    """
    last = recent[-1]
    return StreamingProgress(
        state=state,
        micro_batch=last.number,
        batch_seconds=last.duration / _SECOND,
        per_second=recent_rate(recent, [batch.elements for batch in recent]),
        lag_seconds=seconds_behind(last, now * _SECOND),
        stages=tuple(_stage_progress(recent, id, name, state) for id, name in names.items()),
        partitions=last.partitions,
        phases=in_seconds(last.phases),
    )


def in_seconds(phases: Phases) -> dict[str, float]:
    """Return phases with their times in seconds."""
    return {name: micros / _SECOND for name, micros in phases.items()}


def _stage_progress(
    recent: Sequence[MicroBatch], id: str, name: str, state: StageState
) -> StageProgress:
    """Return a stage at the end of the last micro-batch that contains it."""
    batches = [batch for batch in recent if id in batch.stages]
    if not batches:  # The program has a new stage, and has not run it.
        return StageProgress(name, state)
    last = batches[-1].stages[id]
    held = last.holder
    until = None if held is None or held.until is None else Timestamp(micros=held.until)
    return StageProgress(
        name=name,
        state=state,
        elements=last.total.elements,
        busiest=last.total.busiest,
        per_second=recent_rate(batches, [batch.stages[id].new.busiest for batch in batches]),
        input_watermark=_timestamp(last.input_watermark),
        output_watermark=_timestamp(last.output_watermark),
        keys=last.keys,
        state_bytes=last.state_bytes,
        dropped_late=last.dropped_late,
        tasks_busy=last.busy[0],
        busiest_task=last.busy[1],
        holder=None if held is None else WatermarkHolder(held.key, held.what, until, held.step),
    )


def _timestamp(watermark: int) -> Timestamp | None:
    return None if watermark <= MIN_MICROS else Timestamp(micros=watermark)
