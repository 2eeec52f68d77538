"""Parquet files are read in parts that have row groups."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.io.parquetio import _create_parquet_source as beams_source
from noting import values

from sparkbeam.upstream.parquet import RowGroupSource

ROWS = 1000


def write(path: Path, *counts: int) -> None:
    """A file of row groups with so many rows."""
    schema = pa.schema([("number", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for count in counts:
            writer.write_table(pa.table({"number": range(count)}, schema))


def read(parts: list[Any]) -> list[list[int]]:
    """The rows of each part."""
    found: list[list[int]] = []
    for part in parts:
        tracker = part.source.get_range_tracker(part.start_position, part.stop_position)
        tables = part.source.read(tracker)
        found.append([number for table in tables for number in table["number"].to_pylist()])
    return found


@pytest.mark.parametrize(
    ("groups", "full"), [((ROWS,), 1), ((ROWS, ROWS), 2), ((1, ROWS, 1), 2), ((1, 1), 1)]
)
def test_no_part_is_without_rows(groups: tuple[int, ...], full: int, tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", *groups)
    write(tmp_path / "b.parquet", 3)
    beams = beams_source(f"{tmp_path}/*.parquet", 0)
    by_bytes, by_groups = list(beams.split(1000)), list(RowGroupSource(beams).split(1000))
    rows = read(by_groups)
    assert all(rows)
    assert [one for one in read(by_bytes) if one] == rows
    assert len([one for one in rows if len(one) != 3]) == full


def test_of_many_files_those_that_are_read_whole_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in range(20):
        write(tmp_path / f"{name}.parquet", ROWS)
    source = RowGroupSource(beams_source(f"{tmp_path}/*.parquet", 0))
    monkeypatch.setattr(RowGroupSource, "_inspect", None)
    assert len(list(source.split(1 << 20))) == 20
    assert source.footers is None


def test_of_few_files_it_is_known_how_much_there_is(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ROWS, 1)
    write(tmp_path / "b.parquet", 3)
    source = RowGroupSource(beams_source(f"{tmp_path}/*.parquet", 0))
    assert len(list(source.split(1 << 20))) == 2
    assert source.footers is not None
    assert source.footers.rows == ROWS + 4
    assert source.footers.sizes.keys() == {"number"}
    assert 8 * (ROWS + 4) <= source.footers.sizes["number"] < 9 * ROWS
    (tmp_path / "c.parquet").write_bytes(b"no Parquet")
    source = RowGroupSource(beams_source(f"{tmp_path}/*.parquet", 0))
    assert len(list(source.split(1 << 20))) == 3
    assert source.footers is None


def test_a_file_that_cannot_be_read_fails_where_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1" + b"x" * 5000)
    parts = list(RowGroupSource(beams_source(f"{tmp_path}/*.parquet", 0)).split(1000))
    assert len(parts) > 1
    with pytest.raises(pa.ArrowInvalid):
        read(parts)


@pytest.mark.parametrize("options", [[], ["--columns=off"]])
def test_all_rows_of_large_groups_are_read_once(options: list[str], tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 90_000, 90_000)

    def build(p: beam.Pipeline) -> Any:
        rows = p | beam.io.ReadFromParquet(f"{tmp_path}/*.parquet")
        return rows | beam.Map(lambda row: row["number"]) | beam.CombineGlobally(sum)

    assert values(build, *options) == [89_999 * 90_000]
