"""The command ``sparkbeam nexmark`` from its arguments to its files and exit code."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import misuse
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from click.testing import Result
from command import command, python
from in_process import StreamingRunner
from pasts import COMMITS
from runs import a_run

from beam_nexmark import engine, history, measure, provenance
from beam_nexmark.configuration import Configuration
from beam_nexmark.engine import Engine
from beam_nexmark.measure import Measurement
from beam_nexmark.queries import QUERIES
from beam_nexmark.record import QueryRun
from beam_nexmark.stream import NexmarkStream

ORACLE = ("--runner", "FnApiRunner", "--events", "500")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the history out of the user's own folders."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: Any) -> Result:
    return command("nexmark", *arguments)


class TestRun:
    def test_it_shows_a_row_for_each_query(self, spark: Any) -> None:
        result = run("--query", "1,2", "--events", 500, "--check")
        assert result.exit_code == 0, result.output
        assert [line[:3] for line in result.stderr.splitlines() if line[:1] == "q"] == [
            "q1 ",
            "q2 ",
        ]
        heading, first, second = result.stdout.strip().splitlines()
        assert heading.split()[:4] == ["query", "name", "events", "seconds"]
        assert first.split()[0] == "1"
        assert " 460 " in first
        assert first.split()[-1] == "passed"
        assert second.split()[0] == "2"

    def test_json_has_the_runs_the_history_and_its_report_earlier_ones_too(
        self, tmp_path: Path
    ) -> None:
        file, page = tmp_path / "runs.json", tmp_path / "page.html"
        run("--query", 3, *ORACLE)
        assert (
            run(
                *("--query", "2,1", "--repeat", 2, "--json", file, "--report", page, *ORACLE)
            ).exit_code
            == 0
        )
        runs = [json.loads(line) for line in file.read_text().splitlines()]
        assert [(one["query"], one["repeat"]) for one in runs] == [(2, 1), (2, 2), (1, 1), (1, 2)]
        assert {one["runner"] for one in runs} == {"FnApiRunner"}
        assert len(history.read(history.default_path())) == 5
        assert all(QUERIES[number].name in page.read_text() for number in (1, 2, 3))

    def test_settings_reach_the_generator_and_the_query_and_the_history_can_be_elsewhere(
        self, tmp_path: Path
    ) -> None:
        settings = ("--set", "auction_skip=10", "--set", "generators=7")
        result = run("--query", 2, "--check", "--history", "mine.jsonl", *settings, *ORACLE)
        assert result.exit_code == 0, result.output
        (one,) = history.read(tmp_path / "mine.jsonl")
        assert one.configuration["auction_skip"] == 10
        assert one.configuration["generators"] == 7
        assert one.results
        assert not history.default_path().exists()

    def test_the_rate_reaches_the_stream_and_the_record(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rates = []

        def stream(configuration: Configuration, rate: float | None) -> NexmarkStream:
            rates.append(rate)
            return NexmarkStream(configuration, rate)

        options = PipelineOptions(["--streaming", "--allow_unsafe_triggers"])
        in_process = Engine("in process", StreamingRunner(), options, 2, streaming=True)
        monkeypatch.setattr(engine, "prepared", lambda *_, **__: in_process)
        monkeypatch.setattr(measure, "NexmarkStream", stream)
        streaming = ("--mode", "streaming", "--rate", 50_000, "--check", "--json", "runs.json")
        assert run("--query", 2, "--events", 3000, *streaming).exit_code == 0
        (one,) = history.read(tmp_path / "runs.json")
        assert one.mode == "streaming at 50000/s"
        assert rates == [None, 50_000], "the warm-up has none"

    def test_a_query_that_fails_does_not_stop_the_others(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def build(*_: Any) -> Any:
            raise ValueError("not this one")

        monkeypatch.setitem(QUERIES, 1, replace(QUERIES[1], build=build))
        result = run("--query", "1,2", *ORACLE)
        assert result.exit_code == 1
        assert "ValueError: not this one" in result.stdout
        failed, passed = history.read(history.default_path())
        assert failed.failure == "ValueError: not this one"
        assert passed.is_right

    def test_a_wrong_result_is_shown_and_the_exit_code(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(QUERIES, 2, replace(QUERIES[2], build=QUERIES[1].build))
        assert run("--query", "2", *ORACLE).exit_code == 0
        result = run("--query", "2", "--check", *ORACLE)
        assert result.exit_code == 1
        assert "wrong" in result.stdout
        assert "unexpected: [" in result.stdout


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text("old")
    result = run("--runner", "No", "--json", "old.json", "--report", "new.html")
    assert "Unknown runner" in str(misuse.command_error(result, 2))
    assert (tmp_path / "old.json").read_text() == "old"
    assert not (tmp_path / "new.html").exists()


def test_a_report_is_written_from_the_history(tmp_path: Path) -> None:
    history.append([a_run()], tmp_path / "history.jsonl")
    assert run("report", "--history", "history.jsonl", "page.html").exit_code == 0
    assert "local item suggestion" in (tmp_path / "page.html").read_text()


class TestOverTime:
    def test_ci_runs_queries_in_all_modes_on_all_runners(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        options = PipelineOptions(["--streaming", "--allow_unsafe_triggers"])
        usual = engine.prepared

        def prepared(name: str, arguments: Any, *, streaming: bool = False) -> Engine:
            if streaming:
                return Engine(name, StreamingRunner(), options, 2, streaming=True)
            return usual(name, arguments)

        monkeypatch.setattr(engine, "prepared", prepared)
        arguments = ("--query", "2,1", "--runners", "FnApiRunner,FnApiRunner", "--events", 500)
        result = run("ci", *arguments, "--repeat", 1)
        assert result.exit_code == 0, result.output
        runs = history.read(history.default_path())
        told = [(one.mode, one.query) for one in runs]
        assert told == [(mode, query) for mode in ("batch", "streaming") for query in (2, 1)]
        assert {one.checked for one in runs} == {"passed"}
        assert {one.machine for one in runs} == {provenance.machine()}
        assert "FnApiRunner, streaming" in result.stdout

    def test_ci_also_runs_what_there_is_in_sql(self, spark: Any) -> None:
        arguments = ("--query", "4,1", "--runners", "SparkRunner", "--modes", "batch", "--sql")
        result = run("ci", *arguments, "--events", 500, "--repeat", 1)
        assert result.exit_code == 0, result.output
        told = [(one.mode, one.query) for one in history.read(history.default_path())]
        assert told == [("batch", 4), ("batch", 1), ("batch, in SQL", 1)]

    def test_ci_fails_where_a_result_is_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(QUERIES, 2, replace(QUERIES[2], build=QUERIES[1].build))
        arguments = ("--runners", "FnApiRunner", "--modes", "batch", "--repeat", 1)
        assert run("ci", "--query", 2, "--events", 500, *arguments).exit_code == 1

    def test_ci_tells_of_a_runner_that_does_not_start(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usual = engine.prepared

        class Broken(FnApiRunner):
            def run_pipeline(self, *_: Any) -> Any:
                raise OSError("Exec format error")

        def prepared(name: str, arguments: Any, **_: Any) -> Engine:
            return replace(usual("FnApiRunner", arguments), name=name, runner=Broken())

        monkeypatch.setattr(engine, "prepared", prepared)
        result = run("ci", "--query", 2, "--modes", "batch", "--events", 500)
        assert result.exit_code == 2
        assert "Error: SparkRunner does not start: OSError" in result.stderr

    @pytest.mark.part(4)
    @pytest.mark.parametrize(
        ("seconds", "planted", "wanted"),
        [
            ([1.2], {}, ""),
            ([1.4, 1.2], {}, ""),
            ([1.4, 1.5, 1.0], {}, ""),
            ([1.4, 1.5, 1.35], {}, "q2 is slower than on earlier builds: +35 %"),
            ([9.0], {"pace": 9.0}, ""),
            ([9.0], {"machine": "another"}, ""),
            ([1.0], {"checked": "7 results expected"}, "7 results expected"),
        ],
    )
    def test_a_run_of_ci_is_added_to_a_history_in_the_repository_and_judged_by_it(
        self,
        seconds: list[float],
        planted: dict[str, Any],
        wanted: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        usual = Measurement.run
        values: dict[str, Any] = {"pace": 1.0, "machine": "one"}
        times: Iterator[float]

        def at_times(*of: Any) -> QueryRun:
            return replace(usual(*of), seconds=next(times), **values)

        monkeypatch.setattr(Measurement, "warm_up", lambda _: None)
        monkeypatch.setattr(Measurement, "run", at_times)
        monkeypatch.setattr(provenance, "revision", lambda: values["revision"])
        where = ("--runners", "FnApiRunner", "--modes", "batch", "--history", "nexmark.jsonl")
        arguments = (*where, "--events", 200, "--repeat", 1, "--tolerance", 30)
        for number, commit in enumerate(COMMITS[:3]):
            times = iter([[0.9, 1.0, 8.0][number]])
            values["revision"] = commit
            assert run("ci", "--query", 2, *arguments).exit_code == 0
        times = iter(seconds)
        values.update(planted, revision=COMMITS[3])
        result = run("ci", "--query", 2, *arguments)
        assert (result.exit_code, wanted in result.stdout) == (int(wanted != ""), True)
        added = [json.loads(line) for line in Path("nexmark.jsonl").read_text().splitlines()[3:]]
        assert [one["seconds"] for one in added] == seconds


class TestGenerate:
    def test_json_lines_with_settings(self, tmp_path: Path) -> None:
        settings = ("--events", 200, "--set", "base_time=0")
        assert run("generate", *settings, "events.json").exit_code == 0
        lines = (tmp_path / "events.json").read_text().splitlines()
        assert len(lines) == 200
        assert list(json.loads(lines[0]))[:3] == ["id", "name", "emailAddress"]
        assert json.loads(lines[0])["dateTime"] == 0

    def test_parquet(self, tmp_path: Path) -> None:
        result = run("generate", "--events", 200, "--format", "parquet", "events.parquet")
        assert result.exit_code == 0, result.output
        assert pq.read_table(tmp_path / "events.parquet").num_rows == 200


def test_help_needs_neither_beam_nor_spark_nor_the_extra() -> None:
    program = (
        "import sys; from sparkbeam.cli.commands import main\n"
        "try: main(['nexmark', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'apache_beam', 'pyspark', 'pandas', 'altair', 'jinja2', 'psutil'}\n"
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert "--query" in python("-c", program).stdout


def test_the_documented_queries_are_those_of_the_code() -> None:
    rows = [f"| {query.number} | {query.name} | {query.question} |" for query in QUERIES.values()]
    table = "\n".join(["| query | name | question |", "|---|---|---|", *rows])
    documented = Path(__file__).parents[3] / "docs" / "nexmark.md"
    assert table in documented.read_text(), f"docs/nexmark.md needs this table:\n{table}"


def test_the_documented_settings_are_those_of_the_code() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "nexmark.md").read_text()
    for name, value in Configuration().as_dict().items():
        if name != "events":
            assert f"| `{name}` | {value} |" in documented
