"""Figures of a micro-batch, from the statuses of shards and the reports of tasks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from apache_beam.metrics import monitoring_infos

from sparkbeam.observe.figures.micro_batch import MicroBatch, MicroBatchStage
from sparkbeam.observe.figures.partitions import PartitionProgress
from sparkbeam.plan.layers import Topology
from sparkbeam.plan.model import Stage
from sparkbeam.wire.messages import ShardStatus, StageStatus, Tick
from sparkbeam.wire.reports import DROPPED_DUE_TO_LATENESS, NAMESPACE, TaskReport
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS


def summary(
    topology: Topology,
    tick: Tick,
    statuses: Iterable[ShardStatus],
    new: Mapping[str, TaskReport],
    total: Mapping[str, TaskReport],
    *,
    busy: Mapping[str, tuple[int, int]],
    partitions: tuple[PartitionProgress, ...] = (),
    since: int,
    now: int,
) -> MicroBatch:
    """Summarize a micro-batch.

    Args:
        statuses: the status of each shard of each layer but the first.
        new: a report per stage with input, by its address.
        total: the same over all micro-batches so far.
        busy: see :class:`MicroBatchStage`, by the address of the stage.
        since: a time before the start of the micro-batch, in microseconds.
    """
    of_stage: dict[str, list[StageStatus]] = defaultdict(list)
    for shard in statuses:
        for id, status in shard.stages.items():
            of_stage[id].append(status)
    stages = {}
    for stage in topology.plan.stages:
        found = of_stage[stage.id] or [_of_first_layer(topology, stage, tick)]
        nothing = TaskReport(stage.id, [])
        so_far = total.get(stage.address, nothing)
        stages[stage.address] = MicroBatchStage(
            new=new.get(stage.address, nothing).counts,
            total=so_far.counts,
            dropped_late=_dropped(so_far),
            input_watermark=min(status.input_watermark for status in found),
            output_watermark=min(status.output_watermark for status in found),
            keys=sum(status.keys for status in found),
            state_bytes=sum(status.state_bytes for status in found),
            busy=busy.get(stage.address, (0, 0)),
            holder=min(found, key=lambda status: status.output_watermark).holder,
        )
    return MicroBatch(
        number=tick.number,
        ended=now,
        # The clock of a TestStream is another one, which stands near the epoch.
        duration=max(0, now - max(since, tick.rounds[-1].time)),
        elements=_source_elements(topology, stages),
        source_watermark=_source_watermark(topology, tick, stages),
        stages=stages,
        names={stage.address: stage.name for stage in topology.plan.stages},
        partitions=partitions,
    )


def _of_first_layer(topology: Topology, stage: Stage, tick: Tick) -> StageStatus:
    """Return the status of a first-layer stage: that of its sources, as it holds nothing back."""
    marks = tick.rounds[-1].watermarks
    roots = {root for tag in stage.inputs for root in topology.roots(tag)}
    watermark = min((marks[root] for root in roots), default=MAX_MICROS)
    return StageStatus(watermark, watermark)


def _dropped(report: TaskReport) -> int:
    return sum(
        monitoring_infos.extract_counter_value(info)
        for info in report.infos
        if info.labels.get(monitoring_infos.NAMESPACE_LABEL) == NAMESPACE
        and info.labels.get(monitoring_infos.NAME_LABEL) == DROPPED_DUE_TO_LATENESS
    )


def _source_elements(topology: Topology, stages: Mapping[str, MicroBatchStage]) -> int:
    """Return the number of new elements read by the sources.

    Elements read by bounded splittable DoFns do not count.
    """
    plan = topology.plan
    elements = 0
    for source in plan.sources:
        for _, tag in source.outputs:
            # All who read a source get the same elements.
            readers = [stage for stage in plan.stages if tag in stage.inputs]
            elements += max((stages[stage.address].new.elements for stage in readers), default=0)
    for stage in plan.stages:
        if stage.creates or stage.reads_unbounded:
            elements += stages[stage.address].new.busiest
    return elements


def _source_watermark(
    topology: Topology, tick: Tick, stages: Mapping[str, MicroBatchStage]
) -> int | None:
    plan = topology.plan
    if any(source.read is None for source in plan.sources):
        return None  # A TestStream has a time of its own.
    marks = [*tick.rounds[-1].watermarks.values()]
    marks += [
        stages[stage.address].output_watermark for stage in plan.stages if stage.reads_unbounded
    ]
    least = min(marks, default=MAX_MICROS)
    return least if MIN_MICROS < least < MAX_MICROS else None
