"""A streaming query in the session of its user."""

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms.window import FixedWindows
from in_process import Spark, StreamingRunner
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from waiting import until

from sparkbeam import SparkBeamOptions, SparkRunner
from sparkbeam.io import ForeachBatch, ReadFromSpark
from sparkbeam.spark import session as sessions
from sparkbeam.upstream.spark import version

SETTING = "spark.hadoop.fs.s3a.access.key"
PARTITIONS = "spark.sql.shuffle.partitions"


def registered(spark: Any) -> str:
    """The name of a source in Python that a user has registered: 0, 1, 2 and no more."""

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"end": 0}

        def latestOffset(self, *_: Any) -> dict[str, int]:
            return {"end": 3}

        def partitions(self, start: Any, end: Any) -> list[InputPartition]:
            return [InputPartition(n) for n in range(start["end"], end["end"])]

        def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
            yield partition.value, datetime.fromtimestamp(1_700_000_000, UTC)

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers_of_a_user"

        def schema(self) -> str:
            return "number int, at timestamp"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Reader()

    spark.dataSource.register(Numbers)
    return Numbers.name()


def test_a_query_runs_in_the_session_of_its_user(spark: Any, tmp_path: Path) -> None:
    spark.conf.set(SETTING, "given at runtime")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    spark.range(5).createOrReplaceTempView("view_of_a_user")
    source = registered(spark)
    before = spark.conf.getAll

    def keep(frame: Any, batch_id: int) -> None:
        own = frame.sparkSession
        found = {
            "numbers": sorted(row.number for row in frame.collect()),
            "seconds": [
                row.t for row in frame.selectExpr("unix_seconds(at) t").distinct().collect()
            ],
            "view": own.table("view_of_a_user").count(),
            "setting": own.conf.get(SETTING),
        }
        (tmp_path / "found").write_text(json.dumps(found))

    checkpoint = tmp_path / "checkpoint"
    arguments = ["--streaming", "--shards=3", f"--checkpoint_location={checkpoint}"]
    p = beam.Pipeline(SparkRunner(spark), SparkBeamOptions(arguments))
    rows = p | ReadFromSpark(source, timestamp_column="at")
    _ = rows | ForeachBatch(keep)
    result = p.run()
    try:
        until((tmp_path / "found").exists)
        assert len(spark.streams.active) == 1
        assert spark.conf.getAll == before, "its own settings are the query's alone"
    finally:
        result.cancel()
        spark.conf.unset(SETTING)
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.catalog.dropTempView("view_of_a_user")
    until(lambda: (tmp_path / "found").stat().st_size > 0)
    planned = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[1])
    assert planned["conf"][PARTITIONS] == "3"
    assert json.loads((tmp_path / "found").read_text()) == {
        "numbers": [0, 1, 2],
        "seconds": [1_700_000_000],
        "view": 5,
        "setting": "given at runtime",
    }


@pytest.mark.parametrize("given", [{}, {PARTITIONS: "7"}])
def test_the_settings_of_a_query_are_there_only_while_it_starts(given: dict[str, str]) -> None:
    spark = Spark()
    spark.conf |= given
    before = dict(spark.conf)
    with sessions.set_for_streaming(spark, 3):
        assert spark.conf[PARTITIONS] == "3"
        spark.conf["spark.of.somebody.else"] = "yes"
    assert spark.conf == before | {"spark.of.somebody.else": "yes"}


@pytest.mark.parametrize(
    ("master", "given", "then"),
    [("local[2]", None, None), ("yarn", None, "3"), ("yarn", "7", "7")],
)
def test_files_are_divided_alike_on_a_cluster_that_changes(
    master: str, given: str | None, then: str | None
) -> None:
    setting = "spark.sql.leafNodeDefaultParallelism"
    spark = Spark()
    spark.conf |= {"spark.master": master} | ({setting: given} if given else {})
    sessions.fix_partitions(spark, 3)
    assert spark.conf.get(setting) == then


@pytest.mark.part(2)
@pytest.mark.parametrize("lasting", [False, True], ids=["of its own", "named"])
def test_a_checkpoint_has_checksums_if_it_stays(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = spark.conf.getAll
    arguments = ["--streaming"]
    if lasting:
        arguments.append(f"--checkpoint_location={tmp_path / 'sparkbeam-checkpoint-named'}")
    p = beam.Pipeline(SparkRunner(spark), SparkBeamOptions(arguments))
    rows = p | ReadFromSpark(registered(spark), timestamp_column="at")
    pairs = rows | beam.Map(lambda row: (row.number, 1)) | beam.WindowInto(FixedWindows(10))
    _ = pairs | beam.CombinePerKey(sum)
    result = p.run()
    try:
        until(lambda: any(tmp_path.glob("sparkbeam-checkpoint-*/commits/1")))
        files = [path.name for path in tmp_path.glob("sparkbeam-checkpoint-*/**/*")]
    finally:
        result.cancel()
    assert "1.changelog" in files
    if version() != (4, 1):  # Which has further checksums of its own.
        assert any(name.endswith("1.changelog.crc") for name in files) == lasting
    assert (".1.crc" in files) == lasting
    assert spark.conf.getAll == before


def test_what_somebody_else_sets_while_a_query_starts_stays() -> None:
    spark = Spark()
    with sessions.set_for_streaming(spark, 3):
        spark.conf[PARTITIONS] = "9"
    assert spark.conf[PARTITIONS] == "9"


def test_a_query_that_cannot_start_leaves_the_settings_as_they_were() -> None:
    spark = Spark()
    before = dict(spark.conf)
    with pytest.raises(KeyError), sessions.set_for_streaming(spark, 3):
        raise KeyError
    with beam.Pipeline(StreamingRunner(spark)) as p:
        _ = p | beam.Create([1]) | beam.GroupBy(abs)
    assert spark.conf == before


def test_frames_that_a_micro_batch_makes_leave_the_active_session_alone(spark: Any) -> None:
    seen: list[Any] = []

    def make(frame: Any, number: int) -> None:
        made = frame.sparkSession.createDataFrame([(number,)], "number int")
        seen.append(made.sparkSession._jsparkSession)

    spark.createDataFrame([], "number int")
    events = TestStream().add_elements([beam.Row(number=1)]).advance_watermark_to_infinity()
    with beam.Pipeline("sparkbeam.SparkRunner", SparkBeamOptions(["--streaming"])) as p:
        p | events | ForeachBatch(make, "number int")
    try:
        active: Any = SparkSession.getActiveSession()
        assert not active._jsparkSession.equals(spark._jsparkSession)
        found: Any = sessions.obtain(SparkBeamOptions([]))
        assert found._jsparkSession.equals(spark._jsparkSession)
    finally:
        spark.createDataFrame([], "number int")
