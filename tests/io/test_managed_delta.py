"""``managed.Read`` of a Delta table and of its changes, with Delta itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import managed_delta_program
import pyspark
import pytest

from sparkbeam.common.spark_packages import released


def test_a_table_is_read_as_it_is_as_it_was_and_as_it_changes_also_in_yaml(tmp_path: Path) -> None:
    """The session gets the settings that Delta needs, and the package unless there are jars."""
    if released("delta", pyspark.__version__) is None:
        pytest.skip(f"there is no Delta for Spark {pyspark.__version__}")
    jars = filter(None, [os.environ.get("DELTA_JARS")])
    run = subprocess.run(
        [sys.executable, managed_delta_program.__file__, str(tmp_path), *jars],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == managed_delta_program.NO_JAR:
        pytest.skip("Spark cannot get the jar of Delta")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout.splitlines()[-1]) == {
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
