"""What becomes of the log records of the user's code."""

import contextlib
import io
import logging
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from in_process import StreamingRunner

from sparkbeam.errors import ConfigurationError
from sparkbeam.options.spark_options import checked, log_levels
from sparkbeam.plan.redaction import Redaction
from sparkbeam.wire.loglevels import LogLevels
from sparkbeam.worker import logs
from sparkbeam.worker.logs import StepHandler


class Telling(beam.DoFn):
    def setup(self) -> None:
        logging.error("set up")

    def process(self, element: str) -> Iterator[str]:
        logging.getLogger("mine").warning("element %s", element)
        yield element


def test_code_without_a_step_of_its_own_has_the_labels_of_the_stage() -> None:
    written = io.StringIO()
    handler = StepHandler()
    handler.setStream(written)
    with in_worker(handler, spark=False), beam.Pipeline(StreamingRunner()) as p:
        p | beam.Create(["a"]) | "Tell" >> beam.ParDo(Telling()) | "Then" >> beam.Map(str)
    lines = written.getvalue().splitlines()
    assert "WARNING:Tell:mine:element a" in lines
    assert any(line.endswith("Tell + Then:root:set up") for line in lines)


@contextlib.contextmanager
def in_worker(*handlers: logging.Handler, spark: bool = True) -> Iterator[logging.Logger]:
    """The root logger as in a worker of Spark that has such handlers."""
    root = logging.getLogger()
    level = root.level
    with pytest.MonkeyPatch.context() as patch:
        # Not in a fixture: pytest adds handlers of its own when the test begins.
        patch.setattr(root, "handlers", list(handlers))
        patch.setattr("pyspark.TaskContext.get", lambda: object() if spark else None)
        yield root
    root.setLevel(level)


def test_a_handler_of_somebody_else_stays_alone() -> None:
    others = logging.NullHandler()
    with in_worker(others) as root:
        logs.install(LogLevels(logging.DEBUG))
        assert root.handlers == [others]
        assert root.level != logging.DEBUG


def test_ours_takes_the_place_of_the_one_of_python() -> None:
    with in_worker() as root:
        logging.basicConfig()
        for _ in range(2):
            logs.install(LogLevels())
        assert [type(handler) for handler in root.handlers] == [StepHandler]


def test_levels_are_those_of_the_last_pipeline() -> None:
    logger = logging.getLogger("some.module.part")
    with in_worker():
        logs.install(LogLevels(logging.INFO, {"some.module": logging.DEBUG}))
        assert logger.getEffectiveLevel() == logging.DEBUG
        logs.install(LogLevels())
        assert logger.getEffectiveLevel() == logging.INFO


def test_secrets_of_the_pipeline_are_not_written() -> None:
    written = io.StringIO()
    handler = StepHandler()
    handler.setStream(written)
    with in_worker(handler) as root:
        logs.install(LogLevels(), Redaction([("password", "hunter-2")]))
        root.warning("no login with %s", "hunter%2D2")
    assert written.getvalue() == "WARNING:-:root:no login with ***\n"


def test_nothing_changes_outside_of_spark() -> None:
    with in_worker(spark=False) as root:
        logs.install(LogLevels())
        assert root.handlers == []


def test_levels_are_beams_options() -> None:
    options = PipelineOptions(
        [
            "--default_sdk_harness_log_level=INFO",
            '--sdk_harness_log_level_overrides={"a.b": "debug", "c": 35}',
        ]
    )
    assert log_levels(options) == LogLevels(logging.INFO, {"a.b": logging.DEBUG, "c": 35})


def test_by_default_records_of_users_are_written_from_info_on_and_those_of_beam_from_warning() -> (
    None
):
    with in_worker():
        logs.install(log_levels(PipelineOptions([])))
        assert logging.getLogger("mine").getEffectiveLevel() == logging.INFO
        assert logging.getLogger("apache_beam.io").getEffectiveLevel() == logging.WARNING
        # That of LogElements.
        assert logging.getLogger("apache_beam.transforms.util").isEnabledFor(logging.INFO)


def test_a_wrong_level_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="'LOUD' is not a level"):
        checked(PipelineOptions(["--default_sdk_harness_log_level=LOUD"]))
