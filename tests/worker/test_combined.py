"""Accumulators that are merged over columns come to what they come to one by one."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.transforms import cy_combiners
from apache_beam.transforms.combiners import (
    CountCombineFn,
    MeanCombineFn,
    SingleInputTupleCombineFn,
    TopCombineFn,
)
from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.window import Sessions, TimestampCombiner
from hypothesis import given, settings
from hypothesis import strategies as hs
from merged import KEYS, LABEL, PACK_SIZES, Rows, outputs, packs_of
from writer_outputs import output

from sparkbeam.accumulators.vectorized_accumulator import INTS
from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.aggregate.aggregates import objects
from sparkbeam.aggregate.columnar_sessions import SessionColumns
from sparkbeam.plan.row_formats import AggregateRows
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.row_packs import unpacked
from sparkbeam.worker.blocks import in_blocks
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.grouping.combined import combined_groups
from sparkbeam.worker.keyed_aggregates import KeyedAggregates
from sparkbeam.worker.row_formats.aggregate_cells import AggregateReader, number_cells, numbers_in
from sparkbeam.worker.row_formats.aggregate_rows import SessionSink, sessions

FNS: dict[str, CombineFn] = {
    "sum": CombineFn.from_callable(sum),
    "min": CombineFn.from_callable(min),
    "max": cy_combiners.MaxInt64Fn(),
    "least float": cy_combiners.MinFloatFn(),
    "count": CountCombineFn(),
    "mean": MeanCombineFn(),
    "all": CombineFn.from_callable(all),
    "top": TopCombineFn(1),
    "several": SingleInputTupleCombineFn(max, MeanCombineFn(), CountCombineFn()),
}
NUMBERS: dict[str, Any] = {
    "sum": hs.sampled_from([1, -7, 2**62, -(2**63)]),
    # No two are equal: of such it is the first one to come, and they come in any order.
    "min": hs.sampled_from([2, -7, 1.5, -0.0, float("inf"), True]),
    "max": hs.sampled_from([1, -7, 2**63 - 1]),
    "least float": hs.sampled_from([0.5, -3.25, 1e300, 0.0]),
    "count": hs.sampled_from(["a", None]),
    "mean": hs.sampled_from([1, -7, 2**62, 0.5, -3.25]),
    "all": hs.sampled_from([1, 0, None, "a", ""]),
    "top": hs.sampled_from([1, -7, 1.5, 2**62]),
    "several": hs.sampled_from([1, -7, 2**62, 0.5]),
}


def windowing(combiner: Any) -> Windowing:
    return Windowing(Sessions(10), timestamp_combiner=combiner)


def coder_of(of: Windowing) -> coders.WindowedValueCoder:
    pair = coders.TupleCoder([coders.FastPrimitivesCoder(), coders.FastPrimitivesCoder()])
    return coders.WindowedValueCoder(pair, of.windowfn.get_window_coder())


def written(parts: list[Any], fn: CombineFn, of: Windowing, *, columns: bool) -> Rows:
    """The rows of tasks, each of which has had some elements: sessions by key."""
    rows = Rows()
    format = AggregateRows(sessions=True, packed=columns)
    sink = SessionSink(output(rows, format, coder_of(of), of))
    make = SessionColumns(fn, min)
    for elements in parts:
        keys = list(dict.fromkeys((type(key), key) for key, *_ in elements))
        numbers = np.array([keys.index((type(key), key)) for key, *_ in elements])
        starts = np.array([start * 1000 for _, start, _, _ in elements])
        ends = starts + np.array([length * 1000 for _, _, length, _ in elements])
        found = make.reduce(numbers, starts, ends, starts, [value for *_, value in elements])
        if not columns:
            found = replace(found, totals=objects(make.accumulators(found)))
        sink.write(KeyedAggregates([key for _, key in keys], found))
    return rows


@pytest.mark.part(4)
@pytest.mark.parametrize("name", FNS)
@settings(max_examples=60)
@given(data=hs.data())
def test_sessions_over_columns_are_those_of_rows(name: str, data: Any) -> None:
    keys = KEYS[data.draw(hs.sampled_from(sorted(KEYS)))]
    elements = hs.tuples(
        hs.sampled_from(keys), hs.integers(-9, 9), hs.integers(1, 4), NUMBERS[name]
    )
    parts = data.draw(hs.lists(hs.lists(elements, min_size=1, max_size=8), min_size=1, max_size=5))
    combiner = data.draw(hs.sampled_from([0, 1, 2]))
    size = data.draw(hs.sampled_from([1, 2, 5, 100]))
    fn, of = FNS[name], windowing(combiner)
    rows = written(parts, fn, of, columns=False)
    ordered = (row[1:] for row in sorted(rows.rows, key=lambda row: row[1:3]))
    expected = outputs(in_blocks(sessions(ordered, coder_of(of), of)), fn)
    combine = Combine(fn, form_of(fn), LABEL)
    with packs_of(data.draw(PACK_SIZES)):
        batches = written(parts, fn, of, columns=True).batches(size)
        packed = unpacked(batches)
        assert outputs(combined_groups(packed, coder_of(of), of, combine), fn) == expected


def test_what_fails_in_a_merge_is_the_user_s() -> None:
    fn, of = FNS["min"], windowing(TimestampCombiner.OUTPUT_AT_EOW)
    parts = [[("a", 0, 2, 1)], [("a", 1, 2, "text")]]
    batches = written(parts, fn, of, columns=True).batches(10)
    with pytest.raises(UserCodeFailed, match=LABEL):
        list(combined_groups(unpacked(batches), coder_of(of), of, Combine(fn, form_of(fn), LABEL)))


def test_cells_of_numbers_are_read_as_they_were_written() -> None:
    numbers = np.array([0, -1, 2**63 - 1])
    cells = number_cells(numbers, -numbers, numbers).slice(1)
    *times, totals = numbers_in(cells, INTS)
    assert [list(column) for column in times] == [[-1, 2**63 - 1], [1, -(2**63) + 1]]
    assert list(totals) == [-1, 2**63 - 1]


def test_cells_of_several_kinds_are_told_apart() -> None:
    times = np.array([5, 6])
    whole, real = (number_cells(times, times, np.array([1, 2], kind)) for kind in ("i8", "f8"))
    fn = CombineFn.from_callable(min)
    runs = pa.array([b"\0" * 16 + b"\0\0\0\1" + coders.VarIntCoder().encode(9)], pa.binary())
    cells = pa.concat_arrays([whole.slice(1), runs, real])
    reader = AggregateReader(coders.VarIntCoder(), Combine(fn, form_of(fn), LABEL))
    found = [
        (some.keys.tolist(), some.ends.tolist(), some.totals.tolist(), some.are_numbers)
        for _, some in reader.read(cells, np.arange(4), np.zeros(4, np.int64))
    ]
    assert sorted(found) == [
        ([0], [6], [2], True),
        ([1], [0], [9], False),
        ([2, 3], [5, 6], [1.0, 2.0], True),
    ]
