"""Which kind of run a stage needs."""

from typing import Protocol

from sparkbeam.plan.model import Exchange, Stage
from sparkbeam.worker.state.pages import ShardState
from sparkbeam.worker.streaming.keyed import GroupingRun, StatefulRun
from sparkbeam.worker.streaming.plain import PlainRun
from sparkbeam.worker.streaming.reading import ReadingRun
from sparkbeam.worker.streaming.router import Router
from sparkbeam.worker.streaming.stages import StageRun


class Task(Protocol):
    """What of the task of a layer its stages need to know.

    Attributes:
        run_id: unique for each start of the query.
        max_elements: about how many elements of unbounded sources a shard reads in a micro-batch.
    """

    @property
    def run_id(self) -> str: ...

    @property
    def max_elements(self) -> int: ...


def stage_run(task: Task, stage: Stage, shard: ShardState | None, router: Router) -> StageRun:
    """The run of a stage, of the kind that it is."""
    if stage.exchange is Exchange.BY_KEY:
        kind = GroupingRun if stage.grouping is not None else StatefulRun
        return kind(task.run_id, stage, shard, router)
    if shard is not None and stage.reads_unbounded:
        return ReadingRun(task.run_id, stage, shard, router, task.max_elements)
    return PlainRun(task.run_id, stage, shard, router)
