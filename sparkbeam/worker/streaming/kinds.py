"""Kinds of stage runs."""

from sparkbeam.plan.model import Exchange, Stage
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.steps.processor import StageProcessor
from sparkbeam.worker.streaming.keyed_stages import GroupingRun, StatefulRun
from sparkbeam.worker.streaming.router import Router
from sparkbeam.worker.streaming.stages import StageRun
from sparkbeam.worker.streaming.unbounded_reads import ReadingRun
from sparkbeam.worker.streaming.unkeyed_stages import PlainRun


def stage_run(
    processor: StageProcessor,
    stage: Stage,
    shard: ShardState | None,
    router: Router,
    max_elements: int,
) -> StageRun:
    """Return the run of a stage, of the stage's kind; see :class:`StageRun`."""
    if stage.exchange is Exchange.BY_KEY:
        kind = GroupingRun if stage.grouping is not None else StatefulRun
        return kind(processor, stage, shard, router)
    if shard is not None and stage.reads_unbounded:
        return ReadingRun(processor, stage, shard, router, max_elements)
    return PlainRun(processor, stage, shard, router)
