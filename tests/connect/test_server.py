"""A program that knows no Spark, against a Spark Connect server in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from whole import is_whole
from without_packages import CLIENT, client_python, environment

START = Path(pyspark.__file__).parent / "sbin" / "start-connect-server.sh"
WAIT_SECONDS = 150
TEXT = "the king and the fool and the storm\n" * 100


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server on a port of its own."""
    folder = tmp_path_factory.mktemp("server")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": 4,
        "spark.ui.enabled": "false",
    }
    arguments = [f"--conf={key}={value}" for key, value in settings.items()]
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", str(START), "--wait", "--master=local[2]", *arguments],
            cwd=folder,
            env={
                **os.environ,
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOG_DIR": str(folder),
                "SPARK_PID_DIR": str(folder),
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not answers(port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(params=["pyspark", "imitated client", "pyspark-client"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    """The Python of a program, with its environment; the last two have no JVM."""
    if request.param == "pyspark":
        return sys.executable, dict(os.environ)
    if request.param == "imitated client":
        return sys.executable, environment(tmp_path / "imitated", CLIENT)
    if not is_whole():
        pytest.skip("to make an environment takes long")
    return client_python(tmp_path / "client"), environment(tmp_path / "nothing", ())


def test_beams_wordcount_runs_unmodified(
    server: str, tmp_path: Path, client: tuple[str, dict[str, str]]
) -> None:
    python, variables = client
    source, target = tmp_path / "text", tmp_path / "counts"
    source.write_text(TEXT)
    options = ["--runner=sparkbeam.SparkRunner", f"--spark_connect={server}"]
    options += [f"--input={source}", f"--output={target}"]
    done = subprocess.run(
        [python, "-m", "apache_beam.examples.wordcount", *options],
        env=variables,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line for file in tmp_path.glob("counts*") for line in file.read_text().splitlines()]
    assert dict(line.split(": ", 1) for line in lines) == {
        word: str(count) for word, count in Counter(TEXT.split()).items()
    }
