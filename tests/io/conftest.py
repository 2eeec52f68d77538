"""Spark's workers can import what the tests of this folder share."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module", autouse=True)
def _shared(spark: Any) -> None:
    spark.addArtifacts(str(Path(__file__).with_name("streams.py")), pyfile=True)
