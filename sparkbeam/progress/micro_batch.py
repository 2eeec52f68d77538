"""Figures of a micro-batch, for observers of a running query.

They are computed at the end of the micro-batch from the statuses of shards, and stored with its
feedback.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from apache_beam.metrics import monitoring_infos

from sparkbeam.common.untrusted_json import text, whole
from sparkbeam.plan.layers import Topology
from sparkbeam.plan.model import Stage
from sparkbeam.plan.spark_io import READ_URN
from sparkbeam.progress.batch_phases import Phases, parsed
from sparkbeam.progress.partitions import PartitionProgress, partition_of
from sparkbeam.wire.messages import Holder, ShardStatus, StageStatus, Tick
from sparkbeam.wire.reports import DROPPED_DUE_TO_LATENESS, NAMESPACE, ElementCounts, TaskReport
from sparkbeam.wire.timestamps import MAX_MICROS, MIN_MICROS


@dataclass(frozen=True)
class StageFigures:
    """A stage at the end of a micro-batch, over all shards; times are in microseconds.

    Attributes:
        new: the elements of the micro-batch.
        total: the elements of all micro-batches so far.
        dropped_late: the late elements dropped in all micro-batches so far.
        input_watermark, output_watermark: the minimum over all shards.
        keys: the number of keys with state.
        state_bytes: the size of the state.
        busy: the number of tasks with input in the micro-batch, and the elements in the busiest
            one.
        holder: the state that holds the output watermark; None if nothing does.
    """

    new: ElementCounts = field(default_factory=ElementCounts)
    total: ElementCounts = field(default_factory=ElementCounts)
    dropped_late: int = 0
    input_watermark: int = MIN_MICROS
    output_watermark: int = MIN_MICROS
    keys: int = 0
    state_bytes: int = 0
    busy: tuple[int, int] = (0, 0)
    holder: Holder | None = None


@dataclass(frozen=True)
class MicroBatch:
    """A micro-batch; times are in microseconds by the machine's clock unless stated otherwise.

    Attributes:
        number: the number of its tick; the first of a query is 1.
        ended: the time when its output was complete.
        duration: its duration.
        elements: the number of elements that the pipeline has read.
        source_watermark: the minimum watermark of the sources, in event time; None if it does not
            measure the pipeline's lag.
        stages: by address; in the driver that runs them, by id.
        names: the labels of their transforms, likewise.
        partitions: the event hub partitions, as planned.
        phases: the durations of its phases; when stored, those of the sink except for the writing.
    """

    number: int
    ended: int
    duration: int
    elements: int
    source_watermark: int | None
    stages: Mapping[str, StageFigures]
    names: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[PartitionProgress, ...] = ()
    phases: Phases = field(default_factory=dict)

    def content(self) -> dict[str, Any]:
        """Return the micro-batch as JSON-compatible data."""
        return asdict(self)

    @classmethod
    def readable(cls, content: Mapping[str, Any]) -> "MicroBatch | None":
        """Parse content like :meth:`from_content`, but return None for malformed content."""
        try:
            return cls.from_content(content)
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> "MicroBatch":
        """Parse untrusted content written by :meth:`content`.

        Raises:
            Exception: ``ValueError``, ``TypeError``, ``KeyError`` or ``AttributeError``, if the
                content is malformed.
        """
        stages = {id: _stage_of(stage) for id, stage in content["stages"].items()}
        partitions = tuple(
            partition_of(list(partition.values())) for partition in content.get("partitions", ())
        )
        phases = parsed(content.get("phases", {}))
        read = {"stages": stages, "partitions": partitions, "phases": phases}
        found = cls(**{**content, **read})
        for number in (found.number, found.ended, found.duration, found.elements):
            whole(number)
        if found.source_watermark is not None:
            whole(found.source_watermark)
        for name in found.names.values():
            text(name)
        return found


def _stage_of(content: Mapping[str, Any]) -> StageFigures:
    holder = content.get("holder")
    found = StageFigures(
        **{
            **content,
            "new": ElementCounts(*content["new"]),
            "total": ElementCounts(*content["total"]),
            "busy": tuple(content.get("busy", (0, 0))),
            "holder": None if holder is None else _holder_of(holder),
        }
    )
    times = (found.input_watermark, found.output_watermark)
    amounts = (found.dropped_late, found.keys, found.state_bytes, *found.busy)
    if len(found.busy) != 2:
        raise ValueError("not a stage")
    for number in (*times, *amounts, *found.new, *found.total):
        whole(number)
    return found


def _holder_of(content: Mapping[str, Any]) -> Holder:
    found = Holder(**content)
    text(found.key), text(found.what), text(found.step)
    if found.until is not None:
        whole(found.until)
    return found


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
        topology: the running query.
        tick: the tick of the micro-batch.
        statuses: the status of each shard of each layer but the first.
        new: a report per stage with input, by its address.
        total: the same over all micro-batches so far.
        busy: see :class:`StageFigures`, by the address of the stage.
        partitions: see :class:`MicroBatch`.
        since: a time before the start of the micro-batch, in microseconds.
        now: the time of its end.
    """
    of_stage = _by_stage(statuses)
    stages = {}
    for stage in topology.plan.stages:
        found = of_stage[stage.id] or [_of_first_layer(topology, stage, tick)]
        stages[stage.address] = StageFigures(
            new=_counts(new, stage),
            total=_counts(total, stage),
            dropped_late=_dropped(total, stage),
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
        elements=_taken_in(topology, stages),
        source_watermark=_source_watermark(topology, tick, stages),
        stages=stages,
        names={stage.address: stage.name for stage in topology.plan.stages},
        partitions=partitions,
    )


def _by_stage(statuses: Iterable[ShardStatus]) -> dict[str, list[StageStatus]]:
    of_stage: dict[str, list[StageStatus]] = defaultdict(list)
    for status in statuses:
        for id, stage_status in status.stages.items():
            of_stage[id].append(stage_status)
    return of_stage


def _of_first_layer(topology: Topology, stage: Stage, tick: Tick) -> StageStatus:
    """Return the status of a first-layer stage: that of its sources, as it holds nothing back."""
    marks = tick.rounds[-1].watermarks
    roots = {root for tag in stage.inputs for root in topology.roots(tag)}
    watermark = min((marks[root] for root in roots), default=MAX_MICROS)
    return StageStatus(watermark, watermark)


def _counts(reports: Mapping[str, TaskReport], stage: Stage) -> ElementCounts:
    return reports[stage.address].counts if stage.address in reports else ElementCounts()


def _dropped(reports: Mapping[str, TaskReport], stage: Stage) -> int:
    infos = reports[stage.address].infos if stage.address in reports else ()
    return sum(
        monitoring_infos.extract_counter_value(info)
        for info in infos
        if info.labels.get(monitoring_infos.NAMESPACE_LABEL) == NAMESPACE
        and info.labels.get(monitoring_infos.NAME_LABEL) == DROPPED_DUE_TO_LATENESS
    )


def _taken_in(topology: Topology, stages: Mapping[str, StageFigures]) -> int:
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
    topology: Topology, tick: Tick, stages: Mapping[str, StageFigures]
) -> int | None:
    plan = topology.plan
    if any(source.urn != READ_URN for source in plan.sources):
        return None  # A TestStream has a time of its own.
    marks = [*tick.rounds[-1].watermarks.values()]
    marks += [
        stages[stage.address].output_watermark for stage in plan.stages if stage.reads_unbounded
    ]
    least = min(marks, default=MAX_MICROS)
    return least if MIN_MICROS < least < MAX_MICROS else None
