"""The command ``sparkbeam nexmark`` from its arguments to its files and exit code."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.portability.prism_runner import PrismJobServer
from click.testing import CliRunner, Result
from in_process import StreamingRunner
from pasts import COMMITS
from runs import a_run, runs_of

from beam_nexmark import available_runners, engine, history, measure, provenance
from beam_nexmark.configuration import Configuration
from beam_nexmark.engine import Engine
from beam_nexmark.measure import Measurement
from beam_nexmark.queries import QUERIES
from beam_nexmark.record import QueryRun, read_json
from beam_nexmark.stream import NexmarkStream
from sparkbeam.cli.commands import main

ORACLE = ("--runner", "FnApiRunner", "--events", "500")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the history out of the user's own folders."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, ["nexmark", *map(str, arguments)])


def problem(result: Result) -> str:
    """The one line that tells what went wrong."""
    assert result.exit_code != 0
    assert isinstance(result.exception, SystemExit), result.exception
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("Error: ")
    return line


class TestRun:
    def test_it_shows_a_row_for_each_query(self, spark: Any) -> None:
        result = run("--query", "1,2", "--events", 500, "--check")
        assert result.exit_code == 0, result.output
        heading, first, second = result.stdout.strip().splitlines()
        assert heading.split()[:4] == ["query", "name", "events", "seconds"]
        assert first.split()[0] == "1"
        assert " 460 " in first
        assert first.split()[-1] == "passed"
        assert second.split()[0] == "2"

    def test_it_tells_each_run_when_it_ends(self) -> None:
        result = run("--query", 2, "--repeat", 2, *ORACLE)
        lines = [line for line in result.stderr.splitlines() if line.startswith("q2 ")]
        assert len(lines) == 2

    def test_json_has_one_object_a_run(self, tmp_path: Path) -> None:
        file = tmp_path / "runs.json"
        assert run("--query", "2,1", "--repeat", 2, "--json", file, *ORACLE).exit_code == 0
        runs = [json.loads(line) for line in file.read_text().splitlines()]
        assert [(one["query"], one["repeat"]) for one in runs] == [(2, 1), (2, 2), (1, 1), (1, 2)]
        assert {one["runner"] for one in runs} == {"FnApiRunner"}

    def test_runs_are_added_to_the_history_in_the_users_folder(self) -> None:
        run("--query", 2, *ORACLE)
        run("--query", 2, *ORACLE)
        assert len(history.read(history.default_path())) == 2

    def test_the_history_can_be_elsewhere(self, tmp_path: Path) -> None:
        run("--query", 2, "--history", tmp_path / "mine.db", *ORACLE)
        assert len(history.read(tmp_path / "mine.db")) == 1
        assert not history.default_path().exists()

    def test_the_report_has_the_whole_history(self, tmp_path: Path) -> None:
        page = tmp_path / "page.html"
        run("--query", 1, *ORACLE)
        run("--query", 2, "--report", page, *ORACLE)
        assert QUERIES[1].name in page.read_text()
        assert QUERIES[2].name in page.read_text()

    def test_settings_reach_the_generator_and_the_query(self, tmp_path: Path) -> None:
        settings = ("--set", "auction_skip=10", "--set", "generators=7")
        result = run("--query", 2, "--check", "--json", "runs.json", *settings, *ORACLE)
        assert result.exit_code == 0, result.output
        (one,) = read_json(tmp_path / "runs.json")
        assert one.configuration["auction_skip"] == 10
        assert one.configuration["generators"] == 7
        assert one.results

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
        (one,) = read_json(tmp_path / "runs.json")
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


class TestBadInput:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--query", "17"], "Unknown query '17'"),
            (["--query", "one"], "Unknown query 'one'"),
            (["--query", "-1"], "Unknown query '-1'"),
            (["--query", "1,"], "Unknown query ''"),
            (["--events", "0"], "'--events'"),
            (["--events", "-5"], "'--events'"),
            (["--events", "many"], "'--events'"),
            (["--repeat", "0"], "'--repeat'"),
            (["--mode", "fast"], "'--mode'"),
            (["--rate", "5"], "Only a stream has a rate: add --mode streaming."),
            (["--mode", "batch", "--rate", "5"], "Only a stream has a rate"),
            (["--mode", "streaming", "--rate", "0"], "'--rate'"),
            (["--mode", "streaming", "--rate", "many"], "'--rate'"),
            (["--runner", "NoRunner"], "Unknown runner 'NoRunner'"),
            (["--evnets", "5"], "Unknown option or command '--evnets': use --events."),
            (["--querry=1"], "Unknown option or command '--querry=1': use --query."),
            (["reprot"], "Unknown option or command 'reprot': use report."),
            (["compar"], "Unknown option or command 'compar'."),
            (["--spark_parallelism=0"], "must be at least 1"),
            (["--json", "none/runs.json"], "There is no folder 'none'"),
            (["--json", "."], "'--json'"),
            (["--report", "none/page.html"], "There is no folder 'none'"),
            (["report", "none/page.html"], "There is no folder 'none'"),
            (["report"], "does not exist: 'sparkbeam nexmark' creates it"),
            (["report", "--history", "text"], "is not a history"),
            (["--history", "text"], "is not a history"),
            (["--history", "text/history.db"], "Cannot write"),
            (["generate", "--events", "0", "out"], "'--events'"),
            (["generate", "--format", "csv", "out"], "'--format'"),
            (["generate", "none/out"], "There is no folder 'none'"),
            (["ci", "--modes", "fast"], "'fast' is not a mode: use batch, streaming, or both."),
            (["ci", "--modes", ","], "The list is empty."),
            (["ci", "--runners", " "], "The list is empty."),
            (["ci", "--runners", "FnApiRunner,No", "--history", "new.db"], "Unknown runner 'No'"),
            (["ci", "--evnets", "5"], "Unknown option or command '--evnets': use --events."),
            (["ci", "--report", "none/page.html"], "There is no folder 'none'"),
            (["--json", "/proc/runs.json"], "Cannot write '/proc/runs.json'"),
            (["--report", "/proc/page.html"], "Cannot write '/proc/page.html'"),
            (["report", "/proc/page.html"], "Cannot write '/proc/page.html'"),
            (["generate", "/proc/events.json"], "Cannot write '/proc/events.json'"),
            (["--history", "/proc/history.db"], "Cannot use the history"),
            (["--history", "."], "'--history'"),
            (["--set", "window_size"], "'window_size' is not NAME=NUMBER"),
            (["--set", "windowsize=20"], "Unknown setting 'windowsize': use events, "),
            (["--set", "log_folder=/tmp"], "Unknown setting 'log_folder'"),
            (["--set", "window_size="], "'window_size' is '', but must be a whole number"),
            (["--set", "window_size=1.5"], "'window_size' is '1.5', but must be a whole number"),
            (["--set", "window_size=0"], "'window_size' is 0, but must be a whole number >= 1"),
            (["--set", "event_rate=9999999"], "'event_rate' is 9999999"),
            (["--set", "events=5"], "Use --events"),
            (["generate", "--set", "generators=-1", "out"], "'generators' is -1"),
        ],
    )
    def test_it_is_told_on_one_line(
        self, arguments: list[str], message: str, tmp_path: Path
    ) -> None:
        (tmp_path / "text").write_text("This is a text. " * 100)
        assert message in problem(run(*arguments))

    def test_a_place_that_can_be_written_is_left_as_it_was(self, tmp_path: Path) -> None:
        (tmp_path / "old.json").write_text("old")
        assert "Unknown runner" in problem(
            run("--runner", "No", "--json", "old.json", "--report", "new.html")
        )
        assert (tmp_path / "old.json").read_text() == "old"
        assert not (tmp_path / "new.html").exists()

    def test_a_damaged_history_is_told(self, tmp_path: Path) -> None:
        history.append(runs_of(*range(1, 200)), tmp_path / "history.db")
        whole = (tmp_path / "history.db").read_bytes()
        (tmp_path / "history.db").write_bytes(whole[:5000])
        assert "or is damaged" in problem(run("report", "--history", "history.db"))

    def test_a_history_of_another_version_is_told(self, tmp_path: Path) -> None:
        history.append([a_run()], tmp_path / "history.db")
        with sqlite3.connect(tmp_path / "history.db") as connection:
            connection.execute("PRAGMA user_version = 9")
        assert "has format 9" in problem(run("--history", "history.db"))
        assert "has format 9" in problem(run("report", "--history", "history.db"))


class TestReport:
    def test_it_is_written_from_the_history(self, tmp_path: Path) -> None:
        history.append([a_run()], tmp_path / "history.db")
        assert run("report", "--history", "history.db", "page.html").exit_code == 0
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

    def test_ci_runs_the_runners_of_this_machine(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usual = engine.prepared
        monkeypatch.setattr(PrismJobServer, "BIN_CACHE", str(tmp_path / "none"))
        monkeypatch.setattr(available_runners, "OTHER_EVENTS", 200)
        monkeypatch.setattr(
            engine,
            "prepared",
            lambda name, arguments, **_: replace(usual("FnApiRunner", arguments), name=name),
        )
        result = run("ci", "--query", "2,12", "--modes", "batch", "--events", 500, "--repeat", 2)
        assert result.exit_code == 1, "only of Beam's own runner it is known that it has no clock"
        runs = history.read(history.default_path())
        assert [(one.runner, one.query, one.repeat, one.events) for one in runs] == [
            *[("SparkRunner", query, number, 500) for query in (2, 12) for number in (1, 2)],
            ("FnApiRunner", 2, 1, 200),
            ("FnApiRunner", 12, 1, 200),
        ]
        assert [one.is_right for one in runs] == [True, True, False, False, True, True]
        assert "PrismRunner is skipped: its program is not in" in result.stdout
        assert "q12 processing time windows cannot run here: it has no clock" in result.stdout

    def test_ci_leaves_a_runner_of_this_machine_out_that_does_not_start(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usual = engine.prepared

        class Broken(FnApiRunner):
            def run_pipeline(self, *_: Any) -> Any:
                raise OSError("Exec format error")

        def prepared(name: str, arguments: Any, **_: Any) -> Engine:
            runner = Broken() if name == "PrismRunner" else FnApiRunner()
            return replace(usual("FnApiRunner", arguments), name=name, runner=runner)

        monkeypatch.setattr(engine, "prepared", prepared)
        arguments = ("--query", 2, "--modes", "batch", "--events", 500, "--repeat", 1)
        result = run("ci", *arguments, f"--prism_location={tmp_path}")
        assert result.exit_code == 0, result.output
        assert "PrismRunner is skipped in batch: PrismRunner does not start" in result.stdout
        assert "OSError: Exec format error" in result.stdout
        assert {one.runner for one in history.read(history.default_path())} == {
            "SparkRunner",
            "FnApiRunner",
        }
        chosen = run("ci", *arguments, "--runners", "PrismRunner")
        assert chosen.exit_code == 2
        assert "Error: PrismRunner does not start: OSError" in chosen.stderr

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
    def test_json_lines(self, tmp_path: Path) -> None:
        assert run("generate", "--events", 200, "events.json").exit_code == 0
        lines = (tmp_path / "events.json").read_text().splitlines()
        assert len(lines) == 200
        assert list(json.loads(lines[0]))[:3] == ["id", "name", "emailAddress"]

    def test_settings(self, tmp_path: Path) -> None:
        run("generate", "--events", 200, "--set", "base_time=0", "events.json")
        assert json.loads((tmp_path / "events.json").read_text().splitlines()[0])["dateTime"] == 0

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
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert result.returncode == 0
    assert b"--query" in result.stdout


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
