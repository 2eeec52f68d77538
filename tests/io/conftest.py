"""What the tests of this folder share."""

from pathlib import Path
from typing import Any

import pytest
import table_programs

from sparkbeam.upstream.spark import ship


@pytest.fixture(scope="session")
def spark(spark: Any) -> Any:
    """The session of all tests, with the shared module shipped, which workers can import then."""
    ship(spark, str(Path(__file__).with_name("streams.py")), module=True)
    return spark


@pytest.fixture(scope="session")
def managed_tables(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What is found about the tables of each system; its tests are of the group of that name."""
    folder = tmp_path_factory.mktemp("tables")
    program = Path(__file__).with_name("managed_tables_program.py")
    return table_programs.findings(["delta", "iceberg"], str(program), folder)
