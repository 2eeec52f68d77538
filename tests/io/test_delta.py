"""Delta tables: one version a micro-batch, whatever is run again."""

from pathlib import Path

import delta_program
import pytest
import table_programs


@pytest.mark.long("those of test_killed_sinks.py have each output mode, too")
def test_a_micro_batch_that_runs_again_makes_no_second_version(tmp_path: Path) -> None:
    """It would without the transaction ids: its append, its merge and its overwrite."""
    a, b = ["a", 3], ["b", 4]
    assert table_programs.findings(["delta"], delta_program.__file__, tmp_path) == {
        "append": [
            [["a", 1], a, ["b", 2]],
            [["", 5], ["a", 1], a, ["b", 2], b],
            [["", 5], ["", 6], ["a", 1], a, ["b", 2], b],
        ],
        "update": [[a, ["b", 2]], [["", 5], a, b], [["", 6], a, b]],
        "complete": [[a, ["b", 2]], [["", 5], a, b], [["", 6], a, b]],
    }
