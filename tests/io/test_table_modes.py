"""Tables of catalogs by their names, in each output mode, with Delta, Iceberg and JDBC itself."""

from pathlib import Path

import modes_program
import pytest
import table_programs


@pytest.mark.long("a minute; test_killed_sinks.py has other sinks of the same systems")
def test_a_table_is_written_in_each_mode_and_keeps_its_partitions(tmp_path: Path) -> None:
    """Its versions are those before the stream, and one for each micro-batch."""
    every = [["a", 0, 7], ["a", 1, None], ["a", 3, None], ["b", 2, None]]
    updated = [["a", 3, 7], ["b", 2, None]]
    latest = [["a", 3, None], ["b", 2, None]]
    found = table_programs.findings(["delta", "iceberg"], modes_program.__file__, tmp_path)
    rows = {"append": every, "update": updated, "complete": latest}
    assert found == {
        **{
            f"{system} {mode}": [expected, 3, ["key"]]
            for system in ("delta", "iceberg")
            for mode, expected in rows.items()
        },
        "iceberg new": [[["a", 3], ["b", 2]]],
        "jdbc append": [every[1:]],
        "jdbc complete": [latest],
    }
