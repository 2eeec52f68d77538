"""Slices of time make the windows that they are in, whatever their span."""

from collections import defaultdict
from typing import Any

import numpy as np
from apache_beam.transforms.core import CombineFn
from apache_beam.transforms.window import SlidingWindows
from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.aggregate.aggregates import Aggregates
from sparkbeam.aggregate.columnar_sessions import WindowColumns
from sparkbeam.worker.grouping.sliced import windows_of_slices
from sparkbeam.worker.slices import slices_of

FN: Any = CombineFn.from_callable(sum)
SLICES = st.one_of(st.integers(-12, 12), st.integers(-60, 60), st.just(10**6))


@given(
    st.lists(st.tuples(st.integers(0, 2), SLICES, st.integers(-5, 5)), min_size=1),
    st.sampled_from([SlidingWindows(12, 3), SlidingWindows(6, 2, 1), SlidingWindows(10, 5)]),
    st.integers(0, 1),
    st.booleans(),
)
def test_windows_have_what_their_slices_have(
    elements: Any, window_fn: SlidingWindows, most: int, is_large: bool
) -> None:
    slices = slices_of(window_fn)
    assert slices is not None
    # Some that do not add up exactly.
    given_slices = [(k, s, n + 2**62 if is_large and not k else n) for k, s, n in elements]
    keys, numbers, totals = (
        np.array(column, np.int64) for column in zip(*given_slices, strict=True)
    )
    starts = slices.starts(numbers)
    places, spans = slices.in_spans(starts)
    stamps = starts * most + 7
    make = WindowColumns(FN, max)
    found = windows_of_slices(
        slices,
        make,
        Aggregates(keys[places], starts[places], spans, stamps[places], totals[places]),
    )
    merged = make.merge(found)
    sums: dict[tuple[int, int], list[int]] = defaultdict(list)
    latest: dict[tuple[int, int], int] = defaultdict(lambda: -(2**62))
    for key, number, total in given_slices:
        for back in range(slices.count):
            name = key, (number - back) * slices.length + slices.offset
            sums[name].append(total)
            begin = number * slices.length + slices.offset
            latest[name] = max(latest[name], begin * most + 7)
    names = list(zip(merged.keys.tolist(), merged.starts.tolist(), strict=True))
    assert names == sorted(sums)
    outputs = [FN.extract_output(one) for one in make.accumulators(merged)]
    assert outputs == [sum(sums[name]) for name in names]
    assert merged.stamps.tolist() == [latest[name] for name in names]
    assert (merged.ends - merged.starts == slices.size).all()
    order = list(zip(found.keys.tolist(), found.starts.tolist(), strict=True))
    assert order == sorted(order)
