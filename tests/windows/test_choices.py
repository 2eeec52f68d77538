"""What is chosen of many values comes to what the CombineFn makes of all of them."""

from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms import combiners
from apache_beam.utils.timestamp import MIN_TIMESTAMP, Timestamp
from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.accumulators.choices import choice_of
from sparkbeam.columns.python_types import BYTES, INT, STR, TIMESTAMP, RecordShape, Shape
from sparkbeam.columns.python_values import values_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=3)
TIMES = st.integers(-3, 3) | st.integers(MIN_TIMESTAMP.micros, 2**62)
LATEST = RecordShape(tuple, ("0", "1"), (STR, TIMESTAMP))

EXTREMES: dict[str, beam.CombineFn] = {
    "min": beam.CombineFn.from_callable(min),
    "max": beam.CombineFn.from_callable(max),
    "largest": combiners.TopCombineFn(1),
    "smallest": combiners.Smallest(1),
}


def combined(combine_fn: beam.CombineFn, values: list[Any]) -> str:
    accumulator = combine_fn.add_inputs(combine_fn.create_accumulator(), values)
    return repr(combine_fn.extract_output(accumulator))


def check(combine_fn: beam.CombineFn, places: list[int], array: pa.Array, shape: Shape) -> None:
    choice = choice_of(combine_fn)
    assert choice is not None
    assert choice.is_for(shape)
    groups, chosen = choice.chosen(np.array(places, np.int64), array)
    assert sorted(groups.tolist()) == sorted(set(places))
    values = values_of(array, shape)
    for place, value in zip(groups.tolist(), values_of(chosen, shape), strict=True):
        group = [one for one, at in zip(values, places, strict=True) if at == place]
        assert combined(combine_fn, [value]) == combined(combine_fn, group)


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), "dictionary"])
@given(data=st.data())
def test_the_least_and_greatest_text_is_that_of_python(
    name: str, kind: Any, data: st.DataObject
) -> None:
    of_bytes = kind == pa.binary()
    pairs = data.draw(
        st.lists(
            st.tuples(st.integers(0, 2), st.binary(max_size=3) if of_bytes else TEXT), min_size=1
        )
    )
    values = [value for _, value in pairs]
    array = pa.array(values).dictionary_encode() if kind == "dictionary" else pa.array(values, kind)
    check(EXTREMES[name], [place for place, _ in pairs], array, BYTES if of_bytes else STR)


@given(st.lists(st.tuples(st.integers(0, 2), TEXT, TIMES), min_size=1))
def test_the_latest_of_equal_times_is_the_last(rows: list[tuple[int, str, int]]) -> None:
    times = pa.array([micros for *_, micros in rows]).cast(TIMESTAMP.arrow_type)
    texts = pa.array([text for _, text, _ in rows])
    array = pa.StructArray.from_arrays([texts, times], ["0", "1"])
    assert values_of(array, LATEST) == [(t, Timestamp(micros=micros)) for _, t, micros in rows]
    check(combiners.LatestCombineFn(), [place for place, *_ in rows], array, LATEST)


def test_other_combines_choose_nothing() -> None:
    for other in (combiners.TopCombineFn(2), combiners.MeanCombineFn()):
        assert choice_of(other) is None
    least = choice_of(EXTREMES["min"])
    assert least is not None
    assert not least.is_for(INT)
