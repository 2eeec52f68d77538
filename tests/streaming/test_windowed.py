"""The quick ways to group put out what Beam's trigger driver does over all windows."""

import random
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.window import (
    FixedWindows,
    Sessions,
    TimestampedValue,
)
from in_process import streaming_pipeline
from noting import found, note

from sparkbeam.plan.grouping import GroupStrategy
from sparkbeam.worker.grouping.strategies import STREAMING
from sparkbeam.worker.grouping.triggered import MergingGrouping, SessionGrouping, TriggerGrouping


def panes(windowing: beam.WindowInto) -> list[Any]:
    """All panes of a random stream, grouped and combined, with all that belongs to them."""
    choice = random.Random(7)
    events = TestStream(coder=VarIntCoder())
    watermark = 0
    for _ in range(20):
        seconds = [max(0, watermark + choice.randrange(-12, 8)) for _ in range(4)]
        events = events.add_elements([TimestampedValue(s, s) for s in seconds])
        watermark += choice.choice([1, 1, 2, 5, 10])
        events = events.advance_watermark_to(watermark)
    found.clear()
    with streaming_pipeline() as p:
        keyed = (
            p | events.advance_watermark_to_infinity() | windowing | beam.Map(lambda n: (n % 3, n))
        )
        grouped = keyed | beam.GroupByKey() | "sort" >> beam.MapTuple(lambda k, v: (k, sorted(v)))
        summed = keyed | beam.CombinePerKey(sum)
        for name, output in (("grouped", grouped), ("summed", summed)):
            output | name >> beam.Map(note)
    return sorted(map(repr, found))


def _by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STREAMING, GroupStrategy.WINDOWS, TriggerGrouping)
    monkeypatch.setitem(STREAMING, GroupStrategy.SESSIONS, SessionGrouping)


@pytest.mark.part(5)
@pytest.mark.parametrize("mode", [AccumulationMode.DISCARDING, AccumulationMode.ACCUMULATING])
@pytest.mark.parametrize("windows", [Sessions(2), FixedWindows(5)], ids=["sessions", "fixed"])
@pytest.mark.parametrize(
    "trigger",
    [
        DefaultTrigger(),
        AfterWatermark(early=AfterCount(2), late=AfterCount(1)),
        Repeatedly(AfterCount(2)),
    ],
    ids=["default", "early and late", "counting"],
)
@pytest.mark.parametrize("lateness", [0, 7])
def test_panes_are_the_same_where_the_driver_sees_the_windows_that_matter(
    mode: Any, windows: Any, trigger: Any, lateness: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    _by_the_driver(monkeypatch)
    windowing = beam.WindowInto(
        windows, trigger=trigger, accumulation_mode=mode, allowed_lateness=lateness
    )
    some = panes(windowing)
    for strategy in STREAMING:
        monkeypatch.setitem(STREAMING, strategy, MergingGrouping)  # It sees all windows.
    assert some == panes(windowing)
    assert len(some) > 10


def test_new_elements_are_merged_with_the_sessions_beside_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _by_the_driver(monkeypatch)
    merged: list[int] = []
    merge = Sessions.merge

    def noted(self: Sessions, context: Any) -> None:
        merged.append(len(context.windows))
        merge(self, context)

    monkeypatch.setattr(Sessions, "merge", noted)
    events = TestStream(coder=VarIntCoder()).advance_watermark_to(-1000)
    for low in range(40):
        numbers = range(low, 400, 40)
        events = events.add_elements([TimestampedValue(n, 10 * n) for n in numbers])
        events = events.advance_watermark_to(low - 999)
    found.clear()
    with streaming_pipeline() as p:
        sessions = (
            p
            | events.advance_watermark_to_infinity()
            | beam.WindowInto(Sessions(5))
            | beam.Map(lambda n: ("key", n))
            | beam.GroupByKey()
        )
        sessions | "note" >> beam.Map(note)
    assert len(found) == 400
    assert max(merged) <= 20
