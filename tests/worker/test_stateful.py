"""Stateful DoFns over blocks, in batch and in streaming without a JVM."""

from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import FastPrimitivesCoder, VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.combiners import ToListCombineFn
from apache_beam.transforms.userstate import (
    CombiningValueStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
)
from apache_beam.transforms.window import (
    TimestampedValue,
)
from in_process import StreamingRunner
from in_process_batch import BatchRunner

MANY = 50


def pipeline() -> beam.Pipeline:
    return beam.Pipeline(StreamingRunner(), options=PipelineOptions())


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


class Numbering(beam.DoFn):
    """Tells each element with the number of those of its key before it."""

    COUNT = ReadModifyWriteStateSpec("count", VarIntCoder())

    def process(
        self, element: tuple[int, Any], count: Any = beam.DoFn.StateParam(COUNT)
    ) -> Iterator[tuple[int, Any]]:
        number = count.read() or 0
        count.write(number + 1)
        yield number, element


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
@pytest.mark.parametrize("values", [[5], [None, (1, 2)], [(1, 2), [3]]], ids=repr)
def test_elements_of_a_key_keep_their_order(values: list[Any], runner: Any) -> None:
    """Where single elements and blocks with one or with many timestamps take turns."""
    made = [(n % 3, n if n % 2 else (values[n // MANY % len(values)], n)) for n in range(MANY * 6)]

    def stamped(_: Any) -> Iterator[Any]:
        for n, pair in enumerate(made):
            times = [1, 2, n, 1, n, 2]
            yield TimestampedValue(pair, times[n // MANY])

    with beam.Pipeline(runner(), options=PipelineOptions()) as p:
        found = p | beam.Create([0]) | beam.FlatMap(stamped) | beam.ParDo(Numbering())
        expected = [
            (number, pair)
            for key in range(3)
            for number, pair in enumerate(one for one in made if one[0] == key)
        ]
        assert_that(found, equal_to(expected))
