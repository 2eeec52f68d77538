"""The runner's own metrics of a pipeline, for pushing."""

import re
from collections.abc import Iterator

from apache_beam.utils.timestamp import MAX_TIMESTAMP

from sparkbeam.observe.figures.partitions import PartitionProgress
from sparkbeam.observe.figures.progress import (
    PipelineProgress,
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
)
from sparkbeam.observe.sinks.metrics_sink import RunnerMetric, RunnerMetricKind

_COUNTER, _GAUGE = RunnerMetricKind
_CAPITAL = re.compile("(?=[A-Z])")


def runner_metrics(progress: Progress, failed_attempts: int) -> tuple[RunnerMetric, ...]:
    """Return the runner's metrics of a pipeline; none before its first task.

    Args:
        failed_attempts: the number of failed task attempts known so far.
    """
    found = _streaming(progress) if isinstance(progress, StreamingProgress) else _batch(progress)
    metrics = tuple(found)
    if not metrics and not failed_attempts:
        return ()
    return (*metrics, RunnerMetric(_COUNTER, "failed_attempts", "", failed_attempts))


def _batch(progress: PipelineProgress) -> Iterator[RunnerMetric]:
    for stage in progress.stages:
        if stage.state is not StageState.WAITING:
            yield from _of_stage(stage, "tasks_started", "tasks_done", "tasks_failed")


def _of_stage(stage: StageProgress, *counters: str) -> Iterator[RunnerMetric]:
    """Yield the metrics of the elements of a stage, and some attributes that only grow."""
    yield RunnerMetric(_COUNTER, "elements", stage.name, stage.elements)
    yield RunnerMetric(_COUNTER, "busiest_elements", stage.name, stage.busiest)
    for name in counters:
        yield RunnerMetric(_COUNTER, name, stage.name, getattr(stage, name))
    yield RunnerMetric(_GAUGE, "elements_per_second", stage.name, round(stage.per_second))


def _streaming(progress: StreamingProgress) -> Iterator[RunnerMetric]:
    if not progress.micro_batch:
        return
    yield RunnerMetric(_COUNTER, "micro_batches", "", progress.micro_batch)
    yield RunnerMetric(_GAUGE, "elements_per_second", "", round(progress.per_second))
    times = {"micro_batch": progress.batch_seconds, **progress.phases}
    if progress.lag_seconds is not None:
        times["lag"] = progress.lag_seconds
    for name, seconds in times.items():
        yield RunnerMetric(_GAUGE, f"{_CAPITAL.sub('_', name).lower()}_ms", "", _ms(seconds))
    for stage in progress.stages:
        yield from _of_stage(stage, "dropped_late")
        for name, value in _gauges(stage):
            yield RunnerMetric(_GAUGE, name, stage.name, value)
    for partition in progress.partitions:
        for name, value in _of_partition(partition):
            yield RunnerMetric(_GAUGE, name, partition.step, value, str(partition.partition))


def _gauges(stage: StageProgress) -> Iterator[tuple[str, int]]:
    yield "keys", stage.keys
    yield "state_bytes", stage.state_bytes
    for name, mark in (("input", stage.input_watermark), ("output", stage.output_watermark)):
        if mark is not None and mark < MAX_TIMESTAMP:
            yield f"{name}_watermark_ms", int(mark.micros // 1000)
    yield "held_ms", _ms(stage.held_seconds or 0.0)


def _of_partition(of: PartitionProgress) -> Iterator[tuple[str, int]]:
    """Yield the metrics of a partition, with the share in thousandths, its finest step."""
    yield "partition_lag_events", of.lag
    yield "partition_factor_permille", round(1000 * of.factor)
    yield "partition_read_events", of.events
    yield "partition_read_ms", _ms(of.seconds)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
