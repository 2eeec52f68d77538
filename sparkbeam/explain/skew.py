"""Detection of skewed keys, with remedies."""

from collections.abc import Iterable, Sequence

from sparkbeam.explain.join_outcomes import JOINS
from sparkbeam.explain.shuffles import first, hosts, sizes_of
from sparkbeam.observe.figures.formats import size
from sparkbeam.observe.figures.summary import StageSummary
from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.upstream.spark import PlanNode

LEAST = 256 << 20
"""Minimum bytes of a skewed partition, as in Spark's skew joins."""

TIMES = 5
"""Minimum ratio of a skewed partition to the median."""

_JOIN = (
    "Spark splits skewed partitions of a Join where `how` allows it, at the boundaries of single "
    "tasks' output: increase the number of tasks that write the side"
)
_COMBINE = (
    "CombinePerKey(…).with_hot_key_fanout(…) merges the accumulators of a key in several tasks"
)
_GROUP = (
    "sparkbeam.Join instead of a CoGroupByKey splits hot keys between tasks; "
    "CombinePerKey instead of a GroupByKey combines before the shuffle and, using "
    "with_hot_key_fanout(…), in several tasks after it"
)
_STATE = "the elements and the state of a key are in one task: use a finer key to spread them"


def hot_keys(
    plan: Plan, graphs: Sequence[list[PlanNode]], summary: Iterable[StageSummary]
) -> dict[str, str]:
    """Describe skewed partitions of stages, with the remedy.

    Args:
        graphs: the operators of each Spark plan; none for a streaming query.

    Returns:
        Texts by stage id; none for stages with even partitions.
    """
    found = {}
    for stage, done in zip(plan.stages, summary, strict=True):
        if stage.exchange not in (Exchange.BY_KEY, Exchange.JOIN):
            continue
        sizes = _of_layer(done) if plan.streaming else _of_exchanges(stage, graphs)
        if sizes is not None and sizes[0] > max(LEAST, TIMES * sizes[1]):
            largest, median = sizes
            times = f", {largest / median:,.0f} times the median" if median else ""
            found[stage.id] = f"the largest partition has {size(largest)}{times}: {_remedy(stage)}"
    return found


def _of_layer(done: StageSummary) -> tuple[int, int] | None:
    """Return the largest and the median partition of the shuffle before a layer."""
    sizes = [(spark.largest_bytes, spark.median_bytes) for spark in done.spark]
    return max(sizes, default=None)


def _of_exchanges(stage: Stage, graphs: Iterable[list[PlanNode]]) -> tuple[int, int] | None:
    """Return the largest and the median partition of the shuffle before a stage.

    Its tasks may also run other stages. A side of a join has such a shuffle, too.
    """
    for host, nodes in hosts(stage, graphs):
        tops = host.children
        join = first(host, nodes, tuple(JOINS)) if stage.join is not None else None
        sizes = [sizes_of(nodes[top], nodes) for top in (join.children if join else tops)]
        known = [each for each in sizes if each is not None]
        if known:
            return max(known)
    return None


def _remedy(stage: Stage) -> str:
    if stage.join is not None:
        return _JOIN
    if stage.grouping is None:
        return _STATE
    return _COMBINE if stage.grouping.combines else _GROUP
