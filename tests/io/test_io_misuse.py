"""Wrong uses of sources, sinks and DataFrames over a session, in the table beside this module."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apache_beam as beam
import misuse
import pyspark
import pytest
from apache_beam.io import fileio
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing import test_stream
from apache_beam.transforms.window import GlobalWindows
from in_process import Spark
from pyspark.errors import PySparkException
from streams import Undecided, pipeline_on, write_json
from test_pane_files import run, text

from sparkbeam import PipelineFailed, as_dataframe
from sparkbeam.common.maven_packages import package_for
from sparkbeam.connectors.delivery import SinkFailed
from sparkbeam.connectors.manifest import Manifest
from sparkbeam.connectors.problems import problem
from sparkbeam.connectors.storage import storage
from sparkbeam.io import Foreach, FromDataFrame, ReadFromSpark, WriteToSpark
from sparkbeam.upstream.spark import jdbc_connection

SECRET = "correct-horse"
CALL = "An error occurred while calling o45.load.\n: "
STACK = "\n\tat org.apache.spark.sql.X\n"
NO_DRIVER = f"{CALL}java.sql.SQLException: No suitable driver{STACK}"
NO_METHOD = (
    f"{CALL}org.apache.spark.SparkException: Job aborted.{STACK}"
    "Caused by: java.lang.NoSuchMethodError: 'void org.apache.spark.Y.z()'\n\t... 3 more\n"
)
LOGIN = "org.apache.kafka.common.errors.SaslAuthenticationException: Invalid username"
TASK = f"{CALL}org.apache.spark.SparkException: Job aborted due to stage failure: Lost task: "
NO_LOGIN = f"{TASK}{LOGIN}{STACK}Caused by: {LOGIN}\n"
LONG = "ERROR: value too long for type"
TOO_LONG = (
    f"{CALL}java.sql.BatchUpdateException: Batch entry 0 was aborted: {LONG}{STACK}"
    f"Caused by: org.postgresql.util.PSQLException: {LONG}\n"
)
NO_HADOOP = (
    f"{CALL}java.lang.RuntimeException: java.lang.ClassNotFoundException: Class "
    "org.apache.hadoop.fs.s3a.S3AFileSystem not found\n"
)
OF_KAFKA = "org.apache.kafka.common.errors."
VERSIONS = {
    str(package_for("kafka", pyspark.__version__)): "KAFKA",
    pyspark.__version__: "4.X.Y",
    pyspark.__version__.rpartition(".")[0]: "4.X",
}
"""Names of what depends on the version of Spark."""


def fail(error: str, format: str, **options: str) -> None:
    """Fail as a sink does for which Spark has an error; it has no version of Spark."""
    found = problem(PySparkException(error), format, tuple(options.items()))
    for version, name in VERSIONS.items():
        found = found.replace(version, name)
    raise SinkFailed(found)


def read(spark: Any, *options: str, **given: Any) -> Any:
    return pipeline_on(spark, *options) | "Read" >> ReadFromSpark(**given)


def run_to_end(rows: Any) -> None:
    _ = rows | beam.Map(print)
    rows.pipeline.run().wait_until_finish()


def store(spark: Any, rows: list[Any], sink: Any, *options: str) -> None:
    """Write rows of any values."""
    with pipeline_on(spark, *options) as pipeline:
        _ = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: rows) | "Store" >> sink


@pytest.fixture(scope="module")
def names(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Return the names that the calls use; none of them writes a row."""
    folder = tmp_path_factory.mktemp("misuse")
    logged, files = str(folder / "logged"), folder / "files"
    spark.sql("CREATE DATABASE shop")
    spark.sql("CREATE TABLE shop.clicks (id BIGINT, day STRING) USING json PARTITIONED BY (day)")
    spark.sql("CREATE TABLE shop.short (day VARCHAR(2)) USING parquet")
    spark.sql(f"CREATE TABLE shop.logged (id BIGINT) USING json LOCATION '{logged}'")
    Manifest(storage(logged), logged).add([])
    spark.sql("CREATE VIEW shop.mondays AS SELECT * FROM shop.clicks WHERE day = 'mon'")
    stream, table = spark.readStream.format("rate").load(), spark.range(1)
    stream.createOrReplaceTempView("a_stream")
    table.createOrReplaceTempView("a_table")
    write_json(folder / "null" / "0.json", [{"id": 1, "at": None}])
    files.mkdir()
    (files / "a.parquet").write_bytes(b"nothing")
    counts = {"url": f"jdbc:derby:memory:{folder.name};create=true", "dbtable": "counts"}
    with jdbc_connection(spark, counts) as (connection, _):
        columns = "(name VARCHAR(9), count BIGINT, few INT)"
        connection.createStatement().executeUpdate(f"CREATE TABLE counts {columns}")
    p, streaming = pipeline_on(spark), pipeline_on(spark, "--streaming")
    of_another = beam.Pipeline(FnApiRunner())
    yield {
        **globals(),
        **{"TestStream": test_stream.TestStream, "p": p, "streaming": streaming, "spark": spark},
        **{"of_another": of_another, "stream": stream, "table": table, "counts": counts},
        **{"read": partial(read, spark), "store": partial(store, spark), "folder": folder},
        "made": lambda *elements: pipeline_on(spark) | "Made" >> beam.Create(elements),
        "panes": partial(run, Spark(), Path("/nowhere")),
    }
    for name in ("clicks", "short", "logged"):
        assert spark.table(f"shop.{name}").count() == 0
    assert spark.read.format("jdbc").options(**counts).load().count() == 0
    assert "as_dataframe" not in p.applied_labels
    spark.sql("DROP DATABASE shop CASCADE")


@misuse.table(__file__)
def test_each_error_is_as_in_the_table(call: misuse.Call, names: dict[str, Any]) -> None:
    error = misuse.check(call, names)
    if isinstance(error, PipelineFailed):
        assert str(error).startswith(f"Step '{error.label}' failed")
