"""Files of plain folders of Parquet: those that Spark finds, found without it."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from sparkbeam.connectors.plain_folders import plain_files
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.upstream.scans import sql_settings


@pytest.fixture
def folder(spark: Any, tmp_path: Path) -> Path:
    path = tmp_path / "some rows"
    spark.range(0, 90, 1, 3).write.parquet(str(path))
    return path


def found(spark: Any, path: Path | str, **options: str) -> list[str] | None:
    """What is found without Spark, after a look at whether Spark finds the same."""
    spec = ReadSpec("parquet", (("path", str(path)), *options.items()), None, (), None, 0)
    files = plain_files(spark, spec, sql_settings(spark))
    if files is not None:
        by_spark = spark.read.parquet(str(path)).inputFiles()
        assert sorted(files) == sorted(unquote(urlsplit(url).path) for url in by_spark)
    return files


def test_the_files_are_those_of_spark(spark: Any, folder: Path) -> None:
    for name in ("_notes", ".hidden.parquet", "empty.parquet"):
        (folder / name).touch()
    (first, *_) = sorted(folder.glob("part-*"))
    (folder / "_more.parquet").write_bytes(first.read_bytes())
    assert len(found(spark, folder) or ()) == 4, "the empty one is among them"
    assert found(spark, first) == [str(first)]


def test_spark_is_asked_for_other_folders(spark: Any, folder: Path) -> None:
    for path in (f"{folder}/*", f"file:{folder}", os.path.dirname(folder)):
        assert found(spark, path) is None
    assert found(spark, folder, pathGlobFilter="part-00000*") is None
    (folder / "day=1").mkdir()
    assert found(spark, folder) is None


def test_spark_is_asked_where_settings_say_more(spark: Any, folder: Path) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.parquet.mergeSchema", "true")
    assert found(other, folder) is None
    assert found(spark, folder) is not None
