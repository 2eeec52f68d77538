"""What a user sees when something goes wrong: the step, the own traceback, the remedy."""

import argparse
import json
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.io.debezium import DriverClassName, ReadFromDebezium
from apache_beam.options.pipeline_options import PipelineOptions, SparkRunnerOptions
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.runner import PipelineState
from apache_beam.transforms import managed
from apache_beam.transforms.external import (
    BeamJarExpansionService,
    ExternalTransform,
    JavaExternalTransform,
    SchemaAwareExternalTransform,
)
from apache_beam.yaml import yaml_transform
from command import python

from sparkbeam import (
    ConfigurationError,
    PipelineFailed,
    SparkBeamOptions,
    SparkRunner,
    UnsupportedTransform,
)
from sparkbeam.operators.registry import operators_of
from sparkbeam.options.misspelt import misspelt
from sparkbeam.options.spark_options import checked
from sparkbeam.plan.translate import translate
from sparkbeam.spark import session as sessions


def run(build: Any, *arguments: str) -> Any:
    pipeline = beam.Pipeline(runner=SparkRunner(), options=PipelineOptions(list(arguments)))
    build(pipeline)
    return pipeline.run()


def failure_of(build: Any) -> PipelineFailed:
    result = run(build)
    with pytest.raises(PipelineFailed) as caught:
        result.wait_until_finish()
    assert result.state == PipelineState.FAILED
    return caught.value


def assert_short(error: Exception) -> None:
    text = str(error)
    assert len(text.splitlines()) < 25
    assert "\tat org.apache" not in text
    assert "py4j" not in text


@pytest.mark.usefixtures("spark")
class TestFailingSteps:
    def test_a_dofn_that_raises_is_named_with_the_users_own_frames(self) -> None:
        def parse(text: str) -> int:
            return int(text)

        error = failure_of(
            lambda p: p | beam.Create(["1", "x"]) | "Parse amounts" >> beam.Map(parse)
        )

        assert error.label == "Parse amounts"
        assert "Step 'Parse amounts' failed: ValueError: invalid literal" in str(error)
        assert "return int(text)" in str(error)
        assert "apache_beam" not in str(error)
        assert isinstance(error.__cause__, ValueError)
        assert_short(error)

    def test_a_dofn_class_that_raises_in_setup_is_named(self) -> None:
        class Broken(beam.DoFn):
            def setup(self) -> None:
                raise OSError("no model file")

            def process(self, element: int) -> None:
                pass

        error = failure_of(lambda p: p | beam.Create([1]) | "Score" >> beam.ParDo(Broken()))

        assert "no model file" in str(error)
        assert "Score" in str(error)
        assert_short(error)

    def test_a_failed_pipeline_leaves_the_session_usable(self, spark: Any) -> None:
        failure_of(lambda p: p | beam.Create([0]) | beam.Map(lambda x: 1 // x))
        assert spark.range(3).count() == 3

    def test_an_unpicklable_function_is_named_before_any_work_starts(self) -> None:
        class Numbering(beam.DoFn):
            numbers: Any

            def process(self, element: int) -> Any:
                yield next(self.numbers), element

        def build(pipeline: beam.Pipeline) -> None:
            numbering = Numbering()
            _ = pipeline | beam.Create([1]) | "Number" >> beam.ParDo(numbering)
            numbering.numbers = (number for number in range(10))

        with pytest.raises(PipelineFailed, match="Step 'Number' cannot be pickled") as caught:
            run(build)
        assert "generator" in str(caught.value)
        assert "setup()" in str(caught.value)
        assert_short(caught.value)

    def test_a_missing_input_file_is_named(self, tmp_path: Path) -> None:
        missing = str(tmp_path / "missing.txt")
        with pytest.raises(Exception, match=r"missing\.txt"):
            run(lambda p: p | beam.io.ReadFromText(missing)).wait_until_finish()

        def read(path: str) -> str:
            return Path(path).read_text()

        error = failure_of(lambda p: p | beam.Create([missing]) | "Read whole" >> beam.Map(read))
        assert "missing.txt" in str(error)
        assert "Read whole" in str(error)
        assert_short(error)


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


class Orders(beam.PTransform[Any, Any]):
    """Wraps a cross-language transform."""

    def expand(self, begin: Any) -> Any:
        return begin | "Fetch" >> ExternalTransform("example:orders", b"", "localhost:9")


def changes() -> ReadFromDebezium:
    login = "a", "hunter2", "h", "1"
    return ReadFromDebezium(DriverClassName.MYSQL, *login, connection_properties=[])


class Discovered(beam.PTransform[Any, Any]):
    """Asks an expansion service before it applies anything."""

    def expand(self, begin: Any) -> Any:
        service = BeamJarExpansionService(":sdks:java:io:expansion-service:shadowJar")
        return begin | SchemaAwareExternalTransform(
            "beam:schematransform:other:v1", service, rearrange_based_on_discovery=True
        )


YAML = """
pipeline:
  type: chain
  transforms:
  - type: ReadFromKinesis
    config: {stream_name: orders, region: eu-central-1}
  - type: LogForTesting
"""


class TestCrossLanguageTransforms:
    @pytest.fixture(autouse=True)
    def without_downloads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def download(*_: Any, **__: Any) -> None:
            pytest.fail("an archive is downloaded")

        monkeypatch.setattr("apache_beam.utils.subprocess_server.JavaJarServer.local_jar", download)

    @pytest.mark.parametrize(
        ("label", "transform", "remedy"),
        [
            ("Read", changes(), '("kafka", {'),
            ("Read", managed.Read(managed.BIGQUERY, config={"table": "t"}), '("bigquery", {'),
            ("Read", JavaExternalTransform("org.example.Source").of("a"), "sparkbeam.io."),
            ("Read", ExternalTransform("example:source", b"", "localhost:9"), "sparkbeam.io."),
            ("Orders", Orders(), "'Orders/Fetch' in it (apache_beam.transforms.external."),
            ("Found", Discovered(), "sparkbeam.io."),
            (
                "Add",
                ExternalTransform("beam:schematransform:x:iceberg_add_files:v1", b"", "h:9"),
                "Use a transform of Beam's Python SDK, or sparkbeam.io.",
            ),
        ],
    )
    def test_one_that_reads_is_refused_as_it_is_applied(
        self, label: str, transform: Any, remedy: str
    ) -> None:
        pipeline = beam.Pipeline(runner=SparkRunner())
        with pytest.raises(UnsupportedTransform) as caught:
            _ = pipeline | label >> transform
        assert caught.value.label == label
        assert f"Transform '{label}' cannot run on Spark" in str(caught.value)
        assert remedy in str(caught.value)
        assert "docs/io.md" in str(caught.value)
        assert len(str(caught.value)) < 5 * 100

    @pytest.mark.parametrize(
        ("transform", "remedy"),
        [
            (ExternalTransform("beam:pulsar_write", b"", "localhost:9"), "sparkbeam.io."),
        ],
    )
    def test_one_behind_others_is_refused_as_it_is_applied(
        self, transform: Any, remedy: str
    ) -> None:
        pipeline = beam.Pipeline(runner=SparkRunner())
        pairs = pipeline | beam.Create([(b"a", b"b")]).with_output_types(tuple[bytes, bytes])
        with pytest.raises(UnsupportedTransform, match="Transform 'Last' cannot run") as caught:
            _ = pairs | "Last" >> transform
        assert remedy in str(caught.value)

    def test_one_in_a_pipeline_of_yaml_is_refused(self) -> None:
        pipeline = beam.Pipeline(runner=SparkRunner())
        with pytest.raises(ValueError, match="Transform 'ReadFromKinesis' cannot run on Spark"):
            yaml_transform.expand_pipeline(pipeline, YAML)

    def test_other_runners_start_services_as_ever(self) -> None:
        SparkRunner()
        pipeline = beam.Pipeline(runner="DirectRunner")
        with pytest.raises(pytest.fail.Exception, match="an archive is downloaded"):
            _ = pipeline | Discovered()


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

    @pytest.mark.parametrize("name", sorted({*LIKE_OURS, "packages"}))
    def test_an_option_like_ours_that_no_parser_of_the_program_has_is_an_error(
        self, name: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=f"There is no option --{name}: use --"):
            checked(PipelineOptions([f"--{name}=x"]))

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
    import os

    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=270,
        env={**os.environ, **environment},
        check=False,
    )
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
        "url", ["spark://host:99999", "spark://:7077", "spark://[::1", "spark://a,b:x"]
    )
    def test_a_url_that_leads_nowhere_is_an_error_of_one_line(self, url: str) -> None:
        with pytest.raises(ConfigurationError, match="No server answers at --spark_master="):
            sessions._require_answer(url, "--spark_master")

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
