"""What a checkpoint tells of a program that has changed, and of one that has not."""

import os
import typing
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import BytesCoder, FloatCoder, PickleCoder, StrUtf8Coder, VarIntCoder
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import environments
from apache_beam.transforms.combiners import MeanCombineFn, ToListCombineFn, TopCombineFn
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
    DefaultTrigger,
    Repeatedly,
)
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    StateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindows,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
)
from command import python
from golden_files import Golden, sections

from sparkbeam import SparkRunner
from sparkbeam.coders import OrderedIntCoder, OrderedTimestampCoder
from sparkbeam.operators.registry import operators_of
from sparkbeam.plan.addresses import matching_tags
from sparkbeam.plan.fingerprint import (
    STATE_FORMAT,
    differences,
    fingerprint,
    other_versions,
    unreadable_format,
)
from sparkbeam.plan.layers import topology
from sparkbeam.plan.object_identity import identity, stable_name
from sparkbeam.plan.translate import translate
from sparkbeam.state import MapStateSpec, SortedMultimapStateSpec

Build = Callable[[beam.PCollection], Any]
"""Adds steps to pairs of a text and a number."""

PAIRS = typing.Tuple[str, int]  # noqa: UP006 - Beam's type hints


def taken(build: Build, shards: int = 2) -> dict[str, Any]:
    """The fingerprint of a pipeline."""
    pipeline = beam.Pipeline(SparkRunner(), options=PipelineOptions([]))
    build(pipeline | "Create" >> beam.Create([("a", 1)]).with_output_types(PAIRS))
    proto = pipeline.to_runner_api(
        default_environment=environments.EmbeddedPythonEnvironment.default()
    )
    return fingerprint(topology(translate(proto, operators_of, streaming=True)), shards)


class Point(typing.NamedTuple):
    x: int
    name: str


class WiderPoint(typing.NamedTuple):
    x: int
    name: str
    y: float


for _row in (Point, WiderPoint):
    beam.coders.registry.register_coder(_row, beam.coders.RowCoder)


class Total(beam.CombineFn):
    def __init__(self, size: int = 1) -> None:
        self.size = size
        self.made_up = os.urandom(8).hex()

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, total: int, number: int) -> int:
        return total + number

    def merge_accumulators(self, totals: Any) -> int:
        return sum(totals)

    def extract_output(self, total: int) -> int:
        return total


class OtherTotal(Total):
    pass


class ByParity(NonMergingWindowFn):
    def __init__(self, size: int) -> None:
        self.size = size

    def assign(self, context: Any) -> list[Any]:
        raise NotImplementedError

    def get_window_coder(self) -> Any:
        return FixedWindows(1).get_window_coder()


def grouped(pairs: beam.PCollection) -> beam.PCollection:
    return pairs | beam.GroupByKey() | "Group" >> beam.Map(lambda group: group)


def windowed(windows: Any, **arguments: Any) -> Build:
    return lambda pairs: grouped(pairs | beam.WindowInto(windows, **arguments))


def triggered(trigger: Any, mode: Any = AccumulationMode.DISCARDING) -> Build:
    return windowed(GlobalWindows(), trigger=trigger, accumulation_mode=mode)


def combined(fn: Any) -> Build:
    return lambda pairs: pairs | "Sum" >> beam.CombinePerKey(fn)


def stateful(spec: StateSpec, timer: TimerSpec | None = None) -> Build:
    class Keep(beam.DoFn):
        def process(
            self, element: tuple[str, Any], state: Any = beam.DoFn.StateParam(spec)
        ) -> Iterator[Any]:
            yield element

    class KeepWithTimer(beam.DoFn):
        def process(
            self,
            element: tuple[str, Any],
            state: Any = beam.DoFn.StateParam(spec),
            soon: Any = beam.DoFn.TimerParam(timer or TimerSpec("t", TimeDomain.WATERMARK)),
        ) -> Iterator[Any]:
            yield element

        @on_timer(timer or TimerSpec("t", TimeDomain.WATERMARK))
        def fire(self) -> None:
            pass

    return lambda pairs: pairs | "Keep" >> beam.ParDo(KeepWithTimer() if timer else Keep())


def grouped_as(key: Any, value: Any) -> Build:
    return lambda pairs: grouped(
        pairs | beam.Map(lambda pair: pair).with_output_types(typing.Tuple[key, value])  # noqa: UP006
    )


def with_side_input(kind: Any, number: Any = 1) -> Build:
    def build(pairs: beam.PCollection) -> None:
        side = pairs.pipeline | "Side" >> beam.Create([("k", number)])
        _ = pairs | "Ask" >> beam.Map(lambda pair, asked: pair, kind(side))

    return build


class Range(beam.RestrictionProvider):
    coder: Any = PickleCoder()

    def initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, 1)

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: OffsetRange) -> int:
        return 1

    def restriction_coder(self) -> Any:
        return self.coder


class OtherRange(Range):
    pass


class TextRange(Range):
    coder = StrUtf8Coder()


def splittable(provider: Any) -> Build:
    class Read(beam.DoFn):
        @beam.DoFn.unbounded_per_element()
        def process(
            self, element: Any, tracker: Any = beam.DoFn.RestrictionParam(provider)
        ) -> Iterator[Any]:
            yield element

    return lambda pairs: pairs | "Read" >> beam.ParDo(Read())


def two(*steps: str) -> Build:
    def build(pairs: beam.PCollection) -> None:
        for step in steps:
            _ = pairs | f"By key {step}" >> beam.GroupByKey() | step >> beam.Keys()

    return build


BAG = BagStateSpec("s", VarIntCoder())

EVERY_THREE = Repeatedly(AfterCount(3))
CHANGES: dict[str, list[Build]] = {
    "state": [
        stateful(spec)
        for spec in (
            *(BAG, BagStateSpec("s", BytesCoder()), SetStateSpec("s", VarIntCoder())),
            *(SetStateSpec("s", StrUtf8Coder()), ReadModifyWriteStateSpec("s", StrUtf8Coder())),
            *(ReadModifyWriteStateSpec("s", coder) for coder in (BytesCoder(), PickleCoder())),
            ReadModifyWriteStateSpec("s", beam.coders.registry.get_coder(Point)),
            ReadModifyWriteStateSpec("s", beam.coders.registry.get_coder(WiderPoint)),
            CombiningValueStateSpec("s", combine_fn=sum),
            CombiningValueStateSpec("s", combine_fn=ToListCombineFn()),
            CombiningValueStateSpec("s", VarIntCoder(), max),
            CombiningValueStateSpec("s", FloatCoder(), max),
            MapStateSpec("s", OrderedIntCoder(), BytesCoder()),
            SortedMultimapStateSpec("s", OrderedIntCoder(), BytesCoder()),
            SortedMultimapStateSpec("s", OrderedTimestampCoder(), BytesCoder()),
            SortedMultimapStateSpec("s", OrderedTimestampCoder(), VarIntCoder()),
            BagStateSpec("z", VarIntCoder()),
        )
    ],
    "timers": [
        stateful(BAG),
        stateful(BAG, TimerSpec("soon", TimeDomain.WATERMARK)),
        stateful(BAG, TimerSpec("soon", TimeDomain.REAL_TIME)),
        stateful(BAG),
    ],
    "groups": [
        *(grouped_as(str, int), grouped_as(bytes, int), grouped_as(bytes, float)),
        *(grouped_as(str, Point), grouped_as(str, WiderPoint)),
        grouped_as(str, typing.Tuple[int, str]),  # noqa: UP006
        grouped_as(str, typing.Tuple[int, bytes]),  # noqa: UP006
        grouped_as(str, typing.Optional[int]),  # noqa: UP045
    ],
    "windows": [
        *(windowed(FixedWindows(10)), windowed(FixedWindows(20)), windowed(FixedWindows(20, 3))),
        *(windowed(SlidingWindows(10, 5)), windowed(Sessions(10)), windowed(Sessions(30))),
        *(windowed(ByParity(1)), windowed(ByParity(2))),
    ],
    "windows of a stateful DoFn": [
        lambda pairs: stateful(BAG)(pairs | beam.WindowInto(FixedWindows(1))),
        lambda pairs: stateful(BAG)(pairs | beam.WindowInto(FixedWindows(2))),
    ],
    "windowing": [
        *(triggered(Repeatedly(AfterCount(2))), triggered(EVERY_THREE)),
        triggered(EVERY_THREE, AccumulationMode.ACCUMULATING),
        triggered(AfterWatermark(early=AfterCount(2)), AccumulationMode.ACCUMULATING),
    ],
    "lateness and timestamps": [
        *(windowed(FixedWindows(10)), windowed(FixedWindows(10), allowed_lateness=5)),
        windowed(
            FixedWindows(10),
            allowed_lateness=5,
            timestamp_combiner=TimestampCombiner.OUTPUT_AT_EARLIEST,
        ),
    ],
    "combines": [
        *(combined(sum), combined(max), combined(MeanCombineFn())),
        *(combined(TopCombineFn(2)), combined(TopCombineFn(3))),
        *(combined(Total(1)), combined(Total(2)), combined(OtherTotal())),
        combined(lambda numbers: sum(numbers)),
        combined(lambda numbers: 2 * sum(numbers)),
        lambda pairs: pairs | beam.GroupByKey() | "Sum" >> beam.Keys(),
    ],
    "side inputs": [
        with_side_input(beam.pvalue.AsIter),
        with_side_input(beam.pvalue.AsMultiMap),
        with_side_input(beam.pvalue.AsMultiMap, "text"),
        lambda pairs: with_side_input(beam.pvalue.AsMultiMap, "text")(pairs | beam.Keys()),
    ],
    "restrictions": [splittable(Range()), splittable(TextRange()), splittable(OtherRange())],
    "steps": [
        *(two("A"), two("A", "B"), two("A"), two("B")),
        lambda pairs: (two("B")(pairs), pairs.pipeline | "More" >> beam.Create([1])),
    ],
}
"""Pipelines by what differs between each and the one before it."""


def test_changes_that_state_cannot_follow_are_told_in_short(golden: Golden) -> None:
    texts = {}
    for name, builds in CHANGES.items():
        found = [differences(one, other) for one, other in pairwise(map(taken, builds))]
        assert all(found)
        assert all(len(line) < 450 for lines in found for line in lines)
        texts[name] = ["; ".join(lines) for lines in found]
    golden("changes of a pipeline.txt", sections(texts), {r">#\w+": ">#DIGEST"})


SAME: dict[str, tuple[Build, Build]] = {
    "what a lambda does": (
        lambda pairs: grouped(pairs | "Do" >> beam.Map(lambda pair: pair)),
        lambda pairs: grouped(pairs | "Do" >> beam.Map(lambda pair: (pair[0], 7))),
    ),
    "where a lambda stands": (
        combined(lambda numbers: sum(numbers)),
        combined(
            # A line more.
            lambda many: sum(many)
        ),
    ),
    "steps before the first shuffle": (
        lambda pairs: grouped(pairs),
        lambda pairs: grouped(pairs | "Look" >> beam.Filter(lambda pair: True)),
    ),
    "a branch that keeps nothing": (
        lambda pairs: grouped(pairs),
        lambda pairs: (grouped(pairs), pairs | "A branch" >> beam.Map(lambda pair: None)),
    ),
    "steps behind a shuffle": (
        lambda pairs: grouped(pairs),
        lambda pairs: grouped(pairs) | "More" >> beam.Keys(),
    ),
    "what is made up in each process": (combined(Total()), combined(Total())),
    "the values that a stateful DoFn reads": (
        lambda pairs: stateful(BAG)(pairs),
        lambda pairs: stateful(BAG)(
            pairs
            | beam.MapTuple(lambda key, value: (key, str(value))).with_output_types(
                typing.Tuple[str, str]  # noqa: UP006
            )
        ),
    ),
    "the trigger before a stateful DoFn": (
        lambda pairs: stateful(BAG)(pairs),
        lambda pairs: stateful(BAG)(
            pairs
            | beam.WindowInto(
                GlobalWindows(),
                trigger=Repeatedly(AfterCount(1)),
                accumulation_mode=AccumulationMode.DISCARDING,
            )
        ),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_a_change_that_state_can_follow_is_none(name: str) -> None:
    before, after = SAME[name]
    assert differences(taken(before), taken(after)) == []


def flattened_view(*labels: str) -> Build:
    """A side input of several branches, each of which a shuffle writes."""

    def build(pairs: beam.PCollection) -> None:
        parts = [
            pairs | f"Group {label}" >> beam.GroupByKey() | label >> beam.Map(lambda group: group)
            for label in labels
        ]
        view = beam.pvalue.AsDict(parts | beam.Flatten())
        _ = pairs | "Ask" >> beam.Map(lambda pair, shown: pair, view)

    return build


def test_ports_of_one_reader_keep_their_numbers_by_their_writers() -> None:
    old, new = taken(flattened_view("M", "N")), taken(flattened_view("A", "M", "N", "Z"))
    stored = {port["from"]: int(tag) for tag, port in old["ports"].items() if port["to"]}
    found = matching_tags(old, new)
    for tag, port in new["ports"].items():
        if port["from"].startswith(("M", "N")):
            assert found[int(tag)] == stored[port["from"]]


def test_the_state_of_a_combine_has_accumulators_without_the_count_that_a_trigger_gets() -> None:
    def value_coders(trigger: Any) -> set[str | None]:
        windows = beam.WindowInto(
            FixedWindows(5), trigger=trigger, accumulation_mode=AccumulationMode.DISCARDING
        )
        stages = taken(lambda pairs: pairs | windows | beam.combiners.Count.PerKey())["stages"]
        return {parts.get("value coder") for parts in stages.values()}

    assert value_coders(Repeatedly(AfterCount(3))) == value_coders(DefaultTrigger())


def test_shards_are_told() -> None:
    found = differences(taken(two("A"), 2), taken(two("A"), 4))
    assert found == ["--shards was 2 and is 4"]


def test_labels_know_neither_cells_nor_lines() -> None:
    assert stable_name("[12]: Map(<lambda at 991.py:3>)") == stable_name(
        "[4]: Map(<lambda at 17.py:88>)"
    )
    assert stable_name("[12]: Outer/[13]: Inner") == "Outer/Inner"
    assert stable_name("Count [a]") == "Count [a]"


PROGRAM = '''
import json, sys
import apache_beam as beam
from apache_beam.transforms.userstate import *
from apache_beam.coders import *
from plans import translated
from test_fingerprint import taken

CELL = """
class Own(beam.CombineFn):
    def __init__(self):
        self.made_up = object()
    def create_accumulator(self):
        return frozenset(["x", "y", "z"])
    def add_input(self, total, number):
        return number in {"p", "q", "r"}
    def merge_accumulators(self, totals):
        return sum(totals)
    def extract_output(self, total):
        return total

class Keep(beam.DoFn):
    def process(self, element, state=beam.DoFn.StateParam(CombiningValueStateSpec("s", Own()))):
        yield element

def build(pairs):
    pairs | beam.CombinePerKey(lambda numbers: sum(n for n in numbers if n not in {"a", "b", "c"}))
    pairs | "Own" >> beam.CombinePerKey(Own())
    pairs | "Keep" >> beam.ParDo(Keep())
    pairs | beam.Map(lambda pair: pair) | beam.GroupByKey()

def plan(p):
    both = (p | "First" >> beam.Create([1, 2]), p | "Second" >> beam.Create([4])) | beam.Flatten()
    pairs = both | "Key" >> beam.Map(lambda x: (x % 2, x))
    groups = pairs | beam.GroupByKey() | "Length" >> beam.Map(len)
    sums = pairs | beam.CombinePerKey(sum)
    sided = both | "Side" >> beam.Map(lambda x, s: x, beam.pvalue.AsDict(sums))
    _ = (groups, sided) | "Join" >> beam.Flatten() | beam.combiners.Count.Globally()
"""
lines, name = int(sys.argv[1]), sys.argv[2]
exec(compile("\\n" * lines + CELL, name, "exec"), globals())
print(json.dumps(taken(build), sort_keys=True))
for stage in translated(plan)[1].stages:
    print(stage.id, stage.labels, stage.inputs, stage.ports, stage.side_inputs)
'''


def test_the_same_program_agrees_with_itself_in_each_process() -> None:
    """Wherever its lines stand, as cells of a notebook do; and whatever sets are hashed by.

    Its plan has the same stages and tags, too.
    """
    folder = Path(__file__).parent

    def printed(seed: int, lines: int, name: str) -> str:
        variables = {"PYTHONPATH": str(folder.parent), "PYTHONHASHSEED": str(seed)}
        return python("-c", PROGRAM, lines, name, folder=folder, **variables).stdout

    first = printed(1, 0, "/tmp/ipykernel_1/2134.py")
    assert "Own" in first
    assert "Side" in first
    assert printed(2, 9, "/tmp/ipykernel_7/88.py") == first


def test_digests_of_bytecode_count_only_within_a_version_of_python() -> None:
    before, after = taken(combined(lambda n: sum(n))), taken(combined(lambda n: max(n)))
    assert differences(before, after)
    before["versions"]["Python"] = "3.99"
    assert differences(before, after) == []
    assert other_versions(before, after) == [f"Python 3.99 is now {after['versions']['Python']}"]


def test_a_format_that_this_version_does_not_read_is_told() -> None:
    stored = taken(two("A"))
    assert unreadable_format(stored) is None
    other = stored | {"format": STATE_FORMAT + 1, "versions": {"sparkbeam": "9.9"}}
    assert unreadable_format(other) == (
        f"its state has the format {STATE_FORMAT + 1}, written by sparkbeam 9.9, "
        f"but this version reads the format {STATE_FORMAT}"
    )
    assert "format 1, written by sparkbeam an older version" in str(unreadable_format({}))


def test_an_identity_is_short_and_knows_no_addresses() -> None:
    assert identity(Windowing(FixedWindows(3)).windowfn) == identity(FixedWindows(3))
    assert " at 0x" not in identity([object(), Total(), lambda: 0, identity, Total(3).add_input])
    assert len(identity("x" * 10_000)) < 200
    recursive: list[Any] = []
    recursive += [recursive] * 20
    assert len(identity(recursive)) < 200
