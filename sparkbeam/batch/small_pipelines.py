"""Pipelines that may run in one stage of Spark: :mod:`sparkbeam.worker.batch.small_pipeline`."""

from sparkbeam.plan.input_sizes import bytes_of_root, total_of
from sparkbeam.plan.model import Exchange, Plan, Stage

_SMALL = 64 << 10
"""Bytes of all values and files that a pipeline reads."""

_IN_PLACE = frozenset([Exchange.FORWARD, Exchange.BY_KEY, Exchange.SORT])
"""Exchanges that one task can do. A Reshuffle asks for several tasks."""


def roots_and_others(plan: Plan) -> tuple[list[Stage], list[Stage]] | None:
    """Return the stages without an input, and the others; None if the pipeline is not small.

    It is if it reads few bytes, and shuffles rows by key alone. Where several tasks of a root go on
    without a shuffle, one task would take longer. A pipeline without any shuffle or side input is
    one stage anyway.
    """
    roots = [stage for stage in plan.stages if stage.exchange is Exchange.IMPULSE]
    others = [stage for stage in plan.stages if stage.exchange is not Exchange.IMPULSE]
    if plan.sources or plan.sinks or not others or any(stage.side_inputs for stage in roots):
        return None
    divided = {port.tag for root in roots if root.most_tasks != 1 for port in root.ports}
    for stage in others:
        goes_on = stage.exchange is Exchange.FORWARD and not divided.isdisjoint(stage.inputs)
        if stage.exchange not in _IN_PLACE or goes_on:
            return None
    size = total_of([bytes_of_root(stage) for stage in roots])
    return (roots, others) if size is not None and size <= _SMALL else None
