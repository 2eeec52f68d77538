"""Scans of plain folders of Parquet files: those of Spark, found without it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkbeam.connectors.plain_folders import plain_scan
from sparkbeam.connectors.source_frames import timed
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.upstream.scans import ParquetScan, parquet_scan, sql_settings

ROWS = "id", "CAST(id AS STRING) AS Name", "now() AS at", "array(id) AS ids", "1.5BD AS dec"


@pytest.fixture
def folder(spark: Any, tmp_path: Path) -> Path:
    spark.catalog.clearCache()
    path = tmp_path / "some rows"
    spark.range(0, 90, 1, 3).selectExpr(*ROWS).write.parquet(str(path))
    return path


def spec(spark: Any, path: Path | str, *columns: str, time: str | None = None) -> ReadSpec:
    """Of what a pipeline reads that has asked for the schema."""
    schema = spark.read.parquet(str(path)).schema.json()
    return ReadSpec("parquet", (("path", str(path)),), schema, columns, time, 0)


def found(spark: Any, of: ReadSpec) -> ParquetScan | None:
    """What is found without Spark, after a look at whether Spark finds the same."""
    scan = plain_scan(spark, of, sql_settings(spark))
    if scan is not None:
        by_spark = parquet_scan(timed(spark, of, "Read"))
        assert by_spark is not None
        assert scan._replace(files=()) == by_spark._replace(files=())
        assert sorted(scan.files) == sorted(by_spark.files)
    return scan


@pytest.mark.parametrize(
    ("columns", "time"),
    [(("id", "Name"), None), (("Name", "ids", "at", "dec"), "at"), ((), "at"), ((), None)],
)
def test_the_scan_is_that_of_spark(
    spark: Any, folder: Path, columns: tuple[str, ...], time: str | None
) -> None:
    scan = found(spark, spec(spark, folder, *columns, time=time))
    assert scan is not None
    assert len(scan.files) == 3


def test_one_file_is_scanned_too(spark: Any, folder: Path) -> None:
    (first, *_) = sorted(folder.glob("part-*"))
    scan = found(spark, spec(spark, first, "id"))
    assert scan is not None
    assert [file.path for file in scan.files] == [str(first)]


def test_files_that_spark_passes_over(spark: Any, folder: Path) -> None:
    for name in ("_notes", ".hidden.parquet", "empty.parquet"):
        (folder / name).touch()
    (folder / "_more.parquet").write_bytes(next(folder.glob("part-*")).read_bytes())
    scan = found(spark, spec(spark, folder, "id"))
    assert scan is not None
    assert len(scan.files) == 3


@pytest.fixture
def cached(spark: Any, folder: Path) -> Iterator[None]:
    frame = spark.read.parquet(str(folder)).cache()
    yield
    frame.unpersist()


@pytest.mark.usefixtures("cached")
def test_spark_is_asked_where_something_is_cached(spark: Any, folder: Path) -> None:
    assert found(spark, spec(spark, folder, "id")) is None


def test_spark_is_asked_for_other_columns(spark: Any, folder: Path) -> None:
    for of in (
        spec(spark, folder, "ID"),
        spec(spark, folder, "id", time="Name"),
        spec(spark, folder, "id", time="AT"),
        spec(spark, folder, "_metadata"),
        ReadSpec("parquet", (("path", str(folder)),), None, (), None, 0),
    ):
        assert found(spark, of) is None


def test_spark_is_asked_for_other_folders(spark: Any, folder: Path) -> None:
    of = spec(spark, folder, "id")
    for path in (f"{folder}/*", f"file:{folder}", f"{folder}-other", os.path.dirname(folder)):
        assert (
            found(spark, ReadSpec("parquet", (("path", path),), of.schema, ("id",), None, 0))
            is None
        )
    with_option = (*of.options, ("pathGlobFilter", "part-00000*"))
    assert found(spark, ReadSpec("parquet", with_option, of.schema, ("id",), None, 0)) is None
    (folder / "day=1").mkdir()
    assert found(spark, of) is None


@pytest.mark.parametrize(
    "setting",
    [("spark.sql.sources.useV1SourceList", "avro"), ("spark.sql.parquet.mergeSchema", "true")],
)
def test_spark_is_asked_where_settings_say_more(
    spark: Any, folder: Path, setting: tuple[str, str]
) -> None:
    of = spec(spark, folder, "id")
    other = spark.newSession()
    other.conf.set(*setting)
    assert found(other, of) is None
    assert found(spark, of) is not None
