"""The command ``sparkbeam``: mostly ``explain``, on programs of all kinds."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import apache_beam as beam
import pytest
from click.testing import CliRunner, Result

import sparkbeam
from sparkbeam import ConfigurationError
from sparkbeam.cli.commands import main
from sparkbeam.explain.explanation import explanations

GOOD = """
    import sys
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from helper import shout

    def main(argv=None):
        with beam.Pipeline(options=PipelineOptions(argv)) as pipeline:
            pipeline | "Words" >> beam.Create(["a", "b"]) | "Shout" >> beam.Map(shout)

    if __name__ == "__main__":
        main()
"""
HELPER = """
    def shout(word):
        raise AssertionError("user code was executed")
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Writes programs into an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)

    def write(text: str, name: str = "program.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
        return path

    write(HELPER, "helper.py")
    yield write
    sys.modules.pop("helper", None)


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.usefixtures("spark")
class TestExplain:
    def test_the_plan_of_a_program_is_printed_and_nothing_runs(
        self, program: Callable[..., Path]
    ) -> None:
        result = run("explain", program(GOOD))
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("Pipeline\n========\nWords")
        assert "== Physical Plan ==" in result.stdout

    def test_a_module_is_found_in_the_current_folder(self, program: Callable[..., Path]) -> None:
        program("", "package/__init__.py")
        program(GOOD, "package/words.py")
        result = run("explain", "-m", "package.words")
        assert result.exit_code == 0, result.output
        assert "Shout" in result.stdout

    def test_a_program_in_another_folder_imports_its_neighbours(
        self, program: Callable[..., Path], tmp_path: Path
    ) -> None:
        program(HELPER, "elsewhere/helper.py")
        (tmp_path / "helper.py").unlink()
        assert run("explain", program(GOOD, "elsewhere/words.py")).exit_code == 0

    def test_the_program_gets_its_own_arguments(self, program: Callable[..., Path]) -> None:
        result = run(
            "explain", program(GOOD), "--spark_parallelism=7", "--runner=DirectRunner", "--save=no"
        )
        assert result.exit_code == 0, result.output
        assert "splits=7)" in result.stdout

    def test_the_plan_is_saved_too(self, program: Callable[..., Path], tmp_path: Path) -> None:
        result = run("explain", "--save", "plan.mmd", "--save", "plan.html", program(GOOD))
        assert result.exit_code == 0, result.output
        assert (tmp_path / "plan.mmd").read_text(encoding="utf-8").startswith("flowchart TD")
        assert "<html" in (tmp_path / "plan.html").read_text(encoding="utf-8")
        assert "Saved plan.mmd" in result.stderr

    def test_several_pipelines_are_saved_under_numbered_names(
        self, program: Callable[..., Path], tmp_path: Path
    ) -> None:
        result = run("explain", "--save", "plan.txt", program(f"{GOOD}\n        main()"))
        assert result.exit_code == 0, result.output
        assert sorted(path.name for path in tmp_path.glob("plan*")) == ["plan-2.txt", "plan.txt"]

    @pytest.mark.parametrize(
        ("ending", "words"),
        [("sys.exit(3)", "exit code 3"), ("raise KeyError('total')", "KeyError: 'total'")],
        ids=["exit", "error"],
    )
    def test_what_a_program_does_without_results_is_a_note(
        self, program: Callable[..., Path], ending: str, words: str
    ) -> None:
        result = run("explain", program(f"{GOOD}\n        {ending}"))
        assert result.exit_code == 0, result.output
        assert f"ended with {words}." in result.stderr

    def test_a_clean_exit_needs_no_note(self, program: Callable[..., Path]) -> None:
        result = run("explain", program(f"{GOOD}\n        sys.exit(0)"))
        assert result.exit_code == 0
        assert "Note" not in result.stderr

    def test_arguments_and_import_path_are_as_before_afterwards(
        self, program: Callable[..., Path]
    ) -> None:
        before = list(sys.argv), list(sys.path)
        run("explain", program(GOOD))
        assert (sys.argv, sys.path) == before


BUILD = """
    import sys
    from pathlib import Path
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from sparkbeam import SparkRunner

    def leave_a_sign(word):
        Path("sign").touch()

    def build(pipeline):
        pipeline | "Words" >> beam.Create(["a", "b"]) | "Sign" >> beam.Map(leave_a_sign)
        return pipeline

    class Session:
        readStream = None

    STREAMING = PipelineOptions(streaming=True)
"""


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> None:
        raise ConfigurationError("No Java found.")

    monkeypatch.setattr("sparkbeam.spark.session.obtain", fails)


@pytest.mark.usefixtures("no_spark")
class TestNothingIsExecuted:
    """Whatever the program does to run its pipeline."""

    @pytest.mark.parametrize(
        "way",
        [
            "build(beam.Pipeline(runner='sparkbeam.SparkRunner')).run()",
            "build(beam.Pipeline('sparkbeam.SparkRunner')).run().wait_until_finish()",
            "with beam.Pipeline(runner=SparkRunner()) as pipeline: build(pipeline)",
            "build(beam.Pipeline(SparkRunner(session=Session()), STREAMING)).run()",
            "with beam.Pipeline(runner='DirectRunner') as pipeline: build(pipeline)",
            "build(beam.Pipeline(runner='FnApiRunner')).run()",
            "build(beam.Pipeline(argv=['--runner=PrismRunner'])).run()",
            "build(beam.Pipeline()).run()",
            "from apache_beam.testing.test_pipeline import TestPipeline\n"
            "with TestPipeline() as pipeline: build(pipeline)",
            "SparkRunner().run(build, PipelineOptions([]))",
            "from apache_beam.runners.direct import DirectRunner\n"
            "DirectRunner().run(build, PipelineOptions([]))",
            "pipeline = build(beam.Pipeline())\n"
            "SparkRunner().run_pipeline(pipeline, pipeline.options)",
            "import threading\n"
            "pipeline = build(beam.Pipeline(SparkRunner()))\n"
            "thread = threading.Thread(target=pipeline.run)\n"
            "thread.start(); thread.join()",
        ],
    )
    def test_the_plan_is_printed_instead(
        self, program: Callable[..., Path], tmp_path: Path, way: str
    ) -> None:
        result = run("explain", program(dedent(BUILD) + way))
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("Pipeline\n========\nWords")
        assert not (tmp_path / "sign").exists()

    def test_a_program_goes_on_with_a_result_that_answers(
        self, program: Callable[..., Path]
    ) -> None:
        asking = """
            result = build(beam.Pipeline(SparkRunner())).run()
            assert (result.state, result.wait_until_finish(1000)) == ("DONE", "DONE")
            assert result.metrics().query()["counters"] == []
            assert result.cancel() == result.drain() == "DONE"
            result.progress(), result.monitoring_infos()
            print("The program has come to its end.")
        """
        result = run("explain", program(dedent(BUILD) + dedent(asking)))
        assert result.exit_code == 0, result.output
        assert "The program has come to its end." in result.stdout
        assert "Note" not in result.stderr

    def test_all_pipelines_of_a_program_are_explained(self, program: Callable[..., Path]) -> None:
        way = (
            "for runner in SparkRunner(), 'DirectRunner', None: build(beam.Pipeline(runner)).run()"
        )
        result = run("explain", program(dedent(BUILD) + way))
        assert result.exit_code == 0, result.output
        assert result.stdout.count("Pipeline\n========") == 3

    def test_another_runner_in_the_code_is_told(self, program: Callable[..., Path]) -> None:
        result = run(
            "explain", program(f"{dedent(BUILD)}build(beam.Pipeline('FnApiRunner')).run()")
        )
        assert result.stderr.startswith("Note: '")
        assert "chooses the runner FnApiRunner in its code" in result.stderr

    def test_a_program_that_knows_its_own_arguments_alone_gets_no_other(
        self, program: Callable[..., Path]
    ) -> None:
        strict = "import argparse; argparse.ArgumentParser().parse_args()\n"
        result = run("explain", program(f"{dedent(BUILD)}{strict}build(beam.Pipeline()).run()"))
        assert result.exit_code == 0, result.output

    def test_pipelines_are_executed_again_afterwards(self, program: Callable[..., Path]) -> None:
        run("explain", program(f"{dedent(BUILD)}build(beam.Pipeline()).run()"))
        assert not explanations
        assert not isinstance(beam.Pipeline().runner, sparkbeam.SparkRunner)


class TestErrors:
    def test_a_missing_file(self) -> None:
        result = run("explain", "nothing.py")
        assert result.exit_code == 2
        assert "There is no file 'nothing.py'." in result.stderr

    @pytest.mark.usefixtures("program")
    @pytest.mark.parametrize("module", ["nothing_here", "helper.nothing"])
    def test_a_missing_module(self, module: str) -> None:
        result = run("explain", "-m", module)
        assert result.exit_code == 2
        assert f"There is no module '{module}' to run" in result.stderr

    def test_a_module_that_imports_a_missing_one_shows_where(
        self, program: Callable[..., Path]
    ) -> None:
        program("import nothing_here", "words.py")
        result = run("explain", "-m", "words")
        assert result.exit_code == 1
        assert "import nothing_here" in result.stderr

    def test_a_program_without_a_pipeline(self, program: Callable[..., Path]) -> None:
        result = run("explain", program("print('Hello.')"))
        assert result.exit_code == 1
        assert "ended without running a pipeline" in result.stderr

    def test_a_program_that_wants_other_arguments(self, program: Callable[..., Path]) -> None:
        asking = "import argparse; p = argparse.ArgumentParser(); p.add_argument('x'); "
        result = run("explain", program(f"{asking}p.parse_args()"))
        assert result.exit_code == 1
        assert "ended with exit code 2 before it ran a pipeline" in result.stderr

    def test_a_program_that_fails_shows_its_own_traceback(
        self, program: Callable[..., Path]
    ) -> None:
        result = run("explain", program("def go():\n    raise ValueError('no')\n\ngo()"))
        assert result.exit_code == 1
        trace, message = result.stderr.split("Error: '")
        assert "raise ValueError('no')" in trace
        assert "runpy" not in trace
        assert "failed before it ran a pipeline" in message

    def test_a_pipeline_that_cannot_run_on_spark(self, program: Callable[..., Path]) -> None:
        result = run("explain", program(GOOD), "--spark_parallelism=0")
        assert result.exit_code == 2
        assert "--spark_parallelism=0 must be at least 1." in result.stderr
        assert "Traceback" not in result.stderr

    @pytest.mark.parametrize(
        ("file", "words"),
        [("plan.svg", ".mmd, .html or .txt"), ("no/folder/plan.mmd", "There is no folder")],
    )
    def test_a_file_that_could_not_be_written_is_refused_before_the_program_runs(
        self, program: Callable[..., Path], file: str, words: str
    ) -> None:
        result = run("explain", "--save", file, program("raise AssertionError"))
        assert result.exit_code == 2
        assert words in " ".join(result.stderr.split())


class TestProcess:
    def test_it_starts_as_a_module_and_tells_its_version(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "sparkbeam", "--version"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == f"sparkbeam, version {sparkbeam.__version__}\n"

    def test_help_needs_neither_beam_nor_spark(self) -> None:
        code = (
            "import sys; from click.testing import CliRunner; from sparkbeam.cli import main\n"
            "for arguments in [], ['--help'], ['explain', '--help']:\n"
            "    output = CliRunner().invoke(main, arguments).output\n"
            "    assert 'Show this message and exit.' in output and 'Error' not in output\n"
            "assert not {'apache_beam', 'pyspark', 'pyarrow'} & set(sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
