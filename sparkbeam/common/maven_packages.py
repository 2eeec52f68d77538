"""Maven packages of data sources that Spark does not include, by the version of Spark."""

import re
from collections.abc import Mapping

COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
"""A package as ``group:artifact:version``."""

DRIVERS: Mapping[str, str] = {
    "clickhouse": "com.clickhouse:clickhouse-jdbc:VERSION",
    "duckdb": "org.duckdb:duckdb_jdbc:VERSION",
    "h2": "com.h2database:h2:VERSION",
    "mariadb": "org.mariadb.jdbc:mariadb-java-client:3.5.3",
    "mysql": "com.mysql:mysql-connector-j:9.4.0",
    "oracle": "com.oracle.database.jdbc:ojdbc11:VERSION",
    "postgresql": "org.postgresql:postgresql:42.7.14",
    "snowflake": "net.snowflake:snowflake-jdbc:VERSION",
    "sqlite": "org.xerial:sqlite-jdbc:VERSION",
    "sqlserver": "com.microsoft.sqlserver:mssql-jdbc:13.2.1.jre11",
}
"""JDBC drivers by the scheme after ``jdbc:``."""

_PACKAGES: Mapping[str, str] = {
    "avro": "org.apache.spark:spark-avro_{scala}:{spark}",
    "bigquery": "com.google.cloud.spark:spark-bigquery-with-dependencies_{scala}:VERSION",
    "delta": "io.delta:delta-spark_{minor}_{scala}:VERSION",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-{minor}_{scala}:VERSION",
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}",
    "mongodb": "org.mongodb.spark:mongo-spark-connector_{scala}:VERSION",
    "org.apache.spark.sql.cassandra": (
        "com.datastax.spark:spark-cassandra-connector_{scala}:VERSION"
    ),
    "snowflake": "net.snowflake:spark-snowflake_{scala}:VERSION",
}

_RELEASED: Mapping[str, Mapping[str, str]] = {
    "delta": {
        "3.5": "io.delta:delta-spark_2.12:3.3.2",
        "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
        "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
    "iceberg": {
        "3.5": "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.1",
        "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1",
        "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
    # There is none for 4.3, and this one runs there.
    "kafka": {"4.3": "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"},
}
"""Releases that fit a minor version of Spark, by the format."""

_OF_SPARK = re.compile(r"(?:delta-spark_|iceberg-spark-runtime-)(\d+\.\d+)_")


def package_for(format: str, spark: str) -> str | None:
    """Return the package of a format; None if it is unknown.

    Args:
        format: its name in lower case.
    """
    known = released(format, spark)
    text = known or _PACKAGES.get(format)
    if text is None:
        return None
    return text.format(spark=spark, minor=_minor(spark), scala=_scala(spark))


def released(format: str, spark: str) -> str | None:
    """Return a released package of a format for a version of Spark; None if none is known."""
    return _RELEASED.get(format, {}).get(_minor(spark))


def versions_of(format: str) -> list[str]:
    """Return the minor versions of Spark for which a format has a known release."""
    return [*_RELEASED.get(format, {})]


def misfit(package: str, spark: str) -> str | None:
    """Return the problem of a package with a version of Spark; None if none is known.

    Args:
        package: ``group:artifact:version``.
        spark: the installed version.
    """
    if any(released(format, spark) == package for format in _RELEASED):
        return None
    group, artifact, version = package.split(":")
    of_spark = _OF_SPARK.match(artifact)
    if of_spark is not None and of_spark.group(1) != _minor(spark):
        return f"is for Spark {of_spark.group(1)}"
    if group == "org.apache.spark" and _minor(version) != _minor(spark):
        return f"is for Spark {version}"
    scala = re.search(r"_(2\.1\d)$", artifact)
    if scala is not None and spark >= "4" and scala.group(1) != _scala(spark):
        return f"is for Scala {scala.group(1)}, and this Spark is built with {_scala(spark)}"
    return None


def _minor(spark: str) -> str:
    return ".".join(spark.split(".")[:2])


def _scala(spark: str) -> str:
    return "2.12" if spark.startswith("3.") else "2.13"
