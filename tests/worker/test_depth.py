"""How deep a chain of steps may be, and the user's code below it."""

from functools import reduce
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.errors import PipelineFailed


def down(number: int, depth: int = 900) -> int:
    """Calls itself as often as it may in a program of its own."""
    return number if not depth else down(number, depth - 1)


def endless(number: int) -> int:
    return endless(number + 1)


class Next(beam.DoFn):
    def process(self, number: int) -> Any:
        yield number + 1


STEPS: list[Any] = [
    lambda: beam.Map(lambda number: number + 1),
    lambda: beam.FlatMap(lambda number: [number + 1]),
    lambda: beam.FlatMap(lambda number: (number + one for one in (1,))),
    lambda: beam.ParDo(Next()),
]


def chain(p: beam.Pipeline, length: int) -> beam.PCollection:
    """A chain of steps of all kinds, and a function that recurses below."""
    numbers = p | beam.Create(range(10))
    for at in range(length):
        numbers |= f"step {at}" >> STEPS[at % len(STEPS)]()
    return numbers | "down" >> beam.Map(down)


def test_a_thousand_steps_and_a_recursion_below_them() -> None:
    with beam.Pipeline(StreamingRunner(), options=PipelineOptions()) as p:
        total = chain(p, 1000) | beam.CombineGlobally(sum)
        assert_that(total, equal_to([sum(range(10)) + 10 * 1000]))


def test_a_chain_of_steps_and_a_recursion_below_it_in_batch() -> None:
    with beam.Pipeline(BatchRunner(), options=PipelineOptions()) as p:
        assert_that(chain(p, 196), equal_to(range(196, 206)))


def test_many_inputs_flattened_in_turn() -> None:
    with beam.Pipeline(StreamingRunner(), options=PipelineOptions()) as p:
        parts = [p | f"create {at}" >> beam.Create([at]) for at in range(100)]

        def both(left: Any, right: Any) -> Any:
            label = f"flatten {id(right)}"
            return (left, right) | label >> beam.Flatten()

        assert_that(reduce(both, parts), equal_to(range(100)))


@pytest.mark.parametrize("above", [0, 60])
def test_a_recursion_without_end_is_the_fault_of_its_step(above: int) -> None:
    p = beam.Pipeline(StreamingRunner(), options=PipelineOptions())
    numbers = p | beam.Create([1, 2, 3])
    for at in range(above):
        numbers |= f"step {at}" >> STEPS[at % len(STEPS)]()
    _ = numbers | "endless" >> beam.Map(endless) | "after" >> beam.Map(down)
    with pytest.raises(PipelineFailed, match=r"Step 'endless' failed: RecursionError") as caught:
        p.run().wait_until_finish()
    assert "coder" not in str(caught.value)
    assert len(str(caught.value).splitlines()) < 30
