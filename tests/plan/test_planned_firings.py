"""Which side inputs may fire again, where a grouping is added, and which ports tell of firings."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsDict, AsList, AsSingleton
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import FixedWindows, GlobalWindows
from golden_files import Golden, sections

from sparkbeam.operators.registry import operators_of
from sparkbeam.plan.model import Plan
from sparkbeam.plan.translate import translate

AGAIN: dict[str, Any] = {
    "trigger": Repeatedly(AfterCount(1)),
    "accumulation_mode": AccumulationMode.DISCARDING,
}


def each() -> Any:
    return "each" >> beam.WindowInto(GlobalWindows(), **AGAIN)


def fixed() -> Any:
    return "fixed" >> beam.WindowInto(FixedWindows(10))


def late() -> Any:
    return "late" >> beam.WindowInto(FixedWindows(10), allowed_lateness=5)


PLANS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "elements": (lambda s: s, (AsList,)),
    "in windows": (lambda s: s | fixed(), (AsList,)),
    "in windows with lateness": (lambda s: s | late(), (AsList,)),
    "with a trigger": (lambda s: s | each(), (AsList,)),
    "read by several": (lambda s: s | each(), (AsList, AsDict, AsSingleton, AsSingleton)),
    "a combine": (lambda s: s | fixed() | beam.CombinePerKey(sum), (AsList,)),
    "a combine with lateness": (lambda s: s | late() | beam.CombinePerKey(sum), (AsList,)),
    "a combine with a trigger": (lambda s: s | each() | beam.CombinePerKey(sum), (AsList,)),
    "a group with a trigger": (lambda s: s | each() | beam.GroupByKey() | beam.Map(str), (AsList,)),
    "other windows behind a group": (
        lambda s: s | late() | beam.GroupByKey() | fixed(),
        (AsList,),
    ),
    "a trigger behind a group": (lambda s: s | fixed() | beam.GroupByKey() | each(), (AsList,)),
    "steps behind a combine": (
        lambda s: s | each() | beam.CombinePerKey(sum) | beam.Reshuffle() | beam.Map(lambda p: p),
        (AsDict,),
    ),
}


def lines(plan: Plan) -> Iterator[str]:
    for stage in plan.stages:
        for side in stage.side_inputs:
            early = ", early" if side.early else ""
            yield f"{stage.id} sees {side.firings.name} of {side.label}{early}"
        if stage.grouping is not None:
            yield f"{stage.id} groups{' by time' if stage.grouping.by_time else ''}"
        for port in stage.ports:
            if port.firings:
                yield f"{stage.id} tells firings in {port.format}"


def test_plans(golden: Golden) -> None:
    texts = {}
    for name, (made, views) in PLANS.items():
        for streaming in (True, False):
            pipeline = beam.Pipeline()
            pairs = pipeline | (
                TestStream().add_elements([("a", 1)]) if streaming else beam.Create([("a", 1)])
            )
            main, of = pipeline | "main" >> beam.Create([1]), made(pairs)
            for number, view in enumerate(views):
                _ = main | f"ask {number}" >> beam.Map(lambda n, seen: n, view(of))
            plan = translate(pipeline.to_runner_api(), operators_of, streaming=streaming)
            texts[name if streaming else f"{name}, in batch"] = list(lines(plan))
    golden("firings.txt", sections(texts))
