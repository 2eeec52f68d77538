"""Pipelines on a standalone cluster of two workers, each a process tree of its own."""

import json
import os
import re
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command import python
from lost_worker import ELEMENTS, KEYS
from standalone import Cluster

DRIVERS = Path(__file__).parent / "drivers"
WAIT_SECONDS = 270


def until(condition: Callable[[], bool], report: Callable[[], str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, report()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A module of the user and a package, which only the driver has on its path."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "pricing").mkdir()
    (folder / "pricing" / "__init__.py").touch()
    (folder / "pricing" / "tax.py").write_text("def add(order):\n    return order['net'] * 2\n")
    (folder / "orders.py").write_text(
        "import apache_beam as beam\n"
        "class ToOrder(beam.DoFn):\n"
        "    def process(self, number):\n"
        "        yield {'net': number}\n"
    )
    with zipfile.ZipFile(folder / "pricing.zip", "w") as archive:
        for file in (folder / "pricing").iterdir():
            archive.write(file, f"pricing/{file.name}")
    return folder


@pytest.fixture(scope="module")
def found(
    cluster: Cluster, modules: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[dict[str, Any]]:
    """What the pipeline finds without its modules on the workers, with them, and without Beam."""
    folder = tmp_path_factory.mktemp("own")
    venv.create(folder / "empty", with_pip=False)
    shipped = [f"--spark_py_files={modules / name}" for name in ("orders.py", "pricing.zip")]
    # Each attempt of a task would fail alike, in a worker that loads everything for it.
    options = [*cluster.options(), "--spark_conf=spark.task.maxFailures=1", *shipped]
    arguments = [folder / "outcome", modules, folder / "empty" / "bin" / "python"]
    try:
        own = DRIVERS / "own_module.py"
        python(own, *arguments, *options, PYSPARK_PYTHON=sys.executable)
    except AssertionError as error:
        pytest.fail(f"{error}\n{cluster.logs()}")
    outcome: list[dict[str, Any]] = json.loads((folder / "outcome").read_text())
    return outcome


@pytest.mark.long("a minute, of programs without and with their modules")
class TestOwnModules:
    def test_an_error_names_a_module_that_was_not_shipped(
        self, found: list[dict[str, Any]]
    ) -> None:
        assert found[0]["kind"] == "PipelineFailed"
        assert re.search("The workers cannot import '(orders|pricing)'", found[0]["error"])
        assert "--spark_py_files" in found[0]["error"]
        assert len(found[0]["error"].splitlines()) < 25

    def test_they_run_where_they_are_shipped(self, found: list[dict[str, Any]]) -> None:
        assert found[1] == {"result": [2, 4, 6]}

    def test_an_error_names_what_the_workers_python_lacks(
        self, found: list[dict[str, Any]]
    ) -> None:
        error = found[2]["error"]
        assert "The workers' Python has no '" in error
        assert "install sparkbeam on every worker" in error
        assert "PYSPARK_PYTHON" in error


class Driver:
    """A program that runs one pipeline after the other on the cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._folder = folder
        self._log = folder / "driver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(DRIVERS / "lost_worker.py"), *cluster.options()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )

    def start(self, shape: str) -> "Order":
        signals, outcome = self._folder / f"{shape}-signals", self._folder / f"{shape}-outcome"
        signals.mkdir()
        assert self._process.stdin is not None
        order = {"shape": shape, "signals": str(signals), "outcome": str(outcome)}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return Order(signals, outcome, self.log)

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-5000:]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Order:
    """A pipeline that the driver runs."""

    def __init__(self, signals: Path, outcome: Path, log: Callable[[], str]) -> None:
        self._signals, self._outcome, self._log = signals, outcome, log

    def taken(self) -> int:
        """How many elements the slow step has taken, for the first time or again."""
        return sum(len(file.read_text().splitlines()) for file in self._signals.iterdir())

    def busiest(self) -> int:
        """The process that has taken most of them."""
        return int(max(self._signals.iterdir(), key=lambda file: file.stat().st_size).name)

    def wait_for(self, elements: int) -> None:
        until(lambda: self._outcome.exists() or self.taken() >= elements, self._log)
        assert not self._outcome.exists(), self._outcome.read_text()

    def outcome(self) -> dict[str, Any]:
        until(self._outcome.exists, self._log)
        found: dict[str, Any] = json.loads(self._outcome.read_text())
        return found


SUMS = [[key, sum(range(key, ELEMENTS, KEYS))] for key in range(KEYS)]
BOTH = [[key, [total, max(range(key, ELEMENTS, KEYS))]] for key, total in SUMS]
NUMBERS = [0, ELEMENTS - 1, sum(range(ELEMENTS)), ELEMENTS]


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    started = Driver(cluster, tmp_path_factory.mktemp("lost-worker"))
    yield started
    started.close()


class TestLostWorker:
    """A worker is killed in the middle, with its executor and Python workers."""

    @pytest.mark.part(3)  # Nearly all of the other ones is in the shared one.
    @pytest.mark.parametrize(
        ("shape", "slow", "result"),
        [("shared", KEYS, BOTH), ("plain", KEYS, SUMS), ("reshuffled", ELEMENTS, SUMS)],
    )
    def test_result_and_committed_metrics_are_exact(
        self, cluster: Cluster, driver: Driver, shape: str, slow: int, result: list[Any]
    ) -> None:
        cluster.ensure_workers(2)
        order = driver.start(shape)
        order.wait_for(slow // 4)
        cluster.kill_worker(order.busiest())
        found = order.outcome()

        assert found.get("error") is None
        assert found["result"] == result
        assert found["counters"] == {"read": ELEMENTS, "slow": slow, "written": ELEMENTS}
        assert found["distributions"] == {"read": NUMBERS, "written": NUMBERS}
        assert order.taken() > slow, "nothing was lost"
