"""Measuring one query on one runner, and judging what came out."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from beam_nexmark.configuration import Configuration
from beam_nexmark.engine import Engine, prepared
from beam_nexmark.measure import Measurement, reason
from beam_nexmark.peak_memory import PeakMemory
from beam_nexmark.queries import QUERIES, Query
from beam_nexmark.record import OURS, PASSED

SMALL = Configuration(events=500)
FN_API = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


@pytest.fixture(scope="module")
def fn_api() -> Engine:
    return prepared("FnApiRunner", [])


def altered(change: Any) -> Query:
    """Query 1 with ``change`` at its end."""
    build = QUERIES[1].build
    return replace(QUERIES[1], build=lambda events, settings: build(events, settings) | change)


def fail(element: Any) -> Any:
    raise ValueError("a bad element")


class TestRun:
    def test_spark_and_the_oracle_publish_the_same_result(self, spark: Any, fn_api: Engine) -> None:
        ours = Measurement(prepared("SparkRunner", []), SMALL).run(QUERIES[1])
        oracle = Measurement(fn_api, SMALL).run(QUERIES[1])
        assert (ours.runner, oracle.runner) == (OURS, "FnApiRunner")
        assert ours.results == oracle.results == 460
        assert ours.digest == oracle.digest
        assert ours.cores == 2

    def test_it_says_under_which_conditions(self, fn_api: Engine) -> None:
        run = Measurement(fn_api, SMALL).run(QUERIES[2], 3)
        assert (run.query, run.name, run.repeat) == (2, QUERIES[2].name, 3)
        assert run.events == run.configuration["events"] == 500
        assert run.beam == beam.__version__
        assert run.seconds
        assert run.peak_memory

    def test_a_query_that_writes_files_has_a_folder_for_the_time_of_the_run(
        self, fn_api: Engine
    ) -> None:
        folders = []

        def build(events: Any, settings: Configuration) -> Any:
            assert settings.log_folder
            folders.append(Path(settings.log_folder))
            assert folders[0].is_dir()
            return events

        run = Measurement(fn_api, SMALL).run(replace(QUERIES[10], build=build))
        assert run.failure is None
        assert not folders[0].exists()

    def test_a_step_that_fails_is_told(self, fn_api: Engine) -> None:
        run = Measurement(fn_api, SMALL).run(altered(beam.Map(fail)))
        assert run.failure
        assert run.failure.startswith("ValueError: a bad element")
        assert run.seconds is None
        assert not run.is_right

    def test_a_query_that_cannot_be_built_is_told(self, fn_api: Engine) -> None:
        broken = replace(QUERIES[2], build=lambda events, settings: fail(events))
        run = Measurement(fn_api, SMALL).run(broken)
        assert run.failure == "ValueError: a bad element"


class TestCheck:
    @pytest.mark.parametrize("events", [500, 1000], ids=["nothing is stored", "it is stored"])
    def test_the_reference_or_what_is_stored_decides(self, events: int, fn_api: Engine) -> None:
        run = Measurement(fn_api, Configuration(events), check=True).run(QUERIES[2])
        assert run.checked == PASSED
        assert run.is_right

    def test_missing_results_are_shown(self, fn_api: Engine) -> None:
        one_less = altered(beam.Filter(lambda result: result[0] % 2))
        run = Measurement(fn_api, SMALL, check=True).run(one_less)
        assert not run.is_right
        assert run.checked
        assert "expected, but found" in run.checked
        assert "missing: [" in run.checked
        assert "unexpected" not in run.checked

    def test_unexpected_results_are_shown(self, fn_api: Engine) -> None:
        twice = altered(beam.FlatMap(lambda result: [result, result]))
        run = Measurement(fn_api, SMALL, check=True).run(twice)
        assert run.checked
        assert "unexpected: [" in run.checked
        assert "missing" not in run.checked


class TestEngine:
    @pytest.mark.parametrize("name", ["FnApiRunner", FN_API])
    def test_a_runner_goes_by_a_short_or_a_full_name(self, name: str) -> None:
        assert prepared(name, []).name == "FnApiRunner"

    def test_options_reach_the_runner(self) -> None:
        given = prepared("FnApiRunner", ["--direct_num_workers=3"]).options
        assert given.get_all_options()["direct_num_workers"] == 3


class RpcError(Exception):
    def __str__(self) -> str:
        return "<RpcError that terminated with:\n  status = INTERNAL"

    def details(self) -> str:
        return "found 1 use:\nunsupported"


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (ValueError("no\n  File x\n    line"), "ValueError: no"),
        (
            RuntimeError("Failed:\nTraceback (most recent call last):\n  File x\nKeyError: 3\n"),
            "RuntimeError: KeyError: 3",
        ),
        (NotImplementedError(), "NotImplementedError"),
        (RpcError(), "RpcError: found 1 use: unsupported"),
    ],
)
def test_the_reason_of_a_failure_is_one_line(error: Exception, wanted: str) -> None:
    assert reason(error) == wanted


def test_memory_that_is_held_for_a_while_counts() -> None:
    memory = PeakMemory()
    with memory:
        held = bytearray(b"x" * 200_000_000)
        time.sleep(0.5)
    assert memory.bytes > len(held)
