"""Join algorithms chosen by Spark, and their partitions."""

from collections.abc import Iterator

from sparkbeam.explain.describe import printable, wrapped
from sparkbeam.explain.shuffles import Nodes, first, hosts, words_of
from sparkbeam.plan.join_payload import LEFT, RIGHT
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.upstream.spark import PlanNode

JOINS = {
    "BroadcastHashJoin": "broadcast: one side went to all tasks of the other",
    "SortMergeJoin": "sort-merge: both sides were shuffled and sorted by key",
    "ShuffledHashJoin": "shuffled hash: both sides were shuffled by key, and one is a hash table",
    "BroadcastNestedLoopJoin": "broadcast, without a hash table",
}
"""Descriptions of Spark's joins by prefix of the operator name."""


def joins(plan: Plan, graphs: list[list[PlanNode]]) -> str:
    """Describe each join of a finished plan in a paragraph; empty if Spark reports none.

    Args:
        graphs: the operators of each Spark plan.
    """
    found = []
    for stage in plan.stages:
        for host, nodes in hosts(stage, graphs) if stage.join is not None else ():
            if lines := list(_lines(stage, host, nodes)):
                found.append("\n".join(lines))
                break
    return "\n\n".join(found)


def _lines(stage: Stage, host: PlanNode, nodes: Nodes) -> Iterator[str]:
    join = first(host, nodes, tuple(JOINS))
    if join is None:
        return
    yield wrapped(f"{stage.id}  ", ", ".join(map(printable, stage.labels)))
    yield wrapped("    join   ", _kind(join))
    for side, child in zip((LEFT, RIGHT), join.children, strict=False):
        words = _side(nodes[child], nodes)
        if words:
            yield wrapped(f"    {side:5}  ", words)


def _kind(join: PlanNode) -> str:
    name = next(name for name in JOINS if join.name.startswith(name))
    return JOINS[name]


def _side(top: PlanNode, nodes: Nodes) -> str:
    """Describe the partitions of a side."""
    exchange = first(top, nodes, ("Exchange", "BroadcastExchange"))
    if exchange is None:
        return "not shuffled"
    parts = []
    if exchange.name.startswith("BroadcastExchange"):
        parts.append(f"broadcast, {exchange.metrics.get('data size', 'of unknown size')}")
        below = exchange.children and first(nodes[exchange.children[0]], nodes, ("Exchange",))
        if not below:
            return parts[0]
        exchange = below
    return ", ".join([*parts, *words_of(exchange, top, nodes)])
