"""What makes the groups of a GroupByKey, for each kind of windowing, and that workers know it."""

from typing import Any

import apache_beam as beam
import pytest
from apache_beam.transforms.combiners import (
    CountCombineFn,
    MeanCombineFn,
    ToListCombineFn,
    TupleCombineFn,
)
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
    WindowFn,
)
from plans import translated

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.explain.aggregations import aggregations
from sparkbeam.plan import grouping
from sparkbeam.plan.grouping import Grouping, GroupStrategy, SessionAggregator
from sparkbeam.plan.row_formats import AggregateRows, GroupRows, KeyedRows, RowFormat
from sparkbeam.worker.grouping.strategies import BATCH, STREAMING

COUNTING: dict[str, Any] = {
    "triggerfn": Repeatedly(AfterCount(3)),
    "accumulation_mode": AccumulationMode.DISCARDING,
}
LATEST = {"timestamp_combiner": TimestampCombiner.OUTPUT_AT_LATEST}


class Visits(Sessions):
    """Sessions that may merge in another way."""


WINDOWS, SESSIONS, MERGING, TRIGGERS = GroupStrategy


@pytest.mark.parametrize(
    ("window_fn", "more", "in_batch", "in_streaming"),
    [
        (GlobalWindows(), {}, (WINDOWS, GroupRows()), WINDOWS),
        (FixedWindows(5), {}, (WINDOWS, GroupRows()), WINDOWS),
        (FixedWindows(5), LATEST, (WINDOWS, GroupRows()), WINDOWS),
        (Sessions(5), {}, (SESSIONS, AggregateRows(sessions=True, packed=False)), SESSIONS),
        (Sessions(5), LATEST, (SESSIONS, AggregateRows(sessions=True, packed=False)), SESSIONS),
        (Visits(5), {}, (MERGING, KeyedRows()), TRIGGERS),
        (GlobalWindows(), COUNTING, (TRIGGERS, KeyedRows()), TRIGGERS),
        (Sessions(5), COUNTING, (TRIGGERS, KeyedRows()), TRIGGERS),
        (Visits(5), COUNTING, (TRIGGERS, KeyedRows()), TRIGGERS),
    ],
)
def test_the_windowing_decides(
    window_fn: WindowFn,
    more: Any,
    in_batch: tuple[GroupStrategy, RowFormat],
    in_streaming: GroupStrategy,
) -> None:
    windowing = Windowing(window_fn, **more)
    stored = in_streaming, KeyedRows(stored=True)
    for streaming, expected in ((False, in_batch), (True, stored)):
        how = grouping.decide(windowing, combines=None, streaming=streaming)
        assert (how.strategy, how.format) == expected
        if more is COUNTING:
            assert how.reason == "the trigger is Repeatedly(AfterCount(3))"


def test_each_strategy_is_known_in_batch_and_most_in_streaming() -> None:
    assert BATCH.keys() == set(GroupStrategy)
    assert STREAMING.keys() == set(GroupStrategy) - {MERGING}


@pytest.mark.parametrize("streaming", [False, True])
def test_a_stage_tells_whether_it_merges_accumulators(streaming: bool) -> None:
    def build(p: beam.Pipeline) -> None:
        pairs = p | beam.Create([("a", 1)])
        pairs | "Group" >> beam.GroupByKey() | beam.Map(print)
        pairs | "Sum" >> beam.CombinePerKey(sum)

    _, plan = translated(build, streaming=streaming)
    groupings: dict[str, Grouping | None] = {s.labels[0]: s.grouping for s in plan.stages}
    assert {label: how.combines for label, how in groupings.items() if how is not None} == {
        "Map(print)": False,
        "Sum": True,
    }


@pytest.mark.parametrize(
    ("combine_fn", "asked", "found", "reason"),
    [
        (sum, None, SessionAggregator.COLUMNAR, "sum has a vectorized form"),
        (CountCombineFn(), None, SessionAggregator.COLUMNAR, "count has a vectorized form"),
        (
            TupleCombineFn(MeanCombineFn(), max),
            None,
            SessionAggregator.COLUMNAR,
            "(mean, max) has a vectorized form",
        ),
        (
            ToListCombineFn(),
            None,
            SessionAggregator.ORDERED,
            "ToListCombineFn has no vectorized form",
        ),
        (sum, SessionAggregator.ORDERED, SessionAggregator.ORDERED, "--session_aggregator says so"),
    ],
)
def test_the_combine_fn_decides_how_sessions_are_combined(
    combine_fn: Any, asked: SessionAggregator | None, found: SessionAggregator, reason: str
) -> None:
    how = grouping.decide(
        Windowing(Sessions(5)),
        combines=lambda: CombineFn.maybe_from_callable(combine_fn),
        streaming=False,
        sessions=asked,
    )
    has_form = form_of(CombineFn.maybe_from_callable(combine_fn)) is not None
    rows = AggregateRows(sessions=True, packed=has_form)
    assert how == Grouping(SESSIONS, rows, "Sessions fire once", True, found, reason)


@pytest.mark.parametrize(
    ("window_fn", "more", "combine_fn", "expected"),
    [
        (GlobalWindows(), {}, CountCombineFn(), AggregateRows()),
        (FixedWindows(5), {}, MeanCombineFn(), AggregateRows()),
        (SlidingWindows(10, 5), LATEST, CountCombineFn(), AggregateRows()),
        (FixedWindows(5), {}, ToListCombineFn(), GroupRows()),
        (GlobalWindows(), COUNTING, CountCombineFn(), KeyedRows()),
    ],
)
def test_combines_with_a_vectorized_form_are_merged_at_once(
    window_fn: WindowFn, more: Any, combine_fn: CombineFn, expected: RowFormat
) -> None:
    windowing = Windowing(window_fn, **more)
    how = grouping.decide(windowing, combines=lambda: combine_fn, streaming=False)
    assert how.format == expected
    assert how.combines
    assert how.merges_columns == (expected == AggregateRows())
    how = grouping.decide(windowing, combines=lambda: combine_fn, streaming=True)
    assert not how.merges_columns


@pytest.mark.parametrize("combines", [None, CountCombineFn])
def test_sessions_may_be_left_to_beam_before_and_after_the_shuffle(combines: Any) -> None:
    how = grouping.decide(
        Windowing(Sessions(5)),
        combines=combines,
        streaming=False,
        sessions=SessionAggregator.CANONICAL,
    )
    assert how.strategy is MERGING
    assert how.aggregator is (SessionAggregator.CANONICAL if combines else None)


@pytest.mark.parametrize(
    ("windowing", "streaming"),
    [
        (Windowing(FixedWindows(5)), False),
        (Windowing(Visits(5)), False),
        (Windowing(Sessions(5), **COUNTING), False),
        (Windowing(Sessions(5)), True),
    ],
)
def test_elsewhere_no_sessions_are_combined(windowing: Windowing, streaming: bool) -> None:
    how = grouping.decide(
        windowing,
        combines=CountCombineFn,
        streaming=streaming,
        sessions=SessionAggregator.CANONICAL,
    )
    assert how.aggregator is None


def test_what_is_written_is_what_the_strategy_reads() -> None:
    def build(p: beam.Pipeline) -> None:
        (
            p
            | beam.Create([("a", 1)])
            | beam.WindowInto(Sessions(5))
            | beam.GroupByKey()
            | beam.Map(print)
        )

    _, plan = translated(build)
    writer, reader = plan.stages
    assert reader.grouping is not None
    assert [port.format for port in writer.ports] == [reader.grouping.format] == [reader.format]


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
