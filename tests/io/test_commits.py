"""Options and settings by which tables know the micro-batches that they have."""

import pytest

from sparkbeam.connectors.commits import Commit, merge_settings

COMMIT = Commit("0123456789ab/Write", 7)


@pytest.mark.parametrize(
    ("format", "options", "settings"),
    [
        (
            "delta",
            {"txnAppId": "0123456789ab/Write", "txnVersion": "7"},
            {
                "spark.databricks.delta.write.txnAppId": "0123456789ab/Write",
                "spark.databricks.delta.write.txnVersion": "7",
            },
        ),
        (
            "iceberg",
            {
                "snapshot-property.sparkbeam-sink": "0123456789ab/Write",
                "snapshot-property.sparkbeam-batch": "7",
            },
            {
                "spark.sql.iceberg.snapshot-property.sparkbeam-sink": "0123456789ab/Write",
                "spark.sql.iceberg.snapshot-property.sparkbeam-batch": "7",
            },
        ),
        ("parquet", {}, {}),
    ],
)
def test_a_write_and_a_merge_have_the_same_commit(
    format: str, options: dict[str, str], settings: dict[str, str]
) -> None:
    assert COMMIT.options(format) == options
    assert merge_settings({"path": "/t", **options}) == settings
