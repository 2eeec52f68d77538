"""Accumulators in packs: what is written comes back, all of a key and span, or in order of time."""

import math
from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from packed_rows import PACK_SIZES, Rows, packs_of

from sparkbeam.wire.key_packs import CellKind, CellsOfKeys, CellsRead, read, write_by_time

TIMES = hs.sampled_from([-(2**63), -1, 0, 5, 2**62])
KEYS = hs.binary(max_size=10) | hs.sampled_from([b"k" * 64, b"k" * 65, b"\0" * 8, b"k" * 5000])
VALUES = hs.sampled_from([b"v", b"", b"w" * 24, b"w" * 1024, b"x" * 3000])
Cell = tuple[bytes, int, int, bytes]
"""Key, span, time and value."""
ROWS = hs.lists(hs.tuples(KEYS, TIMES, TIMES, VALUES), min_size=1, max_size=30)


def write(rows: Rows, some: list[Cell]) -> None:
    """Write values behind their times."""
    keys, spans, orders, values = zip(*some, strict=True)
    cells = [b"%d %d %b" % cell for cell in zip(spans, orders, values, strict=True)]
    binary = CellsOfKeys(pa.array(keys, pa.binary()), pa.array(cells, pa.binary()))
    write_by_time(rows, 1, binary, np.array(orders), np.array(spans))


def singly(found: CellsRead) -> Iterator[Cell]:
    some = found.some[CellKind.AGGREGATE]
    for key, cell in zip(some.keys.to_pylist(), some.cells.to_pylist(), strict=True):
        span, order, value = cell.split(b" ", 2)
        yield key, int(span), int(order), value


@given(parts=hs.lists(ROWS, max_size=4), size=PACK_SIZES, count=hs.integers(1, 9))
def test_accumulators_come_back(parts: list[list[Cell]], size: int, count: int) -> None:
    rows = Rows()
    with packs_of(size):
        for part in parts:
            write(rows, part)
        found = list(read(rows.batches(count))) if parts else []
    assert sorted(cell for some in found for cell in singly(some)) == sorted(chain(*parts))
    least: dict[tuple[bytes, int], float] = {}
    for some in found:
        for key, span, order, _ in singly(some):
            assert order >= least.get((key, span), -math.inf)
        until = math.inf if some.until is None else some.until[1]
        least |= {(key, span): until for key, span, _, _ in singly(some)}


def test_few_rows_hold_many() -> None:
    rows, numbers = Rows(), np.arange(100_000)
    keys = pa.array([b"%d" % number for number in numbers], pa.binary())
    some = CellsOfKeys(keys, pa.array([b"12345678"] * len(keys), pa.binary()))
    write_by_time(rows, 1, some, numbers)
    assert 2048 < len(rows.rows) <= 4096
    assert sum(len(value) for *_, value in rows.rows) < 100_000 * 19


@pytest.mark.parametrize("spans", [1, 1000])
def test_a_key_goes_to_few_neighbours(spans: int) -> None:
    rows = Rows()
    write(rows, [(b"key", span, 0, b"v") for span in range(spans)])
    buckets = {int.from_bytes(key, "big") for _, key, _, _ in rows.rows}
    assert len(buckets) == min(spans, 16)
    assert len({bucket // 16 for bucket in buckets}) == 1


def test_a_large_bucket_is_read_in_parts_of_its_time() -> None:
    rows = Rows()
    times = np.random.default_rng(1).permutation(200_000)
    keys, cells = (pa.array([one] * len(times), pa.binary()) for one in (b"key", b"v" * 36))
    write_by_time(rows, 1, CellsOfKeys(keys, cells), times)
    with packs_of(1 << 20):
        found = list(read(rows.batches(2)))
    assert len(found) > 3
    bounds = [some.until and some.until[1] for some in found]
    assert bounds == [*sorted(bound for bound in bounds if bound is not None), None]
    assert sum(len(some.some[CellKind.AGGREGATE]) for some in found) == len(times)
