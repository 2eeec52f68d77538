"""Figures of the plans that Spark has executed: shuffles, joins, and partitions of hot keys."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sparkbeam.explain.describe import printable, wrapped
from sparkbeam.observe.figures.formats import size
from sparkbeam.observe.figures.summary import StageSummary
from sparkbeam.plan.join_payload import LEFT, RIGHT
from sparkbeam.plan.model import Exchange, Plan, Stage
from sparkbeam.upstream.spark import PlanNode

Graphs = Sequence[list[PlanNode]]
"""The operators of each Spark plan."""

LEAST = 256 << 20
"""Minimum bytes of a skewed partition, as in Spark's skew joins."""

_TIMES = 5
"""Minimum ratio of a skewed partition to the median."""

_SHUFFLES = ("Exchange", "ReusedExchange", "MapInArrow")
"""Operator names of a shuffle before a stage, or of its reuse."""

_JOINS = {
    "BroadcastHashJoin": "broadcast: one side went to all tasks of the other",
    "SortMergeJoin": "sort-merge: both sides were shuffled and sorted by key",
    "ShuffledHashJoin": "shuffled hash: both sides were shuffled by key, and one is a hash table",
    "BroadcastNestedLoopJoin": "broadcast, without a hash table",
}
"""Descriptions of Spark's joins by prefix of the operator name."""

_READ = ("partition data size", "local bytes read", "remote bytes read")
"""Metrics of the bytes read from a shuffle: by adaptive execution, or else by tasks."""

_BYTES = {unit: 1 << 10 * power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))}

_SIZES = re.compile(r"\(([\d.,]+ \w+), ([\d.,]+ \w+), ([\d.,]+ \w+)")
"""Minimum, median and maximum in Spark's format."""

_OF_ALL = re.compile(rf"([\d.,]+ \w+) {_SIZES.pattern}")
"""Minimum, median and maximum after a total."""

_ROUNDED = 1.02
"""Tolerance of Spark's rounded totals over the sum of their parts."""

_REMEDY_OF_JOIN = (
    "Spark splits skewed partitions of a Join where `how` allows it, at the boundaries of single "
    "tasks' output: increase the number of tasks that write the side"
)
_REMEDY_OF_COMBINE = (
    "CombinePerKey(…).with_hot_key_fanout(…) merges the accumulators of a key in several tasks"
)
_REMEDY_OF_GROUP = (
    "sparkbeam.Join instead of a CoGroupByKey splits hot keys between tasks; "
    "CombinePerKey instead of a GroupByKey combines before the shuffle and, using "
    "with_hot_key_fanout(…), in several tasks after it"
)
_REMEDY_OF_STATE = (
    "the elements and the state of a key are in one task: use a finer key to spread them"
)


def shuffles(plan: Plan, graphs: Graphs) -> dict[str, str]:
    """Describe the shuffles before stages, by stage id."""
    found: dict[str, str] = {}
    for stage in plan.stages:
        if stage.exchange not in (Exchange.BY_KEY, Exchange.REBALANCE):
            continue
        for host in _hosts(stage, graphs):
            top = next(host.children(), None)
            own = None if top is None else top.first(*_SHUFFLES)
            if top is not None and own is not None and own.node.name.startswith("Exchange"):
                told = own.node.metrics.get("shuffle bytes written", "")
                written = told.rpartition("\n")[2].partition(" (")[0]  # They are compressed.
                facts = [*_partitions(own, top), *([f"{written} written"] if written else [])]
                found[stage.id] = ", ".join(facts)
                break
    return found


def joins(plan: Plan, graphs: Graphs) -> str:
    """Describe each join of a finished plan in a paragraph; empty if Spark reports none."""
    found = []
    for stage in plan.stages:
        hosts = _hosts(stage, graphs) if stage.join is not None else ()
        join = next(filter(None, (host.first(*_JOINS) for host in hosts)), None)
        if join is not None:
            found.append("\n".join(_join_lines(stage, join)))
    return "\n\n".join(found)


def hot_keys(plan: Plan, graphs: Graphs, summary: Iterable[StageSummary]) -> dict[str, str]:
    """Describe skewed partitions of stages, with the remedy.

    Args:
        graphs: none for a streaming query.

    Returns:
        Texts by stage id; none for stages with even partitions.
    """
    found = {}
    for stage, done in zip(plan.stages, summary, strict=True):
        if stage.exchange not in (Exchange.BY_KEY, Exchange.JOIN):
            continue
        sizes = [(spark.largest_bytes, spark.median_bytes) for spark in done.spark]
        if not plan.streaming:
            sizes = _partition_sizes(stage, graphs)
        largest, median = max(sizes, default=(0, 0))
        if largest > max(LEAST, _TIMES * median):
            times = f", {largest / median:,.0f} times the median" if median else ""
            found[stage.id] = f"the largest partition has {size(largest)}{times}: {_remedy(stage)}"
    return found


class _Operator(NamedTuple):
    """An operator of a Spark plan, with all operators of the plan by id."""

    node: PlanNode
    nodes: Mapping[int, PlanNode]

    def children(self) -> Iterator["_Operator"]:
        return (self._replace(node=self.nodes[child]) for child in self.node.children)

    def first(self, *names: str) -> "_Operator | None":
        """Return the first operator of some kinds on the way down, beginning with this one."""
        pending = [self]
        while pending:
            found = pending.pop(0)
            if found.node.name.startswith(names):
                return found
            pending += found.children()
        return None


def _hosts(stage: Stage, graphs: Graphs) -> Iterator[_Operator]:
    """Yield the operator that runs a stage, in each plan that does."""
    own = f"MapInArrow {stage.id}: "
    for graph in graphs:
        host = next((node for node in graph if node.description.startswith(own)), None)
        if host is not None:
            yield _Operator(host, {node.id: node for node in graph})


def _partitions(exchange: _Operator, top: _Operator) -> Iterator[str]:
    """Describe the partitions of a shuffle.

    Args:
        top: an operator that reads it.
    """
    read = top.first("AQEShuffleRead", "Exchange")
    before = exchange.node.metrics.get("number of partitions", "?")
    of_read = read.node.metrics if read is not None and read.node is not exchange.node else {}
    yield f"{before} partitions, read as {of_read.get('number of partitions', before)}"
    skewed, splits = (
        of_read.get(f"number of skewed {what}") for what in ("partitions", "partition splits")
    )
    if skewed:
        yield f"{skewed} of them too large, divided into {splits}"
    sizes = _SIZES.search(of_read.get("partition data size", ""))
    if sizes:
        yield f"of {sizes[1]} to {sizes[3]}, median {sizes[2]}"


def _join_lines(stage: Stage, join: _Operator) -> Iterator[str]:
    yield wrapped(f"{stage.id}  ", ", ".join(map(printable, stage.labels)))
    kinds = (text for name, text in _JOINS.items() if join.node.name.startswith(name))
    yield wrapped("    join   ", next(kinds))
    for side, top in zip((LEFT, RIGHT), join.children(), strict=False):
        words = _side(top)
        if words:
            yield wrapped(f"    {side:5}  ", words)


def _side(top: _Operator) -> str:
    """Describe the partitions of a side of a join."""
    exchange = top.first("Exchange", "BroadcastExchange")
    if exchange is None:
        return "not shuffled"
    parts = []
    if exchange.node.name.startswith("BroadcastExchange"):
        parts.append(f"broadcast, {exchange.node.metrics.get('data size', 'of unknown size')}")
        below = next(exchange.children(), None)
        exchange = None if below is None else below.first("Exchange")
    return ", ".join([*parts, *(() if exchange is None else _partitions(exchange, top))])


def _partition_sizes(stage: Stage, graphs: Graphs) -> list[tuple[int, int]]:
    """Return the bytes of the largest and of the median partition of each shuffle before a stage.

    Its tasks may also run other stages. A side of a join has such a shuffle, too.
    """
    for host in _hosts(stage, graphs):
        join = host.first(*_JOINS) if stage.join is not None else None
        known = filter(None, map(_largest_and_median, (join or host).children()))
        if found := [*known]:
            return found
    return []


def _largest_and_median(top: _Operator) -> tuple[int, int] | None:
    """Return the bytes of the largest and of the median partition of the shuffle below."""
    read = top.first("AQEShuffleRead", *_SHUFFLES)
    told = [] if read is None else [read.node.metrics.get(name, "") for name in _READ]
    each = [tuple(map(_bytes, found.groups())) for found in map(_OF_ALL.search, told) if found]
    if not each:
        return None
    total, least, median, largest = max(each, key=lambda sizes: sizes[3])
    # For two partitions, Spark's median is the larger one.
    return largest, least if total <= _ROUNDED * (least + largest) else median


def _bytes(text: str) -> int:
    number, unit = text.replace(",", "").split()
    return round(float(number) * _BYTES.get(unit, 1 << 50))


def _remedy(stage: Stage) -> str:
    if stage.join is not None:
        return _REMEDY_OF_JOIN
    if stage.grouping is None:
        return _REMEDY_OF_STATE
    return _REMEDY_OF_COMBINE if stage.grouping.combines else _REMEDY_OF_GROUP
