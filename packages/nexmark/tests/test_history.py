"""Files of runs: the history and that of ``--json``."""

import json
from pathlib import Path

import pytest
from runs import a_run, runs_of

from beam_nexmark import history
from beam_nexmark.history import SCHEMA
from sparkbeam.common.display_text import without_folders
from sparkbeam.errors import ConfigurationError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new" / "folder" / "history.jsonl"


def test_runs_come_back_as_they_were_in_order(file: Path) -> None:
    first, second = runs_of(2.0, 1.0), [a_run(failure="no", seconds=None, results=None)]
    history.append(first, file)
    history.append(second, file)
    assert history.read(file) == first + second
    history.write(first, file)
    assert history.read(file) == first


def test_each_line_is_an_object_with_versions_cores_and_configuration(file: Path) -> None:
    history.append([], file)
    assert history.read(file) == []
    history.append([a_run()], file)
    values = json.loads(file.read_text())
    assert {"schema", "beam", "pyspark", "python", "sparkbeam", "cores"} <= values.keys()
    assert values["configuration"] == {"events": 1000}


def test_a_last_line_without_its_end_stays_a_line(file: Path) -> None:
    history.append([a_run()], file)
    file.write_text(file.read_text().rstrip("\n"))
    history.append([a_run(query=4)], file)
    assert [run.query for run in history.read(file)] == [3, 4]


@pytest.mark.parametrize(
    "content",
    [
        b"customers\n1\n",
        b"\xff\xfe",
        b"{" * 2_000_000,
        b"[1, 2]",
        b"7",
        b'{"query": 3}',
        b'{"schema": %d, "query": 3}' % SCHEMA,
        b'{"schema": [], "query": 3}',
    ],
)
def test_another_file_is_told_and_left_alone(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "history.jsonl"
    file.write_bytes(content)
    for use in (history.read, lambda path: history.append([a_run()], path)):
        with pytest.raises(ConfigurationError, match="line 1, is not a run"):
            use(file)
    assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"seconds": 1.0', '"seconds": "one"', "line 1, is not a run"),
        (f'"schema": {SCHEMA}', '"schema": 99', "format 99"),
    ],
)
def test_a_value_of_another_type_and_another_version_are_told(
    file: Path, old: str, new: str, told: str
) -> None:
    history.append([a_run()], file)
    file.write_text(file.read_text().replace(old, new))
    with pytest.raises(ConfigurationError, match=told):
        history.read(file)


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file" / "history.jsonl"):
        with pytest.raises(ConfigurationError, match="Cannot write"):
            history.append([a_run()], path)
    with pytest.raises(ConfigurationError, match="Cannot write"):
        history.write([a_run()], tmp_path / "none" / "runs.json")


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        ("No such file: '/home/me/data/a.csv'", "No such file: 'a.csv'"),
        ('File "/opt/x.y/b.py", line 3', 'File "b.py", line 3'),
        ("cannot read ~/secret/c: 1/2 of a/b/c", "cannot read c: 1/2 of a/b/c"),
        (r"no C:\Users\me\d.txt here", "no d.txt here"),
    ],
)
def test_what_went_wrong_names_no_folder_of_the_machine(file: Path, told: str, kept: str) -> None:
    history.append([a_run(failure=told, checked=told)], file)
    (run,) = history.read(file)
    assert (run.failure, run.checked) == (kept, kept)


def test_that_of_the_repository_can_be_read_and_names_no_folder() -> None:
    runs = history.read(Path(__file__).parents[3] / "bench" / "nexmark.jsonl")
    assert {run.events for run in runs} <= {10_000, 100_000}
    texts = [text for run in runs for text in (run.failure, run.checked) if text]
    assert texts == list(map(without_folders, texts))
