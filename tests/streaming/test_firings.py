"""Side inputs that fire more than once: what a view has of a window is its newest firing."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterProcessingTime,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Timestamp
from in_process import (
    Crashes,
    LeapingClock,
    Measured,
    Spark,
    rounds,
    streaming_pipeline,
)
from lines import Lines

from sparkbeam.wire.reports import DROPPED_DUE_TO_LATENESS
from sparkbeam.worker.streaming import stored_views

pytestmark = pytest.mark.usefixtures("by_value")


ACCUMULATING, DISCARDING = AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING
MODES = pytest.mark.parametrize("mode", [ACCUMULATING, DISCARDING], ids=["accumulating", "not"])
EACH = Repeatedly(AfterCount(1))
LATE = AfterWatermark(early=AfterCount(1), late=AfterCount(1))

Step = tuple[str, Any, float]
"""An element ``(tag, value, timestamp)``, or ``("to", tag, watermark)``."""


def side(*found: Any, at: float = 1) -> Step:
    """Elements of the side input that arrive together."""
    return ("side", found, at)


def main(name: str, at: float = 1) -> Step:
    return ("main", (name,), at)


def to(tag: str, watermark: float) -> Step:
    return ("to", tag, watermark)


def stream(steps: Iterable[Step]) -> TestStream:
    events = TestStream()
    for kind, what, time in steps:
        if kind == "to":
            events = events.advance_watermark_to(time, tag=what)
        elif kind == "clock":
            events = events.advance_processing_time(time)
        else:
            events = events.add_elements([TimestampedValue(v, time) for v in what], tag=kind)
    return events.advance_watermark_to_infinity(tag="side").advance_watermark_to_infinity(
        tag="main"
    )


def windows(
    trigger: TriggerFn, mode: Any, window: Any = None, lateness: int = 0
) -> beam.WindowInto:
    return beam.WindowInto(
        window or GlobalWindows(),
        trigger=trigger,
        accumulation_mode=mode,
        allowed_lateness=lateness,
    )


def shown(content: Any) -> Any:
    """A view as plain data; the order of its elements is of no account."""
    if isinstance(content, dict | int | str | tuple):
        return content
    if hasattr(content, "__iter__"):
        return sorted(content)
    return {key: sorted(content[key]) for key in ("a", "b")}


def pipeline(spark: Spark | None = None, folder: Path | None = None) -> beam.Pipeline:
    flags = "--allow_unsafe_triggers", "--shards=2"
    return streaming_pipeline(spark or Spark(attempts=2), folder, *flags)


def apply(
    p: beam.Pipeline,
    steps: Iterable[Step],
    made: Callable[[Any], Any],
    view: Callable[[Any], Any],
    main_window: Any = None,
) -> Any:
    """Each element of the main input with what it sees of the side input."""
    found = p | stream(steps)
    asked = made(found["side"])
    return (
        found["main"]
        | "main windows" >> beam.WindowInto(main_window or GlobalWindows())
        | "ask" >> beam.Map(lambda name, content: (name, shown(content)), view(asked))
    )


def check(
    steps: Iterable[Step],
    made: Callable[[Any], Any],
    view: Callable[[Any], Any],
    expected: list[Any],
    main_window: Any = None,
) -> Any:
    with pipeline() as p:
        assert_that(apply(p, steps, made, view, main_window), equal_to(expected))
    return p.result


def combined(window: beam.WindowInto, fn: Any = sum) -> Callable[[Any], Any]:
    return lambda found: found | window | beam.CombineGlobally(fn).without_defaults()


def per_key(window: beam.WindowInto, fn: Any = sum) -> Callable[[Any], Any]:
    return lambda found: found | window | beam.CombinePerKey(fn)


THREE = [side(1), main("x"), side(2), main("y"), side(3), main("z")]


@MODES
@pytest.mark.parametrize("view", [AsSingleton, AsList, AsIter])
def test_a_combine_is_seen_as_it_fired_last(view: Any, mode: Any) -> None:
    totals = [1, 3, 6] if mode == ACCUMULATING else [1, 2, 3]
    seen = [total if view is AsSingleton else [total] for total in totals]
    expected = list(zip("xyz", seen, strict=True))
    check(THREE, combined(windows(EACH, mode)), view, expected)


@MODES
@pytest.mark.parametrize("view", [AsSingleton, AsList, AsIter])
def test_elements_are_a_firing_as_their_trigger_says(view: Any, mode: Any) -> None:
    """No grouping is between their windows and the view."""
    lists = [[1], [1, 2], [1, 2, 3]] if mode == ACCUMULATING else [[1], [2], [3]]
    expected: list[Any] = [("x", 1), ("y", 2), ("z", 3)]
    if view is not AsSingleton:
        expected = list(zip("xyz", lists, strict=True))
    check(THREE, lambda found: found | windows(EACH, mode), view, expected)


@MODES
@pytest.mark.parametrize("view", [AsDict, AsMultiMap])
def test_pairs_are_replaced_with_their_firing(view: Any, mode: Any) -> None:
    steps = [side(("a", 1), ("b", 2)), main("x"), side(("a", 3)), main("y")]
    later: Any = {"a": 3, "b": 2} if mode == ACCUMULATING else {"a": 3}
    first: Any = {"a": 1, "b": 2}
    if view is AsMultiMap:
        first = {"a": [1], "b": [2]}
        later = {"a": [1, 3], "b": [2]} if mode == ACCUMULATING else {"a": [3], "b": []}
    check(steps, lambda found: found | windows(EACH, mode), view, [("x", first), ("y", later)])


@MODES
@pytest.mark.parametrize("view", [AsDict, AsMultiMap, AsList])
def test_each_key_of_a_grouping_is_seen_as_it_fired_last(view: Any, mode: Any) -> None:
    steps = [
        *(side(("a", 1)), side(("b", 2)), main("x")),
        *(side(("a", 3)), main("y"), side(("b", 4), ("a", 5)), main("z")),
    ]
    found = [{"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 5, "b": 4}]
    if mode == ACCUMULATING:
        found = [{"a": 1, "b": 2}, {"a": 4, "b": 2}, {"a": 9, "b": 6}]
    seen: list[Any] = list(found)
    if view is AsMultiMap:
        seen = [{key: [value] for key, value in one.items()} for one in found]
    elif view is AsList:
        seen = [sorted(one.items()) for one in found]
    expected = list(zip("xyz", seen, strict=True))
    check(steps, per_key(windows(EACH, mode)), view, expected)


@MODES
def test_the_values_of_a_group_are_those_of_its_last_firing(mode: Any) -> None:
    steps = [side(("a", 1)), side(("a", 2)), side(("b", 9)), main("x"), side(("a", 3)), main("y")]
    seen = [[1, 2, 9], [1, 2, 3, 9]] if mode == ACCUMULATING else [[2, 9], [3, 9]]

    def made(found: Any) -> Any:
        groups = found | windows(EACH, mode) | beam.GroupByKey()
        return groups | beam.FlatMap(lambda group: group[1])

    check(steps, made, AsList, list(zip("xy", seen, strict=True)))


def test_a_singleton_of_several_keys_is_that_of_the_newest_firing() -> None:
    steps = [side(("a", 1)), main("x"), side(("b", 2)), main("y"), side(("a", 3)), main("z")]
    made = per_key(windows(EACH, DISCARDING))

    def values(found: Any) -> Any:
        return made(found) | beam.Values()

    check(steps, values, AsSingleton, [("x", 1), ("y", 2), ("z", 3)])


PANES = [
    *(side(1, at=2), main("early", 3), side(2, at=4), main("earlier", 3)),
    *(to("side", 12), main("on time", 3), side(3, at=5), main("late", 3)),
    *(to("side", 200), side(4, at=6), main("too late", 3)),
]


@MODES
@pytest.mark.parametrize("grouped", [True, False], ids=["combine", "elements"])
def test_early_on_time_and_late_panes_show_all_of_a_window_once(grouped: bool, mode: Any) -> None:
    """In discarding mode the panes of a window that ends are its parts; empty ones are none."""
    window = windows(LATE, mode, FixedWindows(10), lateness=100)
    collected = combined(window, beam.combiners.ToListCombineFn())

    def made(found: Any) -> Any:
        return collected(found) | beam.FlatMap(list) if grouped else found | window

    early = [1] if mode == ACCUMULATING else [1, 2]  # Who needs all parts waits for the end.
    seen = [early, [1, 2], [1, 2], [1, 2, 3], [1, 2, 3]]
    names = ["early", "earlier", "on time", "late", "too late"]
    check(PANES, made, AsList, list(zip(names, seen, strict=True)), FixedWindows(10))


@MODES
@pytest.mark.parametrize("grouped", [True, False], ids=["combine", "elements"])
def test_late_elements_are_added_without_a_trigger_too(grouped: bool, mode: Any) -> None:
    window = windows(DefaultTrigger(), mode, FixedWindows(10), lateness=100)
    collected = combined(window, beam.combiners.ToListCombineFn())

    def made(found: Any) -> Any:
        return collected(found) | beam.FlatMap(list) if grouped else found | window

    steps = [
        *(main("waits", 3), side(1, at=2), side(2, at=4), main("waits too", 3), to("side", 12)),
        *(main("on time", 3), side(3, at=5), main("late", 3)),
        *(side(4, 5, at=5), main("later", 3), to("side", 200), side(6, at=6), main("after", 3)),
    ]
    too_late = [] if grouped else [6]  # Only a grouping drops it.
    late = [[1, 2, 3], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, *too_late]]
    seen = [[1, 2], [1, 2], [1, 2], *late]
    names = ["waits", "waits too", "on time", "late", "later", "after"]
    result = check(steps, made, AsList, list(zip(names, seen, strict=True)), FixedWindows(10))
    assert late_elements(result) == int(grouped)


def late_elements(result: Any) -> int:
    found = result.metrics().query(MetricsFilter().with_name(DROPPED_DUE_TO_LATENESS))
    return sum(counter.committed for counter in found["counters"])


@MODES
@pytest.mark.parametrize("view", [AsDict, AsMultiMap])
def test_late_pairs_are_added_without_a_trigger_too(view: Any, mode: Any) -> None:
    window = windows(DefaultTrigger(), mode, FixedWindows(10), lateness=100)
    steps = [
        *(side(("a", 1)), side(("b", 2)), to("side", 12), main("on time", 3)),
        *(side(("a", 3)), main("late", 3)),
    ]
    first: Any = {"a": 1, "b": 2}
    late: Any = {"a": 3, "b": 2}
    if view is AsMultiMap:
        first = {"a": [1], "b": [2]}
        late = {"a": [1, 3], "b": [2]}
    expected = [("on time", first), ("late", late)]
    check(steps, lambda found: found | window, view, expected, FixedWindows(10))


@MODES
@pytest.mark.parametrize("grouped", [True, False], ids=["combine", "elements"])
def test_a_sliding_window_has_firings_of_its_own(grouped: bool, mode: Any) -> None:
    window = windows(LATE, mode, SlidingWindows(10, 5))
    collected = combined(window, beam.combiners.ToListCombineFn())

    def made(found: Any) -> Any:
        return collected(found) | beam.FlatMap(list) if grouped else found | window

    steps = [side(1, at=7), main("x", 2), side(2, at=12), main("y", 7), main("z", 12)]
    both = [1, 2]
    expected = [("x", []), ("x", [1]), ("y", [1]), ("y", both), ("z", both), ("z", [2])]
    check(steps, made, AsList, expected, SlidingWindows(10, 5))


def test_windows_of_sessions_ask_for_that_of_their_end() -> None:
    steps = [
        *(side(1, at=7), side(2, at=12), main("x", 6), main("y", 9)),
        *(side(3, at=7), main("z", 6)),
    ]
    window = windows(LATE, DISCARDING, FixedWindows(10))
    expected = [("x", [1, 3]), ("y", [2]), ("z", [1, 3])]
    check(steps, lambda found: found | window, AsList, expected, Sessions(3))


def test_an_element_in_the_global_window_sees_that_of_a_window_at_the_end_of_time() -> None:
    steps = [side(1, at=7), main("x", 6)]
    window = windows(LATE, DISCARDING, FixedWindows(10))
    check(steps, lambda found: found | window, AsList, [("x", [])])


def test_an_element_in_any_window_sees_the_newest_firing_of_the_global_one() -> None:
    steps = [main("waits", 90), side(1, at=50), main("x", 3), side(2, at=1), main("y", 70)]
    expected = [("waits", 1), ("x", 1), ("y", 2)]
    made = combined(windows(EACH, DISCARDING))
    check(steps, made, AsSingleton, expected, FixedWindows(10))


@MODES
def test_the_clock_fires_what_has_arrived_until_then(mode: Any) -> None:
    window = windows(Repeatedly(AfterProcessingTime(10)), mode)
    clock: Step = ("clock", None, 11)
    steps = [
        *(side(1), main("waits"), side(2), clock, main("x"), side(3), main("y")),
        *(side(4), clock, main("z")),
    ]
    later = [1, 2, 3, 4] if mode == ACCUMULATING else [3, 4]
    expected = [("waits", [1, 2]), ("x", [1, 2]), ("y", [1, 2]), ("z", later)]
    check(steps, lambda found: found | window, AsList, expected)


def test_a_singleton_is_the_newest_of_those_that_fire_together() -> None:
    clock: Step = ("clock", None, 11)
    window = windows(Repeatedly(AfterProcessingTime(10)), DISCARDING)
    steps = [side("old", at=1), side("new", at=2), clock, main("x")]
    check(steps, lambda found: found | window, AsSingleton, [("x", "new")])


@pytest.mark.parametrize("trigger", [EACH, Repeatedly(AfterProcessingTime())], ids=["each", "time"])
def test_timestamps_that_arrive_together_fire_one_by_one(trigger: TriggerFn) -> None:
    """As impulses that have gathered while a query stood still."""
    tables = [TimestampedValue(f"{table}{row}", table) for table in (1, 2) for row in "ab"]

    def made(found: Any) -> Any:
        return found | beam.FlatMap(lambda _: tables) | windows(trigger, DISCARDING)

    check([side(0), main("x")], made, AsList, [("x", ["2a", "2b"])])


def test_two_elements_of_a_firing_are_no_singleton() -> None:
    with pytest.raises(Exception, match="with more than one element accessed as a singleton"):
        check([side(1, 2), main("x")], lambda s: s | windows(EACH, DISCARDING), AsSingleton, [])


def test_a_default_is_seen_where_nothing_has_fired() -> None:
    window = windows(EACH, DISCARDING, FixedWindows(10))

    def view(found: Any) -> Any:
        return AsSingleton(found, default_value=0)

    steps = [main("x", 3), side(7, at=12), main("y", 14), to("side", 20)]
    check(steps, lambda s: s | window, view, [("x", 0), ("y", 7)], FixedWindows(10))


@pytest.mark.parametrize("steps", [[side(1), side(2), main("x")], [main("x")]], ids=["two", "none"])
def test_a_combine_with_a_default_fires_again_and_again(steps: list[Step]) -> None:
    """Beam's own expansion puts out the first firing alone."""

    def made(found: Any) -> Any:
        return found | windows(EACH, ACCUMULATING) | beam.CombineGlobally(sum)

    check(steps, made, AsSingleton, [("x", sum(what[0] for tag, what, _ in steps[:-1]))])


def test_the_view_of_a_combine_fires_again_and_again() -> None:
    with pipeline() as p:
        found = p | stream(THREE)
        total = found["side"] | windows(EACH, ACCUMULATING) | combined_view()
        seen = found["main"] | beam.Map(lambda name, total: (name, total), total)
        assert_that(seen, equal_to([("x", 1), ("y", 3), ("z", 6)]))


def combined_view() -> beam.PTransform:
    return beam.CombineGlobally(sum).as_singleton_view()


BETWEEN: dict[str, Callable[[Any], Any]] = {
    "a reshuffle": lambda found: found | beam.Reshuffle(),
    "a step with a side input": lambda found: (
        found
        | beam.Map(
            lambda pair, more: (pair[0], pair[1] + more),
            AsSingleton(found.pipeline | "none" >> beam.Create([0])),
        )
    ),
    "another view": lambda found: (
        found
        | beam.Map(
            lambda pair, all: (pair[0], all[pair[0]]), AsDict(found | "own" >> beam.Map(tuple))
        )
    ),
    "timestamps": lambda found: found | beam.Map(lambda pair: TimestampedValue(pair, Timestamp(5))),
    "a flatten": lambda found: (found, found | beam.Filter(lambda pair: False)) | beam.Flatten(),
}


@pytest.mark.part(3)
@MODES
@pytest.mark.parametrize("between", BETWEEN)
def test_firings_are_told_apart_behind_other_steps(between: str, mode: Any) -> None:
    steps = [
        *(side(("a", 1)), side(("b", 2)), main("x"), side(("a", 3)), main("y")),
        *(side(("a", 5)), side(("b", 6)), main("z")),
    ]
    made = per_key(windows(EACH, mode))
    found = [{"a": 1, "b": 2}, {"a": 3, "b": 2}, {"a": 5, "b": 6}]
    if mode == ACCUMULATING:
        found = [{"a": 1, "b": 2}, {"a": 4, "b": 2}, {"a": 9, "b": 8}]
    expected = [(name, sorted(one.items())) for name, one in zip("xyz", found, strict=True)]
    check(steps, lambda s: BETWEEN[between](made(s)), AsList, expected)


def test_a_first_value_and_its_changes_are_one_singleton() -> None:
    def made(found: Any) -> Any:
        changes = combined(windows(EACH, DISCARDING))(found)
        first = found.pipeline | "first" >> beam.Create([0])
        return (changes, first) | beam.Flatten()

    check([main("x"), *THREE[2:]], made, AsSingleton, [("x", 0), ("y", 2), ("z", 3)])


class AtEnd(beam.DoFn):
    """Puts elements out at the end of their bundle."""

    def start_bundle(self) -> None:
        self._kept: list[Any] = []

    def process(self, element: Any) -> None:
        self._kept.append(element)

    def finish_bundle(self) -> Iterator[Any]:
        window = GlobalWindows.windowed_value
        yield from (window(element, Timestamp(0)) for element in self._kept)


def test_what_a_bundle_puts_out_at_its_end_is_a_firing() -> None:
    made = combined(windows(EACH, ACCUMULATING))
    expected = list(zip("xyz", [[1], [3], [6]], strict=True))
    check(THREE, lambda found: made(found) | beam.ParDo(AtEnd()), AsList, expected)


@pytest.mark.parametrize("combined_first", [True, False], ids=["latest", "each"])
def test_a_file_that_a_firing_names_is_read_line_by_line(
    combined_first: bool, tmp_path: Path
) -> None:
    for number, text in enumerate(("a,1\nb,2\n", "a,3\n", "b,4\n"), start=1):
        (tmp_path / str(number)).write_text(text)
    latest = beam.combiners.Latest.Globally().without_defaults()

    def made(found: Any) -> Any:
        paths = found | windows(EACH, DISCARDING) | beam.Map(lambda n: f"{tmp_path}/{n}")
        read = (paths | latest if combined_first else paths) | beam.io.ReadAllFromText()
        return read | "pairs" >> beam.Map(lambda line: tuple(line.split(",")))

    tables = [{"a": "1", "b": "2"}, {"a": "3"}, {"b": "4"}]
    check(THREE, made, AsDict, list(zip("xyz", tables, strict=True)))


class Total(beam.DoFn):
    """Adds up what a side input shows to the elements of a key."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self, element: tuple[str, str], shown: int, seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[tuple[str, int]]:
        seen.add(shown)
        yield element[1], seen.read()


def test_a_step_with_state_sees_the_newest_firing() -> None:
    with pipeline() as p:
        found = p | stream(THREE)
        asked = AsSingleton(found["side"] | windows(EACH, DISCARDING))
        seen = found["main"] | beam.WithKeys("k") | beam.ParDo(Total(), asked)
        assert_that(seen, equal_to([("x", 1), ("y", 3), ("z", 6)]))


def test_panes_that_have_waited_for_a_side_input_are_firings() -> None:
    def made(found: Any) -> Any:
        more = found | beam.Filter(lambda pair: pair[0] == "more") | beam.Values()
        pairs = found | beam.Filter(lambda pair: pair[0] != "more")
        return per_key(windows(EACH, ACCUMULATING))(pairs) | beam.Map(
            lambda pair, more: (pair[0], pair[1] + more),
            AsSingleton(more | "more" >> windows(EACH, DISCARDING)),
        )

    steps = [
        *(side(("a", 1)), side(("b", 2)), side(("a", 3)), side(("more", 10)), main("x")),
        *(side(("a", 5)), main("y")),
    ]
    expected = [("x", {"a": 14, "b": 12}), ("y", {"a": 19, "b": 12})]
    check(steps, made, AsDict, expected)


LOOKUPS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "singleton": (combined(windows(EACH, DISCARDING)), AsSingleton),
    "clock": (
        lambda found: found | windows(Repeatedly(AfterProcessingTime(3)), DISCARDING),
        AsIter,
    ),
    "pairs": (
        lambda found: found | beam.Map(lambda n: ("ab"[n % 2], n)) | windows(EACH, DISCARDING),
        AsMultiMap,
    ),
    "reshuffled": (
        lambda found: (
            per_key(windows(EACH, ACCUMULATING))(found | beam.Map(lambda n: (n % 3, n)))
            | beam.Reshuffle()
        ),
        AsList,
    ),
    "late": (
        lambda found: found | windows(LATE, DISCARDING, FixedWindows(4), lateness=2),
        AsList,
    ),
    "default": (
        lambda found: found | windows(DefaultTrigger(), DISCARDING, FixedWindows(4), lateness=2),
        AsList,
    ),
}


def changing() -> list[Step]:
    steps: list[Step] = []
    for second in range(5):
        steps += [side(*range(second, second + 3), at=max(0, second - second % 3))]
        steps += [main(f"m{second}", second), ("clock", None, 1), to("side", second)]
    return steps


@pytest.mark.part(2)
@rounds(9)
@pytest.mark.parametrize("lookup", LOOKUPS)
def test_crashes_and_the_order_of_blocks_change_nothing(lookup: str, tmp_path: Path) -> None:
    made, view = LOOKUPS[lookup]
    if view is AsSingleton:
        steps = [(k, w[:1] if k == "side" else w, t) for k, w, t in changing()]
    else:
        steps = changing()

    def running(spark: Spark, folder: Path) -> Callable[[], list[str]]:
        def run() -> list[str]:
            p.run().wait_until_finish()
            return sorted(set(lines.read()))

        folder.mkdir()
        lines = Lines(folder / "seen")
        p = pipeline(spark, folder)
        window = FixedWindows(4) if lookup in ("late", "default") else None
        _ = apply(p, steps, made, view, window) | beam.Map(lines.note)
        return run

    whole = running(Spark(attempts=3), tmp_path / "whole")()
    spark = Spark(crashes := Crashes())
    assert crashes.until_it_ends(running(spark, tmp_path / "crashed")) == whole
    assert len(crashes.points) > 10


def sizes(
    steps: list[Step], made: Any, view: Any, folder: Path, main_window: Any = None
) -> list[int]:
    """How many bytes the state has after each micro-batch."""
    spark = Measured(lambda checkpoint: checkpoint.size)
    with pipeline(spark, folder) as p:
        _ = apply(p, steps, made, view, main_window) | beam.Map(lambda seen: None)
    return spark.found


TABLE = "x" * 500

GROWING: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "singleton": (lambda found: found | windows(EACH, ACCUMULATING), AsSingleton),
    "list": (lambda found: found | windows(EACH, DISCARDING), AsList),
    "keys": (
        lambda found: found | beam.Map(lambda n: (int(n[:4]) % 5, n)) | per_key_latest(),
        AsMultiMap,
    ),
    "newest": (
        lambda found: found | beam.Map(lambda n: (int(n[:4]) % 5, n)) | per_key_latest(),
        AsSingleton,
    ),
}


def per_key_latest() -> beam.PTransform:
    return windows(EACH, DISCARDING) | beam.combiners.Latest.PerKey()


@rounds(25)
@pytest.mark.parametrize("lookup", GROWING)
def test_what_is_replaced_leaves_the_state(lookup: str, tmp_path: Path) -> None:
    firings = 300
    steps = [side(f"{n:04}{TABLE}", at=n) for n in range(firings)]
    found = sizes([*steps, main("x", 1)], *GROWING[lookup], tmp_path)
    assert len(found) > 10
    assert max(found[5:-1]) < 1.5 * found[4] < firings * len(TABLE) / 5


@rounds(40)
@pytest.mark.parametrize("trigger", [DefaultTrigger(), LATE], ids=["default", "late"])
@pytest.mark.parametrize("view", [AsSingleton, AsMultiMap], ids=["singleton", "multimap"])
def test_windows_that_have_expired_leave_the_state(
    trigger: TriggerFn, view: Any, tmp_path: Path
) -> None:
    steps: list[Step] = []
    for n in range(80):
        steps += [side(("k", f"{n:04}{TABLE}"), at=10 * n), to("side", 10 * n + 10)]
        steps += [main(f"m{n}", 10 * n), to("main", 10 * n + 10)]
    window = windows(trigger, DISCARDING, FixedWindows(10))
    found = sizes(steps, lambda s: s | window, view, tmp_path, FixedWindows(10))
    assert max(found) < 8 * stored_views.EXPIRED_WINDOWS * len(TABLE)


def test_an_element_later_than_the_last_expired_windows_is_dropped_and_counted() -> None:
    count = stored_views.EXPIRED_WINDOWS + 2
    steps: list[Step] = [
        step
        for n in range(count)
        for step in (side(n, at=10 * n), to("side", 10 * n + 10), main("x", 10 * n))
    ]
    steps += [to("main", 10 * count), *(main("late", 10 * n) for n in range(count))]
    expected: list[Any] = [("x", n) for n in range(count)]
    expected += [("late", n) for n in range(2, count)]
    made = lambda found: found | beam.WindowInto(FixedWindows(10))  # noqa: E731
    result = check(steps, made, AsSingleton, expected, FixedWindows(10))
    assert late_elements(result) == 2


def test_a_bounded_main_input_keeps_the_windows_that_it_waits_for() -> None:
    count = 3 * stored_views.EXPIRED_WINDOWS
    steps = [s for n in range(count) for s in (side(n, at=10 * n), to("side", 10 * n + 10))]
    with pipeline() as p:
        found = p | stream(steps)
        table = found["side"] | "side windows" >> beam.WindowInto(FixedWindows(10))
        seen = (
            p
            | beam.Create([TimestampedValue(n, 10 * n) for n in range(count)])
            | beam.WindowInto(FixedWindows(10))
            | beam.Map(lambda n, seen: (n, seen), AsSingleton(table))
        )
        assert_that(seen, equal_to([(n, n) for n in range(count)]))


def read_table(at: Any) -> dict[str, int]:
    return {"read": int(Timestamp.of(at).micros // 1_000_000)}


PATTERNS: dict[str, Callable[[Any], Any]] = {
    "one by one": lambda impulses: impulses | beam.Map(read_table) | windows(EACH, DISCARDING),
    "clock": lambda impulses: (
        impulses | beam.Map(read_table) | windows(Repeatedly(AfterProcessingTime(0)), DISCARDING)
    ),
    "latest": lambda impulses: (
        impulses
        | beam.Map(read_table)
        | windows(Repeatedly(AfterProcessingTime(1)), DISCARDING)
        | beam.combiners.Latest.Globally()
    ),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_table_that_is_read_periodically(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    LeapingClock(monkeypatch)
    start = Timestamp.now()
    first = int(start.micros // 1_000_000)

    def ask(at: Any, table: dict[str, int]) -> tuple[int, int]:
        return int(Timestamp.of(at).micros // 1_000_000) - first, table["read"] - first

    def look(found: list[tuple[int, int]]) -> None:
        seen = [read for _, read in sorted(found)]
        assert len(seen) == 12
        assert seen == sorted(seen)
        assert len(set(seen)) > 2, seen

    spark = Spark(repeatable=False)
    with streaming_pipeline(spark, None, "--allow_unsafe_triggers") as p:
        impulses = p | "table" >> PeriodicImpulse(start, start + 10, fire_interval=2)
        table = PATTERNS[pattern](impulses)
        asked = (
            p
            | "main" >> PeriodicImpulse(start, start + 12, fire_interval=1)
            | beam.Map(ask, table=AsSingleton(table))
        )
        assert_that(asked, look)


def test_a_table_of_each_window_that_is_read_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam's snippet of slowly updating side inputs using windowing."""
    LeapingClock(monkeypatch)
    start = Timestamp(Timestamp.now().micros // 10_000_000 * 10)

    def ask(at: Any, table: Any) -> tuple[int, list[int]]:
        offset = int((Timestamp.of(at).micros - start.micros) // 1_000_000)
        return offset, [int((read - start.micros) // 1_000_000) for read in table]

    with streaming_pipeline(Spark(repeatable=False)) as p:
        table = (
            p
            | "table" >> PeriodicImpulse(start, start + 8, 2, apply_windowing=True)
            | "read" >> beam.Map(lambda at: Timestamp.of(at).micros)
        )
        asked = (
            p
            | "main" >> PeriodicImpulse(start, start + 8, 1)
            | beam.WindowInto(FixedWindows(2))
            | beam.Map(ask, table=AsIter(table))
        )
        assert_that(asked, equal_to([(n, [n // 2 * 2]) for n in range(8)]))
