"""A micro-batch that runs again puts out the same, in whatever order its input comes."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import VarIntCoder
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.trigger import AccumulationMode, AfterCount, Repeatedly
from apache_beam.transforms.userstate import BagStateSpec, ReadModifyWriteStateSpec
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, TimestampedValue
from in_process import Crashes, Spark, rounds
from in_process import streaming_pipeline as pipeline
from numbers_sink import write_numbers, written

pytestmark = pytest.mark.usefixtures("by_value")


Keyed = tuple[str, int]


class FirstWins(beam.DoFn):
    """Gives each element with the first of its key."""

    FIRST = ReadModifyWriteStateSpec("first", VarIntCoder())

    def process(
        self, element: Keyed, first: Any = beam.DoFn.StateParam(FIRST)
    ) -> Iterator[tuple[int, int]]:
        if first.read() is None:
            first.write(element[1])
        yield first.read(), element[1]


class Bag(beam.DoFn):
    """Gives all that a key has had so far, in its order."""

    KEPT = BagStateSpec("kept", VarIntCoder())

    def process(
        self, element: Keyed, kept: Any = beam.DoFn.StateParam(KEPT)
    ) -> Iterator[list[int]]:
        kept.add(element[1])
        yield list(kept.read())


def grouped(windows: beam.WindowInto) -> Callable[[Any], Any]:
    return lambda keyed: keyed | windows | beam.GroupByKey() | beam.MapTuple(lambda k, v: list(v))


def joined(keyed: Any) -> Any:
    side = keyed | "side" >> beam.WindowInto(FixedWindows(5)) | beam.Values()
    main = keyed | "main" >> beam.WindowInto(FixedWindows(5))
    return main | "join" >> beam.Map(lambda e, all: (e, list(all)), beam.pvalue.AsList(side))


def twice(keyed: Any) -> Any:
    return (keyed, keyed | beam.Map(lambda e: (e[0], -e[1]))) | beam.Flatten() | beam.ParDo(Bag())


counted = beam.WindowInto(
    GlobalWindows(),
    trigger=Repeatedly(AfterCount(3)),
    accumulation_mode=AccumulationMode.DISCARDING,
)

STEPS: dict[str, Callable[[Any], Any]] = {
    "batches": lambda keyed: keyed | beam.GroupIntoBatches(3),
    "first wins": lambda keyed: keyed | beam.ParDo(FirstWins()),
    "bag": lambda keyed: keyed | beam.ParDo(Bag()),
    "two inputs": twice,
    "fixed windows": grouped(beam.WindowInto(FixedWindows(4))),
    "sessions": grouped(beam.WindowInto(Sessions(2))),
    "counted panes": grouped(counted),
    "ties": lambda keyed: (
        keyed
        | beam.WindowInto(FixedWindows(4))
        | beam.combiners.Top.PerKey(2, key=lambda number: number % 2)
    ),
    "lists": lambda keyed: (
        keyed
        | beam.WindowInto(FixedWindows(4))
        | beam.CombinePerKey(beam.combiners.ToListCombineFn())
    ),
    "sample": lambda keyed: (
        keyed | beam.WindowInto(FixedWindows(4)) | beam.combiners.Sample.FixedSizePerKey(2)
    ),
    "random keys": lambda keyed: (
        keyed | beam.Map(lambda e: (random.randrange(3), e[1])) | beam.GroupIntoBatches(2)
    ),
    "side input": joined,
}


def keyed(p: beam.Pipeline) -> Any:
    """Elements of three keys, from all shards of a layer."""
    events = TestStream(coder=VarIntCoder())
    for second in range(8):
        some = [TimestampedValue(10 * second + n, second) for n in range(6)]
        events = events.add_elements(some).advance_watermark_to(second)
    return (
        p
        | events.advance_watermark_to_infinity()
        | "spread" >> beam.Reshuffle()
        | "keys" >> beam.Map(lambda n: (f"key {n % 3}", n)).with_output_types(Keyed)
    )


@pytest.mark.part(5)
@rounds(5)
@pytest.mark.parametrize("step", STEPS)
def test_the_order_of_blocks_does_not_matter(step: str, tmp_path: Path) -> None:
    with pipeline(Spark(attempts=3), tmp_path) as p:
        STEPS[step](keyed(p)) | "again" >> beam.Reshuffle()


class Repeated(beam.DoFn):
    """Gives each element many times."""

    def process(self, element: Keyed) -> Iterator[Keyed]:
        for _ in range(50):
            yield element


MANY = {
    "flat map": beam.FlatMap(lambda element: [element] * 50),
    "map of blocks": beam.FlatMap(lambda element: [element] * 50) | beam.Map(lambda e: [e]),
    "DoFn": beam.ParDo(Repeated()),
    "combine": beam.CombinePerKey(beam.combiners.ToListCombineFn()),
}


@pytest.mark.parametrize("step", MANY)
def test_blocks_do_not_depend_on_what_a_worker_has_done_before(step: str, tmp_path: Path) -> None:
    elements = [TimestampedValue((f"key {n}", n), n % 3) for n in range(60)]
    events = TestStream().add_elements(elements).advance_watermark_to(1)
    with pipeline(Spark(attempts=3), tmp_path) as p:
        numbers = p | events.add_elements(elements).advance_watermark_to_infinity()
        typed = numbers | beam.Map(lambda element: element).with_output_types(Keyed)
        placed = typed | beam.WindowInto(FixedWindows(9))
        count = placed | beam.CombineGlobally(lambda some: len(list(some))).without_defaults()
        # What waits for a side input goes to a later layer.
        placed | step >> MANY[step] | beam.Map(lambda e, n: (e, n), beam.pvalue.AsIter(count))


@rounds(7)
def test_a_sink_that_knows_a_micro_batch_may_skip_it(tmp_path: Path) -> None:
    spark = Spark(crashes := Crashes())

    def run() -> None:
        with pipeline(spark, tmp_path / "checkpoint") as p:
            _ = (
                keyed(p)
                | beam.Map(lambda e: (random.randrange(3), e[1]))
                | beam.GroupIntoBatches(4)
                | beam.FlatMapTuple(lambda _, numbers: numbers)
                | write_numbers(tmp_path)
            )

    crashes.until_it_ends(run)
    assert len(crashes.points) > 10
    assert written(tmp_path) == sorted(10 * second + n for second in range(8) for n in range(6))
