"""Plans in words, compared with golden files."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms import trigger, window
from golden_files import Golden, sections
from plans import FORMATS, Stateful, fan_out, keyed, planned, stage, translated

from sparkbeam.explain import describe
from sparkbeam.io import ReadFromSpark
from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.plan.model import Exchange, Plan

pytestmark = pytest.mark.blocks(reason="Beam's own operations have other reasons")
DISCARDING = trigger.AccumulationMode.DISCARDING


def side_input(p: beam.Pipeline) -> Any:
    rates = p | "Rates" >> beam.Create([("x", 1)], reshuffle=False)
    return keyed(p) | "Convert" >> beam.Map(lambda x, rates: x, beam.pvalue.AsDict(rates))


def own_side_input(p: beam.Pipeline) -> Any:
    pairs = keyed(p)
    count = pairs | beam.combiners.Count.Globally()
    return pairs | "Ask" >> beam.Map(lambda x, count: x, beam.pvalue.AsSingleton(count))


def tagged(p: beam.Pipeline) -> None:
    few, many = keyed(p) | "Split" >> beam.Partition(lambda x, n: 0, 2)  # type: ignore[arg-type]
    few | beam.GroupByKey() | "Few" >> beam.Map(print)
    many | "GroupMany" >> beam.GroupByKey() | "Many" >> beam.Map(print)


def some_columns(p: beam.Pipeline) -> Any:
    rows = p | ReadFromSpark("parquet", {}, "id long, name string, at timestamp")
    return rows | "Ids" >> beam.Map(lambda row: (row.id, row.at)) | "Use" >> beam.Map(print)


def grouped(windowing: beam.WindowInto | None = None) -> Callable[[beam.Pipeline], Any]:
    def build(p: beam.Pipeline) -> Any:
        pairs = keyed(p) if windowing is None else keyed(p) | windowing
        return pairs | "Group" >> beam.GroupByKey() | "Read it" >> beam.Map(print)

    return build


def summed(windowing: beam.WindowInto) -> Callable[[beam.Pipeline], Any]:
    return lambda p: keyed(p) | windowing | "Sum" >> beam.CombinePerKey(sum)


SESSIONS = beam.WindowInto(window.Sessions(10))
COUNTING = beam.WindowInto(
    window.FixedWindows(10),
    trigger=trigger.Repeatedly(trigger.AfterCount(1)),
    accumulation_mode=DISCARDING,
)
EARLY = beam.WindowInto(
    window.FixedWindows(10),
    trigger=trigger.AfterWatermark(early=trigger.AfterCount(3)),
    accumulation_mode=DISCARDING,
)


def several_reads(p: beam.Pipeline) -> None:
    numbers = p | "Numbers" >> beam.Create([1, 2]) | beam.Reshuffle()
    ones = numbers | "Ones" >> beam.Map(lambda number: (number, 1)).with_output_types(PAIRS)
    twos = numbers | "Twos" >> beam.Map(lambda number: (number, 2)).with_output_types(PAIRS)
    _ = (ones, twos) | "Both" >> beam.CoGroupByKey() | "Print both" >> beam.Map(print)
    thrice = (ones, twos, ones) | beam.Flatten()
    _ = thrice | "Group" >> beam.GroupByKey() | "Print" >> beam.Map(print)


def state_and_trigger(p: beam.Pipeline) -> None:
    pairs = keyed(p) | COUNTING.with_output_types(tuple[str, int])
    _ = pairs | "State" >> beam.ParDo(Stateful())
    _ = pairs | "Group" >> beam.GroupByKey() | "Print" >> beam.Map(print)


PAIRS = tuple[int, int]
PIPELINES: dict[str, Callable[[beam.Pipeline], Any]] = {
    "labels": lambda p: p | "Read a/b" >> beam.Create([1, 2]) | "x/y" >> beam.Map(str),
    "a group": grouped(),
    "sessions": grouped(SESSIONS),
    "a trigger": grouped(COUNTING),
    "state": lambda p: keyed(p) | beam.ParDo(Stateful()) | "Read it" >> beam.Map(print),
    "a reshuffle": lambda p: keyed(p) | beam.Reshuffle() | "Read it" >> beam.Map(print),
    "sums in sessions": lambda p: summed(SESSIONS)(p) | "Show" >> beam.Map(print),
    "a side input": side_input,
    "tagged outputs": tagged,
    "several reads of one stage": several_reads,
    "a state and a trigger, which read the same rows": state_and_trigger,
}
PLANS: dict[str, Plan] = {
    "an output that is read in both ways": Plan(
        (stage(0), stage(1, inputs=(0,)), stage(2, inputs=(1,), side=(0,), ports=0))
    ),
    "a stage that is read more than once": fan_out(2),
    "a flatten": Plan((stage(0), stage(1), stage(2), stage(3, inputs=(0, 1, 2)))),
    "a collection that is flattened with itself": Plan((stage(0), stage(1, inputs=(0, 0)))),
    "long lists of labels": Plan(
        (stage(0, *(f"A step of the pipeline with number {n}" for n in range(20))),)
    ),
    "labels that would steer a terminal": Plan((stage(0, "red\x1b[31m\nnext"),)),
    "no stage": Plan(()),
    "all strategies": Plan(
        tuple(stage(n, strategy=strategy) for n, strategy in enumerate(GroupStrategy))
    ),
    "all formats": Plan(
        (
            stage(0),
            *(
                stage(n, repr(rows), exchange=Exchange.BY_KEY, format=rows, inputs=(0,))
                for n, rows in enumerate(FORMATS, 1)
            ),
        )
    ),
}


def test_stages(golden: Golden) -> None:
    plans = {name: translated(build)[1] for name, build in PIPELINES.items()}
    plans["sums of a stream with a trigger"] = translated(summed(EARLY), streaming=True)[1]
    plans["rows that the workers keep"] = translated(own_side_input, local=True)[1]
    plans["columns of a source of Spark"] = planned(some_columns)
    texts = {name: [describe.stages(plan)] for name, plan in (plans | PLANS).items()}
    assert all(
        len(line) <= describe.WIDTH for (text,) in texts.values() for line in text.splitlines()
    )
    golden("stages.txt", sections(texts))


class Counting(beam.PTransform):
    """A composite of the user."""

    def expand(self, words: Any) -> Any:
        return words | "Pair" >> beam.Map(lambda w: (w, 1)) | "Sum" >> beam.CombinePerKey(sum)


class Nested(beam.PTransform):
    """A composite that holds itself some times."""

    def __init__(self, depth: int) -> None:
        super().__init__(label=f"Depth {depth}")
        self._depth = depth

    def expand(self, pcoll: Any) -> Any:
        inner = Nested(self._depth - 1) if self._depth else beam.Map(lambda x: x)
        return pcoll | inner | "And more" >> beam.Map(lambda x: x)


@beam.ptransform_fn
def Cleaning(pcoll: Any) -> Any:
    return pcoll | "Strip" >> beam.Map(str) | "Drop" >> beam.Filter(bool)


def words(pipeline: beam.Pipeline) -> Any:
    return pipeline | "Words" >> beam.Create(["a"], reshuffle=False)


OUTLINES: dict[str, Callable[[beam.Pipeline], Any]] = {
    "a composite of the user": lambda p: words(p) | "Count" >> Counting(),
    "a composite of Beam": lambda p: words(p) | beam.Values(),
    "a composite made of a function": lambda p: words(p) | "Clean" >> Cleaning(),
    "a group, which Spark executes": lambda p: (
        keyed(p) | "Group" >> beam.GroupByKey() | "Print" >> beam.Map(print)
    ),
    "deep composites": lambda p: words(p) | Nested(5),
    "a long label": lambda p: words(p) | "A much longer label" >> beam.Map(print),
}


def test_outlines(golden: Golden) -> None:
    texts = {name: [describe.outline(*translated(build))] for name, build in OUTLINES.items()}
    golden("outlines.txt", sections(texts))
