"""``managed.Read`` of a Delta table and of its changes, with Delta itself."""

from pathlib import Path
from typing import Any

import managed_delta_program
import pytest
import table_programs


@pytest.mark.timeout(900)
@pytest.mark.xdist_group("managed_tables")
def test_a_table_and_its_changes_are_read_and_by_the_page_too(managed_tables: Any) -> None:
    """The session gets the settings that Delta needs, and the package unless there are jars."""
    assert managed_tables["delta"] == {
        "newest": [[1, 10], [2, 21]],
        "changes": [[2, 20, "update_preimage"], [2, 21, "update_postimage"]],
        "page": [[1, "Bonn", 10], [2, "Bern", 21]],
    }


@pytest.mark.long("a minute; the other test reads tables and changes too")
def test_it_is_read_as_it_was_and_in_yaml_and_as_it_changes(tmp_path: Path) -> None:
    program = managed_delta_program.__file__
    assert table_programs.findings(["delta"], program, tmp_path, "others") == {
        "older": [[1, 10], [2, 20]],
        "yaml": [[1, 10], [2, 20]],
        "changes_in_yaml": [[20, "update_preimage"], [21, "update_postimage"]],
        "once": [[1, 10], [2, 20], [2, 21]],
        "stream": [
            [20, "update_preimage", 0],
            [21, "update_postimage", 0],
            [10, "delete", 0],
        ],
    }
