"""The runner's own metrics of a pipeline, for pushing."""

import re
from collections.abc import Iterator

from apache_beam.utils.timestamp import MAX_TIMESTAMP, Timestamp

from sparkbeam.metrics.metrics_sink import RunnerMetric, RunnerMetricKind
from sparkbeam.progress.partitions import PartitionProgress
from sparkbeam.progress.snapshot import (
    PipelineProgress,
    Progress,
    StageProgress,
    StageState,
    StreamingProgress,
    StreamingStageProgress,
)

_COUNTER, _GAUGE = RunnerMetricKind
_CAPITAL = re.compile("(?=[A-Z])")


def runner_metrics(progress: Progress, failed_attempts: int) -> tuple[RunnerMetric, ...]:
    """Return the runner's metrics of a pipeline; none before its first task.

    Args:
        progress: the progress of the pipeline.
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
            yield from _batch_stage(stage)


def _batch_stage(stage: StageProgress) -> Iterator[RunnerMetric]:
    step = stage.name
    yield RunnerMetric(_COUNTER, "elements", step, stage.elements)
    yield RunnerMetric(_COUNTER, "busiest_elements", step, stage.busiest)
    yield RunnerMetric(_COUNTER, "tasks_started", step, stage.tasks_started)
    yield RunnerMetric(_COUNTER, "tasks_done", step, stage.tasks_done)
    yield RunnerMetric(_COUNTER, "tasks_failed", step, stage.tasks_failed)
    yield RunnerMetric(_GAUGE, "elements_per_second", step, round(stage.per_second))


def _streaming(progress: StreamingProgress) -> Iterator[RunnerMetric]:
    if not progress.micro_batch:
        return
    yield RunnerMetric(_COUNTER, "micro_batches", "", progress.micro_batch)
    yield RunnerMetric(_GAUGE, "micro_batch_ms", "", _ms(progress.batch_seconds))
    yield RunnerMetric(_GAUGE, "elements_per_second", "", round(progress.per_second))
    for phase, seconds in progress.phases.items():
        yield RunnerMetric(_GAUGE, f"{_CAPITAL.sub('_', phase).lower()}_ms", "", _ms(seconds))
    if progress.lag_seconds is not None:
        yield RunnerMetric(_GAUGE, "lag_ms", "", _ms(progress.lag_seconds))
    for stage in progress.stages:
        yield from _streaming_stage(stage)
    for partition in progress.partitions:
        yield from _partition(partition)


def _partition(of: PartitionProgress) -> Iterator[RunnerMetric]:
    """Yield the metrics of a partition, with the share in thousandths, its finest step."""
    figures = (
        ("partition_lag_events", of.lag),
        ("partition_factor_permille", round(1000 * of.factor)),
        ("partition_read_events", of.events),
        ("partition_read_ms", _ms(of.seconds)),
    )
    for name, value in figures:
        yield RunnerMetric(_GAUGE, name, of.step, value, str(of.partition))


def _streaming_stage(stage: StreamingStageProgress) -> Iterator[RunnerMetric]:
    step = stage.name
    yield RunnerMetric(_COUNTER, "elements", step, stage.elements)
    yield RunnerMetric(_COUNTER, "busiest_elements", step, stage.busiest)
    yield RunnerMetric(_COUNTER, "dropped_late", step, stage.dropped_late)
    yield RunnerMetric(_GAUGE, "elements_per_second", step, round(stage.per_second))
    yield RunnerMetric(_GAUGE, "keys", step, stage.keys)
    yield RunnerMetric(_GAUGE, "state_bytes", step, stage.state_bytes)
    for name, mark in (("input", stage.input_watermark), ("output", stage.output_watermark)):
        if mark is not None and mark < MAX_TIMESTAMP:
            yield RunnerMetric(_GAUGE, f"{name}_watermark_ms", step, _millis(mark))
    yield RunnerMetric(_GAUGE, "held_ms", step, _ms(stage.held_seconds or 0.0))


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _millis(time: Timestamp) -> int:
    return int(time.micros // 1000)
