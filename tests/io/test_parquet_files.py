"""DataFrames that are Parquet files and nothing else: workers read these, and get the same rows."""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.utils.timestamp import MIN_TIMESTAMP
from pyspark.sql import functions as sf
from streams import pipeline_on

from sparkbeam import PipelineFailed, SparkRunner, as_dataframe
from sparkbeam.connectors import source_frames
from sparkbeam.connectors.parquet_reads import parquet_files
from sparkbeam.io import ForeachBatch, FromDataFrame, ReadFromSpark
from sparkbeam.plan.spark_io import ReadSpec
from sparkbeam.spark import session as sessions
from sparkbeam.upstream.spark import version
from sparkbeam.wire.parquet_splits import ParquetFiles
from sparkbeam.worker.connectors.parquet_rows import batches_of

SCHEMA = (
    "b boolean, i1 tinyint, i2 smallint, i4 int, i8 bigint, f float, d double, s string, "
    "raw binary, day date, at timestamp, local timestamp_ntz, price decimal(10, 2), list array<int>"
)
PLAIN = ["b", "i1", "i2", "i4", "i8", "f", "d", "s", "raw", "day", "at", "local"]
TIMES = [
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(1582, 10, 10, 1, 2, 3, tzinfo=UTC),
    datetime(1899, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 30, 0, 123_456, tzinfo=UTC),
    datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
]
ALL = [
    (
        number % 2 == 0,
        number - 3,
        -number,
        2**31 - 1 - number,
        -(2**63) + number,
        number / 3,
        float("nan") if number == 2 else -0.0,
        ["", "ü", "\0", "long" * 1000, "c", "d"][number],
        bytes([number, 255]),
        at.date(),
        at,
        at.replace(tzinfo=None),
        None,
        [number],
    )
    for number, at in enumerate(TIMES)
]
NOTHING = (None,) * len(ALL[0])


@dataclass(frozen=True)
class Tables:
    """Files in the folder of the fixture, as DataFrames."""

    spark: Any
    folder: Path

    @property
    def few(self) -> Any:
        return self.spark.read.parquet(f"{self.folder}/few")

    @property
    def all(self) -> Any:
        return self.spark.read.parquet(f"{self.folder}/all")

    def typed(self, name: str, schema: str) -> Any:
        return self.spark.read.schema(schema).parquet(f"{self.folder}/{name}")


Build = Callable[[Tables], Any]
"""Makes a DataFrame of the files."""


@contextmanager
def setting(spark: Any, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)
        if before is not None:
            spark.conf.set(name, before)


@pytest.fixture(scope="module")
def in_the_new_calendar(spark: Any) -> Iterator[None]:
    """Files are written so that old days can be in them; Spark 3 asks to be told."""
    name = "spark.sql.parquet.{}RebaseModeInWrite"
    with (
        setting(spark, name.format("datetime"), "CORRECTED"),
        setting(spark, name.format("int96"), "CORRECTED"),
    ):
        yield


@pytest.fixture(scope="module")
def folder(spark: Any, in_the_new_calendar: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of all types as Spark writes them, in three files, one of them without rows."""
    path = tmp_path_factory.mktemp("parquet")
    empty = spark.createDataFrame([], SCHEMA)
    many = [ALL[number % len(ALL)] for number in range(5000)]
    written = spark.createDataFrame([*ALL, NOTHING, *many], SCHEMA).coalesce(1)
    written.write.option("parquet.block.size", 4096).parquet(str(path / "all"))
    empty.write.mode("append").parquet(str(path / "all"))
    spark.createDataFrame(ALL, SCHEMA).coalesce(1).write.mode("append").parquet(str(path / "all"))
    few = spark.createDataFrame([(1, "a")], "id long, name string")
    few.write.parquet(str(path / "few"))
    few.write.json(str(path / "json"))
    few.write.partitionBy("name").parquet(str(path / "parts"))
    (path / "empty").mkdir()
    return path


def files_of(spark: Any, frame: Any, time: str | None = None, *columns: str, **more: Any) -> Any:
    """The files that workers read in place of a DataFrame, and what Spark would hand over."""
    names = columns or tuple(frame.columns)
    given = {"frame": source_frames.give(frame), "columns": names, "timestamp_column": time}
    spec = ReadSpec(**(given | more))
    rows = source_frames.timed(spark, spec, "label")
    return parquet_files(spark, lambda: rows, spec), rows


def handed_over(rows: Any) -> pa.Table:
    """What workers get of a DataFrame."""

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch([pa.array([batch.serialize().to_pybytes()])], ["batch"])
            yield pa.record_batch([pa.array([batch.schema.serialize().to_pybytes()])], ["batch"])

    cells = [row.batch for row in rows.mapInArrow(packed, "batch binary").collect()]
    schemas = [pa.ipc.read_schema(pa.py_buffer(cell)) for cell in cells[1::2]]
    batches = map(pa.ipc.read_record_batch, map(pa.py_buffer, cells[::2]), schemas)
    return pa.Table.from_batches(list(batches))


def themselves(files: ParquetFiles) -> pa.Table:
    """What they read themselves."""
    shares = range(len(files.shares))
    return pa.Table.from_batches([batch for at in shares for batch in batches_of(files, at)])


def counted(table: pa.Table) -> Counter[str]:
    """The rows, each as often as it is there; of numbers their bits."""
    rows = zip(*(_texts(column) for column in table.columns), strict=True)
    return Counter(map(str, rows))


def _texts(column: pa.ChunkedArray) -> list[str]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return list(map(repr, column.to_pylist()))


def assert_same(files: ParquetFiles | None, rows: Any) -> None:
    """Assert that workers read themselves, and get what Spark would hand over."""
    assert files is not None
    expected, found = handed_over(rows), themselves(files)
    assert found.schema.types == expected.schema.types
    assert counted(found) == counted(expected)


def view(read: "Tables") -> Any:
    read.all.createOrReplaceTempView("all_types")
    return read.spark.sql("SELECT at, f AS d FROM all_types")


SAME: dict[str, Build] = {
    "plain columns": lambda read: read.all.select(*PLAIN),
    "in another order": lambda read: read.all.select("s", "at", "b"),
    "renamed": lambda read: read.all.select(
        "at", sf.col("s").alias("S t"), "i4", sf.col("s").alias("again")
    ).withColumnRenamed("i4", "i8"),
    "a view": view,
    "options of which files": lambda read: (
        read.spark.read.option("mergeSchema", True)
        .option("pathGlobFilter", "*.parquet")
        .parquet(f"{read.folder}/all", f"{read.folder}/all")
        .select("at", "d")
    ),
    "a given schema": lambda read: read.typed("all", "at timestamp, i4 int"),
}


@pytest.mark.parametrize("name", SAME)
def test_workers_read_what_spark_would_hand_over(spark: Any, folder: Path, name: str) -> None:
    files, rows = files_of(spark, SAME[name](Tables(spark, folder)), "at")
    assert_same(files, rows)
    assert themselves(files).columns[-1].null_count


@pytest.mark.parametrize("columns", [(), ("s",), ("s", "at")])
def test_rows_without_a_time_have_the_earliest(
    spark: Any, folder: Path, columns: tuple[str, ...]
) -> None:
    frame = spark.read.parquet(f"{folder}/all")
    assert_same(*files_of(spark, frame, None, "s", "at", needed=columns))


def test_names_of_files_may_be_odd(spark: Any, tmp_path: Path) -> None:
    for number, name in enumerate(["a b", "ü%20", "x;y", "a=b#c", "[x]"]):
        folder = tmp_path / name / "rows"
        spark.createDataFrame([(number,)], "id long").coalesce(1).write.parquet(str(folder))
        files, rows = files_of(
            spark,
            spark.read.option("basePath", str(folder)).parquet(
                str(folder).replace("[", "\\[").replace("]", "\\]")
            ),
        )
        assert_same(files, rows)


@pytest.mark.usefixtures("in_the_new_calendar")
@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu"])
def test_times_are_the_same_in_each_form_and_zone(
    spark: Any, tmp_path: Path, kind: str, zone: str
) -> None:
    path = str(tmp_path / "times")
    with (
        setting(spark, "spark.sql.parquet.outputTimestampType", kind),
        setting(spark, "spark.sql.session.timeZone", zone),
    ):
        spark.createDataFrame(ALL, SCHEMA).select("at", "day", "local").write.parquet(path)
        assert_same(*files_of(spark, spark.read.parquet(path), "at"))


def test_of_a_dataframe_those_columns_are_read_that_somebody_looks_at(
    spark: Any, folder: Path
) -> None:
    frame = spark.read.parquet(f"{folder}/all")
    files, rows = files_of(spark, frame, "at", looked_at=("s", "i4"))
    assert files is not None
    assert files.output == ("i4", "s")
    assert counted(themselves(files)) == counted(handed_over(rows).select(["i4", "s", -1]))
    assert files_of(spark, frame, "at", looked_at=("s", "list"))[0] is None


def test_rows_are_divided_between_tasks_by_row_groups(spark: Any, folder: Path) -> None:
    files, _ = files_of(spark, spark.read.parquet(f"{folder}/all").select("i4", "s"))
    assert files is not None
    assert len(files.shares) == 2
    groups = [(part.path, at) for share in files.shares for part in share for at in part.row_groups]
    assert len(groups) == len({*groups}) > 2
    for name, value in (
        ("spark.sql.files.minPartitionNum", "3"),
        ("spark.sql.files.maxPartitionBytes", str(sum(files_sizes(files)) // 3)),
    ):
        with setting(spark, name, value):
            files, _ = files_of(spark, spark.read.parquet(f"{folder}/all").select("i4", "s"))
        assert files is not None
        assert len(files.shares) == 4


def test_a_task_has_a_batch_of_rows_at_least_if_all_is_done_over_columns(
    spark: Any, folder: Path
) -> None:
    def shares(**more: str) -> int:
        frame = spark.read.parquet(f"{folder}/all").select("i4", "s")
        with contextlib.ExitStack() as settings:
            for name, value in more.items():
                settings.enter_context(setting(spark, f"spark.sql.files.{name}", value))
            files, _ = files_of(spark, frame, is_compiled=True)
        assert files is not None
        return len(files.shares)

    assert shares() == 1
    assert shares(minPartitionNum="2") == 2
    assert shares(maxPartitionBytes="1000") > 2


def files_sizes(files: ParquetFiles) -> list[int]:
    return [*{part.path: part.size for share in files.shares for part in share}.values()]


def array_of_bytes(kind: pa.DataType, *values: bytes) -> pa.Array:
    """An array whose values nobody has looked at."""
    array = pa.array(values, pa.binary())
    return pa.Array.from_buffers(kind, len(array), array.buffers())


BY_ARROW: dict[str, pa.Array] = {
    "integers": pa.array([1, None, -5], pa.int32()),
    "short integers": pa.array([1, None, -5], pa.int8()),
    "texts": pa.array(["a", None, "ü"]),
    "texts that are none": array_of_bytes(pa.string(), b"\xff\xfe", b"a", b"\xc3"),
    "bytes": pa.array([b"a", None, b""]),
    "required": pa.array([1.5, 2.5, 3.5]),
    "repeated texts": pa.array(["a", "a", "b"] * 100),
}
"""What Arrow writes and both read alike."""


@pytest.mark.parametrize("name", BY_ARROW)
def test_files_of_others_are_read_alike(spark: Any, tmp_path: Path, name: str) -> None:
    array = BY_ARROW[name]
    schema = pa.schema([pa.field("x", array.type, nullable=name != "required")])
    pq.write_table(pa.table([array], schema=schema), tmp_path / "a.parquet", row_group_size=2)
    files, rows = files_of(spark, spark.read.parquet(str(tmp_path)))
    assert files is not None
    expected, found = handed_over(rows), themselves(files)
    assert found.schema.types == expected.schema.types
    as_bytes = [
        table.column(0).cast(pa.binary()) if name.startswith("texts") else table.column(0)
        for table in (expected, found)
    ]
    assert as_bytes[0].to_pylist() == as_bytes[1].to_pylist()


def in_buckets(read: Tables) -> Any:
    read.spark.sql(
        "CREATE TABLE in_buckets (id bigint) USING parquet CLUSTERED BY (id) INTO 2 BUCKETS"
    )
    read.spark.sql("INSERT INTO in_buckets VALUES (1), (2)")
    return read.spark.table("in_buckets")


def padded(read: Tables) -> Any:
    read.spark.sql("CREATE TABLE padded (id bigint, name char(5)) USING parquet")
    read.spark.sql("INSERT INTO padded VALUES (1, 'a')")
    return read.spark.table("padded")


ONLY_SPARK: dict[str, Build] = {
    "a filter": lambda read: read.few.where("id > 0"),
    "a limit": lambda read: read.few.limit(5),
    "a sample": lambda read: read.few.sample(0.5, seed=1),
    "a computed column": lambda read: read.few.selectExpr("id + 1 AS id"),
    "a constant": lambda read: read.few.selectExpr("id", "1 AS one"),
    "a union": lambda read: read.few.unionAll(read.few),
    "distinct rows": lambda read: read.few.distinct(),
    "partitions": lambda read: read.few.repartition(3),
    "the path of the file": lambda read: read.few.select("id", "_metadata.file_path"),
    "decimals": lambda read: read.all.select("price"),
    "lists": lambda read: read.all.select("list"),
    "a wider type": lambda read: read.typed("all", "i4 bigint"),
    "a column that is not there": lambda read: read.typed("few", "id bigint, more string"),
    "other letters": lambda read: read.typed("few", "ID bigint"),
    "another calendar": lambda read: read.spark.read.option("datetimeRebaseMode", "LEGACY").parquet(
        f"{read.folder}/few"
    ),
    "no files": lambda read: read.spark.range(5),
    "a folder without files": lambda read: read.typed("empty", "id bigint"),
    "another format": lambda read: read.spark.read.json(f"{read.folder}/json"),
    "partitioned files": lambda read: read.spark.read.parquet(f"{read.folder}/parts"),
    "a column of those": lambda read: read.spark.read.parquet(f"{read.folder}/parts").select("id"),
    "a table with buckets": in_buckets,
    "a table with padded texts": padded,
    "what is cached": lambda read: read.few.cache(),
}


@pytest.mark.parametrize("name", ONLY_SPARK)
def test_spark_reads_whatever_is_more_than_columns(spark: Any, folder: Path, name: str) -> None:
    try:
        assert files_of(spark, ONLY_SPARK[name](Tables(spark, folder)))[0] is None
    finally:
        Tables(spark, folder).few.unpersist()
        for table in ("padded", "in_buckets"):
            spark.sql(f"DROP TABLE IF EXISTS {table}")


@pytest.mark.parametrize("time", ["day", "local", "i8", "s"])
def test_spark_makes_times_of_other_types(spark: Any, folder: Path, time: str) -> None:
    assert files_of(spark, spark.read.parquet(f"{folder}/all").select(*PLAIN), time)[0] is None


WRITTEN: dict[str, pa.Array] = {
    "unsigned": pa.array([1], pa.uint32()),
    "a dictionary": pa.array(["a"]).dictionary_encode(),
    "large texts": pa.array(["a"], pa.large_string()),
    "milliseconds": pa.array([1], pa.timestamp("ms", "UTC")),
    "a duration": pa.array([1], pa.duration("us")),
    "bytes of one length": pa.array([b"ab"], pa.binary(2)),
}
LEFT_TO_SPARK: dict[str, Callable[[Path], Any]] = {
    **{name: partial(pq.write_table, pa.table({"x": array})) for name, array in WRITTEN.items()},
    "96 bits of another writer": lambda path: pq.write_table(
        pa.table({"x": pa.array([1], pa.timestamp("us"))}),
        path,
        use_deprecated_int96_timestamps=True,
    ),
    "a rare codec": lambda path: pq.write_table(pa.table({"x": [1]}), path, compression="lz4"),
    "a name with a dot": lambda path: pq.write_table(pa.table({"x.y": [1]}), path),
    "days of Spark 2": lambda path: write_as("2.4.8", path),
    "times of Spark 3.0": lambda path: write_as("3.0.3", path),
    "days of an old calendar": lambda path: write_as(
        "4.0.0", path, **{"org.apache.spark.legacyDateTime": ""}
    ),
}


def write_as(version: str, path: Path, **more: str) -> None:
    """Days in a file that says that Spark has written it."""
    schema = pa.schema([("x", pa.date32())], metadata={"org.apache.spark.version": version, **more})
    pq.write_table(pa.table([pa.array([date(1000, 1, 1)])], schema=schema), path)


@pytest.mark.parametrize("name", LEFT_TO_SPARK)
def test_spark_reads_what_arrow_might_read_otherwise(spark: Any, tmp_path: Path, name: str) -> None:
    LEFT_TO_SPARK[name](tmp_path / "a.parquet")
    assert files_of(spark, spark.read.parquet(str(tmp_path)))[0] is None


def test_days_of_a_writer_that_is_not_known_are_as_the_version_of_spark_takes_them(
    spark: Any, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"x": [date(1000, 1, 1)]}), tmp_path / "a.parquet")
    files, rows = files_of(spark, spark.read.parquet(str(tmp_path)))
    assert (files is not None) == (version() >= (4, 0))
    if files is not None:
        assert_same(files, rows)


def test_spark_reads_files_of_which_one_is_another(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [2], "y": ["a"]}), tmp_path / "b.parquet")
    frame = spark.read.schema("x bigint, y bigint").parquet(str(tmp_path))
    assert files_of(spark, frame)[0] is None
    assert_same(*files_of(spark, frame, None, "x"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("spark.sql.parquet.binaryAsString", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.int96TimestampConversion", "true"),
        ("spark.sql.parquet.fieldId.read.enabled", "true"),
        ("spark.sql.execution.arrow.useLargeVarTypes", "true"),
        ("spark.sql.parquet.setting.of.tomorrow", "1"),
        ("parquet.crypto.factory.class", "org.example.Keys"),
    ],
)
def test_spark_reads_where_a_setting_may_change_what_is_read(
    spark: Any, folder: Path, name: str, value: str
) -> None:
    frame = spark.read.parquet(f"{folder}/few")
    with setting(spark, name, value):
        assert files_of(spark, frame)[0] is None
    with setting(spark, "spark.sql.parquet.compression.codec", "zstd"):
        assert files_of(spark, frame)[0] is not None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file in a folder of its own."""
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def test_spark_reads_files_that_have_changed_since_it_found_them(spark: Any, file: Path) -> None:
    frame = spark.read.parquet(str(file.parent))
    assert files_of(spark, frame)[0] is not None
    pq.write_table(pa.table({"x": [1, 2]}), file)
    assert files_of(spark, frame)[0] is None
    file.unlink()
    assert files_of(spark, frame)[0] is None


def test_spark_reads_files_whose_checksum_may_be_wrong(spark: Any, tmp_path: Path) -> None:
    def read() -> Any:
        return files_of(spark, spark.read.schema("id bigint").parquet(str(tmp_path / "a")))[0]

    spark.range(1000).coalesce(1).write.parquet(str(tmp_path / "a"))
    (file,) = (tmp_path / "a").glob("*.parquet")
    assert read() is not None
    later = file.stat().st_mtime_ns + 2_000_000_000
    os.utime(file, ns=(later, later))
    assert read() is None
    pq.write_table(pa.table({"id": [*range(9999)]}), file)
    assert read() is None


def test_a_file_that_changes_before_a_task_reads_it_is_an_error(spark: Any, file: Path) -> None:
    files, _ = files_of(spark, spark.read.parquet(str(file.parent)))
    pq.write_table(pa.table({"x": [1, 2]}), file)
    with pytest.raises(OSError, match="has changed"):
        themselves(files)


def test_a_cluster_may_have_copies_of_a_file(
    spark: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "is_local", lambda _: False)
    files, _ = files_of(spark, spark.read.parquet(str(file.parent)))
    os.utime(file, ns=(0, 0))
    assert themselves(files).column("x").to_pylist() == [1]
    pq.write_table(pa.table({"x": [1] * 1000}), file, compression="none", use_dictionary=False)
    with pytest.raises(OSError, match="has changed"):
        themselves(files)


@pytest.fixture
def clicks(spark: Any, tmp_path: Path) -> str:
    path = str(tmp_path / "clicks")
    spark.range(5000).selectExpr(
        "id", "concat('n', id % 7) AS name", "timestamp_seconds(id) AS at", "id / 2 AS half"
    ).write.parquet(path)
    return path


EXPECTED = [("n" + str(number % 7), number / 2, float(number)) for number in range(5000)]


@pytest.mark.parametrize("columns", ["auto", "off"])
def test_elements_are_the_same(spark: Any, clicks: str, columns: str) -> None:
    with pipeline_on(spark, f"--columns={columns}") as p:
        rows = p | FromDataFrame(spark.read.parquet(clicks), timestamp_column="at")
        found = rows | beam.Map(
            lambda row, at=beam.DoFn.TimestampParam: (row.name, row.half, at.micros / 1e6)
        )
        assert_that(found, equal_to(EXPECTED))
    with pipeline_on(spark, f"--columns={columns}") as p:
        rows = p | ReadFromSpark("parquet", {"path": clicks}, columns=["id"])
        stamps = rows | beam.Map(lambda row, at=beam.DoFn.TimestampParam: (row.id, at))
        assert_that(stamps, equal_to([(number, MIN_TIMESTAMP) for number in range(5000)]))


def test_a_source_that_several_stages_read_is_the_same(spark: Any, clicks: str) -> None:
    with pipeline_on(spark) as p:
        rows = p | ReadFromSpark("parquet", {"path": clicks})
        ones = p | beam.Create([(1, "a")])
        pairs = rows | beam.Map(lambda row: (row.id % 2, row.name)) | beam.Distinct()
        grouped = (pairs, ones) | beam.Flatten() | beam.GroupByKey()
        count = rows | beam.combiners.Count.Globally()
        found = grouped | beam.Map(
            lambda group, count: (group[0], len(set(group[1])), count),
            beam.pvalue.AsSingleton(count),
        )
        assert_that(found, equal_to([(0, 7, 5000), (1, 8, 5000)]))


def run(spark: Any, build: Callable[[Any], Any], *options: str) -> None:
    p = pipeline_on(spark, *options)
    build(p)
    p.run().wait_until_finish()


@pytest.mark.parametrize("columns", ["auto", "off"])
def test_a_null_time_is_the_error_that_it_was(spark: Any, tmp_path: Path, columns: str) -> None:
    path = str(tmp_path / "nulls")
    spark.sql("SELECT 1 AS id, CAST(NULL AS timestamp) AS at").write.parquet(path)
    read = FromDataFrame(spark.read.parquet(path), timestamp_column="at")
    with pytest.raises(PipelineFailed, match=r"'Read' failed.*column 'at' has a null"):
        run(spark, lambda p: p | "Read" >> read | beam.Map(print), f"--columns={columns}")


def test_a_file_that_goes_is_an_error_with_the_label(
    spark: Any, clicks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def removing(*arguments: Any, **more: Any) -> ParquetFiles | None:
        files = parquet_files(*arguments, **more)
        for file in Path(clicks).glob("*.parquet"):
            file.unlink()
        return files

    monkeypatch.setattr("sparkbeam.batch.execution.parquet_files", removing)
    read = FromDataFrame(spark.read.parquet(clicks))
    with pytest.raises(PipelineFailed, match="'Read' failed: its files cannot be read"):
        run(spark, lambda p: p | "Read" >> read | beam.Map(print))


WORDS = "its files read by the workers"


def test_an_explanation_says_who_reads(spark: Any, clicks: str) -> None:
    def build(p: beam.Pipeline, frame: Any) -> beam.Pipeline:
        rows = p | "Read" >> FromDataFrame(frame)
        _ = rows | beam.Map(lambda row: row.name) | beam.combiners.Count.PerElement()
        return p

    runner = SparkRunner(session=spark)
    frame = spark.read.parquet(clicks)
    told = runner.explain(build(beam.Pipeline(runner), frame))
    assert f"'Read' (1 of 4 columns, {WORDS})" in told.stages
    assert "FileScan" not in told.spark
    result: Any = build(beam.Pipeline(runner), frame).run()
    result.wait_until_finish()
    assert WORDS in result.explain().stages
    told = runner.explain(build(beam.Pipeline(runner), frame.where("id > 3")))
    assert WORDS not in told.stages
    assert "FileScan" in told.spark
    off = build(beam.Pipeline(runner, argv=["--columns=off"]), frame)
    assert WORDS not in runner.explain(off).stages


@pytest.fixture
def table(spark: Any) -> Iterator[str]:
    spark.range(100).write.saveAsTable("some_numbers")
    yield "some_numbers"
    spark.sql("DROP TABLE some_numbers")


def test_a_table_that_is_read_is_not_written_over(spark: Any, table: str) -> None:
    def overwrite(rows: Any, _: int) -> None:
        rows.write.mode("overwrite").saveAsTable(table)

    def build(p: Any) -> Any:
        rows = p | FromDataFrame(spark.table(table))
        return rows | beam.Map(lambda row: beam.Row(id=int(row.id))) | ForeachBatch(overwrite)

    assert files_of(spark, spark.table(table))[0] is not None
    with pytest.raises(PipelineFailed, match=r"(?i)overwrite"):
        run(spark, build)
    assert spark.table(table).count() == 100


def test_a_dataframe_that_is_asked_later_reads_what_is_there_then(spark: Any, clicks: str) -> None:
    rows = pipeline_on(spark) | FromDataFrame(spark.read.parquet(clicks))
    names = rows | beam.Map(lambda row: beam.Row(name=str(row.name)))
    assert "FileScan" in as_dataframe(names)._jdf.queryExecution().toString()
