"""Pipelines made at random whose results depend on no order, as plain data.

A :class:`Case` has sources, each a timeline of elements and of steps of its watermark and the
clock, and steps that form a graph. Each element is a pair of a key and a number, and each step
makes such pairs of such pairs; what it makes does not depend on the order in which elements come,
as long as none comes behind the watermark. So all runners have to find the same. The ``repr`` of a
case is Python that makes it again; :mod:`random_cases` makes them.
"""

import ast
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.coders import Coder, StrUtf8Coder, TupleCoder, VarIntCoder
from apache_beam.coders.coders import IntervalWindowCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import combiners
from apache_beam.transforms.trigger import AccumulationMode, DefaultTrigger
from apache_beam.transforms.window import (
    BoundedWindow,
    FixedWindows,
    GlobalWindows,
    IntervalWindow,
    NonMergingWindowFn,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    TimestampedValue,
    WindowFn,
)
from random_states import Asking, Chain, Deduplicating, Flushing, Plan, Ripe, digest

from sparkbeam.wire.rounding import coded_end

Pair = tuple[str, int]
Pairs = beam.PCollection

FOUND: dict[str, list[Any]] = {}
"""What the pipeline that has run last has found, by the number of the step."""

FOLDER: list[str] = []
"""The folder where pipelines that are built now leave it instead, if they run elsewhere."""


# Timelines.


@dataclass(frozen=True)
class Add:
    """Elements that arrive: key, number, second."""

    elements: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class To:
    """The watermark goes on to a second."""

    second: int


@dataclass(frozen=True)
class Wait:
    """The clock goes on by some seconds."""

    seconds: int


Event = Add | To | Wait
Timeline = tuple[Event, ...]


def elements(timeline: Timeline) -> list[tuple[str, int, int]]:
    """All elements of a timeline."""
    return [each for event in timeline if isinstance(event, Add) for each in event.elements]


def stamped(some: Iterable[tuple[str, int, int]]) -> list[TimestampedValue]:
    return [TimestampedValue((key, number), second) for key, number, second in some]


def streamed(p: beam.Pipeline, timelines: tuple[Timeline, ...]) -> list[Pairs]:
    """The sources as parts of a TestStream, which is the only one of a pipeline."""
    stream = TestStream(coder=TupleCoder([StrUtf8Coder(), VarIntCoder()]))
    longest = max(map(len, timelines))
    for at in range(longest):
        for number, timeline in enumerate(timelines):
            if at < len(timeline):
                stream = _with(stream, timeline[at], f"s{number}")
    for number in range(len(timelines)):
        stream = stream.advance_watermark_to_infinity(tag=f"s{number}")
    found = p | stream
    if len(timelines) == 1:
        return [found["s0"] if isinstance(found, dict) else found]
    return [found[f"s{number}"] for number in range(len(timelines))]


def _with(stream: TestStream, event: Event, tag: str) -> TestStream:
    match event:
        case Add(some):
            return stream.add_elements(stamped(some), tag=tag)
        case To(second):
            return stream.advance_watermark_to(second, tag=tag)
        case Wait(seconds):
            return stream.advance_processing_time(seconds)


def created(p: beam.Pipeline, timelines: tuple[Timeline, ...]) -> list[Pairs]:
    """The sources as values that are there from the start, in another order."""
    sources = []
    for number, timeline in enumerate(timelines):
        some = elements(timeline)
        random.Random(len(some)).shuffle(some)
        values = p | f"s{number}" >> beam.Create(some)
        stamp = beam.Map(lambda e: TimestampedValue((e[0], e[1]), e[2]))
        sources.append(values | f"stamp {number}" >> stamp.with_output_types(Pair))
    return sources


# Windows.


@dataclass(frozen=True)
class Window:
    """A WindowFn: 'global', 'fixed', 'sliding', 'sessions' or 'uneven', with its seconds.

    Attributes:
        combiner: 'earliest' or 'latest' of the timestamps is that of a group; else the end.
    """

    kind: str = "global"
    size: float = 0
    other: int = 0
    combiner: str = ""

    def into(self, **more: Any) -> beam.WindowInto:
        how = {
            "earliest": TimestampCombiner.OUTPUT_AT_EARLIEST,
            "latest": TimestampCombiner.OUTPUT_AT_LATEST,
        }
        return beam.WindowInto(self.fn(), timestamp_combiner=how.get(self.combiner), **more)

    def fn(self) -> WindowFn:
        match self.kind:
            case "fixed":
                return FixedWindows(self.size, self.other)
            case "sliding":
                return SlidingWindows(self.size, self.other)
            case "sessions":
                return Sessions(self.size)
            case "uneven":
                return Uneven()
            case _:
                return GlobalWindows()

    @property
    def ends(self) -> bool:
        return self.kind != "global"


class Uneven(NonMergingWindowFn):
    """Windows of 10 s or 20 s, two of them for some elements."""

    def assign(self, context: Any) -> list[BoundedWindow]:
        start = int(context.timestamp) // 20 * 20
        windows: list[BoundedWindow] = [IntervalWindow(start, start + 20)]
        if context.timestamp < start + 10:
            windows.append(IntervalWindow(start, start + 10))
        return windows

    def get_window_coder(self) -> Coder:
        return IntervalWindowCoder()


# What is computed.


class Longest(beam.CombineFn):
    """A CombineFn with lists as accumulators and the number of what it merged as its result."""

    def create_accumulator(self) -> list[int]:
        return []

    def add_input(self, accumulator: list[int], element: int) -> list[int]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[int]]) -> list[int]:
        return [number for accumulator in accumulators for number in accumulator]

    def extract_output(self, accumulator: list[int]) -> list[int]:
        return sorted(accumulator)


COMBINES: dict[str, Callable[[], Any]] = {
    "sum": lambda: sum,
    "count": combiners.CountCombineFn,
    "max": lambda: max,
    "min": lambda: min,
    "mean": combiners.MeanCombineFn,
    "list": combiners.ToListCombineFn,
    "set": combiners.ToSetCombineFn,
    "largest": lambda: combiners.TopCombineFn(2),
    "sorted": Longest,
    "several": lambda: combiners.TupleCombineFn(
        sum, max, combiners.CountCombineFn()
    ).with_common_input(),
}


def plain(result: Any) -> Any:
    """The result of a combine in one order."""
    return sorted(result) if isinstance(result, (list, set)) else result


def totalled(pair: tuple[str, Any], *, small: bool) -> Pair:
    key, result = pair
    result = plain(result)
    return key, result if small and isinstance(result, int) else digest(result)


# Steps.


@dataclass(frozen=True)
class Step:
    """A step of the graph.

    Attributes:
        inputs: the numbers of the nodes that it reads: first sources, then steps.
    """

    inputs: tuple[int, ...]

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        raise NotImplementedError

    def window(self, *windows: Window) -> Window:
        """The windows of what comes out."""
        return windows[0]


@dataclass(frozen=True)
class Map(Step):
    """A step element by element: 'add', 'filter', 'repeat', 'key' or 'split'."""

    how: str
    number: int
    typed: bool = True

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        number = self.number
        (main,) = inputs
        step: Any
        match self.how:
            case "add":
                step = beam.MapTuple(lambda key, n: (key, n + number))
            case "filter":
                step = beam.Filter(lambda pair: pair[1] % 3 != number % 3)
            case "repeat":
                step = beam.FlatMap(lambda pair: [pair] * ((pair[1] + number) % 3))
            case "key":
                step = beam.MapTuple(lambda key, n: (f"{key}{n % (number + 1)}"[:3], n))
            case "split":
                return self._split(name, main)
            case "partition":
                parts = main | f"{name} parts" >> beam.Partition(Modulo(), 3)
                return tuple(parts) | f"{name} flat" >> beam.Flatten()
            case _:
                raise ValueError(self.how)
        if self.typed:
            step = step.with_output_types(Pair)
        return main | name >> step

    def _split(self, name: str, main: Pairs) -> Pairs:
        tagged = beam.ParDo(Splitting(self.number)).with_outputs("odd", main="even")
        even, odd = main | name >> tagged
        odd = odd | f"{name} odd" >> beam.Map(lambda pair: (pair[0], -pair[1]))
        return (even, odd) | f"{name} flat" >> beam.Flatten()


class Modulo(beam.PartitionFn):
    def partition_for(self, element: Any, num_partitions: int, *_: Any, **__: Any) -> int:
        return int(element[1] % num_partitions)


class Splitting(beam.DoFn):
    def __init__(self, number: int) -> None:
        self._number = number

    def process(self, pair: Pair) -> Iterator[Any]:
        if (pair[1] + self._number) % 2:
            yield beam.pvalue.TaggedOutput("odd", pair)
        else:
            yield pair


@dataclass(frozen=True)
class Reshuffle(Step):
    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        return inputs[0] | name >> beam.Reshuffle()


@dataclass(frozen=True)
class Into(Step):
    """Other windows, after the timestamps have been moved on."""

    into: Window
    later: int = 0

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        (main,) = inputs
        if self.later:
            main = main | f"{name} later" >> beam.ParDo(Later(self.later))
        return main | name >> self.into.into()

    def window(self, *windows: Window) -> Window:
        return self.into


class Later(beam.DoFn):
    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def process(self, pair: Pair, time: Any = beam.DoFn.TimestampParam) -> Iterator[Any]:
        yield TimestampedValue(pair, min(time + self._seconds, beam.utils.timestamp.MAX_TIMESTAMP))


@dataclass(frozen=True)
class Group(Step):
    """A GroupByKey: 'digest' of the values, or 'each' of them again."""

    how: str

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        grouped = inputs[0] | name >> beam.GroupByKey()
        if self.how == "each":
            return grouped | f"{name} each" >> beam.FlatMapTuple(
                lambda key, numbers: [(key, n) for n in numbers]
            )
        return grouped | f"{name} digest" >> beam.MapTuple(
            lambda key, numbers: (key, digest(sorted(numbers)))
        )


@dataclass(frozen=True)
class Combine(Step):
    """A combine of the values: per key, of all ('globally'), or per key with a fanout."""

    fn: str
    how: str = "key"

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        (main,) = inputs
        fn = COMBINES[self.fn]()
        if self.how == "globally":
            numbers = main | f"{name} numbers" >> beam.Values()
            combined = numbers | name >> beam.CombineGlobally(fn).without_defaults()
            combined = combined | f"{name} keyed" >> beam.Map(lambda result: ("all", result))
        elif self.how == "fanout":
            combined = main | name >> beam.CombinePerKey(fn).with_hot_key_fanout(2)
        else:
            combined = main | name >> beam.CombinePerKey(fn)
        small = self.fn in ("sum", "count", "max", "min")
        return combined | f"{name} total" >> beam.Map(partial(totalled, small=small))


@dataclass(frozen=True)
class Distinct(Step):
    """'distinct' pairs, or the 'count' of each."""

    how: str

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        if self.how == "distinct":
            return inputs[0] | name >> beam.Distinct()
        counted = inputs[0] | name >> combiners.Count.PerElement()
        return counted | f"{name} total" >> beam.MapTuple(
            lambda pair, count: (pair[0], digest((pair, count)))
        )


@dataclass(frozen=True)
class Flatten(Step):
    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        return inputs | name >> beam.Flatten()


@dataclass(frozen=True)
class CoGroup(Step):
    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        sides = {str(number): side for number, side in enumerate(inputs)}
        return (
            sides
            | name >> beam.CoGroupByKey()
            | f"{name} digest"
            >> beam.MapTuple(
                lambda key, found: (
                    key,
                    digest([sorted(numbers) for _, numbers in sorted(found.items())]),
                )
            )
        )


@dataclass(frozen=True)
class Side(Step):
    """A step with a side input: 'iter', 'list', 'dict', 'multimap' or 'singleton' of a node."""

    view: str

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        main, side = inputs
        match self.view:
            case "singleton":
                numbers = side | f"{name} numbers" >> beam.Values()
                total = numbers | f"{name} sum" >> beam.CombineGlobally(sum).without_defaults()
                view: Any = beam.pvalue.AsSingleton(total, default_value=-1)
            case "dict":
                total = side | f"{name} sum" >> beam.CombinePerKey(sum)
                view = beam.pvalue.AsDict(total)
            case "multimap":
                view = beam.pvalue.AsMultiMap(side)
            case "iter":
                view = beam.pvalue.AsIter(side)
            case _:
                view = beam.pvalue.AsList(side)
        return main | name >> beam.Map(partial(beside, self.view), view)


def beside(view: str, pair: Pair, side: Any) -> Pair:
    key, number = pair
    match view:
        case "singleton":
            return key, number * 1000 + side
        case "dict":
            return key, digest((number, side.get(key), sorted(side.items())))
        case "multimap":
            return key, digest((number, sorted(side[key])))
        case _:
            return key, digest((number, sorted(side)))


@dataclass(frozen=True)
class StatefulSide(Step):
    """A stateful DoFn with a side input, and other windows.

    Attributes:
        kind: of its state.
        behind: so many seconds behind the end of a window its timer fires.
        into: the windows of what comes out.
    """

    kind: str
    behind: int
    into: Window

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        main, side = inputs
        step = beam.ParDo(Asking(self.kind, self.behind), beam.pvalue.AsIter(side))
        return main | name >> step | f"{name} into" >> self.into.into()

    def window(self, *windows: Window) -> Window:
        return self.into


@dataclass(frozen=True)
class Batches(Step):
    """GroupIntoBatches, and what was in the batches at the end of the window."""

    size: int

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        batches = inputs[0] | name >> beam.GroupIntoBatches(self.size)
        return batches | f"{name} end" >> beam.ParDo(Unbatching())


class Unbatching(beam.DoFn):
    """Puts elements at the end of the window in milliseconds, as finer times are cut by coders."""

    def process(
        self, batch: tuple[str, Iterable[int]], window: Any = beam.DoFn.WindowParam
    ) -> Iterator[Any]:
        for number in batch[1]:
            yield TimestampedValue((batch[0], number), coded_end(window))


@dataclass(frozen=True)
class Stateful(Step):
    """A DoFn of :mod:`random_states`, and other windows, as its timers may be behind theirs.

    Attributes:
        how: 'chain', 'ripe', 'flush' or 'distinct'.
        kind: of its state.
        plan: the timers of a chain.
        delay: of ripe elements, in seconds; of what is flushed the second of the clock.
        into: the windows of what comes out.
    """

    how: str
    kind: str
    plan: Plan
    delay: int
    into: Window

    def apply(self, name: str, *inputs: Pairs) -> Pairs:
        match self.how:
            case "chain":
                step = Chain(self.kind, self.plan)
            case "ripe":
                step = Ripe(self.kind, self.delay)
            case "flush":
                step = Flushing(self.kind, self.delay)
            case _:
                step = Deduplicating(self.kind)
        typed = beam.ParDo(step).with_output_types(Pair)
        found = inputs[0] | name >> typed
        return found | f"{name} into" >> self.into.into()

    def window(self, *windows: Window) -> Window:
        return self.into


# Cases.


@dataclass(frozen=True)
class Case:
    """A pipeline: the timelines of its sources, and its steps."""

    timelines: tuple[Timeline, ...]
    steps: tuple[Step, ...]

    @property
    def is_for_all(self) -> bool:
        """Whether Beam's own runner has all that it asks for: its timers are less exact."""
        return not any(isinstance(step, Stateful | StatefulSide | Batches) for step in self.steps)

    def windows(self) -> list[Window]:
        """Those of the sources and of what each step makes."""
        windows = [Window()] * len(self.timelines)
        for step in self.steps:
            windows.append(step.window(*(windows[at] for at in step.inputs)))
        return windows

    def build(self, p: beam.Pipeline, *, streaming: bool) -> None:
        """Applies all, and has what is found put into :data:`FOUND`."""
        nodes = (streamed if streaming else created)(p, self.timelines)
        for number, step in enumerate(self.steps):
            name = f"{number} {type(step).__name__}"
            nodes.append(step.apply(name, *(nodes[at] for at in step.inputs)))
        read = {at for step in self.steps for at in step.inputs}
        for number in range(len(self.steps)):
            at = len(self.timelines) + number
            if at not in read:
                collect(nodes[at], f"{number}")


def collect(node: Pairs, label: str) -> None:
    """Puts what a PCollection has into :data:`FOUND`, with its times and windows."""
    put(node | f"see {label}" >> beam.ParDo(Seen()), label)


def at_the_end() -> beam.WindowInto:
    """The window that all elements are in, whichever windows they come from."""
    return beam.WindowInto(
        GlobalWindows(),
        trigger=DefaultTrigger(),
        accumulation_mode=AccumulationMode.DISCARDING,
        allowed_lateness=0,
    )


def put(node: Pairs, label: str) -> None:
    """Puts the elements of a PCollection into :data:`FOUND`, whichever windows they are in."""
    (
        node
        | f"see {label} at the end" >> at_the_end()
        | f"see {label} together" >> beam.WithKeys(0)
        | f"see {label} all" >> beam.GroupByKey()
        | f"see {label} found" >> beam.MapTuple(partial(_put, label, "".join(FOLDER)))
    )


class Seen(beam.DoFn):
    def process(
        self,
        element: Any,
        time: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[str]:
        # Beam's coders keep milliseconds.
        yield f"{element!r} at {time.micros // 1000 / 1000:.3f} in {window}"


def _put(label: str, folder: str, _: Any, found: Iterable[Any]) -> None:
    FOUND[label] = sorted(found)
    if folder:
        Path(folder, label).write_text(repr(FOUND[label]))


def left(folder: str) -> dict[str, list[Any]]:
    """What a pipeline has left in a folder."""
    return {path.name: ast.literal_eval(path.read_text()) for path in Path(folder).iterdir()}
