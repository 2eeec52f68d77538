"""A coder that fails is named with the step whose data it is, in batch and in streaming."""

from collections.abc import Callable, Iterator
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.coders import Coder, VarIntCoder
from apache_beam.transforms.userstate import (
    BagStateSpec,
    CombiningValueStateSpec,
    OrderedListStateSpec,
    ReadModifyWriteStateSpec,
    SetStateSpec,
    StateSpec,
)

pytestmark = pytest.mark.usefixtures("by_value")


class Odd:
    """What no coder encodes."""


class Refusing(Coder):
    def encode(self, value: object) -> bytes:
        raise ValueError("cannot encode this")

    def is_deterministic(self) -> bool:
        return True


beam.coders.registry.register_coder(Odd, Refusing)


class Gathering(beam.CombineFn):
    def create_accumulator(self) -> list[str]:
        return []

    def add_input(self, accumulator: list[str], element: str) -> list[str]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Any) -> list[str]:
        return [text for texts in accumulators for text in texts]

    def extract_output(self, accumulator: list[str]) -> int:
        return len(accumulator)


def keeping(spec: StateSpec, change: Callable[[Any], None]) -> beam.DoFn:
    """Keeps in a state what its coder cannot encode."""

    class Keep(beam.DoFn):
        def process(
            self, element: tuple[str, int], state: Any = beam.DoFn.StateParam(spec)
        ) -> Iterator[int]:
            change(state)
            yield element[1]

    return Keep()


NUMBERS = VarIntCoder()

STATES = [
    (ReadModifyWriteStateSpec("kept", NUMBERS), lambda state: state.write("text")),
    (CombiningValueStateSpec("kept", NUMBERS, Gathering()), lambda state: state.add("text")),
    (BagStateSpec("kept", NUMBERS), lambda state: state.add("text")),
    (SetStateSpec("kept", NUMBERS), lambda state: state.add("text")),
    (
        OrderedListStateSpec("kept", NUMBERS),
        lambda state: state.add((beam.utils.timestamp.Timestamp(1), "text")),
    ),
]


@pytest.mark.parametrize(("spec", "change"), STATES, ids=lambda part: type(part).__name__)
def test_a_state_that_cannot_be_encoded_is_named_with_its_step(
    spec: StateSpec, change: Callable[[Any], None], failure: Callable[..., Any]
) -> None:
    error = failure(
        lambda p: (
            p
            | beam.Create([("key", 1)])
            | "Before" >> beam.Map(lambda pair: pair).with_output_types(tuple[str, int])
            | "Keep" >> beam.ParDo(keeping(spec, change))
            | "Double" >> beam.Map(lambda number: 2 * number)
            | "Last" >> beam.Map(str)
        )
    )
    assert error.label == "Keep"
    assert "TypeError" in str(error)
    # Beam's sets may be written within the user's own call.
    assert "'kept'" in str(error) or isinstance(spec, SetStateSpec)


@pytest.mark.parametrize("grouped", [False, True])
def test_an_output_that_cannot_be_encoded_is_named_with_the_step_that_made_it(
    grouped: bool, failure: Callable[..., Any]
) -> None:
    shuffle = beam.GroupByKey() if grouped else beam.Reshuffle()
    error = failure(
        lambda p: (
            p
            | beam.Create([1])
            | "Before" >> beam.Map(lambda number: number)
            | "Make" >> beam.Map(lambda n: (n, Odd())).with_output_types(tuple[int, Odd])
            | "Shuffle" >> shuffle
            | "Last" >> beam.Map(str)
        )
    )
    assert error.label == "Make"
    assert "cannot encode an element: ValueError: cannot encode this" in str(error)
    assert "with_output_types" in str(error)


def test_a_side_input_that_cannot_be_encoded_is_named_with_the_step_that_made_it(
    failure: Callable[..., Any],
) -> None:
    def build(p: beam.Pipeline) -> None:
        numbers = p | beam.Create([1])
        side = numbers | "Make" >> beam.Map(lambda _: Odd()).with_output_types(Odd)
        asked = numbers | "Ask" >> beam.Map(lambda n, odd: n, beam.pvalue.AsList(side))
        _ = asked | "Last" >> beam.Map(str)

    error = failure(build)
    assert error.label == "Make"
    assert "cannot encode" in str(error)
