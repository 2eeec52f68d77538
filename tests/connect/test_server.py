"""A program that knows no Spark, against a Spark Connect server in a process of its own."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from connect_server import ConnectServer
from whole import is_whole
from without_packages import CLIENT, client_python, environment

WAIT_SECONDS = 150
TEXT = "the king and the fool and the storm\n" * 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server on a port of its own."""
    with ConnectServer(tmp_path_factory.mktemp("server")) as server:
        yield server.url


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
