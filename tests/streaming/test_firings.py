"""Side inputs that fire more than once: what a view has of a window is its newest firing.

Lookups and events are generated; :mod:`firing_model` says what is seen of them.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.metrics import MetricsFilter
from apache_beam.pvalue import AsDict, AsIter, AsList, AsMultiMap, AsSingleton
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
    TriggerFn,
)
from apache_beam.transforms.userstate import CombiningValueStateSpec
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Timestamp
from firing_model import Event, Lookup, Main, MainWatermark, Pair, Seen, expected, key_of, plain
from in_process import Crashes, Measured, Spark, rounds, streaming_pipeline
from random_panes import TRIGGERS
from trigger_model import FOREVER, GLOBAL_END, Clock, Elements, Watermark
from whole import is_whole

from sparkbeam.wire.reports import DROPPED_DUE_TO_LATENESS
from sparkbeam.worker.streaming import stored_views

ACCUMULATING, DISCARDING = AccumulationMode.ACCUMULATING, AccumulationMode.DISCARDING
EACH = Repeatedly(AfterCount(1))
LATE = AfterWatermark(early=AfterCount(1), late=AfterCount(1))

TIMES = 10 if is_whole() else 1

found: list[tuple[int, Seen]] = []
"""Content that readers of the pipeline in this process have seen, by the number of each."""

VIEWS: dict[str, Callable[[Any], Any]] = {
    "singleton": lambda of: AsSingleton(of, default_value=None),
    "list": AsList,
    "iter": AsIter,
    "dict": AsDict,
    "multimap": AsMultiMap,
}


def stream(events: Iterable[Event]) -> TestStream:
    test_stream = TestStream()
    for event in events:
        match event:
            case Elements(pairs):
                some = [TimestampedValue(value, stamp) for value, stamp in pairs]
                test_stream = test_stream.add_elements(some, tag="side")
            case Main(name, stamp):
                one = TimestampedValue(name, stamp)
                test_stream = test_stream.add_elements([one], tag="main")
            case Watermark(to):
                test_stream = test_stream.advance_watermark_to(to, tag="side")
            case MainWatermark(to):
                test_stream = test_stream.advance_watermark_to(to, tag="main")
            case Clock(by):
                test_stream = test_stream.advance_processing_time(by)
    test_stream = test_stream.advance_watermark_to_infinity(tag="side")
    return test_stream.advance_watermark_to_infinity(tag="main")


def windows(
    trigger: TriggerFn, mode: Any, window: Any = None, lateness: Any = 0
) -> beam.WindowInto:
    return beam.WindowInto(
        window or GlobalWindows(),
        trigger=trigger,
        accumulation_mode=mode,
        allowed_lateness=lateness,
    )


class Look(beam.DoFn):
    """Notes what is seen of a view, as plain data."""

    def __init__(self, number: int, view: str) -> None:
        self._number, self._view = number, view

    def process(self, name: str, shown: Any, window: Any = beam.DoFn.WindowParam) -> None:
        span = int(window.start), int(window.end)
        if isinstance(window, GlobalWindow):
            span = -FOREVER, GLOBAL_END
        found.append((self._number, (name, span, plain(self._view, shown))))


def in_one(numbers: list[int]) -> Pair:
    return "all", tuple(sorted(numbers))


def as_pair(number: int) -> Pair:
    return key_of(number), number


BETWEEN: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda pairs: pairs,
    "a reshuffle": lambda pairs: pairs | beam.Reshuffle(),
    "a step with a side input": lambda pairs: (
        pairs
        | beam.Map(lambda pair, _: pair, AsSingleton(pairs.pipeline | "more" >> beam.Create([0])))
    ),
    "timestamps": lambda pairs: pairs | beam.Map(lambda pair: TimestampedValue(pair, 5)),
    "a flatten": lambda pairs: (pairs, pairs | beam.Filter(lambda pair: False)) | beam.Flatten(),
}


@beam.ptransform_fn
def Made(numbers: Any, lookup: Lookup) -> Any:
    """The PCollection that a lookup views."""
    into = windows(
        lookup.windowing.triggerfn,
        lookup.windowing.accumulation_mode,
        lookup.windowing.windowfn,
        lookup.windowing.allowed_lateness,
    )
    match lookup.made:
        case "elements":
            return numbers | beam.Map(as_pair) | into
        case "key":
            lists = numbers | beam.Map(as_pair) | into | beam.CombinePerKey(ToListCombineFn())
            made = lists | beam.MapTuple(lambda key, numbers: (key, tuple(sorted(numbers))))
        case _:
            lists = numbers | into | beam.CombineGlobally(ToListCombineFn()).without_defaults()
            if lookup.made == "lists":
                made = lists | beam.Map(in_one)
            else:
                made = lists | beam.FlatMap(lambda numbers: map(as_pair, sorted(numbers)))
    return BETWEEN[lookup.between](made)


def ask(p: beam.Pipeline, lookups: list[Lookup], events: list[Event]) -> None:
    source = p | stream(events)
    for number, lookup in enumerate(lookups):
        made = source["side"] | f"side {number}" >> Made(lookup)
        _ = (
            source["main"]
            | f"main {number}" >> beam.WindowInto(lookup.main)
            | f"look {number}" >> beam.ParDo(Look(number, lookup.view), VIEWS[lookup.view](made))
        )


def check(lookups: list[Lookup], events: list[Event], *, most: int, crashes: Crashes) -> None:
    """Compares what is seen with the model.

    Args:
        lookups: the side inputs and their readers.
        events: what happens.
        most: how many events make a micro-batch.
        crashes: where the query crashes.
    """
    found.clear()
    spark = Spark(crashes)

    def run() -> Any:
        with streaming_pipeline(spark, folder, "--allow_unsafe_triggers", "--shards=2") as p:
            ask(p, lookups, events)
        return p.result

    with TemporaryDirectory() as folder, rounds(most):
        result = crashes.until_it_ends(run)
    models = [expected(lookup, events) for lookup in lookups]
    for number, (lookup, wanted) in enumerate(zip(lookups, models, strict=True)):
        seen = Counter(repr(one) for at, one in found if at == number)
        if crashes.points:  # What ran in a micro-batch that was not committed has run again.
            seen = Counter({*seen})
        assert seen == Counter(map(repr, wanted.seen)), lookup
    assert late_elements(result) == sum(wanted.late for wanted in models)


def late_elements(result: Any) -> int:
    found = result.metrics().query(MetricsFilter().with_name(DROPPED_DUE_TO_LATENESS))
    return sum(counter.committed for counter in found["counters"])


WINDOWS = [FixedWindows(10), SlidingWindows(10, 5), GlobalWindows()]
MADE = ["elements", "values", "lists", "key", "key"]


def lookup_of(chance: random.Random, *, alone: bool) -> Lookup:
    """A lookup.

    Args:
        chance: chooses.
        alone: no two elements of the side input have the same timestamp.
    """
    fn, of, made = chance.choice(WINDOWS), chance.choice(FIRING), chance.choice(MADE)
    if isinstance(fn, GlobalWindows) and of == DefaultTrigger():
        made = "elements"  # Beam refuses the grouping.
    views = ["list", "iter", "dict", "multimap"]
    if made == "lists" or (alone and made == "elements" and of != DefaultTrigger()):
        views += ["singleton"] * 3
    between = ["nothing"] if made == "elements" else list(BETWEEN)
    if not isinstance(fn, GlobalWindows):
        between = [step for step in between if step != "timestamps"]  # They choose windows anew.
    mode, lateness = chance.choice([DISCARDING, ACCUMULATING]), chance.choice([0, 7, 100])
    return Lookup(
        Windowing(fn, of, mode, allowed_lateness=lateness),
        made,
        chance.choice(views),
        chance.choice(between),
        chance.choice([fn, fn, FixedWindows(10), Sessions(3), GlobalWindows()]),
    )


FIRING = [DefaultTrigger(), DefaultTrigger(), EACH, EACH, LATE, *TRIGGERS.values()]
MOST = 40
"""Main elements look at windows up to this second: more than a view keeps would have expired."""


def events_of(chance: random.Random, *, alone: bool) -> list[Event]:
    events: list[Event] = []
    watermarks, number, used = {"side": 0, "main": 0}, 0, set[int]()
    for kind in chance.choices("sssmmmwxc", k=chance.randrange(6, 18)):
        by = chance.choice([1, 2, 5, 10])
        match kind:
            case "s":
                some = [chance.randrange(-9, 13) for _ in range(chance.randrange(1, 4))]
                stamps = [max(0, watermarks["side"] + stamp) for stamp in some]
                if alone:
                    stamps = [*dict.fromkeys(stamp for stamp in stamps if stamp not in used)]
                used.update(stamps)
                if stamps:
                    events.append(Elements(tuple(enumerate(stamps, number))))
                number += len(stamps)
            case "m":
                stamp = min(MOST, max(0, watermarks["main"] + chance.randrange(-9, 13)))
                events.append(Main(f"m{len(events)}", stamp))
            case "w":
                watermarks["side"] += by
                events.append(Watermark(watermarks["side"]))
            case "x":
                watermarks["main"] = min(MOST, watermarks["main"] + by)
                events.append(MainWatermark(watermarks["main"]))
            case _:
                events.append(Clock(3 * by))
    return events


@pytest.mark.parametrize("seed", range(16 * TIMES))
def test_what_is_seen_is_what_the_model_has(seed: int) -> None:
    chance = random.Random(f"firings {seed}")
    alone = chance.random() < 0.4
    lookups = [lookup_of(chance, alone=alone) for _ in range(5)]
    events = events_of(chance, alone=alone)
    check(lookups, events, most=chance.choice([1, 2, 200]), crashes=Crashes((-1, "")))


@pytest.mark.parametrize("seed", range(4 * TIMES))
def test_crashes_everywhere_change_nothing(seed: int) -> None:
    chance = random.Random(f"crashes {seed}")
    lookup, events = lookup_of(chance, alone=True), events_of(chance, alone=True)
    check([lookup], events, most=4, crashes=Crashes())


# What the model does not have.


def side(*values: Any, at: int = 1) -> Elements:
    """Elements of the side input that arrive together."""
    return Elements(tuple((value, at) for value in values))


def seen(
    events: Iterable[Event],
    made: Callable[[Any], Any],
    view: Callable[[Any], Any],
    window: Any = None,
    *,
    spark: Spark | None = None,
    folder: Path | None = None,
) -> tuple[list[Any], Any]:
    """Views of a side input by each element of the main input, by its name, and the result."""
    found.clear()
    flags = "--allow_unsafe_triggers", "--shards=2"
    with streaming_pipeline(spark or Spark(), folder, *flags) as p:
        source = p | stream(events)
        main = source["main"] | "main" >> beam.WindowInto(window or GlobalWindows())
        look = Look(0, "list" if view is AsList else "dict" if view is AsDict else "")
        _ = main | beam.ParDo(look, view(made(source["side"])))
    return sorted((name, content) for _, (name, _, content) in found), p.result


def discarded(numbers: Any) -> Any:
    return numbers | windows(EACH, DISCARDING)


def summed(numbers: Any) -> Any:
    return discarded(numbers) | beam.CombineGlobally(sum).without_defaults()


def sums(pairs: Any) -> Any:
    return pairs | windows(EACH, ACCUMULATING) | beam.CombinePerKey(sum)


def with_first(numbers: Any) -> Any:
    return (summed(numbers), numbers.pipeline | "first" >> beam.Create([0])) | beam.Flatten()


def with_more(pairs: Any) -> Any:
    """Sums that wait for a side input of their own."""
    more = pairs | "of more" >> beam.Filter(lambda pair: pair[0] == "more") | beam.Values()
    newest = AsSingleton(more | "newest" >> windows(EACH, DISCARDING))
    totals = sums(pairs | beam.Filter(lambda pair: pair[0] != "more"))
    return totals | beam.Map(lambda pair, more: (pair[0], pair[1] + more), newest)


class AtEnd(beam.DoFn):
    """Puts elements out at the end of their bundle."""

    def start_bundle(self) -> None:
        self._kept: list[Any] = []

    def process(self, element: Any) -> None:
        self._kept.append(element)

    def finish_bundle(self) -> Iterator[Any]:
        window = GlobalWindows.windowed_value
        yield from (window(element, Timestamp(0)) for element in self._kept)


THREE: list[Event] = [side(1), Main("x", 1), side(2), Main("y", 1), side(3), Main("z", 1)]
OF_KEYS: list[Event] = [
    side(("a", 1)),
    Main("x", 1),
    side(("b", 2)),
    Main("y", 1),
    side(("a", 3)),
    Main("z", 1),
]
MORE: list[Event] = [
    side(("a", 1)),
    side(("b", 2)),
    side(("a", 3)),
    side(("more", 10)),
    Main("x", 1),
]
ALL = windows(EACH, ACCUMULATING)
CASES: dict[str, tuple[list[Event], Callable[[Any], Any], Any, list[Any]]] = {
    "a singleton of several keys": (
        OF_KEYS,
        lambda pairs: discarded(pairs) | beam.CombinePerKey(sum) | beam.Values(),
        AsSingleton,
        [1, 2, 3],
    ),
    # Beam's own expansion puts out the first firing alone.
    "a default": (THREE, lambda s: s | ALL | beam.CombineGlobally(sum), AsSingleton, [1, 3, 6]),
    "no elements": (
        [Main("x", 1)],
        lambda s: s | ALL | beam.CombineGlobally(sum),
        AsSingleton,
        [0],
    ),
    "the view of a combine": (
        THREE,
        lambda s: s | ALL | beam.CombineGlobally(sum).as_singleton_view(),
        lambda view: view,
        [1, 3, 6],
    ),
    "a first value": ([Main("x", 1), *THREE[2:]], with_first, AsSingleton, [0, 2, 3]),
    "the end of a bundle": (
        THREE,
        lambda s: summed(s) | beam.ParDo(AtEnd()),
        AsList,
        [[1], [2], [3]],
    ),
    "panes that have waited": (
        [*MORE, side(("a", 5)), Main("y", 1)],
        with_more,
        AsDict,
        [[("a", 14), ("b", 12)], [("a", 19), ("b", 12)]],
    ),
}


@pytest.mark.parametrize(("events", "made", "view", "expected"), CASES.values(), ids=CASES)
def test_an_element_sees_the_newest_firing(
    events: list[Event], made: Any, view: Any, expected: list[Any]
) -> None:
    contents, _ = seen(events, made, view)
    assert [content for _, content in contents] == expected


def test_two_elements_of_a_firing_are_no_singleton() -> None:
    with pytest.raises(Exception, match="with more than one element accessed as a singleton"):
        seen([side(1, 2), Main("x", 1)], discarded, AsSingleton)


@pytest.mark.parametrize("combined_first", [True, False], ids=["latest", "each"])
def test_a_file_that_a_firing_names_is_read_line_by_line(
    combined_first: bool, tmp_path: Path
) -> None:
    for number, text in enumerate(("a,1\nb,2\n", "a,3\n", "b,4\n"), start=1):
        (tmp_path / str(number)).write_text(text)
    latest = beam.combiners.Latest.Globally().without_defaults()

    def made(numbers: Any) -> Any:
        paths = discarded(numbers) | beam.Map(lambda n: f"{tmp_path}/{n}")
        read = (paths | latest if combined_first else paths) | beam.io.ReadAllFromText()
        return read | "pairs" >> beam.Map(lambda line: tuple(line.split(",")))

    contents, _ = seen(THREE, made, AsDict)
    tables = [[("a", "1"), ("b", "2")], [("a", "3")], [("b", "4")]]
    assert contents == list(zip("xyz", tables, strict=True))


class Total(beam.DoFn):
    """Adds up what a side input shows to the elements of a key."""

    SEEN = CombiningValueStateSpec("seen", combine_fn=sum)

    def process(
        self, element: tuple[str, str], shown: int, seen: Any = beam.DoFn.StateParam(SEEN)
    ) -> Iterator[tuple[str, int]]:
        seen.add(shown)
        yield element[1], seen.read()


def test_a_step_with_state_sees_the_newest_firing() -> None:
    with streaming_pipeline(None, None, "--allow_unsafe_triggers") as p:
        source = p | stream(THREE)
        asked = AsSingleton(discarded(source["side"]))
        totals = source["main"] | beam.WithKeys("k") | beam.ParDo(Total(), asked)
        assert_that(totals, equal_to([("x", 1), ("y", 3), ("z", 6)]))


TABLE = "x" * 500


def latest(numbers: Any) -> Any:
    pairs = numbers | beam.Map(lambda n: (int(n[:4]) % 5, n))
    return discarded(pairs) | beam.combiners.Latest.PerKey()


@rounds(25)
@pytest.mark.parametrize(
    ("made", "view"),
    [
        (lambda numbers: numbers | windows(EACH, ACCUMULATING), AsSingleton),
        (discarded, AsList),
        (latest, AsMultiMap),
        (latest, AsSingleton),
    ],
    ids=["singleton", "list", "keys", "newest"],
)
def test_what_is_replaced_leaves_the_state(made: Any, view: Any, tmp_path: Path) -> None:
    firings, spark = 300, Measured(lambda checkpoint: checkpoint.size)
    events = [side(f"{n:04}{TABLE}", at=n) for n in range(firings)]
    seen([*events, Main("x", 1)], made, view, spark=spark, folder=tmp_path)
    assert len(spark.found) > 10
    assert max(spark.found[5:-1]) < 1.5 * spark.found[4] < firings * len(TABLE) / 5


@rounds(40)
@pytest.mark.parametrize(
    ("trigger", "view"), [(DefaultTrigger(), AsMultiMap), (LATE, AsMultiMap), (LATE, AsSingleton)]
)
def test_windows_that_have_expired_leave_the_state(
    trigger: TriggerFn, view: Any, tmp_path: Path
) -> None:
    spark = Measured(lambda checkpoint: checkpoint.size)
    events: list[Event] = []
    for n in range(80):
        events += [side(("k", f"{n:04}{TABLE}"), at=10 * n), Watermark(10 * n + 10)]
        events += [Main(f"m{n}", 10 * n), MainWatermark(10 * n + 10)]
    into = windows(trigger, DISCARDING, FixedWindows(10))
    seen(events, lambda s: s | into, view, FixedWindows(10), spark=spark, folder=tmp_path)
    assert max(spark.found) < 8 * stored_views.EXPIRED_WINDOWS * len(TABLE)


def test_an_element_later_than_the_last_expired_windows_is_dropped_and_counted() -> None:
    count = stored_views.EXPIRED_WINDOWS + 2
    events: list[Event] = []
    for n in range(count):
        events += [side(n, at=10 * n), Watermark(10 * n + 10), Main(f"x{n:02}", 10 * n)]
    events += [MainWatermark(10 * count), *(Main(f"late{n:02}", 10 * n) for n in range(count))]
    windowed = lambda numbers: numbers | beam.WindowInto(FixedWindows(10))  # noqa: E731
    contents, result = seen(events, windowed, AsSingleton, FixedWindows(10))
    in_time = [(f"x{n:02}", n) for n in range(count)]
    assert contents == [*((f"late{n:02}", n) for n in range(2, count)), *in_time]
    assert late_elements(result) == 2


def test_a_bounded_main_input_keeps_the_windows_that_it_waits_for() -> None:
    count = 3 * stored_views.EXPIRED_WINDOWS
    events = [s for n in range(count) for s in (side(n, at=10 * n), Watermark(10 * n + 10))]
    with streaming_pipeline() as p:
        source = p | stream(events)
        table = source["side"] | "side windows" >> beam.WindowInto(FixedWindows(10))
        asked = (
            p
            | beam.Create([TimestampedValue(n, 10 * n) for n in range(count)])
            | beam.WindowInto(FixedWindows(10))
            | beam.Map(lambda n, seen: (n, seen), AsSingleton(table))
        )
        assert_that(asked, equal_to([(n, n) for n in range(count)]))
