"""Tables, fields and rows that Iceberg cannot have, in the table beside this module."""

from typing import Any

import iceberg_program
import misuse
import pytest
import table_programs

pytestmark = [
    pytest.mark.long("test_tables_misuse.py has the errors of arguments without Iceberg"),
    pytest.mark.xdist_group("managed_tables"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The errors of all calls."""
    folder = tmp_path_factory.mktemp("iceberg")
    return table_programs.findings(["iceberg"], iceberg_program.__file__, folder, "errors")


@misuse.table(__file__)
def test_an_error_names_what_is_wrong(call: misuse.Call, found: dict[str, Any]) -> None:
    misuse.compare(call, found["errors"][call.source])


def test_an_error_leaves_no_table_and_no_row(found: dict[str, Any]) -> None:
    assert found["left"] == found["rows"] == []
