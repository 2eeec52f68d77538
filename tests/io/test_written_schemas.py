"""What Spark has written of the columns of Parquet files is what it finds by itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf
from streams import pipeline_on

from sparkbeam.connectors.source_frames import loaded
from sparkbeam.connectors.written_schemas import written_schema
from sparkbeam.io import ReadFromSpark
from sparkbeam.plan.spark_io import ReadSpec

Write = Callable[[Any, Path], None]

PLAIN = (
    "cast(1 as tinyint) a, cast(1 as smallint) b, 1 c, 1L d, cast(1 as float) e, 1d f, "
    "'x' g, cast('x' as binary) h, true i, date'2020-01-01' j, timestamp'2020-01-01' k, "
    "timestamp_ntz'2020-01-01' l, cast(1 as decimal(10,2)) m, cast(null as int) `n o`"
)


def spec_of(**options: str) -> ReadSpec:
    return ReadSpec("parquet", tuple(options.items()), None, (), None, 0)


def select(columns: str) -> Write:
    def write(spark: Any, folder: Path) -> None:
        spark.sql(f"select {columns}").write.parquet(str(folder))

    return write


def of_two(spark: Any, folder: Path) -> None:
    """Two files that do not have the same columns."""
    for name, column in (("b.parquet", "late"), ("a.parquet", "early")):
        spark.range(3).toDF(column).coalesce(1).write.mode("overwrite").parquet(f"{folder}-part")
        (part,) = Path(f"{folder}-part").glob("part-*")
        folder.mkdir(exist_ok=True)
        part.rename(folder / name)


def by_arrow(spark: Any, folder: Path) -> None:
    folder.mkdir()
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), folder / "a.parquet")


def partitioned(spark: Any, folder: Path) -> None:
    spark.range(3).withColumn("day", sf.lit(1)).write.partitionBy("day").parquet(str(folder))


def named(name: str) -> Write:
    """A folder with a file whose name means something to Spark."""

    def write(spark: Any, folder: Path) -> None:
        spark.range(3).toDF("other").coalesce(1).write.parquet(str(folder))
        (part,) = folder.glob("part-*")
        part.rename(folder / name)
        spark.range(3).coalesce(1).write.mode("append").parquet(str(folder))

    return write


@pytest.mark.parametrize(
    "write",
    [select(PLAIN), of_two, named("_hidden"), named(".hidden"), named("A"), named("z")],
)
def test_it_is_what_spark_finds(spark: Any, tmp_path: Path, write: Write) -> None:
    assert found(spark, tmp_path / "files", write) is not None


@pytest.mark.parametrize(
    "write",
    [
        select("array(1) a"),
        select("struct(1 as b) a"),
        by_arrow,
        partitioned,
        named("_metadata"),
        named("_common_metadata"),
        named("_a=1"),
        named("A._COPYING_"),
    ],
)
def test_spark_is_asked_where_more_may_tell(spark: Any, tmp_path: Path, write: Write) -> None:
    assert found(spark, tmp_path / "files", write) is None


def found(spark: Any, folder: Path, write: Write) -> Any:
    """What is found in a folder, after a look at whether Spark finds the same."""
    write(spark, folder)
    spec = spec_of(path=str(folder))
    schema = written_schema(spark, spec)
    assert schema is None or schema == loaded(spark, spec, streaming=False).schema
    return schema


def test_one_file_tells_as_well(spark: Any, tmp_path: Path) -> None:
    select("1 a")(spark, tmp_path / "files")
    (file,) = (tmp_path / "files").glob("part-*")
    spec = spec_of(path=str(file))
    assert written_schema(spark, spec) == loaded(spark, spec, streaming=False).schema


@pytest.mark.parametrize(
    "options",
    [
        {"path": "{files}", "mergeSchema": "true"},
        {"path": "{files}", "pathGlobFilter": "part-*"},
        {"path": "{files}/*"},
        {"path": "file:{files}"},
        {"path": "{files}-other"},
        {},
    ],
)
def test_options_may_ask_for_more(spark: Any, tmp_path: Path, options: dict[str, str]) -> None:
    files = tmp_path / "files"
    select("1 a")(spark, files)
    given = {name: value.format(files=files) for name, value in options.items()}
    assert written_schema(spark, spec_of(**given)) is None


def test_settings_may_ask_for_more(spark: Any, tmp_path: Path) -> None:
    select("1 a")(spark, tmp_path / "files")
    other = spark.newSession()
    other.conf.set("spark.sql.parquet.mergeSchema", "true")
    spec = spec_of(path=str(tmp_path / "files"))
    assert written_schema(other, spec) is None
    assert written_schema(spark, spec) is not None


def test_no_job_runs_while_a_pipeline_is_built(spark: Any, tmp_path: Path) -> None:
    select("1 a")(spark, tmp_path / "files")
    spark.sparkContext.setJobGroup("building", "")
    try:
        rows = pipeline_on(spark) | ReadFromSpark("parquet", {"path": tmp_path / "files"})
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert [name for name, _ in rows.element_type._fields] == ["a"]
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup("building")
