"""Which side inputs may fire again, where a grouping is added, and which ports tell of firings."""

from collections.abc import Callable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.pvalue import AsDict, AsList, AsSingleton
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.window import FixedWindows, GlobalWindows

from sparkbeam.operators.registry import operators_of
from sparkbeam.plan.model import Firings, Plan, SideInput
from sparkbeam.plan.row_formats import ElementRows, SideInputRows
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


def planned(made: Callable[[Any], Any], view: Any = AsList) -> Plan:
    pipeline = beam.Pipeline()
    pairs = pipeline | TestStream().add_elements([("a", 1)])
    main = pipeline | "main" >> beam.Create([1])
    _ = main | "ask" >> beam.Map(lambda n, seen: (n, seen), view(made(pairs)))
    return translate(pipeline.to_runner_api(), operators_of, streaming=True)


def asked(plan: Plan) -> SideInput:
    (side,) = (side for stage in plan.stages for side in stage.side_inputs)
    return side


def groupings(plan: Plan) -> list[bool]:
    """Of each GroupByKey, whether it is by time."""
    return [stage.grouping.by_time for stage in plan.stages if stage.grouping is not None]


@pytest.mark.parametrize(
    ("made", "firings", "early", "by_time"),
    [
        (lambda s: s, Firings.NONE, True, []),
        (lambda s: s | fixed(), Firings.NONE, False, []),
        (lambda s: s | late(), Firings.NONE, False, []),
        (lambda s: s | each(), Firings.MANY, True, [True]),
        (lambda s: s | fixed() | beam.CombinePerKey(sum), Firings.ONE, False, [False]),
        (lambda s: s | late() | beam.CombinePerKey(sum), Firings.MANY, False, [False]),
        (lambda s: s | each() | beam.CombinePerKey(sum), Firings.MANY, True, [False]),
        (lambda s: s | each() | beam.GroupByKey() | beam.Map(str), Firings.MANY, True, [False]),
        (lambda s: s | late() | beam.GroupByKey() | fixed(), Firings.NONE, False, [False]),
        (lambda s: s | fixed() | beam.GroupByKey() | each(), Firings.MANY, True, [False, True]),
    ],
)
def test_windows_and_groupings_decide(
    made: Any, firings: Firings, early: bool, by_time: list[bool]
) -> None:
    plan = planned(made)
    side = asked(plan)
    assert (side.firings, side.early) == (firings, early)
    assert sorted(groupings(plan)) == by_time


def test_in_batch_no_grouping_is_added() -> None:
    pipeline = beam.Pipeline()
    side = pipeline | "side" >> beam.Create([("a", 1)]) | each()
    _ = pipeline | beam.Create([1]) | beam.Map(lambda n, seen: n, AsList(side))
    plan = translate(pipeline.to_runner_api(), operators_of)
    assert groupings(plan) == []
    assert not any(port.firings for stage in plan.stages for port in stage.ports)


def test_ports_tell_of_firings_from_the_grouping_to_the_view() -> None:
    plan = planned(
        lambda s: s | each() | beam.CombinePerKey(sum) | beam.Reshuffle() | beam.Map(lambda p: p),
        AsDict,
    )
    telling = [port.format for stage in plan.stages for port in stage.ports if port.firings]
    assert sorted(telling, key=str) == [ElementRows(), SideInputRows()]


def test_two_readers_of_a_view_share_a_grouping_and_a_singleton_has_another() -> None:
    pipeline = beam.Pipeline()
    main = pipeline | "main" >> beam.Create([1])
    side = pipeline | TestStream().add_elements([("a", 1)]) | each()
    for number, view in enumerate((AsList, AsDict, AsSingleton, AsSingleton)):
        _ = main | f"ask {number}" >> beam.Map(lambda n, seen: n, view(side))
    assert groupings(translate(pipeline.to_runner_api(), operators_of, streaming=True)) == [
        True,
        True,
    ]
