"""Pairs in columns are aggregated by key and window, however often they settle."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.window import FixedWindows, GlobalWindows, Sessions, WindowFn
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.columns.python_types import INT, STR, RecordShape
from sparkbeam.plan.combine_columns import CombinePlan
from sparkbeam.plan.grouping import SessionAggregator
from sparkbeam.worker.blocks import GLOBAL, Block
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.steps.combine_columns import ColumnCombine
from sparkbeam.worker.value_columns import Column, column_of

FN = CombineFn.from_callable(sum)
KEYS: dict[str, tuple[Any, list[Any]]] = {
    "int": (INT, [0, -5, 7, 2**62]),
    "int or None": (INT, [0, None, 7, 2**62]),
    "str": (STR, ["a", "", "bc", "d"]),
    "str or None": (STR, ["a", None, "bc", "d"]),
    "tuple": (RecordShape(tuple, ("0", "1"), (STR, INT)), [("a", 1), ("a", 2), ("", 1), ("", 3)]),
}
COLUMNAR = CombinePlan(aggregator=SessionAggregator.COLUMNAR)


def block_of(
    shape: Any, keys: list[Any], numbers: list[int], window_fn: WindowFn, *, in_dictionary: bool
) -> Block:
    if isinstance(shape, RecordShape):
        parts = [pa.array(list(part)) for part in zip(*keys, strict=True)]
        if in_dictionary:
            parts[0] = parts[0].dictionary_encode()
        array = pa.StructArray.from_arrays(parts, ["0", "1"])
    else:
        array = pa.array(keys, pa.int64() if shape == INT else pa.string())
        array = array.dictionary_encode() if in_dictionary else array
    pairs = pa.StructArray.from_arrays([array, pa.array(numbers)], ["0", "1"])
    column = column_of(pairs, RecordShape(tuple, ("0", "1"), (shape, INT)))
    block = Block(GLOBAL, column, np.arange(len(keys)) * 1000)
    return block if isinstance(window_fn, GlobalWindows) else block.with_assigned(window_fn)


@pytest.mark.parametrize("window_fn", [GlobalWindows(), FixedWindows(100), Sessions(10)])
@pytest.mark.parametrize("kind", KEYS)
@settings(max_examples=25)
@given(data=st.data())
def test_each_key_has_the_sum_of_its_values(kind: str, window_fn: WindowFn, data: Any) -> None:
    shape, keys = KEYS[kind]
    form = form_of(FN)
    assert form is not None
    are_sessions = isinstance(window_fn, Sessions)
    plan = COLUMNAR if are_sessions else CombinePlan(take_slices=True)
    columns = ColumnCombine(FN, form, Windowing(window_fn), plan)
    expected: Counter[Any] = Counter()
    found: Counter[Any] = Counter()

    def put_out() -> None:
        columns.flush_pending()
        for ready in columns.ready():
            assert isinstance(ready.batch, KeyedAggregates)
            assert isinstance(ready.batch.keys, Column)
            names, rows = ready.batch.keys.values(), ready.batch.rows
            assert rows.are_numbers
            for place, total in zip(rows.keys.tolist(), rows.totals.tolist(), strict=True):
                found[names[place]] += total

    pairs = st.lists(st.tuples(st.sampled_from(keys), st.integers(-9, 9)), min_size=1, max_size=6)
    for _ in range(data.draw(st.integers(1, 5))):
        some, numbers = map(list, zip(*data.draw(pairs), strict=True))
        block = block_of(shape, some, numbers, window_fn, in_dictionary=data.draw(st.booleans()))
        assert columns.take(block) is None
        for key, number in zip(some, numbers, strict=True):
            expected[key] += number
        if data.draw(st.booleans()):
            columns.flush_pending()
        if data.draw(st.booleans()):
            put_out()
    put_out()
    assert found == expected
