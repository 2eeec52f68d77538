"""``sparkbeam doctor``: what a session can do, and what its workers have."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from click.testing import Result
from command import answer, command, program
from golden_files import Golden, sections
from pyspark.errors import AnalysisException
from pyspark.sql.classic.dataframe import DataFrame

from sparkbeam.inspection import doctor, worker_checks
from sparkbeam.inspection.doctor import DIFFERS, FAILS, LACKS, OK
from sparkbeam.spark import capabilities
from sparkbeam.spark.capabilities import WITHOUT, Capability


def checks(result: Result) -> dict[str, dict[str, str]]:
    """The checks of ``--json``, by their names."""
    found = [json.loads(line) for line in result.stdout.splitlines()]
    return {check["name"]: check for check in found}


@pytest.fixture
def forgotten(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Spark, where no session was asked anything yet: the active one may be another test's."""
    monkeypatch.setattr(capabilities, "_all", WeakKeyDictionary())
    return spark


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has an empty current folder."""
    monkeypatch.chdir(tmp_path)


def test_a_session_of_spark_can_do_all_of_it(forgotten: Any, tmp_path: Path) -> None:
    name = program("import os\nimport apache_beam as beam\nfrom helper.parts import tool\n")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        checkpoint = f"--checkpoint_location={tmp_path / 'checkpoint'}"
        result = command("doctor", "--json", checkpoint, f"--reach={address}", name)
    found = checks(result)
    failed = {name: check["text"] for name, check in found.items() if check["state"] != OK}
    assert failed == {"import helper.parts": "ModuleNotFoundError: No module named 'helper'"}
    assert result.exit_code == 1
    assert {one.value for one in Capability} <= found.keys()
    assert {*worker_checks.PACKAGES, "Python", "memory", "import apache_beam"} <= found.keys()
    assert f"network {address}" in found
    assert found["Python"]["text"].endswith(" on 1 machine")
    assert [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()] == []


def test_what_lacks_has_the_words_of_the_log(
    forgotten: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise AnalysisException("[NOT_SUPPORTED_WITH_SERVERLESS] It is not supported.")

    for name in ("persist", "localCheckpoint"):
        monkeypatch.setattr(DataFrame, name, refused)
    result = command("doctor")
    assert result.exit_code == 0, result.output
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines() if LACKS in line]
    assert [line[0] for line in lines] == ["persist", "local"]
    for capability in (Capability.PERSIST, Capability.LOCAL_CHECKPOINTS):
        assert any(line[-1].endswith(WITHOUT[capability]) for line in lines)
    assert result.stderr == ""


class TestWorkers:
    """As found by workers that are not there."""

    @pytest.fixture
    def found(self, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, doctor.Check]]:
        def found(*workers: dict[str, Any]) -> dict[str, doctor.Check]:
            own = worker_checks.Examination(doctor._packages(), (), {}, None, "")._found()
            each = [{**own, **worker} for worker in workers]
            monkeypatch.setattr(doctor, "_examined", lambda *_: each)
            return {check.name: check for check in doctor.worker_checks_of(object())}

        return found

    def test_another_version_differs_and_a_missing_package_fails(self, found: Any) -> None:
        packages = worker_checks.versions(doctor._packages())
        other = {**packages, "pandas": "0.1", "sparkbeam": None}
        checks = found({}, {"packages": other, "python": "3.9.1"})
        assert (checks["pandas"].state, checks["sparkbeam"].state) == (DIFFERS, FAILS)
        own = packages["pandas"]
        assert checks["pandas"].text == f"0.1, {own}, but {own} in the driver"
        assert checks["Python"].state == DIFFERS
        assert checks["numpy"].state == OK

    def test_the_least_memory_and_each_error_are_told(self, found: Any) -> None:
        checks = found(
            {"memory": 1 << 30, "temporary": "OSError: full"}, {"memory": 1 << 29, "host": "other"}
        )
        assert checks["memory"].text == "limit of 512 MiB"
        assert checks["temporary folder"].text == "OSError: full"
        assert checks["Python"].text.endswith("on 2 machines")


def test_workers_that_do_not_start_are_told(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    (check,) = doctor.worker_checks_of(spark)
    assert check.state == FAILS
    assert "'/no/such/python', cannot be started" in check.text


def test_errors(golden: Golden) -> None:
    refused = [
        ["--reach=nowhere"],
        ["--reach=host:99999"],
        ["--spark_master=x", "--spark_connect=sc://y"],
        ["--spark_conf=x"],
        ["missing.py"],
        [program("import (\n", "no_python.py")],
    ]
    texts = {" ".join(given): answer(command("doctor", *given)) for given in refused}
    golden("errors of doctor.txt", sections(texts))
