"""A standalone Spark cluster of real processes on the loopback interface.

Each daemon is a JVM of its own, as on a real cluster, and so are the
executors that the workers start. A worker can be killed with all that it has
started, as a machine that loses its power.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import psutil
import pyspark
from command import launch
from listening import free_ports

_START_SECONDS = 150.0
_POLL_SECONDS = 0.2
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


class Cluster:
    """A master and some workers; a context manager that leaves nothing behind.

    Args:
        workers: how many workers to start.
        memory_mb: what each worker offers to its executors.
        env: further environment variables of the daemons, which the executors inherit.
        apart: the Python processes of each worker have a folder for temporary files of their own,
            as those of different machines.
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        memory_mb: int = 1024,
        env: Mapping[str, str] | None = None,
        apart: bool = False,
    ) -> None:
        self._count = workers
        self._memory_mb = memory_mb
        self._env = {**os.environ, **_ENVIRONMENT, **(env or {})}
        self._apart = apart
        self._folder = tempfile.TemporaryDirectory(
            prefix="sparkbeam-cluster-", ignore_cleanup_errors=True
        )
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self._started = 0
        self._web = ""
        self.url = ""

    def __enter__(self) -> Self:
        try:
            port, web_port = free_ports(2)
            self.url, self._web = f"spark://{_HOST}:{port}", f"http://{_HOST}:{web_port}/json/"
            arguments = ["--host", _HOST, "--port", str(port), "--webui-port", str(web_port)]
            self._master = self._start("master", _HOST, _MASTER, *arguments)
            self._wait_for_workers(0)
            self.ensure_workers(self._count)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def options(self) -> list[str]:
        """The pipeline options with which a program on this machine runs on the cluster."""
        settings = {
            "spark.driver.host": _HOST,
            "spark.driver.bindAddress": _HOST,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "4",
            # Nobody answers in place of a worker that was killed.
            "spark.shuffle.io.retryWait": "100ms",
        }
        # Executors start as quickly as the daemons, where those have been told how.
        if java_options := os.environ.get("SPARK_DAEMON_JAVA_OPTS"):
            settings["spark.executor.defaultJavaOptions"] = java_options
        return [
            f"--spark_master={self.url}",
            *(f"--spark_conf={key}={value}" for key, value in settings.items()),
        ]

    def ensure_workers(self, count: int) -> None:
        """Starts workers until ``count`` are alive, and waits until all have registered."""
        self._workers = [worker for worker in self._workers if worker.poll() is None]
        while len(self._workers) < count:
            self._workers.append(self._start_worker())
        self._wait_for_workers(count)

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while self._registered() != count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"The cluster has not come up:\n{self.logs()}")
            time.sleep(_POLL_SECONDS)

    def kill_worker(self, pid: int) -> None:
        """Kills the worker on which the process ``pid`` runs, and all that it has started."""
        worker = next(w for w in self._workers if psutil.Process(pid) in _descendants(w.pid))
        self._workers.remove(worker)
        _kill([psutil.Process(worker.pid), *_descendants(worker.pid)])
        worker.wait()

    def state(self) -> dict[str, Any]:
        """What the master tells of itself."""
        with urllib.request.urlopen(self._web, timeout=5) as page:
            answer: dict[str, Any] = json.load(page)
            return answer

    def logs(self) -> str:
        """The ends of the logs of all daemons and executors."""
        folder = Path(self._folder.name)
        files = [*sorted(folder.glob("*.log")), *sorted(folder.glob("work-*/*/*/stderr"))]
        return "\n".join(
            f"== {file.relative_to(folder)}\n{file.read_text(errors='replace')[-3000:]}"
            for file in files
        )

    def close(self) -> None:
        """Kills every process of the cluster and removes its files."""
        daemons = [d for d in (*self._workers, self._master) if d is not None]
        for daemon in daemons:
            if daemon.poll() is None:
                _kill([psutil.Process(daemon.pid), *_descendants(daemon.pid)])
            daemon.wait()
        self._workers, self._master = [], None
        self._folder.cleanup()

    def _start_worker(self) -> subprocess.Popen[bytes]:
        """An address of its own for each worker: Spark takes a lost worker for a lost host."""
        self._started += 1
        host = f"127.0.0.{self._started + 1}"
        work = Path(self._folder.name) / f"work-{self._started}"
        arguments = ["--host", host, "--webui-port", "0", "--cores", "1"]
        arguments += ["--memory", f"{self._memory_mb}m", "--work-dir", str(work), self.url]
        return self._start(f"worker-{self._started}", host, _WORKER, *arguments)

    def _start(self, name: str, host: str, daemon: str, *arguments: str) -> subprocess.Popen[bytes]:
        folder = Path(self._folder.name)
        env = {**self._env, "SPARK_LOCAL_IP": host}
        if self._apart:
            env["TMPDIR"] = str(folder / host)
            (folder / host).mkdir(exist_ok=True)
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [spark_class, daemon, *arguments]
        return launch(command, folder / f"{name}.log", cwd=folder, env=env)

    def _registered(self) -> int:
        try:
            workers = self.state()["workers"]
        except (OSError, json.JSONDecodeError):
            # The master answers other pages with its front page before it knows this one.
            return -1
        return sum(worker["state"] == "ALIVE" for worker in workers)


_HOST = "127.0.0.1"
_ENVIRONMENT = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
    "PYSPARK_PYTHON": sys.executable,
}


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found


def _kill(processes: list[psutil.Process]) -> None:
    """Stops all before it kills any, so that none starts another in between."""
    for signum in (signal.SIGSTOP, signal.SIGKILL):
        for process in processes:
            try:
                process.send_signal(signum)
            except psutil.NoSuchProcess:
                continue
