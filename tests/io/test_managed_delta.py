"""``managed.Read`` of a Delta table and of its changes, with Delta itself."""

from pathlib import Path

import managed_delta_program
import table_programs


def test_a_table_is_read_as_it_is_as_it_was_and_as_it_changes_also_in_yaml(tmp_path: Path) -> None:
    """The session gets the settings that Delta needs, and the package unless there are jars."""
    assert table_programs.findings("delta", managed_delta_program.__file__, tmp_path) == {
        "newest": [[1, 10], [2, 21]],
        "older": [[1, 10], [2, 20]],
        "changes": [[2, 20, "update_preimage"], [2, 21, "update_postimage"]],
        "yaml": [[1, 10], [2, 20]],
        "changes_in_yaml": [[20, "update_preimage"], [21, "update_postimage"]],
        "stream": [
            [20, "update_preimage", 0],
            [21, "update_postimage", 0],
            [10, "delete", 0],
        ],
        "once": [[1, 10], [2, 20], [2, 21]],
        "page": [[1, "Bonn", 10], [2, "Bern", 21]],
    }
