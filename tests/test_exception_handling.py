"""Dead letters of ``with_exception_handling``: also what the coder of the output refuses."""

from collections.abc import Callable, Iterable
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import TaggedOutput
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from in_process import StreamingRunner
from in_process_batch import BatchRunner

BIG = 2**70


class Doubtful(beam.DoFn):
    """Doubles numbers, and puts out one too large for some."""

    def setup(self) -> None:
        self._factor = 2

    def process(self, number: int, more: int, window: Any = beam.DoFn.WindowParam) -> Iterable[int]:
        if number == 3:
            yield 1
            yield BIG
        elif number == 4:
            yield TimestampedValue(BIG, 5)  # type: ignore[misc]
        elif number == 5:
            yield TaggedOutput("aside", BIG)  # type: ignore[misc]
        elif number == 6:
            raise ValueError("\ud800")
        else:
            yield number * self._factor + more


def pair(number: int) -> tuple[str, int]:
    return "k", 2 ** (62 + number)


CASES: dict[str, tuple[Callable[[], Any], list[int], list[Any], list[int]]] = {
    "a DoFn": (lambda: beam.ParDo(Doubtful(), 100), [1, 2, 3, 4, 5, 6], [102, 104], [3, 4, 6]),
    "a pair": (lambda: beam.Map(pair), [0, 1], [("k", 2**62)], [1]),
    "a text": (
        lambda: beam.Map(lambda number: chr(number)).with_output_types(str),
        [97, 0xD800],
        ["a"],
        [0xD800],
    ),
    "a list": (
        lambda: beam.FlatMap(lambda number: [[number], [number << 60]]).with_output_types(
            beam.typehints.List[int]
        ),
        [1, 8],
        [[1], [1 << 60]],
        [8],
    ),
    "a row": (
        lambda: beam.Map(lambda number: beam.Row(n=int(number << 60))).with_output_types(
            beam.typehints.row_type.RowTypeConstraint.from_fields([("n", int)])
        ),
        [1, 8],
        [beam.Row(n=1 << 60)],
        [8],
    ),
    "anything": (lambda: beam.Map(lambda number: {number << 60}), [8], [{8 << 60}], []),
}
"""Makes a step; numbers, the outputs of the step, and the numbers on which it fails."""


@pytest.mark.parametrize("runner", [BatchRunner, StreamingRunner])
@pytest.mark.parametrize("case", CASES)
def test_what_no_coder_takes_is_a_dead_letter(case: str, runner: Any) -> None:
    make, numbers, good, bad = CASES[case]
    options = ["--streaming"] if runner is StreamingRunner else []
    with beam.Pipeline(runner(), options=PipelineOptions(options)) as pipeline:
        step = make().with_exception_handling()
        found, wrong = pipeline | beam.Create(numbers) | "Step" >> step
        assert_that(found | "Shuffle" >> beam.Reshuffle(), equal_to(good), label="Good")
        letters = wrong | beam.Reshuffle() | "Number" >> beam.Map(lambda letter: letter[0])
        assert_that(letters, equal_to(bad), label="Bad")
