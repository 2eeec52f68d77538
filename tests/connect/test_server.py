"""A program that knows no Spark, against a Spark Connect server in a process of its own."""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from command import attempt, python
from connect_server import ConnectServer
from package_files import source, wheel
from whole import is_whole
from without_packages import CLIENT, client_python, environment

pytestmark = pytest.mark.long("a minute; test_connect.py has a session of Spark Connect")

TEXT = "the king and the fool and the storm\n" * 100


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server on a port of its own."""
    with ConnectServer(tmp_path_factory.mktemp("server")) as server:
        yield server.url


HERE = pytest.param(
    "pyspark", marks=pytest.mark.long("half a minute; test_connect.py runs with this PySpark")
)


@pytest.fixture(params=[HERE, "imitated client", "pyspark-client"])
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
    interpreter, variables = client
    source, target = tmp_path / "text", tmp_path / "counts"
    source.write_text(TEXT)
    options = ["--runner=sparkbeam.SparkRunner", f"--spark_connect={server}"]
    options += [f"--input={source}", f"--output={target}"]
    program = [interpreter, "-m", "apache_beam.examples.wordcount", *options]
    done = attempt(*program, environment=variables, seconds=150)
    assert done.returncode == 0, done.stderr
    lines = [line for file in tmp_path.glob("counts*") for line in file.read_text().splitlines()]
    assert dict(line.split(": ", 1) for line in lines) == {
        word: str(count) for word, count in Counter(TEXT.split()).items()
    }


PROGRAM = """
    import sys
    import apache_beam as beam

    MARK = "!"

    def of_packages(word):
        import connect_built, connect_packed
        return word + connect_packed.WORD + connect_built.WORD

    def of_file(word):
        import os
        from pyspark import SparkFiles
        with open(SparkFiles.get("connect_table.txt")) as file:
            return word + file.read()

    if __name__ == "__main__":
        with beam.Pipeline(argv=sys.argv[2:]) as pipeline:
            words = pipeline | beam.Create(["a"]) | "Import" >> beam.Map(of_packages)
            words |= "Read" >> beam.Map(of_file)
            words |= "Mark" >> beam.Map(lambda word: word + MARK)
            words | beam.io.WriteToText(sys.argv[1], shard_name_template="")
"""


def test_packages_files_and_globals_of_a_program_reach_the_workers(
    server: str, tmp_path: Path
) -> None:
    (tmp_path / "connect_table.txt").write_text("-staged")
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    packed = wheel(tmp_path / "wheels", "connect_packed", "WORD = '-packed'\n")
    built = source(tmp_path / "source", "connect_built", "WORD = '-built'\n")
    options = ["--runner=sparkbeam.SparkRunner", f"--spark_connect={server}"]
    options += [f"--extra_package={packed}", f"--setup_file={built}", "--save_main_session"]
    options += [f"--files_to_stage={tmp_path / 'connect_table.txt'}"]
    python(tmp_path / "program.py", tmp_path / "out", *options)
    assert (tmp_path / "out").read_text() == "a-packed-built-staged!\n"
