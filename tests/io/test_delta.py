"""Delta tables: one version a micro-batch, whatever is run again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import delta_program
import pyspark
import pytest

PACKAGES = {"4.2": "io.delta:delta-spark_4.2_2.13:4.4.0"}
"""Delta by the minor version of Spark."""


def test_a_micro_batch_that_runs_again_makes_no_second_version(tmp_path: Path) -> None:
    """It would without the transaction ids: its append, its merge and its overwrite."""
    package = PACKAGES.get(pyspark.__version__.rpartition(".")[0])
    if package is None:
        pytest.skip(f"there is no Delta for Spark {pyspark.__version__}")
    own = os.environ.get("DELTA_JARS")
    jars = f"spark.jars={own}" if own else f"spark.jars.packages={package}"
    program = [sys.executable, delta_program.__file__, str(tmp_path), jars]
    run = subprocess.run(
        program,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == delta_program.NO_JAR:
        pytest.skip("Spark cannot get the jar of Delta")
    assert run.returncode == 0, run.stderr
    a, b = ["a", 3], ["b", 4]
    assert json.loads(run.stdout.splitlines()[-1]) == {
        "append": [
            [["a", 1], a, ["b", 2]],
            [["", 5], ["a", 1], a, ["b", 2], b],
            [["", 5], ["", 6], ["a", 1], a, ["b", 2], b],
        ],
        "update": [[a, ["b", 2]], [["", 5], a, b], [["", 6], a, b]],
        "complete": [[a, ["b", 2]], [["", 5], a, b], [["", 6], a, b]],
    }
