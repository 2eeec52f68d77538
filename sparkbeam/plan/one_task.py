"""Plans for a parallelism of 1: a task reads in place what it has written by key."""

from dataclasses import replace

from sparkbeam.plan.model import Exchange, Plan


def in_one_task(plan: Plan) -> Plan:
    """Return a batch plan without the shuffles of rows that come from one task."""
    single: set[int] = set()
    stages = []
    for stage in plan.stages:
        # A Flatten has the tasks of all its inputs; joins and Spark's sources have several, too.
        flattens = stage.exchange is Exchange.FORWARD and len(stage.inputs) > 1
        if stage.join is None and not flattens and single.issuperset(stage.inputs):
            single.update(port.tag for port in stage.ports)
            if stage.exchange is Exchange.BY_KEY:
                stage = replace(stage, exchange=Exchange.SORT)
        stages.append(stage)
    return replace(plan, stages=tuple(stages))
