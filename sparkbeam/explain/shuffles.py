"""Spark's figures of shuffles: partitions before and after, and bytes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.upstream.spark import PlanNode

Nodes = Mapping[int, PlanNode]
"""Operators of a Spark plan by id."""

_SHUFFLES = frozenset([Exchange.BY_KEY, Exchange.REBALANCE])
_OTHERS = ("Exchange", "ReusedExchange", "MapInArrow")
"""Operator names of a shuffle before a stage, or of its reuse."""

_READ = ("local bytes read", "remote bytes read")
"""Metrics of the bytes read from a shuffle, locally and remotely."""

_BYTES = {unit: 1 << 10 * power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))}

_SIZES = re.compile(r"\(([\d.,]+ \w+), ([\d.,]+ \w+), ([\d.,]+ \w+)")
"""Minimum, median and maximum in Spark's format."""

_OF_ALL = re.compile(rf"([\d.,]+ \w+) {_SIZES.pattern}")
"""Minimum, median and maximum after a total."""

_ROUNDED = 1.02
"""Tolerance of Spark's rounded totals over the sum of their parts."""


def shuffles(plan: Plan, graphs: Sequence[list[PlanNode]]) -> dict[str, str]:
    """Describe the shuffles before stages, by stage id.

    Args:
        graphs: the operators of each Spark plan.
    """
    found: dict[str, str] = {}
    for stage in plan.stages:
        for host, nodes in hosts(stage, graphs) if stage.exchange in _SHUFFLES else ():
            below = [nodes[child] for child in host.children]
            own = first(below[0], nodes, _OTHERS) if below else None
            if own is not None and own.name.startswith("Exchange"):
                found[stage.id] = ", ".join([*words_of(own, below[0], nodes), *_written(own)])
                break
    return found


def hosts(stage: Stage, graphs: Iterable[list[PlanNode]]) -> Iterator[tuple[PlanNode, Nodes]]:
    """Yield the operator that runs a stage, with all operators of its Spark plan.

    Args:
        graphs: the operators of each Spark plan, of which more than one may run the stage.
    """
    own = f"MapInArrow {stage.id}: "
    for graph in graphs:
        host = next((node for node in graph if node.description.startswith(own)), None)
        if host is not None:
            yield host, {node.id: node for node in graph}


def first(top: PlanNode, nodes: Nodes, names: tuple[str, ...]) -> PlanNode | None:
    """Return the first operator of some kinds on the way down, beginning with the top itself."""
    pending = [top]
    while pending:
        node = pending.pop(0)
        if node.name.startswith(names):
            return node
        pending += [nodes[child] for child in node.children]
    return None


def words_of(exchange: PlanNode, top: PlanNode, nodes: Nodes) -> Iterator[str]:
    """Describe the partitions of a shuffle.

    Args:
        top: an operator that reads it.
        nodes: all operators.
    """
    read = first(top, nodes, ("AQEShuffleRead", "Exchange"))
    before = exchange.metrics.get("number of partitions", "?")
    of_read = read.metrics if read is not None and read is not exchange else {}
    yield f"{before} partitions, read as {of_read.get('number of partitions', before)}"
    skewed, splits = (
        of_read.get(f"number of skewed {what}") for what in ("partitions", "partition splits")
    )
    if skewed:
        yield f"{skewed} of them too large, divided into {splits}"
    size = _SIZES.search(of_read.get("partition data size", ""))
    if size:
        yield f"of {size[1]} to {size[3]}, median {size[2]}"


def sizes_of(top: PlanNode, nodes: Nodes) -> tuple[int, int] | None:
    """Return the bytes of the largest and of the median partition of a shuffle.

    They are the partitions read by adaptive execution, or else by tasks.

    Args:
        top: an operator that reads the shuffle.
        nodes: all operators.
    """
    read = first(top, nodes, ("AQEShuffleRead", *_OTHERS))
    if read is None:
        return None
    told = [read.metrics.get(name, "") for name in ("partition data size", *_READ)]
    sizes = [found for found in map(_OF_ALL.search, told) if found]
    if not sizes:
        return None
    each = [tuple(map(_bytes, found.groups())) for found in sizes]
    total, least, median, largest = max(each, key=lambda one: one[3])
    # For two partitions, Spark's median is the larger one.
    return largest, least if total <= _ROUNDED * (least + largest) else median


def _bytes(text: str) -> int:
    number, unit = text.replace(",", "").split()
    return round(float(number) * _BYTES.get(unit, 1 << 50))


def _written(exchange: PlanNode) -> Iterator[str]:
    """Describe the compressed bytes written to a shuffle."""
    told = exchange.metrics.get("shuffle bytes written", "")
    size, _, _ = told.rpartition("\n")[2].partition(" (")
    if size:
        yield f"{size} written"
