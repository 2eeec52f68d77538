"""Dead letters of ``with_exception_handling``: also what the coder of the output refuses."""

import math
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple, Optional

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.pvalue import TaggedOutput
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import TimestampedValue
from apache_beam.typehints import typehints
from apache_beam.typehints.row_type import RowTypeConstraint
from apache_beam.utils.timestamp import Timestamp
from in_process import StreamingRunner
from in_process_batch import BatchRunner

from sparkbeam.replaced.encodable import Encodable

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


class Unprintable(Exception):
    def __str__(self) -> str:
        return "\ud800"


class WithoutText(Exception):
    def __repr__(self) -> str:
        raise KeyError


def failing(number: int) -> int:
    raise [Unprintable, WithoutText][number]


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
    "a text of any type": (lambda: beam.Map(lambda at: {"a": [chr(at)]}), [0xD800], [], [0xD800]),
    "an error's text": (lambda: beam.Map(failing), [0, 1], [], [0, 1]),
    "a timestamp": (
        lambda: beam.Map(lambda at: TimestampedValue(at, at)),
        [7, 2**62],
        [7],
        [2**62],
    ),
    "a fraction": (lambda: beam.Map(lambda n: n / 2).with_output_types(int), [3, 4], [2], [3]),
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


def test_a_tagged_output_is_checked_by_its_type() -> None:
    with beam.Pipeline(BatchRunner()) as pipeline:
        step = beam.ParDo(Doubtful(), 1).with_output_types(int, aside=int)
        found = pipeline | beam.Create([5]) | step.with_exception_handling().with_outputs("aside")
        assert_that(found.aside | beam.Reshuffle(), equal_to([]), label="Good")
        assert_that(found.bad | beam.Map(lambda letter: letter[0]), equal_to([5]), label="Bad")


class Inner(NamedTuple):
    n: np.int32


INTEGERS: tuple[list[Any], list[Any]] = ([2, 2.0, True], [2.5, Decimal("2.5"), math.nan, "2", None])
KINDS: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [2**63 - 1, *INTEGERS[0]], [2**63, *INTEGERS[1]]),
    (np.int32, [-(2**31), *INTEGERS[0]], [2**31, *INTEGERS[1]]),
    (np.int16, *INTEGERS),
    (np.int8, *INTEGERS),
    (float, [0.1, 1, math.inf], [2**2000, Decimal("1e400"), "1"]),
    (np.float32, [0.1, 3.4028235e38, -math.inf, Decimal("Infinity")], [-1e300, 3.4028236e38, "1"]),
    (bool, [True, np.False_, 1], ["false", 5, [], None]),
    (str, ["a"], ["\udfff", b"a", 1]),
    (bytes, [b"a"], ["a", 1]),
    (Decimal, [Decimal(10) ** 60 + 1], [Decimal("NaN"), 2.5]),
    (Timestamp, [Timestamp(5)], [5]),
    (Optional[int], [None, 2], [2.5]),  # noqa: UP045 - Beam's own types.
    (Sequence[int], [[2.0], np.array([2.0])], [[2, 2.5], np.array([2.5]), [None], 2]),
    (Mapping[int, bool], [{2: True}], [{2.5: True}, {2: 5}]),
    (Mapping[str, Sequence[np.float32]], [{"a": [1]}], [{"a": [1e300]}]),
    (Inner, [beam.Row(n=2.0)], [beam.Row(n=2.5), 5]),
    (Any, ["a", (2**70, b"a"), len], ["\ud800", {"a": ("\ud800",)}]),
]
"""The type of a field, values that its coder gives back, and others."""

ELEMENTS: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [2.0], [2.5]),
    (typehints.Tuple[str, typehints.List[int]], [("a", [2])], [("a", [2, 2.5]), ("a",)]),
    (typehints.Dict[float, bool], [{1: True}], [{1: 5}, {2**2000: True}]),
    (typehints.Optional[bool], [None, False], ["no"]),
    (Any, ["a", (2**70, b"a"), lambda: 1], ["\ud800", {"a": ("\ud800",)}]),
]


@pytest.mark.parametrize(
    ("kind", "good", "bad", "is_field"),
    [*((*case, True) for case in KINDS), *((*case, False) for case in ELEMENTS)],
)
def test_a_value_that_its_coder_refuses_or_changes_is_an_error(
    kind: Any, good: list[Any], bad: list[Any], is_field: bool
) -> None:
    fields = RowTypeConstraint.from_fields([("a", kind)])
    check: Encodable = pickle.loads(pickle.dumps(Encodable(fields if is_field else kind)))
    told = "field .a.* cannot hold" if is_field else "encoded: "
    for value in good:
        check(beam.Row(a=value) if is_field else value)
    for value in bad:
        with pytest.raises(ValueError, match=told):
            check(beam.Row(a=value) if is_field else value)
