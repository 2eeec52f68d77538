"""Rows of a side of a join that have a partner are written, whatever is left out of the others."""

from itertools import pairwise
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from apache_beam import coders
from apache_beam.transforms.core import Windowing
from apache_beam.transforms.window import (
    FixedWindows,
    GlobalWindow,
    GlobalWindows,
    IntervalWindow,
    SlidingWindows,
)
from apache_beam.utils.windowed_value import WindowedValue
from hypothesis import given
from hypothesis import strategies as st
from writer_outputs import output

from sparkbeam.columns.python_types import shape_of
from sparkbeam.plan.row_formats import JoinRows
from sparkbeam.wire.rows import AS_CELL, AS_ELEMENT, RowBuffer
from sparkbeam.worker.blocks import Block
from sparkbeam.worker.row_formats import partners
from sparkbeam.worker.row_formats.join_rows import JoinKeySink, JoinSideSink
from sparkbeam.worker.row_formats.partners import Partners
from sparkbeam.worker.value_columns import column_of

ANY = coders.FastPrimitivesCoder()
ENDS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "global": (GlobalWindows(), (GlobalWindow(),)),
    "fixed": (FixedWindows(5), (IntervalWindow(0, 5),)),
    "sliding": (SlidingWindows(10, 5), (IntervalWindow(0, 10), IntervalWindow(5, 15))),
}


def binary(keys: list[bytes]) -> pa.Array:
    return pa.array(keys, pa.binary())


def left_out(known: list[bytes], calls: list[list[bytes]], *, as_arrays: bool) -> list[bool]:
    """Whether each of the rows is written."""
    found = Partners(binary(known))
    written: list[bool] = []
    for keys in calls:
        some = found.among(binary(keys) if as_arrays else keys, in_one_window=True)
        written += [True] * len(keys) if some is None else some.tolist()
    return written


KEYS = st.lists(st.sampled_from([b"", b"\0", b"\1", b"a", b"a\0", b"b", b"\xff" * 9]), max_size=30)


def looked_at(found: Partners, keys: Any, *, in_one_window: bool = True) -> list[bool]:
    """What it finds where it leaves out something."""
    some = found.among(keys, in_one_window=in_one_window)
    assert some is not None
    return some.tolist()


class TestPartners:
    @given(KEYS.map(lambda keys: list(dict.fromkeys(keys))), KEYS, st.data())
    def test_it_does_not_matter_how_rows_are_divided_into_calls(
        self, known: list[bytes], keys: list[bytes], data: Any
    ) -> None:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(keys)), max_size=4)))
        bounds = [0, *cuts, len(keys)]
        calls = [keys[a:b] for a, b in pairwise(bounds)]
        with mock.patch.object(partners, "_TRIED", 5):
            at_once = left_out(known, [keys], as_arrays=False)
            for as_arrays in (False, True):
                assert left_out(known, calls, as_arrays=as_arrays) == at_once
        assert all(written for key, written in zip(keys, at_once, strict=True) if key in known)
        assert at_once[:5] == [key in known for key in keys[:5]]

    def test_a_look_ends_where_nearly_all_have_a_partner(self) -> None:
        found = Partners(binary([b"a"]))
        rows = binary([b"a"] * (partners._TRIED - 1) + [b"b"] * 2)
        told = looked_at(found, rows)
        assert [at for at, written in enumerate(told) if not written] == [partners._TRIED - 1]
        assert found.among(binary([b"b"]), in_one_window=True) is None
        assert looked_at(found, [b"b"], in_one_window=False) == [False]

    def test_it_goes_on_where_many_have_none(self) -> None:
        found = Partners(binary([b"a"]))
        found.among([b"a", b"b"] * partners._TRIED, in_one_window=True)
        assert looked_at(found, [b"b", b"a"]) == [False, True]


def written(sink: type[JoinSideSink], block: Any, window_fn: Any, known: list[bytes] | None) -> Any:
    """The rows that a sink makes of a block."""
    batches: list[pa.RecordBatch] = []
    rows = RowBuffer(batches.append)
    coder = coders.WindowedValueCoder(coders.TupleCoder([ANY, ANY]), window_fn.get_window_coder())
    made = sink(output(rows, JoinRows(), coder, Windowing(window_fn)))
    if known is not None:
        made.keep_partners(binary(known))
    made.write(block)
    made.flush()
    rows.flush()
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


class TestSinks:
    @pytest.mark.parametrize("windows", sorted(ENDS))
    @pytest.mark.parametrize("kind", ["elements", "cells", "no cells"])
    @pytest.mark.parametrize("sink", [JoinSideSink, JoinKeySink])
    def test_rows_with_a_partner_are_the_same(
        self, sink: type[JoinSideSink], kind: str, windows: str
    ) -> None:
        window_fn, its = ENDS[windows]
        pairs: list[Any] = [(n % 7 if n % 5 else None, f"zoë {n}") for n in range(100)]
        hint: Any = tuple[int, str]
        if kind == "no cells":
            pairs, hint = [(key, [value]) for key, value in pairs], tuple[int, list[str]]
        values: Any = pairs
        if kind != "elements":
            array = pa.array([{"0": key, "1": value} for key, value in pairs])
            values = column_of(array, shape_of(array.type, hint))
        block = Block(WindowedValue(None, 0, its), values)
        whole = written(sink, block, window_fn, None)
        is_cell = kind == "cells" and sink is JoinSideSink
        assert {row[2] for row in whole} == {AS_CELL if is_cell else AS_ELEMENT}
        some = list(dict.fromkeys(row[1] for row in whole))[::2]
        found = written(sink, block, window_fn, some)
        assert found == [row for row in whole if row[1] in some]
        assert 0 < len(found) < len(whole)
        assert written(sink, block, window_fn, []) == []
