"""Keys with far more data than others are told after a run, with what helps."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from golden_files import Golden, sections
from plans import Stateful, keyed, translated

from sparkbeam import Join
from sparkbeam.explain.executed_plans import hot_keys
from sparkbeam.observe.figures.summary import SparkStage, StageSummary
from sparkbeam.plan.model import Exchange, Plan
from sparkbeam.upstream.spark import PlanNode

Graph = list[PlanNode]
ADAPTIVE, READ = "partition data size", "local bytes read"


def grouped(pipeline: beam.Pipeline) -> Any:
    return keyed(pipeline) | beam.GroupByKey() | beam.Map(print)


def joined(p: beam.Pipeline) -> Any:
    on = dict.fromkeys("lr", lambda pair: pair[0])
    return {"l": keyed(p), "r": p | beam.Create([("a", 2)])} | Join(on=on)


def graph(plan: Plan, metric: str, sizes: str, total: str) -> Graph:
    """A plan of Spark's in which each shuffle has partitions of such sizes, as it tells them."""
    metrics = {metric: f"total (min, med, max)\n{total} ({sizes})"}
    kind = "AQEShuffleRead" if metric == ADAPTIVE else "Exchange"
    nodes = []
    for number, stage in enumerate(plan.stages):
        at = 10 * number
        is_join = stage.exchange is Exchange.JOIN
        top = (at + 1,) if stage.inputs else ()
        nodes += [
            PlanNode(at, "MapInArrow", f"MapInArrow {stage.id}: x", {}, top),
            PlanNode(at + 1, "SortMergeJoin" if is_join else "Sort", "", {}, (at + 2,)),
            PlanNode(at + 2, kind, "", metrics, (at + 3,)),
            PlanNode(at + 3, "Exchange", "", {}, ()),
        ]
    return nodes


def told(
    build: Callable[[beam.Pipeline], Any],
    sizes: str,
    metric: str = ADAPTIVE,
    total: str = "9.0 GiB",
) -> str:
    """What is told of the only stage that reads a shuffle by key; empty where nothing is."""
    _, plan = translated(build)
    summary = [StageSummary(stage.name, ()) for stage in plan.stages]
    found = hot_keys(plan, [graph(plan, metric, sizes, total)], summary)
    assert len(found) <= 1
    return "".join(found.values())


HOT = "1.0 MiB, 20.0 MiB, 600.0 MiB (stage 3.0: task 7)"
BUILDS: dict[str, Callable[[beam.Pipeline], Any]] = {
    "a group": grouped,
    "a combine": lambda p: keyed(p) | beam.CombinePerKey(sum) | beam.Map(print),
    "state": lambda p: keyed(p) | beam.ParDo(Stateful()),
    "a join": joined,
    "a shuffle without keys": lambda p: keyed(p) | beam.Reshuffle() | beam.Map(print),
}


def test_a_partition_much_larger_than_the_median_is_told_with_what_helps(golden: Golden) -> None:
    texts = {name: [told(build, HOT)] for name, build in BUILDS.items()}
    texts["without a median"] = [told(grouped, "0.0 B, 0.0 B, 1.5 GiB")]
    golden("hot keys.txt", sections(texts))
    assert told(grouped, HOT, READ) == told(grouped, HOT)
    docs = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert told(grouped, HOT).partition(": ")[2] in " ".join(docs.read_text().split())


def test_of_two_partitions_the_smaller_one_is_usual() -> None:
    sizes = "20.0 MiB, 600.0 MiB, 600.0 MiB"
    assert told(grouped, sizes) == ""
    assert "30 times" in told(grouped, sizes, total="620.0 MiB")


@pytest.mark.parametrize(
    "sizes",
    ["1.0 B, 2.0 B, 256.0 MiB", "1.0 MiB, 200.0 MiB, 999.0 MiB", "0.0 B, 0.0 B, 0.0 B", "no sizes"],
)
def test_small_and_even_partitions_are_not_told(sizes: str) -> None:
    assert told(grouped, sizes) == ""


def test_of_a_stream_it_is_what_the_last_micro_batch_has_read() -> None:
    _, plan = translated(grouped, streaming=True)
    read = SparkStage(7, tasks=9, largest_bytes=600 << 20, median_bytes=20 << 20)
    summary = [StageSummary(stage.name, (), spark=(read,)) for stage in plan.stages]
    (text,) = hot_keys(plan, [], summary).values()
    assert "629.1 MB, 30 times" in text
    nothing = [StageSummary(stage.name, ()) for stage in plan.stages]
    assert hot_keys(plan, [], nothing) == {}
