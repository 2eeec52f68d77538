"""Tests in a process of their own: one has classic sessions, or those of Spark Connect."""

import ast
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

import pytest
from command import attempt
from whole import is_whole

TESTS = Path(__file__).parent
TESTCASE = "testcase"

Reports: TypeAlias = list[ElementTree.Element]


def names(suite: Path) -> list[str]:
    """The tests of a suite, also those that it imports; others have to collect the rest."""
    found = []
    for part in ast.parse(suite.read_text()).body:
        if isinstance(part, ast.ImportFrom):
            found += [alias.name for alias in part.names]
        elif isinstance(part, ast.FunctionDef):
            found.append(part.name)
    return [name for name in found if name.startswith("test_")]


def part(suite: Path, number: int) -> list[str]:
    """One test of a suite in so many; all with ``--whole``."""
    return names(suite)[:: 1 if is_whole() else number]


def rest(suite: Path, chosen: Sequence[str]) -> list[str]:
    """The options of pytest that leave out the other tests of a suite in the folder of tests."""
    others = (name for name in names(suite) if name not in chosen)
    return [f"--deselect={suite.name}::{name}" for name in others]


def reports(
    suites: Sequence[Path], folder: Path, *options: str, path: Sequence[Path] = ()
) -> Reports:
    """Run suites.

    Args:
        suites: their files.
        folder: for the report.
        options: further options of pytest.
        path: folders, beside that of all tests, with modules that suites share with others.

    Returns:
        The outcome of each test.
    """
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--junitxml={report}"]
    search = [*map(str, (TESTS, *path)), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(search)}
    done = attempt(*command, *options, *suites, more=variables)
    assert report.exists(), done.stdout + done.stderr
    return [*ElementTree.parse(report).iter(TESTCASE)]


def failures(found: Reports) -> list[str]:
    """Return the name and message of each test that has failed."""
    assert found
    return [
        f"{case.attrib['classname']}.{case.attrib['name']}: {outcome.attrib['message']}"
        for case in found
        for outcome in case
        if outcome.tag in ("failure", "error")
    ]


def tell(reports: Reports, name: str) -> None:
    """Let the calling test end as one of the suite has, with all its cases."""
    cases = [case for case in reports if case.attrib["name"].partition("[")[0] == name]
    assert cases, f"{name} has not run"
    outcomes = [outcome for case in cases for outcome in case]
    for outcome in outcomes:
        if outcome.tag in ("failure", "error"):
            pytest.fail(outcome.text or outcome.attrib["message"], pytrace=False)
    skipped = [outcome for outcome in outcomes if outcome.tag == "skipped"]
    if skipped and len(skipped) == len(cases):
        pytest.skip(skipped[0].attrib["message"])
