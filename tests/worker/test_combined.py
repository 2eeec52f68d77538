"""Accumulators that are merged over columns."""

import numpy as np
import pyarrow as pa
import pytest
from apache_beam.coders import coders
from apache_beam.transforms.core import CombineFn, Windowing
from apache_beam.transforms.window import IntervalWindow, Sessions
from apache_beam.utils.windowed_value import WindowedValue
from packed_rows import Rows
from writer_outputs import output

from sparkbeam.accumulators.vectorized_accumulators import form_of
from sparkbeam.plan.row_formats import AggregateRows
from sparkbeam.wire.failure import UserCodeFailed
from sparkbeam.wire.key_packs import read
from sparkbeam.worker.column_accumulators import Combine
from sparkbeam.worker.grouping.combined import CombinedGroups
from sparkbeam.worker.row_formats.aggregate_cells import AggregateReader, number_cells
from sparkbeam.worker.row_formats.aggregate_rows import SessionSink

LEAST = CombineFn.from_callable(min)
COMBINE = Combine(LEAST, form_of(LEAST), "the least")


def test_what_fails_in_a_merge_is_the_user_s() -> None:
    windowing, rows = Windowing(Sessions(10)), Rows()
    pair = coders.TupleCoder([coders.StrUtf8Coder(), coders.FastPrimitivesCoder()])
    coder = coders.WindowedValueCoder(pair, windowing.windowfn.get_window_coder())
    sink = SessionSink(output(rows, AggregateRows(sessions=True, packed=True), coder, windowing))
    for start, value in ((0, 1), (1, "text")):
        accumulator = LEAST.add_input(LEAST.create_accumulator(), value)
        window = IntervalWindow(start, start + 2)
        sink.add(WindowedValue(("a", accumulator), start, (window,)))
        sink.flush()
    with pytest.raises(UserCodeFailed, match="the least"):
        list(CombinedGroups(coder, windowing, COMBINE).blocks(read(rows.batches(10))))


def test_cells_of_several_kinds_are_told_apart() -> None:
    times = np.array([5, -6, 2**63 - 1])
    whole, real = (
        number_cells(times, -times, times, np.array([1, 2, -3], kind)) for kind in ("i8", "f8")
    )
    runs = pa.array([b"\0" * 24 + b"\0\0\0\1" + coders.VarIntCoder().encode(9)], pa.binary())
    cells = pa.concat_arrays([whole.slice(1), runs, real])
    reader = AggregateReader(coders.VarIntCoder(), COMBINE)
    found = [
        [
            column.tolist()
            for column in (some.keys, some.starts, some.ends, some.stamps, some.totals)
        ]
        for some in reader.read(cells, np.arange(6))
    ]
    most = 2**63 - 1
    assert sorted(found) == [
        [[0, 1], [-6, most], [6, -most], [-6, most], [2, -3]],
        [[2], [0], [0], [0], [9]],
        [[3, 4, 5], [5, -6, most], [-5, 6, -most], [5, -6, most], [1.0, 2.0, -3.0]],
    ]
