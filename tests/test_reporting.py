"""``sparkbeam report``: a program runs, and what its pipelines have done is told."""

import json
import re
from pathlib import Path

import pytest
from command import answer, command, program
from golden_files import Golden, sections

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


VARYING = {
    r" +\d[\d.,]* (s|ms|µs)\b": "  TIME",
    r" +\d[\d.,]* [kKM]?B\b": "  SIZE",
    r" +time +bytes out": "  time  bytes out",
    'File "/.*/': 'File "',
}
"""Durations and sizes vary, and with them the width of their columns."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the program."""
    monkeypatch.chdir(tmp_path)
    program(PROGRAM)
    return tmp_path


def test_each_pipeline_is_told_step_by_step(golden: Golden, folder: Path) -> None:
    saving = [f"--save=report.{kind}" for kind in ("mmd", "html", "json")]
    texts = {
        "two pipelines": answer(command("report", *saving, "program.py", "5,7")),
        "report-2.mmd": (folder / "report-2.mmd").read_text().splitlines(),
        "files": sorted(path.name for path in folder.glob("report*")),
        "a pipeline that fails": answer(command("report", "program.py", "5", "fail")),
    }
    golden("reports.txt", sections(texts), VARYING)
    page = (folder / "report.html").read_text()
    assert "Odd &amp; &lt;even&gt;" in page
    assert re.search(r'class="soft figure">[0-9,]+ in, [0-9,]+ out</p>', page)
    assert json.loads((folder / "report-2.json").read_text())["state"] == "DONE"


def test_it_is_json_too() -> None:
    found = command("report", "--json", "program.py", "5,7")
    first, second = map(json.loads, found.stdout.splitlines())
    assert (first["state"], first["problem"]) == ("DONE", "")
    steps = [step for stage in second["stages"] for step in stage["steps"]]
    assert {step["elements_in"] for step in steps if step["label"] == "Odd & <even>"} == {7}


def test_errors(golden: Golden) -> None:
    refused = [
        ["--save", "report.pdf", "program.py", "5"],
        ["--save", "no/report.mmd", "program.py", "5"],
        ["missing.py"],
        ["-m", "not-a-module"],
        [program("pass", "empty.py")],
    ]
    texts = {" ".join(given): answer(command("report", *given)) for given in refused}
    golden("errors of report.txt", sections(texts))
