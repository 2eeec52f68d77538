"""Groups come to the same whether their rows are put in order or not."""

from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.transforms import combiners
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkbeam.accumulators.pair_groups import groups_of
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.columns.order import arranged

FNS: dict[str, beam.CombineFn] = {
    "count": combiners.CountCombineFn(),
    "sum": beam.CombineFn.from_callable(sum),
    "min": beam.CombineFn.from_callable(min),
    "max": beam.CombineFn.from_callable(max),
    "all": beam.CombineFn.from_callable(all),
    "any": beam.CombineFn.from_callable(any),
    "mean": combiners.MeanCombineFn(),
    "largest": combiners.TopCombineFn(1),
    "several": combiners.SingleInputTupleCombineFn(
        combiners.CountCombineFn(), sum, min, combiners.MeanCombineFn()
    ),
}
INTS = st.one_of(st.integers(-9, 9), st.sampled_from([2**53 + 1, 2**62, 2**63 - 1, -(2**63)]))
FLOATS = st.one_of(
    st.sampled_from([0.1, 0.7, 1e16, -0.0, 0.0, float("inf"), float("-inf")]),
    st.floats(allow_nan=False),
)


@pytest.mark.parametrize("name", FNS)
@settings(max_examples=60)
@given(data=st.data())
def test_groups_come_to_what_their_rows_in_order_come_to(name: str, data: Any) -> None:
    form = form_of(FNS[name])
    assert form is not None
    numbers = st.sampled_from([INTS, FLOATS]).flatmap(lambda some: st.lists(some, min_size=1))
    values = data.draw(numbers)
    found = form.numbers(values)
    if found is None:
        return
    few = st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values))
    first = np.array(data.draw(few), np.int64)
    least = data.draw(st.sampled_from([-(2**62), -1, 0, 2**62]))
    second = np.array(data.draw(few), np.int64) + least
    rows = arranged(first, second)
    order, firsts = rows.order, rows.firsts()
    expected = form.add_in_order(found[order], firsts, merges=False)
    # With few of them each has a place, with many the rows are put in order.
    for count in (4, 1000):
        groups = groups_of(first, count, second)
        assert groups.first.tolist() == rows.first[firsts].tolist()
        assert groups.second.tolist() == rows.second[firsts].tolist()
        added = groups.added(form, found)
        assert repr(None if added is None else added.tolist()) == repr(
            None if expected is None else expected.tolist()
        )
        for ufunc in (np.add, np.minimum, np.maximum):
            combined = groups.combined(ufunc, second - least)
            assert combined.tolist() == ufunc.reduceat((second - least)[order], firsts).tolist()
