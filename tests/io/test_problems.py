"""What is said of a data source that Spark cannot read or write."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyspark
import pytest
from pyspark.errors import PySparkException

from sparkbeam import PipelineFailed, SparkBeamOptions, SparkRunner
from sparkbeam.common.maven_packages import package_for
from sparkbeam.connectors.problems import problem
from sparkbeam.io import ReadFromSpark, WriteToSpark

JAVA = """An error occurred while calling o45.load.
: java.sql.SQLException: No suitable driver
\tat java.sql/java.sql.DriverManager.getDriver(DriverManager.java:299)
"""
WRAPPED = """An error occurred while calling o45.save.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.X
Caused by: java.lang.NoSuchMethodError: 'void org.apache.spark.Y.z()'
\t... 3 more
"""

LOGIN = """An error occurred while calling o45.save.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 4.0 failed 1 \
times, most recent failure: Lost task 0.0 in stage 4.0 (TID 4) (localhost executor driver): \
org.apache.kafka.common.errors.SaslAuthenticationException: Invalid username
\tat org.apache.spark.sql.X
Caused by: org.apache.kafka.common.errors.SaslAuthenticationException: Invalid username
"""
TOO_LONG = """An error occurred while calling o45.save.
: java.sql.BatchUpdateException: Batch entry 0 was aborted: ERROR: value too long for type
\tat org.apache.spark.sql.X
Caused by: org.postgresql.util.PSQLException: ERROR: value too long for type
"""
NO_HADOOP = (
    "An error occurred while calling o45.load.\n: java.lang.RuntimeException: "
    "java.lang.ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found\n"
)

MINOR = pyspark.__version__.rpartition(".")[0]


@pytest.mark.parametrize(
    ("text", "format", "options", "said"),
    [
        (JAVA, "jdbc", {"url": "jdbc:postgresql://host/db"}, "org.postgresql:postgresql:42.7.14"),
        (JAVA, "jdbc", {"URL": "jdbc:unheard:of"}, "java.sql.SQLException: No suitable driver."),
        (JAVA, "jdbc", {}, "--spark_packages=GROUP:DRIVER:VERSION"),
        (LOGIN, "kafka", {}, "username. Check bootstrap.servers, the login and the topics."),
        (
            "org.apache.kafka.common.errors.RecordTooLargeException: The message is 2 bytes",
            *("kafka", {}, "Write smaller records, or raise max.request.size in producer_config"),
        ),
        (
            "org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized",
            *("kafka", {}, "Grant the login access to the topics"),
        ),
        (
            "KafkaIllegalStateException: Partition t-0's offset was changed from 10 to 3",
            *("kafka", {}, "set auto.offset.reset=earliest in consumer_config"),
        ),
        (NO_HADOOP, "parquet", {}, "--spark_packages=org.apache.hadoop:hadoop-aws:VERSION"),
        (TOO_LONG, "jdbc", {}, "too long for type. Correct the rows, or the table."),
        (
            "java.sql.SQLDataException: The resulting value is outside the range for INTEGER",
            *("jdbc", {}, "for INTEGER. Correct the rows, or the table."),
        ),
        ("[CAST_OVERFLOW] The value", "", {}, "Correct the rows, or the table."),
        ("[COLUMN_ALREADY_EXISTS] `a`", "jdbc", {}, "Read a query or a view whose"),
        ("[JDBC_EXTERNAL_ENGINE_SYNTAX_ERROR.X] y", "jdbc", {}, "Correct the name of the table"),
        ("[FAILED_JDBC.CONNECTION] x", "jdbc", {}, "Check the host, the port, the user and"),
        (WRAPPED, "delta", {}, "NoSuchMethodError: 'void org.apache.spark.Y.z()'."),
        (WRAPPED, "delta", {}, f"for a Spark version other than {pyspark.__version__}"),
        ("[DATA_SOURCE_NOT_FOUND] x", "kafka", {}, f"{package_for('kafka', pyspark.__version__)}"),
        ("[DATA_SOURCE_NOT_FOUND] x", "Delta", {}, f"io.delta:delta-spark_{MINOR}_2.13:VERSION"),
        ("[DATA_SOURCE_NOT_FOUND] x", "nosuchformat", {}, "Correct the name"),
        ("[UNABLE_TO_INFER_SCHEMA] x", "parquet", {}, "Give the schema"),
        ("[REQUIRES_SINGLE_PART_NAMESPACE] `a`.`b`", "delta", {}, "begin with a catalog of the"),
        ("[UNRECOGNIZED_SQL_TYPE] name: x, id: OTHER", "jdbc", {}, "SELECT CAST(c AS VARCHAR(100)"),
        ('PSQLException: ERROR: near "hunter2"', "", {}, "ERROR: near '…'. Correct the table or"),
    ],
)
def test_the_cause_is_told_with_the_remedy(
    text: str, format: str, options: dict[str, str], said: str
) -> None:
    told = problem(PySparkException(text), format, tuple(options.items()))
    assert said in told
    assert "o45" not in told
    assert told.count("SaslAuthenticationException") < 2
    assert "\n" not in told


@pytest.mark.parametrize("arguments", [[], ["--streaming"]])
def test_a_source_with_a_schema_says_the_same_in_the_run(spark: Any, arguments: list[str]) -> None:
    pipeline = beam.Pipeline(SparkRunner(session=spark), SparkBeamOptions(arguments))
    _ = pipeline | "Orders" >> ReadFromSpark("avro", {"path": "x"}, "id int") | beam.Map(print)
    with pytest.raises(PipelineFailed, match=r"Step 'Orders' failed: .*spark-avro") as caught:
        pipeline.run().wait_until_finish()
    assert caught.value.label == "Orders"


def test_what_cannot_be_written_is_an_error_with_label_cause_and_remedy(
    spark: Any, tmp_path: Path
) -> None:
    pipeline = beam.Pipeline(SparkRunner(session=spark))
    rows = pipeline | beam.Create([{"id": 1}])
    _ = rows | "Store" >> WriteToSpark("delta", {"path": tmp_path / "t"}, "id int")
    with pytest.raises(PipelineFailed, match=r"Step 'Store' failed: .*io\.delta:delta-spark"):
        pipeline.run().wait_until_finish()
