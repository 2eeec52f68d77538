"""The command ``sparkbeam``: mostly ``explain``, on programs of all kinds."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import apache_beam as beam
import pytest
from command import answer, command, program, python
from golden_files import Golden, sections

import sparkbeam
from sparkbeam import ConfigurationError
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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; afterwards all that a program finds is as before."""
    monkeypatch.chdir(tmp_path)
    program(HELPER, "helper.py")
    before = list(sys.argv), list(sys.path)
    yield tmp_path
    sys.modules.pop("helper", None)
    assert (sys.argv, sys.path) == before
    assert not explanations
    assert not isinstance(beam.Pipeline().runner, sparkbeam.SparkRunner)


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> None:
        raise ConfigurationError("No Java found.")

    monkeypatch.setattr("sparkbeam.spark.session.obtain", fails)


@pytest.mark.usefixtures("spark")
def test_the_program_gets_its_own_arguments_and_the_plan_has_that_of_spark() -> None:
    options = ("--spark_parallelism=7", "--runner=DirectRunner", "--save=no")
    result = command("explain", program(GOOD), *options)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("Pipeline\n========\nWords")
    assert "splits=7)" in result.stdout.partition("== Physical Plan ==")[2]


@pytest.mark.usefixtures("no_spark")
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
        "pipeline = build(beam.Pipeline())\nSparkRunner().run_pipeline(pipeline, pipeline.options)",
        "import threading\n"
        "pipeline = build(beam.Pipeline(SparkRunner()))\n"
        "thread = threading.Thread(target=pipeline.run)\n"
        "thread.start(); thread.join()",
    ],
)
def test_whatever_a_program_does_to_run_its_pipeline_the_plan_is_printed_instead(
    golden: Golden, way: str
) -> None:
    result = command("explain", program(dedent(BUILD) + way))
    assert result.exit_code == 0, result.output
    name = "explained stream.txt" if "STREAMING" in way else "explained.txt"
    golden(name, result.stdout)
    assert not Path("sign").exists()


ASKING = """
    result = build(beam.Pipeline(SparkRunner())).run()
    assert (result.state, result.wait_until_finish(1000)) == ("DONE", "DONE")
    assert result.metrics().query()["counters"] == []
    assert result.cancel() == result.drain() == "DONE"
    result.progress(), result.monitoring_infos()
    print("The program has come to its end.")
"""
STRICT = "import argparse; argparse.ArgumentParser().parse_args()\n"
EXPLAINED = {
    "an exit code": f"{GOOD}\n        sys.exit(3)",
    "an error": f"{GOOD}\n        raise KeyError('total')",
    "a clean exit": f"{GOOD}\n        sys.exit(0)",
    "two pipelines": f"{GOOD}\n        main()",
    "a result that is asked": dedent(BUILD) + dedent(ASKING),
    "other runners": dedent(BUILD)
    + "for runner in SparkRunner(), 'FnApiRunner', None: build(beam.Pipeline(runner)).run()",
    "a program that knows no other arguments": f"{dedent(BUILD)}{STRICT}"
    "build(beam.Pipeline()).run()",
}


@pytest.mark.usefixtures("no_spark")
def test_what_a_program_does_besides_is_told(golden: Golden) -> None:
    texts = {}
    for name, text in EXPLAINED.items():
        lines = answer(command("explain", program(text)))
        headings = {"Pipeline", "exit code 0", "The program has come to its end."}
        texts[name] = [one for one in lines if one in headings or one.startswith("stderr:")]
    golden("explained programs.txt", sections(texts))


@pytest.mark.usefixtures("no_spark")
def test_plans_of_modules_and_of_other_folders_are_printed_and_saved(
    golden: Golden, folder: Path
) -> None:
    program("", "package/__init__.py")
    program(GOOD, "package/words.py")
    texts = {"a module": answer(command("explain", "-m", "package.words"))}
    sys.modules.pop("helper")
    (folder / "helper.py").rename(program(HELPER, "elsewhere/helper.py"))
    both = program(f"{GOOD}\n        main()", "elsewhere/words.py")
    saving = [f"--save=plan.{kind}" for kind in ("mmd", "html", "txt")]
    texts["another folder, and files"] = answer(command("explain", *saving, both))
    texts["plan.mmd"] = (folder / "plan.mmd").read_text().splitlines()
    texts["files"] = sorted(path.name for path in folder.glob("plan*"))
    golden("explained and saved.txt", sections(texts))
    assert "<html" in (folder / "plan.html").read_text()


FAILING = {
    "no pipeline": "print('Hello.')",
    "other arguments": "import argparse; p = argparse.ArgumentParser(); p.add_argument('x'); "
    "p.parse_args()",
    "an error": "def go():\n    raise ValueError('no')\n\ngo()",
}
REFUSED = {
    "a missing file": ["nothing.py"],
    "a missing module": ["-m", "nothing_here"],
    "a missing module of a package": ["-m", "helper.nothing"],
    "a module that imports a missing one": ["-m", "words"],
    "a wrong option": ["good.py", "--spark_parallelism=0"],
    "another kind of file": ["--save", "plan.svg", "program.py"],
    "no folder for a file": ["--save", "no/folder/plan.mmd", "program.py"],
}


def test_errors(golden: Golden) -> None:
    program(GOOD, "good.py")
    program("import nothing_here", "words.py")
    texts = {name: answer(command("explain", program(text))) for name, text in FAILING.items()}
    program("raise AssertionError")
    texts |= {name: answer(command("explain", *arguments)) for name, arguments in REFUSED.items()}
    golden("errors of explain.txt", sections(texts), {'File "/.*/': 'File "'})


class TestProcess:
    def test_it_starts_as_a_module_and_tells_its_version(self) -> None:
        assert (
            python("-m", "sparkbeam", "--version").stdout
            == f"sparkbeam, version {sparkbeam.__version__}\n"
        )

    def test_help_needs_neither_beam_nor_spark(self) -> None:
        code = (
            "import sys; from click.testing import CliRunner; from sparkbeam.cli import main\n"
            "for arguments in [], ['--help'], ['explain', '--help']:\n"
            "    output = CliRunner().invoke(main, arguments).output\n"
            "    assert 'Show this message and exit.' in output and 'Error' not in output\n"
            "assert not {'apache_beam', 'pyspark', 'pyarrow'} & set(sys.modules)"
        )
        python("-c", code)
