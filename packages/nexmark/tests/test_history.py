"""Runs in files: the JSON lines of ``--json`` and the history."""

import json
import sqlite3
from pathlib import Path

import pytest
from runs import a_run, runs_of

from beam_nexmark import history
from beam_nexmark.record import ADDED, SCHEMA, read_json, write_json
from sparkbeam.common.display_text import without_folders
from sparkbeam.errors import ConfigurationError


class TestHistory:
    @pytest.mark.parametrize("name", ["history.db", "history.jsonl"])
    def test_runs_come_back_as_they_were_in_order(self, tmp_path: Path, name: str) -> None:
        file = tmp_path / "new" / "folder" / name
        first, second = runs_of(2.0, 1.0), [a_run(failure="no", seconds=None, results=None)]
        history.append(first, file)
        history.append(second, file)
        assert history.read(file) == first + second

    def test_sql_can_ask_it(self, tmp_path: Path) -> None:
        file = tmp_path / "history.db"
        history.append([a_run(configuration={"events": 7})], file)
        asked = "SELECT query, seconds, json_extract(configuration, '$.events') FROM runs"
        assert sqlite3.connect(file).execute(asked).fetchall() == [(3, 1.0, 7)]

    def test_a_missing_file_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"The history .* does not exist"):
            history.read(tmp_path / "none.db")

    def test_a_damaged_file_is_told_and_left_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "history.db"
        file.write_bytes(b"This is no database. " * 300)
        with pytest.raises(ConfigurationError, match="is not a history of 'sparkbeam nexmark'"):
            history.append([a_run()], file)
        assert file.read_bytes().startswith(b"This is no database.")

    def test_a_file_cut_short_is_told(self, tmp_path: Path) -> None:
        file = tmp_path / "history.db"
        history.append(runs_of(*range(1, 200)), file)
        file.write_bytes(file.read_bytes()[:5000])
        with pytest.raises(ConfigurationError, match="damaged"):
            history.read(file)

    @pytest.mark.parametrize("value", ["seconds = 'one'", "configuration = '{'", "query = NULL"])
    def test_a_run_with_a_value_that_is_none_of_its_type_is_told(
        self, tmp_path: Path, value: str
    ) -> None:
        file = tmp_path / "history.db"
        history.append([a_run()], file)
        with sqlite3.connect(file) as connection:
            connection.execute(f"UPDATE runs SET {value}")
        with pytest.raises(ConfigurationError, match="damaged"):
            history.read(file)

    def test_a_database_of_another_program_is_told_and_left_alone(self, tmp_path: Path) -> None:
        file = tmp_path / "history.db"
        with sqlite3.connect(file) as connection:
            connection.execute("CREATE TABLE customers (name)")
        with pytest.raises(ConfigurationError, match="another program's tables"):
            history.append([a_run()], file)
        names = sqlite3.connect(file).execute("SELECT name FROM sqlite_master").fetchall()
        assert names == [("customers",)]

    @pytest.mark.parametrize("form", ADDED)
    def test_one_of_an_older_form_is_taken_over(self, tmp_path: Path, form: int) -> None:
        file = tmp_path / "history.db"
        history.append([a_run()], file)
        with sqlite3.connect(file) as connection:
            for name in ADDED[form]:
                connection.execute(f"ALTER TABLE runs DROP COLUMN {name}")
            connection.execute(f"PRAGMA user_version = {form}")
        new = a_run(revision="1d6d982", machine="a machine", lacks="it has no clock", pace=0.03)
        history.append([new], file)
        assert history.read(file) == [a_run(), new]

    def test_another_version_is_told(self, tmp_path: Path) -> None:
        file = tmp_path / "history.db"
        history.append([a_run()], file)
        with sqlite3.connect(file) as connection:
            connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
        with pytest.raises(ConfigurationError, match=f"has format {SCHEMA + 1}"):
            history.read(file)

    def test_a_folder_in_its_place_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="Cannot use the history"):
            history.append([a_run()], tmp_path)
        (tmp_path / "file").touch()
        with pytest.raises(ConfigurationError, match="Cannot write"):
            history.append([a_run()], tmp_path / "file" / "history.db")


class TestLines:
    def test_one_without_runs_is_a_history(self, tmp_path: Path) -> None:
        history.append([], tmp_path / "history.jsonl")
        assert history.read(tmp_path / "history.jsonl") == []

    def test_a_last_line_without_its_end_stays_a_line(self, tmp_path: Path) -> None:
        file = tmp_path / "history.jsonl"
        history.append([a_run()], file)
        file.write_text(file.read_text().rstrip("\n"))
        history.append([a_run(query=4)], file)
        assert [run.query for run in history.read(file)] == [3, 4]

    @pytest.mark.parametrize("content", [b"customers\n1\n", b"\xff\xfe", b"{" * 2_000_000])
    def test_another_file_is_told_and_left_alone(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "history.jsonl"
        file.write_bytes(content)
        with pytest.raises(ConfigurationError, match="line 1, is not a run"):
            history.append([a_run()], file)
        assert file.read_bytes() == content

    @pytest.mark.parametrize(
        ("told", "kept"),
        [
            ("No such file: '/home/me/data/a.csv'", "No such file: 'a.csv'"),
            ('File "/opt/x.y/b.py", line 3', 'File "b.py", line 3'),
            ("cannot read ~/secret/c: 1/2 of a/b/c", "cannot read c: 1/2 of a/b/c"),
            (r"no C:\Users\me\d.txt here", "no d.txt here"),
        ],
    )
    def test_what_went_wrong_names_no_folder_of_the_machine(
        self, tmp_path: Path, told: str, kept: str
    ) -> None:
        file = tmp_path / "history.jsonl"
        history.append([a_run(failure=told, checked=told)], file)
        (run,) = history.read(file)
        assert (run.failure, run.checked) == (kept, kept)

    def test_that_of_the_repository_can_be_read_and_names_no_folder(self) -> None:
        runs = history.read(Path(__file__).parents[3] / "bench" / "nexmark.jsonl")
        assert {run.events for run in runs} <= {10_000, 100_000}
        texts = [text for run in runs for text in (run.failure, run.checked) if text]
        assert texts == list(map(without_folders, texts))


class TestJson:
    def test_runs_come_back_as_they_were(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.json"
        runs = [*runs_of(2.0, 1.0), a_run(failure="no", seconds=None)]
        write_json(runs, file)
        assert read_json(file) == runs

    def test_each_line_is_an_object_with_versions_cores_and_configuration(
        self, tmp_path: Path
    ) -> None:
        file = tmp_path / "runs.json"
        write_json([a_run()], file)
        values = json.loads(file.read_text())
        assert {"schema", "beam", "pyspark", "python", "sparkbeam", "cores"} <= values.keys()
        assert values["configuration"] == {"events": 1000}

    @pytest.mark.parametrize("form", ADDED)
    def test_runs_of_an_older_form_are_read(self, tmp_path: Path, form: int) -> None:
        file = tmp_path / "runs.json"
        write_json([a_run()], file)
        values = json.loads(file.read_text())
        kept = {name: value for name, value in values.items() if name not in ADDED[form]}
        file.write_text(json.dumps({**kept, "schema": form}))
        assert read_json(file) == [a_run()]

    def test_another_version_is_told(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.json"
        write_json([a_run()], file)
        file.write_text(file.read_text().replace(f'"schema": {SCHEMA}', '"schema": 99'))
        with pytest.raises(ConfigurationError, match="format 99"):
            read_json(file)

    @pytest.mark.parametrize(
        "content",
        [
            b"no JSON",
            b"[1, 2]",
            b"7",
            b'{"query": 3}',
            b'{"schema": %d, "query": 3}' % SCHEMA,
            b'{"schema": [], "query": 3}',
            b"\xff\xfe\x00",
        ],
    )
    def test_something_else_is_told(self, tmp_path: Path, content: bytes) -> None:
        file = tmp_path / "runs.json"
        file.write_bytes(content)
        with pytest.raises(ConfigurationError, match="line 1, is not a run"):
            read_json(file)

    def test_a_run_with_values_of_other_types_is_told(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.json"
        write_json([a_run()], file)
        file.write_text(file.read_text().replace('"seconds": 1.0', '"seconds": "one"'))
        with pytest.raises(ConfigurationError, match="line 1, is not a run"):
            read_json(file)

    def test_an_empty_file_is_told(self, tmp_path: Path) -> None:
        (tmp_path / "runs.json").touch()
        with pytest.raises(ConfigurationError, match="contains no runs"):
            read_json(tmp_path / "runs.json")

    def test_a_place_that_cannot_be_written_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigurationError, match="Cannot write"):
            write_json([a_run()], tmp_path / "none" / "runs.json")
