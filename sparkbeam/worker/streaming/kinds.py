"""Which kind of run a stage needs."""

from sparkbeam.plan.model import Exchange, Layout, Stage
from sparkbeam.worker.streaming.keyed import GroupingRun, StatefulRun
from sparkbeam.worker.streaming.pages import ShardState
from sparkbeam.worker.streaming.plain import PlainRun
from sparkbeam.worker.streaming.reading import ReadingRun
from sparkbeam.worker.streaming.router import Router
from sparkbeam.worker.streaming.stages import StageRun


def stage_run(run_id: str, stage: Stage, shard: ShardState | None, router: Router) -> StageRun:
    """The run of a stage, of the kind that it is."""
    if stage.exchange is Exchange.BY_KEY:
        kind = GroupingRun if stage.layout is Layout.STORED else StatefulRun
        return kind(run_id, stage, shard, router)
    if shard is not None and stage.reads_unbounded:
        return ReadingRun(run_id, stage, shard, router)
    return PlainRun(run_id, stage, shard, router)
