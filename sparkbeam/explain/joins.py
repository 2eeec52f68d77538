"""What has become of joins: which one Spark has chosen, and what of their partitions."""

import re
from collections.abc import Iterator

from sparkbeam.explain.describe import printable, wrapped
from sparkbeam.plan.joining import LEFT, RIGHT
from sparkbeam.plan.model import Plan, Stage
from sparkbeam.upstream.spark import PlanNode

_NAMES = {
    "BroadcastHashJoin": "broadcast: one side went to all tasks of the other",
    "SortMergeJoin": "sort-merge: both sides were shuffled and sorted by key",
    "ShuffledHashJoin": "shuffled hash: both sides were shuffled by key, and one is a hash table",
    "BroadcastNestedLoopJoin": "broadcast, without a hash table",
}


_SIZES = re.compile(r"\(([\d.,]+ \w+), ([\d.,]+ \w+), ([\d.,]+ \w+)")
"""The smallest, the median and the largest of what Spark has measured."""


def joins(plan: Plan, graphs: list[list[PlanNode]]) -> str:
    """A paragraph for each join of a plan that has run; empty where Spark tells of none.

    Args:
        plan: what has run.
        graphs: Spark's plans, each as its operators.
    """
    found = []
    for stage in plan.stages:
        if stage.join is None:
            continue
        for graph in graphs:
            lines = list(_lines(stage, {node.id: node for node in graph}))
            if lines:
                found.append("\n".join(lines))
                break
    return "\n\n".join(found)


def _lines(stage: Stage, nodes: dict[int, PlanNode]) -> Iterator[str]:
    own = f"MapInArrow {stage.id}: "
    host = next((node for node in nodes.values() if node.description.startswith(own)), None)
    join = host and _first(host, nodes, tuple(_NAMES))
    if join is None:
        return
    yield wrapped(f"{stage.id}  ", ", ".join(map(printable, stage.labels)))
    yield wrapped("    join   ", _kind(join))
    for side, child in zip((LEFT, RIGHT), join.children, strict=False):
        words = _side(nodes[child], nodes)
        if words:
            yield wrapped(f"    {side:5}  ", words)


def _kind(join: PlanNode) -> str:
    name = next(name for name in _NAMES if join.name.startswith(name))
    return _NAMES[name]


def _side(top: PlanNode, nodes: dict[int, PlanNode]) -> str:
    """What has become of the partitions of a side."""
    exchange = _first(top, nodes, ("Exchange", "BroadcastExchange"))
    if exchange is None:
        return "not shuffled"
    parts = []
    if exchange.name.startswith("BroadcastExchange"):
        parts.append(f"broadcast, {exchange.metrics.get('data size', 'of unknown size')}")
        below = exchange.children and _first(nodes[exchange.children[0]], nodes, ("Exchange",))
        if not below:
            return parts[0]
        exchange = below
    read = _first(top, nodes, ("AQEShuffleRead",))
    before = exchange.metrics.get("number of partitions", "?")
    of_read = read.metrics if read is not None else {}
    after = of_read.get("number of partitions", before)
    parts.append(f"{before} partitions, read as {after}")
    skewed, splits = (
        of_read.get(f"number of skewed {what}") for what in ("partitions", "partition splits")
    )
    if skewed:
        parts.append(f"{skewed} of them too large, divided into {splits}")
    size = _SIZES.search(of_read.get("partition data size", ""))
    if size:
        parts.append(f"of {size[1]} to {size[3]}, {size[2]} in the median")
    return ", ".join(parts)


def _first(top: PlanNode, nodes: dict[int, PlanNode], names: tuple[str, ...]) -> PlanNode | None:
    """The first operator of some kinds on the way down, the operator itself included."""
    pending = [top]
    while pending:
        node = pending.pop(0)
        if node.name.startswith(names):
            return node
        pending += [nodes[child] for child in node.children]
    return None
