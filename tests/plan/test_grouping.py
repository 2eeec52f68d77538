"""What makes the groups of a GroupByKey, for each kind of windowing, and that workers know it."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.combiners import MeanCombineFn, ToListCombineFn, TupleCombineFn
from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterAll,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
)
from golden_files import Golden, sections
from plans import translated

from sparkbeam.explain.aggregations import aggregations
from sparkbeam.plan import grouping
from sparkbeam.plan.grouping import Grouping, GroupStrategy, SessionAggregator
from sparkbeam.worker.grouping.strategies import BATCH, STREAMING

COUNTING: dict[str, Any] = {
    "triggerfn": Repeatedly(AfterCount(3)),
    "accumulation_mode": AccumulationMode.DISCARDING,
}
LATEST: dict[str, Any] = {"timestamp_combiner": TimestampCombiner.OUTPUT_AT_LATEST}


class Visits(Sessions):
    """Sessions that may merge in another way."""


WINDOWINGS = {
    "global": Windowing(GlobalWindows()),
    "fixed": Windowing(FixedWindows(5)),
    "fixed, latest": Windowing(FixedWindows(5), **LATEST),
    "sliding, latest": Windowing(SlidingWindows(10, 5), **LATEST),
    "sessions": Windowing(Sessions(5)),
    "sessions, latest": Windowing(Sessions(5), **LATEST),
    "sessions of the user's": Windowing(Visits(5)),
    "global, counting": Windowing(GlobalWindows(), **COUNTING),
    "sessions, counting": Windowing(Sessions(5), **COUNTING),
    "sessions of the user's, counting": Windowing(Visits(5), **COUNTING),
}
COMBINES: dict[str, Any] = {
    "no combine": None,
    "sum": sum,
    "mean and max": TupleCombineFn(MeanCombineFn(), max),
    "lists": ToListCombineFn(),
}
AGGREGATORS = [None, SessionAggregator.ORDERED, SessionAggregator.CANONICAL]


def text_of(how: Grouping) -> str:
    parts = [how.strategy.name, str(how.format), how.reason]
    parts += ["merges columns"] * how.merges_columns
    parts += [f"{how.aggregator.name}: {how.aggregator_reason}"] if how.aggregator else []
    return ", ".join(parts)


@pytest.mark.parametrize("streaming", [False, True], ids=["batch", "streaming"])
def test_the_windowing_and_the_combine_decide(golden: Golden, streaming: bool) -> None:
    texts: dict[str, list[str]] = {}
    for name, windowing in WINDOWINGS.items():
        for combine, fn in COMBINES.items():
            for asked in AGGREGATORS:
                how = grouping.decide(
                    windowing,
                    combines=fn and (lambda fn=fn: CombineFn.maybe_from_callable(fn)),
                    streaming=streaming,
                    sessions=asked,
                )
                assert how.combines == (fn is not None)
                line = f"{combine}: {text_of(how)}"
                if asked is None:
                    texts.setdefault(name, []).append(line)
                elif line != texts[name][-1]:
                    texts[name].append(f"  with the {asked.value} aggregator: {text_of(how)}")
    golden(f"groupings in {'streaming' if streaming else 'batch'}.txt", sections(texts))


def test_each_strategy_is_known_in_batch_and_most_in_streaming() -> None:
    assert BATCH.keys() == set(GroupStrategy)
    assert STREAMING.keys() == set(GroupStrategy) - {GroupStrategy.MERGING}


@pytest.mark.parametrize(
    "trigger",
    [
        Repeatedly(AfterCount(1)),
        AfterWatermark(early=AfterCount(3), late=AfterCount(2)),
        Repeatedly(AfterAll(AfterCount(4), AfterProcessingTime(3))),
    ],
)
def test_combines_with_any_trigger_add_up_before_the_shuffle(trigger: TriggerFn) -> None:
    def build(p: beam.Pipeline) -> None:
        windowed = (
            p
            | beam.Create([("a", 1)])
            | beam.WindowInto(
                GlobalWindows(), trigger=trigger, accumulation_mode=AccumulationMode.DISCARDING
            )
        )
        _ = windowed | beam.CombinePerKey(ToListCombineFn())

    _, plan = translated(build)
    assert "elements to accumulators, in a table in memory" in aggregations(plan)
