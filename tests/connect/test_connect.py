"""The tests of ``suite.py``, one by one, over a session of ``remote("local[2]")``.

A process has classic sessions or Spark Connect sessions, so they run in another one.
"""

import ast
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from chosen_tests import chosen

SUITE = Path(__file__).with_name("suite.py")
PATH = [str(SUITE.parents[1]), str(SUITE.parents[1] / "streaming")]
"""Where the tests lie that it shares."""


def own() -> list[str]:
    """The tests of the suite beside Beam's; to import it here takes what others have to collect."""
    names = []
    for part in ast.parse(SUITE.read_text()).body:
        if isinstance(part, ast.ImportFrom):
            names += [alias.name for alias in part.names]
        elif isinstance(part, ast.FunctionDef):
            names.append(part.name)
    return [name for name in names if name.startswith("test_")]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, ElementTree.Element]:
    """What became of each test."""
    report = tmp_path_factory.mktemp("connect") / "report.xml"
    options = ["-p", "no:cacheprovider", f"--rootdir={SUITE.parent}", f"--junitxml={report}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(SUITE)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(PATH)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert report.exists(), done.stdout + done.stderr
    return {case.attrib["name"]: case for case in ElementTree.parse(report).iter("testcase")}


@pytest.mark.timeout(900)  # The first one runs them all.
@pytest.mark.parametrize("name", [*chosen(), *own()])
def test_over_connect(name: str, reports: dict[str, ElementTree.Element]) -> None:
    for outcome in reports[name]:
        if outcome.tag in ("failure", "error"):
            pytest.fail(outcome.text or outcome.attrib["message"], pytrace=False)
        if outcome.tag == "skipped":
            pytest.skip(outcome.attrib["message"])
