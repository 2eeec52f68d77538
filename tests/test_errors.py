"""What a user sees when something goes wrong: the step, the own traceback, the remedy."""

import argparse
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, SparkRunnerOptions
from apache_beam.portability.api import beam_runner_api_pb2
from command import attempt, python
from failing import failure_of
from in_process_batch import BatchRunner

from sparkbeam import (
    ConfigurationError,
    PipelineFailed,
    SparkBeamOptions,
    UnsupportedTransform,
)
from sparkbeam.operators.registry import operators_of
from sparkbeam.options.misspelt import misspelt
from sparkbeam.options.spark_options import checked
from sparkbeam.plan.translate import translate
from sparkbeam.spark import session as sessions


class Broken(beam.DoFn):
    def setup(self) -> None:
        raise OSError("no model file")

    def process(self, element: int) -> None:
        pass


class Numbering(beam.DoFn):
    numbers: Any

    def process(self, element: int) -> Any:
        yield next(self.numbers), element


def test_a_dofn_that_raises_in_setup_is_named(tmp_path: Path) -> None:
    error = failure_of(
        False, lambda p: p | beam.Create([1]) | "Score" >> beam.ParDo(Broken()), tmp_path
    )
    assert error.label == "Score"
    assert "no model file" in str(error)
    assert isinstance(error.__cause__, OSError)


def test_a_dofn_that_cannot_be_pickled_is_named_before_any_work_starts() -> None:
    pipeline, numbering = beam.Pipeline(BatchRunner()), Numbering()
    _ = pipeline | beam.Create([1]) | "Number" >> beam.ParDo(numbering)
    numbering.numbers = (number for number in range(10))
    message = r"Step 'Number' cannot be pickled(?s:.*)generator(?s:.*)setup\(\)"
    with pytest.raises(PipelineFailed, match=message):
        pipeline.run()


class TestUnsupported:
    @pytest.mark.parametrize(
        ("urn", "environment", "message"),
        [
            ("", "java", "'Odd' cannot run on Spark"),
            ("example:strange:v1", "", r"'Odd'.*example:strange:v1"),
        ],
    )
    def test_another_language_or_primitive_is_an_error_at_translation(
        self, urn: str, environment: str, message: str
    ) -> None:
        pipeline = beam.Pipeline()
        _ = pipeline | "Rows" >> beam.Create([1]) | "Odd" >> beam.Map(str)
        proto = pipeline.to_runner_api()
        java = beam_runner_api_pb2.Environment(urn="beam:env:docker:v1", payload=b"java")
        proto.components.environments["java"].CopyFrom(java)
        for transform in proto.components.transforms.values():
            if transform.unique_name == "Odd":
                transform.spec.urn = urn or transform.spec.urn
                transform.environment_id = environment or transform.environment_id
        with pytest.raises(UnsupportedTransform, match=message):
            translate(proto, operators_of)


LIKE_OURS = (
    "checkpoints_path",
    "num_shards",
    "number_of_shards",
    "trigger_interval_sec",
    "trigger_proc_time_sec",
)
"""Options of Beam's examples that share a word with ours."""


class TestOptions:
    def test_what_has_nothing_to_do_is_taken(self) -> None:
        arguments = [
            "--save_main_session",
            "--pickle_library=cloudpickle",
            "--sdk_location=default",
        ]
        checked(PipelineOptions([*arguments, "--environment_type=LOOPBACK", "--setup_file="]))

    def test_a_value_of_an_option_without_one_is_taken_where_it_says_the_same(self) -> None:
        checked(PipelineOptions(["--streaming", "true"]))
        checked(PipelineOptions(["--job_name", "no", "--input", "off", "--spark_page", "0"]))

    def test_options_of_programs_and_of_other_runners_are_none_of_ours(self) -> None:
        declared = re.compile(r"""_argument\(\s*(?:'-\w',\s*)?['"]--([\w-]+)['"]""")
        files = Path(beam.__file__).parent.rglob("*.py")
        names = {name for file in files for name in declared.findall(file.read_text())}
        assert len(names) > 300
        own = {*SparkBeamOptions([]).get_all_options(current_only=True)}
        refused = own | {*SparkRunnerOptions([]).get_all_options(current_only=True)}
        others = ("project_id", "region_name", "regions", "file_path", "my_input", "data_location")
        words = [f"--{name}=x" for name in {*names, *others} - refused]
        parser = argparse.ArgumentParser()
        for name in LIKE_OURS:
            parser.add_argument(f"--{name}")
        parsed, _ = parser.parse_known_args(words)
        assert parsed.num_shards == "x"
        assert misspelt(SparkBeamOptions(words)) is None
        rest = [word for word in words if word[2:-2] not in LIKE_OURS]
        del parsed
        assert misspelt(SparkBeamOptions(rest)) is None

    def test_an_option_of_the_program_itself_is_none_of_ours(self) -> None:
        checked(PipelineOptions(["--input=a", "shard", "--", "--spark_maser", "--num_shards=3"]))

    def test_options_of_flinks_runner_are_none_of_ours(self) -> None:
        checked(PipelineOptions(["--checkpointing_interval=60000", "--checkpointingMode=x"]))

    def test_an_option_that_looks_like_ours_can_be_declared(self) -> None:
        class Sharding(PipelineOptions):
            @classmethod
            def _add_argparse_args(cls, parser: Any) -> None:
                parser.add_argument("--shard", dest="part", action="store_true")
                parser.add_argument("--spark_color")

        assert Sharding(["--shard"]).part
        checked(PipelineOptions(["--shard", "--spark_color", "red"]))


SCRIPT = """
import apache_beam as beam
with beam.Pipeline(argv=["--runner=sparkbeam.SparkRunner"]) as pipeline:
    pipeline | beam.Create([1]) | beam.Map(print)
"""


def error_of_program(**environment: str) -> str:
    done = attempt(sys.executable, "-c", SCRIPT, more=environment, seconds=270)
    assert done.returncode != 0
    return done.stderr.strip().splitlines()[-1]


TRIES = """
import json, sys
import apache_beam as beam
from sparkbeam.spark import session
session._GRPC_SECONDS = 2
for argument in json.loads(sys.argv[1]):
    try:
        with beam.Pipeline(argv=["--runner=sparkbeam.SparkRunner", argument]) as pipeline:
            pipeline | beam.Create([1]) | beam.Map(print)
    except Exception as error:
        print(error)
"""


@pytest.fixture(scope="module")
def unreachable() -> dict[str, str]:
    """What a program is told that names a server where there is none, by what is there."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        options = {
            "no master": "--spark_master=spark://127.0.0.1:9",
            "no server": "--spark_connect=sc://127.0.0.1:9/;token=hunter2",
            "another server": f"--spark_connect=sc://127.0.0.1:{port}/;token=hunter2",
        }
        done = python("-c", TRIES, json.dumps(list(options.values())))
    return dict(zip(options, done.stdout.splitlines(), strict=True))


def java_that_says(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> Path:
    """Makes JAVA_HOME a folder with a stand-in for Java."""
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))
    return java


class TestEnvironment:
    def test_without_java_the_remedy_is_named(self, tmp_path: Path) -> None:
        message = error_of_program(JAVA_HOME=str(tmp_path))
        assert "No Java found" in message
        assert "Java 17" in message

    @pytest.mark.parametrize(
        ("banner", "version"),
        [
            ('openjdk version "11.0.22" 2024-01-16', "Java 11 found at JAVA_HOME="),
            ('java version "1.8.0_292"', "Java 8 found at JAVA_HOME="),
        ],
    )
    def test_an_old_java_is_told_before_spark_starts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, banner: str, version: str
    ) -> None:
        java_that_says(tmp_path, monkeypatch, f"echo '{banner}' >&2")
        with pytest.raises(ConfigurationError, match="Spark needs Java 17 or newer") as caught:
            sessions._require_java()
        assert version in str(caught.value)

    @pytest.mark.parametrize("line", ["echo 'openjdk version \"21\"' >&2", "echo JVM of ours"])
    def test_a_java_that_is_new_enough_or_does_not_say_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
    ) -> None:
        java_that_says(tmp_path, monkeypatch, line)
        sessions._require_java()

    def test_a_java_that_cannot_be_started_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        java_that_says(tmp_path, monkeypatch, "").chmod(0o644)
        with pytest.raises(ConfigurationError, match=r"cannot be started .*Permission"):
            sessions._require_java()

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("no master", "No server answers at --spark_master=spark://127.0.0.1:9"),
            ("no server", "No server answers at --spark_connect=sc://127.0.0.1:9"),
            ("another server", "the server is not a Spark Connect server"),
        ],
    )
    def test_what_cannot_be_reached_fails_fast_and_hides_the_token(
        self, name: str, message: str, unreachable: dict[str, str]
    ) -> None:
        assert message in unreachable[name]
        assert "hunter2" not in unreachable[name]
