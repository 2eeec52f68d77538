"""Maven packages for a session: ``--spark_packages``, and those that fit a version of Spark."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyspark
import pytest
from apache_beam.transforms import managed

from sparkbeam import ConfigurationError, SparkBeamOptions, SparkRunner
from sparkbeam.common.maven_packages import misfit, package_for, released
from sparkbeam.options.spark_options import packages, problems, settings
from sparkbeam.spark.jars import add_jars


@pytest.mark.parametrize(
    ("package", "spark", "problem"),
    [
        ("io.delta:delta-spark_4.1_2.13:4.4.0", "4.2.0", "is for Spark 4.1"),
        ("io.delta:delta-spark_4.2_2.13:4.4.0", "4.2.1", None),
        ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0", "4.3.0", "is for Spark 4.1"),
        ("org.apache.spark:spark-avro_2.13:4.2.0", "4.3.0", "is for Spark 4.2.0"),
        ("org.apache.spark:spark-avro_2.13:4.3.1", "4.3.0", None),
        ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", "4.3.0", None),
        ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.4", "4.3.0", "is for Spark 4.1.4"),
        ("org.mongodb.spark:mongo-spark-connector_2.12:10.4.0", "4.0.1", "is for Scala 2.12"),
        ("org.mongodb.spark:mongo-spark-connector_2.12:10.4.0", "3.5.3", None),
        ("org.postgresql:postgresql:42.7.14", "4.3.0", None),
    ],
)
def test_a_package_for_another_spark_is_told(package: str, spark: str, problem: str | None) -> None:
    found = misfit(package, spark)
    assert found is None if problem is None else str(found).startswith(problem)


@pytest.mark.parametrize("spark", ["3.5.6", "4.0.1", "4.1.4", "4.2.0", "4.3.0"])
@pytest.mark.parametrize("format", ["delta", "iceberg", "avro", "kafka"])
def test_the_packages_that_errors_name_fit(format: str, spark: str) -> None:
    package = package_for(format, spark)
    assert package is not None
    assert misfit(package, spark) is None


def test_packages_are_settings_of_a_new_session_beside_those_of_the_user() -> None:
    options = SparkBeamOptions(
        [
            "--spark_conf=spark.jars.packages=a:b:1",
            "--spark_packages=c:d:1, e:f:2",
            "--spark_packages=g:h:3",
        ]
    )
    assert packages(options) == ["c:d:1", "e:f:2", "g:h:3"]
    assert settings(options) == {"spark.jars.packages": "a:b:1,c:d:1,e:f:2,g:h:3"}
    assert problems(options) == []


def test_a_package_for_another_spark_is_an_error_that_names_both() -> None:
    package = "--spark_packages=org.apache.spark:spark-avro_2.13:1.6.0"
    [problem] = problems(SparkBeamOptions([package]))
    assert "is for Spark 1.6.0" in problem
    assert f"PySpark {pyspark.__version__} is installed" in problem


def test_a_format_without_a_release_is_an_error_with_the_versions_that_have_one(
    spark: Any,
) -> None:
    if released("iceberg", pyspark.__version__) is not None:
        pytest.skip("Iceberg has a release for this Spark")
    p = beam.Pipeline(SparkRunner(session=spark))
    with pytest.raises(ConfigurationError, match=r"'Orders': .*use PySpark 3\.5 or 4\.0 or 4\.1"):
        _ = p | "Orders" >> managed.Read(managed.ICEBERG, config={"table": "a.b"})


def test_an_archive_that_a_session_refuses_is_an_error_with_the_remedy(
    spark: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=r"driver_jars='.*': the file does not exist"):
        add_jars(spark, [str(tmp_path / "none.jar")], "driver_jars")
    with pytest.raises(ConfigurationError, match=r"session does not accept 'no-such://x.jar'"):
        add_jars(spark, ["no-such://x.jar"], "driver_jars")
