"""Beam's transforms whose client library is missing are errors that name what to install."""

from collections.abc import Callable
from typing import Any

import pytest
from apache_beam.io import (
    ReadFromBigQuery,
    ReadFromMongoDB,
    WriteToBigQuery,
    WriteToMongoDB,
    mongodbio,
)
from apache_beam.io.gcp import bigquery_tools

from sparkbeam import ConfigurationError, SparkRunner


@pytest.mark.parametrize(
    ("make", "package"),
    [
        (lambda: ReadFromMongoDB("mongodb://localhost:1", "shop", "clicks"), "pymongo"),
        (lambda: WriteToMongoDB("mongodb://localhost:1", "shop", "clicks"), "pymongo"),
        (lambda: ReadFromBigQuery(table="p:d.t"), "apache-beam[gcp]"),
        (lambda: WriteToBigQuery("p:d.t"), "apache-beam[gcp]"),
    ],
    ids=["ReadFromMongoDB", "WriteToMongoDB", "ReadFromBigQuery", "WriteToBigQuery"],
)
def test_a_missing_client_is_an_error_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    make: Callable[[], Any],
    package: str,
) -> None:
    SparkRunner()
    monkeypatch.setattr(mongodbio, "MongoClient", None)
    monkeypatch.setattr(bigquery_tools, "TableReference", None)
    with pytest.raises(ConfigurationError) as raised:
        make()
    assert str(raised.value) == (
        f"{request.node.callspec.id} needs the package {package}, which is not installed: "
        f"pip install '{package}', here and on the workers."
    )
