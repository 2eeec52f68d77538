"""What waits before a shuffle is added up in its order, as values and as numbers in turns."""

from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms.combiners import (
    CountCombineFn,
    MeanCombineFn,
    SingleInputTupleCombineFn,
    ToListCombineFn,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkbeam.windows.vectorized_forms import form_of
from sparkbeam.worker.steps.combine_tables import CombineTable

FNS: dict[str, beam.CombineFn] = {
    "mean": MeanCombineFn(),
    "sum": beam.CombineFn.from_callable(sum),
    "min": beam.CombineFn.from_callable(min),
    "several": SingleInputTupleCombineFn(MeanCombineFn(), max, CountCombineFn(), all),
}
KINDS = (
    st.integers(-5, 5),
    st.sampled_from([2**53 + 1, 2**62, -(2**63)]),
    st.sampled_from([0.1, 0.2, -0.7, 1e16, 0.0, -0.0]),
)


@st.composite
def blocks(draw: Any) -> list[tuple[bool, list[tuple[str, Any]]]]:
    """Blocks of values of a type, and whether each may come as numbers."""
    return [
        (draw(st.booleans()), draw(st.lists(st.tuples(st.sampled_from("abc"), kind), min_size=1)))
        for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6))
    ]


@pytest.mark.parametrize("name", FNS)
@settings(max_examples=60)
@given(blocks=blocks(), settles=st.sets(st.integers(0, 5)))
@example(blocks=[(False, [("a", 0.1)]), (True, [("a", 1), ("a", -1)])], settles=set())
def test_values_and_numbers_are_added_up_in_their_order(
    name: str, blocks: Any, settles: set[int]
) -> None:
    fn, form = FNS[name], form_of(FNS[name])
    assert form is not None
    table, expected = CombineTable(fn, form), CombineTable(fn, None)
    for at, (is_column, pairs) in enumerate(blocks):
        keys, values = map(list, zip(*pairs, strict=True))
        expected.gather(keys, values)
        numbers = form.numbers(values) if is_column else None
        if numbers is None:
            table.gather(keys, values)
        else:
            names = sorted(set(keys), reverse=True)
            table.gather_numbers(names, np.array(list(map(names.index, keys))), numbers)
        if at in settles:
            table.add_up()
    for one in (table, expected):
        one.add_up()
    assert table.count == expected.count
    found, wanted = (
        {key: repr(fn.extract_output(one)) for key, one in each.accumulators.items()}
        for each in (table, expected)
    )
    assert found == wanted


def test_keys_of_one_name_are_one() -> None:
    fn = CountCombineFn()
    table = CombineTable(fn, form_of(fn))
    table.gather_numbers(["a", "b", "a"], np.array([0, 1, 2, 2]), np.ones(4, np.int64))
    table.add_up()
    assert table.accumulators == {"a": 3, "b": 1}


def test_without_a_form_there_are_values_alone() -> None:
    table = CombineTable(ToListCombineFn(), None)
    table.gather(["a", "b"], [1, 2])
    table.gather(["a"], [3])
    table.add_up()
    assert table.accumulators == {"a": [1, 3], "b": [2]}
    assert table.count == 3
