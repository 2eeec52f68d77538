"""Rows of a side of a join that have a partner are written, whatever is left out of the others."""

from itertools import pairwise
from typing import Any
from unittest import mock

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparkbeam.worker.row_formats import partners
from sparkbeam.worker.row_formats.partners import Partners


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


@given(KEYS.map(lambda keys: list(dict.fromkeys(keys))), KEYS, st.data())
def test_it_does_not_matter_how_rows_are_divided_into_calls(
    known: list[bytes], keys: list[bytes], data: Any
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


def test_a_look_ends_where_nearly_all_have_a_partner() -> None:
    found = Partners(binary([b"a"]))
    rows = binary([b"a"] * (partners._TRIED - 1) + [b"b"] * 2)
    told = looked_at(found, rows)
    assert [at for at, written in enumerate(told) if not written] == [partners._TRIED - 1]
    assert found.among(binary([b"b"]), in_one_window=True) is None
    assert looked_at(found, [b"b"], in_one_window=False) == [False]


def test_it_goes_on_where_many_have_none() -> None:
    found = Partners(binary([b"a"]))
    found.among([b"a", b"b"] * partners._TRIED, in_one_window=True)
    assert looked_at(found, [b"b", b"a"]) == [False, True]
