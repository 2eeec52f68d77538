"""Tables as Spark describes them, and their options for micro-batches."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from sparkbeam.connectors.catalog_tables import CatalogTable, found_table
from sparkbeam.connectors.commits import Commit, merge_settings

SCHEMA = StructType().add("id", LongType()).add("day", StringType())
PARQUET = {"Type": "MANAGED", "Provider": "parquet", "Location": "file:/warehouse/clicks"}


def described(details: dict[str, str] | None) -> CatalogTable | None:
    """The table of whose details Spark tells; None of them for a temporary view."""
    rows: list[tuple[Any, ...]] = [("id", "bigint", None), ("Provider", "string", None)]
    if details is not None:
        rows += [("", "", ""), ("# Detailed Table Information", "", "")]
        rows += [(name, value, "") for name, value in details.items()]
    columns = [
        SimpleNamespace(name="id", isPartition=False),
        SimpleNamespace(name="day", isPartition=True),
    ]
    session: Any = SimpleNamespace(
        catalog=SimpleNamespace(tableExists=lambda _: True, listColumns=lambda _: columns),
        sql=lambda _: SimpleNamespace(collect=lambda: rows),
        table=lambda _: SimpleNamespace(schema=SCHEMA),
    )
    return found_table(session, "clicks")


@pytest.mark.parametrize(
    ("more", "folder"),
    [
        ({}, "file:/warehouse/clicks"),
        ({"Storage Properties": "[serialization.format=1]"}, "file:/warehouse/clicks"),
        ({"Type": "EXTERNAL", "Provider": "CSV"}, "file:/warehouse/clicks"),
        ({"Provider": "csv", "Storage Properties": "[sep=;]"}, ""),
        ({"Storage Properties": "[parquet.encryption.footer.key=x]"}, ""),
        ({"Num Buckets": "2"}, ""),
        ({"Type": "VIEW"}, ""),
        ({"Provider": "hive"}, ""),
        ({"Provider": "delta"}, ""),
        ({"Location": ""}, ""),
    ],
)
def test_files_are_added_to_tables_that_need_no_more(more: dict[str, str], folder: str) -> None:
    found = described({**PARQUET, **more})
    assert found is not None
    assert found.folder == folder


@pytest.mark.parametrize(("format", "columns"), [("parquet", ("day",)), ("delta", ())])
def test_spark_is_told_the_partitions_of_files(format: str, columns: tuple[str, ...]) -> None:
    found = described({**PARQUET, "Provider": format})
    assert found is not None
    assert (found.format, found.partition_by) == (format, columns)


def test_files_of_the_form_of_the_table_are_taken() -> None:
    found = described(PARQUET)
    assert found is not None
    found.check("Parquet", ("day",))
    found.check(None, ())


@pytest.mark.parametrize(
    ("format", "prefix", "options"),
    [
        ("delta", "spark.databricks.delta.write.", {"txnAppId": "a/Write", "txnVersion": "7"}),
        (
            "iceberg",
            "spark.sql.iceberg.",
            {
                "snapshot-property.sparkbeam-sink": "a/Write",
                "snapshot-property.sparkbeam-batch": "7",
            },
        ),
        ("parquet", "", {}),
    ],
)
def test_a_write_and_a_merge_have_the_same_commit(
    format: str, prefix: str, options: dict[str, str]
) -> None:
    assert Commit("a/Write", 7).options(format) == options
    settings = merge_settings({"path": "/t", **options})
    assert settings == {f"{prefix}{name}": value for name, value in options.items()}
