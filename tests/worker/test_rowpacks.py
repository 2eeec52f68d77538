"""Packs of rows: what is written comes back, all of a key and span at once or in order of time."""

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from packed_rows import PACK_SIZES, Rows, packs_of

from sparkbeam.wire.row_packs import PackedRows, Unpacked, rows_of, unpacked

TIMES = hs.sampled_from([-(2**63), -1, 0, 5, 2**62])
KEYS = hs.binary(max_size=10) | hs.sampled_from([b"k" * 64, b"k" * 65, b"\0" * 8, b"k" * 5000])
VALUES = hs.sampled_from([b"v", b"", b"w" * 24, b"w" * 1024, b"x" * 3000])
ROWS = hs.lists(hs.tuples(KEYS, TIMES, TIMES, VALUES), max_size=30)


def written(parts: list[list[tuple[bytes, int, int, bytes]]]) -> Rows:
    rows = Rows()
    packs = PackedRows(rows)
    for part in parts:
        keys, spans, orders, values = (list(column) for column in zip(*part, strict=True))
        packs.extend(1, keys, orders, values, spans)
    return rows


def singly(some: Unpacked) -> Iterator[tuple[bytes, int, int, bytes]]:
    keys, values = some.keys.to_pylist(), some.values.to_pylist()
    for place, *row in zip(some.places, some.spans, some.orders, values, strict=True):
        span, order, value = row
        yield keys[place], int(span), int(order), value


@given(parts=hs.lists(ROWS.filter(len), max_size=4), size=PACK_SIZES, rows=hs.integers(1, 9))
def test_rows_come_back(
    parts: list[list[tuple[bytes, int, int, bytes]]], size: int, rows: int
) -> None:
    with packs_of(size):
        batches = list(written(parts).batches(rows)) if parts else []
        found = list(unpacked(iter(batches)))
    expected = [row for part in parts for row in part]
    assert sorted(row for some in found for row in singly(some)) == sorted(expected)
    least: dict[tuple[bytes, int], float] = {}
    for some in found:
        assert len(set(some.keys.to_pylist())) == len(some.keys)
        for key, span, order, _ in singly(some):
            assert order >= least.get((key, span), -math.inf)
        until = math.inf if some.until is None else some.until
        least |= {(key, span): until for key, span, _, _ in singly(some)}
    with packs_of(size):
        ordered = list(rows_of(unpacked(iter(batches))))
    assert sorted(ordered) == sorted((key, order, value) for key, _, order, value in expected)


def test_few_rows_hold_many() -> None:
    rows = Rows()
    keys = pa.array([b"%d" % number for number in range(100_000)], pa.binary())
    cells = pa.array([b"12345678"] * 100_000, pa.binary())
    PackedRows(rows).extend_columns(1, keys, np.arange(100_000), cells)
    assert len(rows.rows) <= 4096
    assert sum(len(value) for *_, value in rows.rows) < 100_000 * 35


@pytest.mark.parametrize("spans", [1, 1000])
def test_a_key_goes_to_few_neighbours(spans: int) -> None:
    rows = Rows()
    PackedRows(rows).extend(1, [b"key"] * spans, [0] * spans, [b"v"] * spans, list(range(spans)))
    buckets = {int.from_bytes(key, "big") for _, key, _, _ in rows.rows}
    assert len(buckets) == min(spans, 16)
    assert len({bucket // 16 for bucket in buckets}) == 1


def test_a_large_bucket_is_read_in_parts_of_its_time() -> None:
    rows = Rows()
    times = np.random.default_rng(1).permutation(200_000)
    keys = pa.array([b"key"] * len(times), pa.binary())
    PackedRows(rows).extend_columns(1, keys, times, pa.array([b"v" * 20] * len(times), pa.binary()))
    with packs_of(1 << 20):
        found = list(unpacked(rows.batches(2)))
    assert len(found) > 3
    bounds = [some.until for some in found]
    assert bounds == [*sorted(bound for bound in bounds if bound is not None), None]
    assert sum(len(some.places) for some in found) == len(times)
