"""Options and settings by which tables know the micro-batches that they have."""

import pytest

from sparkbeam.connectors.commits import Commit, merge_settings


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
