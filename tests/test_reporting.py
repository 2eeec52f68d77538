"""``sparkbeam report``: a program runs, and what its pipelines have done is told."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest
from click.testing import CliRunner, Result

from sparkbeam.cli.commands import main

PROGRAM = """
    import sys
    import apache_beam as beam
    from in_process_batch import BatchRunner

    def odd(number):
        if "fail" in sys.argv:
            raise ValueError("odd & <even>")
        return number % 2

    for count in map(int, sys.argv[1].split(",")):
        with beam.Pipeline(runner=BatchRunner()) as pipeline:
            numbers = pipeline | beam.Create(range(count))
            numbers | "Odd & <even>" >> beam.Map(odd) | beam.combiners.Count.PerElement()
"""


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs the command for the program."""
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    monkeypatch.chdir(tmp_path)

    def run(arguments: str) -> Result:
        return CliRunner().invoke(main, ["report", *arguments.split()])

    return run


def test_each_pipeline_is_told_step_by_step(report: Callable[..., Result]) -> None:
    found = report("program.py 5,7")
    assert found.exit_code == 0
    assert found.stdout.count("DONE\n") == 2
    lines = [line for line in found.stdout.splitlines() if line.startswith("  Odd & <even>")]
    assert [line.split()[3:5] for line in lines] == [["5", "5"], ["7", "7"]]


def test_it_is_json_too(report: Callable[..., Result]) -> None:
    found = report("--json program.py 5,7")
    first, second = map(json.loads, found.stdout.splitlines())
    assert (first["state"], first["problem"]) == ("DONE", "")
    steps = [step for stage in second["stages"] for step in stage["steps"]]
    assert {step["elements_in"] for step in steps if step["label"] == "Odd & <even>"} == {7}


def test_the_stages_have_the_figures(report: Callable[..., Result], tmp_path: Path) -> None:
    found = report("--save report.mmd --save report.html --save report.json program.py 5,7")
    assert found.exit_code == 0
    assert len(list(tmp_path.glob("report*"))) == 6
    assert " in, 2 out<br>" in (tmp_path / "report-2.mmd").read_text()
    page = (tmp_path / "report.html").read_text()
    assert re.search(r'class="soft figure">[0-9,]+ in, [0-9,]+ out</p>', page)
    assert "Odd &amp; &lt;even&gt;" in page
    assert json.loads((tmp_path / "report-2.json").read_text())["state"] == "DONE"


def test_a_pipeline_that_fails_is_reported_and_ends_with_1(report: Callable[..., Result]) -> None:
    found = report("program.py 5 fail")
    assert found.exit_code == 1
    assert found.stdout.startswith("FAILED\n")
    assert "odd & <even>" in found.stdout
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--save report.pdf program.py 5", "A report cannot be saved as"),
        ("--save no/report.mmd program.py 5", "There is no folder"),
        ("missing.py", "There is no file"),
        ("-m not-a-module", "is not a module name"),
    ],
)
def test_what_cannot_be_is_told_before_anything_runs(
    report: Callable[..., Result], arguments: str, message: str
) -> None:
    found = report(arguments)
    assert found.exit_code == 2
    assert message in found.output


def test_a_program_without_a_pipeline_is_told(
    report: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "empty.py").write_text("pass")
    found = report("empty.py")
    assert found.exit_code == 1
    assert "nothing to report" in found.output
