"""Tables of Iceberg and of Delta in SQL, with Iceberg and Delta themselves."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest
import sql_tables_program

from sparkbeam.common.spark_packages import released

pytest.importorskip("sqlglot")


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_of_ddl_is_written_and_read_in_batch_and_in_a_stream(
    tmp_path: Path, kind: str
) -> None:
    if released(kind, pyspark.__version__) is None:
        pytest.skip(f"there is no package of {kind} for Spark {pyspark.__version__}")
    jars = filter(None, [os.environ.get(f"{kind.upper()}_JARS")])
    run = subprocess.run(
        [sys.executable, sql_tables_program.__file__, kind, str(tmp_path), *jars],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == sql_tables_program.NO_JAR:
        pytest.skip(f"Spark cannot get the jar of {kind}")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert "The table 'sales' of ddl has no column 'nothing'" in found.pop("missing")
    none = "'None'"
    at = "Timestamp(1704164645.678901)"
    assert found == {
        "sales": [
            f"['1', \"it's\", '1.250000000000000000', '2024-02-29', '{at}', '7']",
            f"['2', {none}, {none}, {none}, {none}, {none}]",
            f"['3', {none}, {none}, {none}, {none}, '1']",
            f"['4', {none}, {none}, {none}, {none}, {none}]",
        ],
        "sums": ["['1.250000000000000000', '1', '4']"],
        "narrow": ["['1', '7']"],
        "stream": ["['0', 'None']", "['1', \"it's\"]", "['2', 'None']", "['3', 'None']"],
    }
