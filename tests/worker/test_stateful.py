"""Stateful DoFns over blocks, in batch and in streaming without a JVM."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import FastPrimitivesCoder, VarIntCoder
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import (
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    TimerSpec,
    on_timer,
)
from apache_beam.transforms.window import (
    GlobalWindow,
    GlobalWindows,
    SlidingWindows,
    TimestampedValue,
)
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import WindowedValue
from in_process import StreamingRunner
from in_process_batch import BatchRunner
from packed_rows import Rows
from writer_outputs import output

from sparkbeam.plan.row_formats import KeyedRows
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.format_registry import writer_of
from sparkbeam.worker.row_formats.keyed_rows import KeyedSource

MANY = 50


def pipeline() -> beam.Pipeline:
    return beam.Pipeline(StreamingRunner(), options=PipelineOptions())


class Counting(beam.DoFn):
    """Counts the elements of a key and window."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def __init__(self) -> None:
        self._started = 0

    def setup(self) -> None:
        self._started = 1

    def process(
        self,
        element: tuple[Any, Any],
        window: Any = beam.DoFn.WindowParam,
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Iterator[tuple[str, Any, int]]:
        count.write((count.read() or 0) + self._started)
        start = None if isinstance(window, GlobalWindow) else int(window.start)
        yield repr(element[0]), start, count.read()


class Collecting(beam.DoFn):
    """Tells what was there before each element, and what is once it has been added."""

    ALL = CombiningValueStateSpec("all", FastPrimitivesCoder(), ToListCombineFn())
    KINDS = SetStateSpec("kinds", FastPrimitivesCoder())

    def process(
        self,
        element: tuple[str, int],
        collected: Any = beam.DoFn.StateParam(ALL),
        kinds: Any = beam.DoFn.StateParam(KINDS),
        key: Any = beam.DoFn.KeyParam,
        time: Any = beam.DoFn.TimestampParam,
    ) -> list[tuple[str, int, list[int], list[int], list[int]]]:
        before = collected.read()
        collected.add(element[1])
        kinds.add(element[1] % 3)
        return [(key, int(time), before, collected.read(), sorted(kinds.read()))]


def test_keys_are_told_apart_by_their_encoding() -> None:
    with pipeline() as p:
        keys = p | beam.Create([(key, None) for key in (1, True, 1.0, "1") for _ in range(MANY)])
        counts = keys | beam.ParDo(Counting()) | beam.Filter(lambda found: found[2] >= MANY)
        assert_that(counts, equal_to([(key, None, MANY) for key in ("1", "True", "1.0", "'1'")]))


def test_each_window_of_an_element_has_its_own_state() -> None:
    with pipeline() as p:
        stamped = p | beam.Create([TimestampedValue(("k", n), 12) for n in range(MANY)])
        placed = stamped | beam.Map(lambda e: e) | beam.WindowInto(SlidingWindows(10, 5))
        last = placed | beam.ParDo(Counting()) | beam.Filter(lambda found: found[2] == MANY)
        assert_that(last, equal_to([("'k'", 5, MANY), ("'k'", 10, MANY)]))


def test_what_was_read_of_an_accumulator_stays_as_it_was() -> None:
    with pipeline() as p:
        elements = p | beam.Create([("k", n) for n in range(3)])
        found = elements | beam.Map(lambda e: TimestampedValue(e, e[1])) | beam.ParDo(Collecting())
        expected = [
            ("k", 0, [], [0], [0]),
            ("k", 1, [0], [0, 1], [0, 1]),
            ("k", 2, [0, 1], [0, 1, 2], [0, 1, 2]),
        ]
        assert_that(found, equal_to(expected))


class Appending(beam.DoFn):
    """Puts out a list that it goes on changing, and takes one apart that it does not write."""

    LIST = ReadModifyWriteStateSpec("list", FastPrimitivesCoder())

    def process(
        self, element: tuple[str, int], state: Any = beam.DoFn.StateParam(LIST)
    ) -> list[list[int]]:
        found = state.read() or []
        if element[1] < MANY:
            found.append(element[1])
            state.write(found)
            return [found]
        return [[found.pop(), len(state.read())]]


def test_results_do_not_change_with_the_state() -> None:
    events = (
        TestStream(coder=FastPrimitivesCoder())
        .add_elements([("k", n) for n in range(MANY)])
        .advance_watermark_to(1)
        .add_elements([("k", MANY) for _ in range(MANY)])
        .advance_watermark_to_infinity()
    )
    with pipeline() as p:
        found = p | events | beam.ParDo(Appending())
        grown = [list(range(n + 1)) for n in range(MANY)]
        assert_that(found, equal_to([*grown, *[[MANY - 1, MANY]] * MANY]))


class Priced(beam.DoFn):
    """Sums a key up, with side inputs of all kinds."""

    SUM = CombiningValueStateSpec("sum", combine_fn=sum)

    def process(
        self,
        element: tuple[str, int],
        most: tuple[str, int],
        total: Any = beam.DoFn.StateParam(SUM),
        few: Any = (),
        names: Any = None,
    ) -> Iterator[tuple[str, int, list[tuple[str, int]]]]:
        total.add(element[1])
        if total.read() == most[1]:
            yield names[element[0]], total.read(), sorted(few)


@pytest.mark.parametrize("runner", [FnApiRunner, BatchRunner, StreamingRunner])
def test_a_dofn_has_state_and_side_inputs(runner: Any) -> None:
    with beam.Pipeline(runner(), options=PipelineOptions()) as p:
        # All are pairs, as Beam takes any of the inputs for the main one where it looks for keys.
        most = beam.pvalue.AsSingleton(p | "most" >> beam.Create([("most", MANY)]))
        few = beam.pvalue.AsList(p | "few" >> beam.Create([("few", 2), ("few", 1)]))
        names = beam.pvalue.AsDict(p | "names" >> beam.Create([("a", "A"), ("b", "B")]))
        ones = p | "ones" >> beam.Create([(key, 1) for key in "ab" for _ in range(MANY)])
        found = ones | beam.ParDo(Priced(), most, few=few, names=names)
        assert_that(found, equal_to([(key, MANY, [("few", 1), ("few", 2)]) for key in "AB"]))


class Following(beam.DoFn):
    """Has a timer in processing time that sets one in event time."""

    CLOCK = TimerSpec("clock", TimeDomain.REAL_TIME)
    EVENT = TimerSpec("event", TimeDomain.WATERMARK)

    def process(self, element: tuple[str, int], clock: Any = beam.DoFn.TimerParam(CLOCK)) -> None:
        clock.set(1)

    @on_timer(CLOCK)
    def on_clock(self, event: Any = beam.DoFn.TimerParam(EVENT)) -> Iterator[str]:
        event.set(2)
        yield "clock"

    @on_timer(EVENT)
    def on_event(self) -> Iterator[str]:
        yield "event"


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
def test_a_timer_that_is_set_late_by_another_fires(runner: Any) -> None:
    with beam.Pipeline(runner(), options=PipelineOptions()) as p:
        found = p | beam.Create([("k", 1)]) | beam.ParDo(Following())
        assert_that(found, equal_to(["clock", "event"]))


@pytest.mark.parametrize("values", [[5], [None, (1, 2)], [(1, 2), [3]]], ids=repr)
@pytest.mark.parametrize(
    "stamps", [[1, 1, 1], [1, 2, 1], [1, None, 2], [1, 0, 1, 0, 0], [None, 1, None, 1, 2, 1, 0]]
)
def test_elements_of_a_key_keep_their_order(stamps: list[int | None], values: list[Any]) -> None:
    """Where single elements (None) and blocks with one or with many timestamps (0) take turns."""
    pair = beam.coders.TupleCoder([VarIntCoder(), FastPrimitivesCoder()])
    coder = beam.coders.WindowedValueCoder(pair, GlobalWindowCoder())
    rows = Rows()
    windowing = beam.Windowing(GlobalWindows())
    sink = writer_of(output(rows, KeyedRows(), coder, windowing))
    written: list[tuple[tuple[int, Any], int]] = []
    for turn, stamp in enumerate(stamps):
        some = [(n % 3, values[turn % len(values)] if n % 2 else n) for n in range(MANY)]
        times = [stamp or n for n in range(MANY)]
        template = WindowedValue(None, Timestamp(times[0]), (GlobalWindow(),))
        if stamp:
            sink.write(Block(template, some))
        elif stamp == 0:
            sink.write(Block(template, some, [1_000_000 * time for time in times]))
        else:
            for value, time in zip(some, times, strict=True):
                sink.add(WindowedValue(value, Timestamp(time), (GlobalWindow(),)))
        written += zip(some, times, strict=True)
    sink.flush()
    read = [
        (element.value, int(element.timestamp))
        for block in KeyedSource(coder).blocks(row[1:] for row in sorted(rows.rows))
        for element in block.elements()
    ]
    for key in range(3):
        assert [e for e in read if e[0][0] == key] == [e for e in written if e[0][0] == key]
