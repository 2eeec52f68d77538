"""``sparkbeam run``: programs that name any runner run on this one, as under ``python``."""

import json
import re
import signal
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.runner import PipelineRunner
from command import attempt, command, program
from in_process_batch import BatchRunner

from sparkbeam.cli import main_program, programs

BUILD = """
    import os, sys
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
    from apache_beam.testing.test_pipeline import TestPipeline

    def shout(word):
        return word.upper()

    def build(pipeline):
        words = pipeline | "Words" >> beam.Create(["a", "b"]) | "Shout" >> beam.Map(shout)
        words | beam.combiners.Count.Globally() | beam.io.WriteToText(
            "out", shard_name_template="")
        return pipeline
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; all that a program changes is as before afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    with main_program.restored():
        yield tmp_path
    programs.FOR_GOOD.close()


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Has pipelines run without Spark; the options of each."""
    ran: list[Any] = []

    class Runner(BatchRunner):
        def run_pipeline(self, pipeline: Any, options: Any) -> Any:
            ran.append(options)
            return super().run_pipeline(pipeline, options)

    monkeypatch.setattr("sparkbeam.runner.spark_runner.SparkRunner", Runner)
    return ran


@pytest.mark.parametrize(
    "way",
    [
        "build(beam.Pipeline()).run().wait_until_finish()",
        "with beam.Pipeline(runner='DirectRunner') as pipeline: build(pipeline)",
        "with beam.Pipeline(runner='DataflowRunner') as pipeline: build(pipeline)",
        "with beam.Pipeline('PortableRunner', PipelineOptions([\n"
        "    '--job_endpoint=localhost:1', '--environment_type=DOCKER'])) as p: build(p)",
        "with beam.Pipeline(argv=sys.argv) as pipeline: build(pipeline)",
        "with beam.Pipeline(options=PipelineOptions()) as pipeline: build(pipeline)",
        "with TestPipeline() as pipeline: build(pipeline)",
        "with TestPipeline(runner='FlinkRunner', is_integration_test=False) as p: build(p)",
        "from apache_beam.runners.direct import DirectRunner\n"
        "DirectRunner().run(build, PipelineOptions([]))",
    ],
)
def test_pipelines_run_whichever_runner_they_name(in_process: list[Any], way: str) -> None:
    result = command("run", program(dedent(BUILD) + way), "--runner=PrismRunner")
    assert result.exit_code == 0, result.output
    assert Path("out").read_text() == "2\n"
    (options,) = in_process
    assert options.view_as(StandardOptions).runner == "sparkbeam.SparkRunner"


def test_an_interactive_runner_stays_around_ours(in_process: list[Any]) -> None:
    way = """
from apache_beam.runners.interactive.interactive_runner import InteractiveRunner
pipeline = beam.Pipeline(InteractiveRunner())
print(type(pipeline.runner).__name__, type(pipeline.runner._underlying_runner).__mro__[1].__name__)
"""
    result = command("run", program(dedent(BUILD) + way))
    assert result.stdout == "InteractiveRunner BatchRunner\n"


def test_the_options_of_the_program_itself_stay(in_process: list[Any]) -> None:
    way = """
options = PipelineOptions(["--runner=DirectRunner", "--region=here"])
build(beam.Pipeline(options=options)).run()
found = options.get_all_options(drop_default=True)
print(found["runner"], found["region"])
"""
    result = command("run", program(dedent(BUILD) + way))
    assert "DirectRunner here" in result.stdout.splitlines()


def test_options_of_other_runners_are_named_in_one_line(in_process: list[Any]) -> None:
    arguments = [
        "--runner=DataflowRunner",
        "--region=europe-west1",
        "--temp_location=gs://bucket/temp",
        "--environment_type=DOCKER",
        "--sdk_container_image=image",
        "--job_name=words",
        "--spark_master_url=local[9]",
    ]
    way = "for _ in range(2): build(beam.Pipeline(argv=sys.argv[1:])).run()"
    result = command("run", program(dedent(BUILD) + way), *arguments)
    assert result.exit_code == 0, result.output
    (note,) = [line for line in result.stderr.splitlines() if line.startswith("Note")]
    assert note.endswith(
        "does not use: --environment_type, --region, --sdk_container_image, "
        "--spark_master_url, --temp_location."
    )


@pytest.mark.parametrize(
    "option", ["--template_location=gs://a/b", "--update", "--output_executable_path=a.jar"]
)
def test_an_option_without_which_the_result_is_another_is_an_error(
    in_process: list[Any], option: str
) -> None:
    way = "build(beam.Pipeline(argv=sys.argv[1:])).run()"
    result = command("run", program(dedent(BUILD) + way), option)
    assert result.exit_code == 1
    assert f"ConfigurationError: {option.partition('=')[0]} " in result.stderr
    assert not in_process


def test_options_before_the_program_are_for_pipelines_without_them(in_process: list[Any]) -> None:
    way = """
import argparse
argparse.ArgumentParser().parse_args()
build(beam.Pipeline()).run()
build(beam.Pipeline(argv=["--spark_parallelism=1"])).run()
"""
    result = command(
        "run", "--spark_parallelism=3", "--job_name=mine", program(dedent(BUILD) + way)
    )
    assert result.exit_code == 0, result.output
    assert [options.get_all_options()["spark_parallelism"] for options in in_process] == [3, 1]
    assert [options.get_all_options()["job_name"] for options in in_process] == ["mine"] * 2


@pytest.mark.parametrize(
    ("ending", "code", "output"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('no such table')", 1, "no such table\n"),
        ("def go():\n    1 / 0\ngo()", 1, None),
        ("raise ExceptionGroup('several', [ValueError('one')])", 1, None),
    ],
    ids=["end", "code", "text", "error", "group"],
)
def test_the_exit_code_and_the_traceback_are_those_of_python(
    ending: str, code: int, output: str | None
) -> None:
    name = program(f"import sys\n{ending}\n")
    result = command("run", name)
    assert result.exit_code == code
    if output is None:
        done = attempt(sys.executable, name)
        assert (done.returncode, done.stderr) == (code, result.stderr)


def test_an_error_of_syntax_shows_the_line_alone() -> None:
    result = command("run", program("import sys\nthis is is wrong\n"))
    assert result.exit_code == 1
    assert result.stderr.startswith("  File ")
    assert "SyntaxError" in result.stderr


def test_the_hook_of_the_program_gets_its_exceptions() -> None:
    hook = "import sys\nsys.excepthook = lambda kind, error, trace: print(error, trace.tb_lineno)\n"
    assert command("run", program(f"{hook}raise ValueError('bad')")).stdout == "bad 3\n"


def test_a_transform_of_another_language_is_refused_before_there_is_a_pipeline() -> None:
    text = """
        import socket, subprocess
        from apache_beam.io.gcp.bigtableio import ReadFromBigtable

        def reach(*args, **named):
            raise AssertionError("reached")

        socket.socket.connect = subprocess.Popen.__init__ = reach
        ReadFromBigtable("p", "i", "t")
    """
    done = attempt(sys.executable, "-m", "sparkbeam", "run", program(text))
    assert done.returncode == 1
    assert (
        "UnsupportedTransform: Transform 'ReadFromBigtable' cannot run on Spark: it (apache_beam"
        in done.stderr
    )
    assert "reached" not in done.stderr


FACTS = """
    import apache_beam
    import atexit, json, multiprocessing, pickle, signal, sys, threading, time
    class Own:
        pass
    def later():
        main = sys.modules["__main__"]
        facts = {"name": __name__, "argv": sys.argv, "first": sys.path[0], "file": __file__,
                 "package": __package__, "cached": __cached__, "spec": getattr(__spec__, "name", 0),
                 "own": pickle.dumps(Own()).hex(), "main": main.__dict__ is globals(),
                 "builtins": str(__builtins__), "doc": __doc__, "names": sorted(globals()),
                 "input": sys.stdin.read()}
        print(json.dumps(facts), flush=True)
    threading.Thread(target=later).start()
    atexit.register(print, "the end")
    raise KeyboardInterrupt
"""


@pytest.mark.part(2)
@pytest.mark.parametrize("is_module", [True, False], ids=["module", "file"])
def test_a_program_cannot_tell_the_difference(folder: Path, is_module: bool) -> None:
    program("", "package/__init__.py")
    program(FACTS, "package/words.py")
    how = ["-m", "package.words"] if is_module else ["package/words.py"]
    found = []
    for prefix in ([], ["-m", "sparkbeam", "run"]):
        done = attempt(sys.executable, *prefix, *how, "--one", "two", given="given")
        facts, end = done.stdout.splitlines()
        errors = re.sub(r'  File "<frozen runpy>".*\n', "", done.stderr)
        found.append((done.returncode, json.loads(facts), end, errors))
    python, ours = found
    assert ours == python
    assert ours[0] == -signal.SIGINT


def test_a_folder_and_an_archive_with_a_main_module_are_programs(folder: Path) -> None:
    text = "import helper, sys; print(helper.WORD, sys.argv, __package__ == '')"
    program(text, "app/__main__.py")
    program("WORD = 'there'", "app/helper.py")
    with zipfile.ZipFile("app.zip", "w") as archive:
        for file in Path("app").iterdir():
            archive.write(file, file.name)
    for name in "app", "app.zip":
        sys.modules.pop("helper", None)
        assert command("run", name, "x").stdout == f"there {[name, 'x']} True\n"


def test_a_missing_module_is_an_error_as_under_python(folder: Path) -> None:
    result = command("run", "-m", "nothing_here")
    assert result.exit_code == 1
    assert "No module named 'nothing_here'" in result.stderr


def test_other_pipelines_are_as_before_afterwards(in_process: list[Any]) -> None:
    command("run", program(dedent(BUILD)))
    programs.FOR_GOOD.close()
    assert not isinstance(beam.Pipeline().runner, BatchRunner)
    assert isinstance(beam.Pipeline().runner, PipelineRunner)
    assert PipelineOptions([]).view_as(StandardOptions).runner is None


@pytest.mark.usefixtures("spark")
def test_classes_functions_and_globals_of_the_program_reach_the_workers() -> None:
    text = """
        from dataclasses import dataclass
        import apache_beam as beam

        @dataclass(frozen=True)
        class Word:
            text: str

        class Shout(beam.DoFn):
            def process(self, element):
                yield Word(element.upper() + MARK)

        if __name__ == "__main__":
            MARK = "!"
            with beam.Pipeline(runner="DataflowRunner") as pipeline:
                words = pipeline | beam.Create(["a", "b", "a"]) | beam.ParDo(Shout())
                counts = words | beam.combiners.Count.PerElement()
                counts | beam.Map(str) | beam.io.WriteToText("out", shard_name_template="")
    """
    result = command("run", program(text))
    assert result.exit_code == 0, result.output
    lines = sorted(Path("out").read_text().splitlines())
    assert lines == ["(Word(text='A!'), 2)", "(Word(text='B!'), 1)"]
