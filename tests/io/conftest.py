"""What the tests of this folder share."""

from pathlib import Path
from typing import Any

import pytest

from sparkbeam.upstream.spark import ship


@pytest.fixture(scope="session")
def spark(spark: Any) -> Any:
    """The session of all tests, with the shared module shipped, which workers can import then."""
    ship(spark, str(Path(__file__).with_name("streams.py")), module=True)
    return spark
