"""Makes this runner the default of Beam's own tests."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import StandardOptions
from apache_beam.testing.test_pipeline import TestPipeline
from in_process import LeapingClock

from sparkbeam.spark import session as sessions

# They are about the SDK more than about its runner, and take minutes; name a file to run it.
collect_ignore = ["test_dataframes.py", "test_yaml.py"]

RUNNER = "runners.BatchOnSpark"

BEAM_MARKS = (
    "examples_postcommit",
    "it_postcommit",
    "it_validatesrunner",
    "no_sickbay_batch",
    "no_sickbay_streaming",
    "no_xdist",
    "sickbay_dataflow",
    "sickbay_direct",
    "sickbay_flink",
    "uses_dill",
    "uses_gcp_java_expansion_service",
    "uses_pyarrow",
    "uses_tft",
    "uses_transformers",
    "xlang_sql_expansion_service",
    "yaml_transforms",
)


LONG = {
    "test_fuzzy_length_and_interval": "waits for a hundred streams with lengths by chance",
    "MatrixPowerTest::test_basics": "multiplies matrices with thousands of steps",
    "test_run_inference_side_input_in_batch_multi_process_shared": "starts further processes",
    "test_run_inference_impl_simple_examples_multi_process_shared": "starts further processes",
    "test_pipeline_merge_side_input": "merges as many synthetic side inputs as it can",
}
"""Beam's tests that take ten times as long as others, by parts of their ids, with the reasons."""


def pytest_configure(config: pytest.Config) -> None:
    for mark in BEAM_MARKS:
        config.addinivalue_line("markers", f"{mark}: a mark of Beam's own tests")


def pytest_itemcollected(item: pytest.Item) -> None:
    for name, reason in LONG.items():
        if name in item.nodeid:
            item.add_marker(pytest.mark.long(reason=reason))
    if _on_spark(_runner(getattr(item, "module", None))):
        item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="module", autouse=True)
def default_runner(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Runs each pipeline that names no runner over the one that its module names."""
    runner = _runner(request.module)
    if _on_spark(runner):
        request.getfixturevalue("spark")
    options = f"--runner={runner} --temp_location={tmp_path_factory.mktemp('beam')}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", sys.argv[:1])  # Where pipelines without options look for them.
        if request.config.getoption("spark_connect") is not None:
            # The servers of tests are on this machine, though some policies do not tell.
            patch.setattr(sessions, "on_one_machine", lambda _: True)
        patch.setattr(StandardOptions, "DEFAULT_RUNNER", runner)
        # Beam's tests of the it_validatesrunner kind skip themselves without such options.
        patch.setattr(TestPipeline, "pytest_test_pipeline_options", options)
        yield


@pytest.fixture(autouse=True)
def leaping_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has streams that follow the clock end soon, where their queries run in process."""
    LeapingClock(monkeypatch)


def _runner(module: Any) -> str:
    """The runner that a module of suites names."""
    return getattr(module, "RUNNER", RUNNER)


def _on_spark(runner: str) -> bool:
    return not runner.startswith("in_process")


@pytest.fixture(autouse=True)
def working_directory() -> Iterator[None]:
    """Brings the tests after one back that changes into a folder and fails there."""
    before = Path.cwd()
    yield
    os.chdir(before)
