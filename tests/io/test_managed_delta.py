"""``managed.Read`` of a Delta table and of its changes, with Delta itself."""

from pathlib import Path
from typing import Any

import managed_delta_program
import pytest
import table_programs


def findings(part: str, folder: Path) -> Any:
    return table_programs.findings(["delta"], managed_delta_program.__file__, folder, part)


def test_a_table_is_read_as_it_is_and_as_it_changes(tmp_path: Path) -> None:
    """The session gets the settings that Delta needs, and the package unless there are jars."""
    assert findings("newest", tmp_path) == {
        "newest": [[1, 10], [2, 21]],
        "changes": [[2, 20, "update_preimage"], [2, 21, "update_postimage"]],
        "stream": [
            [20, "update_preimage", 0],
            [21, "update_postimage", 0],
            [10, "delete", 0],
        ],
    }


@pytest.mark.long("a minute; the other test reads tables and changes too")
def test_it_is_read_as_it_was_and_in_yaml_and_by_the_page(tmp_path: Path) -> None:
    assert findings("others", tmp_path) == {
        "older": [[1, 10], [2, 20]],
        "yaml": [[1, 10], [2, 20]],
        "changes_in_yaml": [[20, "update_preimage"], [21, "update_postimage"]],
        "once": [[1, 10], [2, 20], [2, 21]],
        "page": [[1, "Bonn", 10], [2, "Bern", 21]],
    }
