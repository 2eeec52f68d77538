"""What a program writes: its results, and nothing of Java, Spark or PySpark."""

import io
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparkbeam.spark.jvm_output import LOGGING, telling

README = (Path(__file__).parent.parent / "README.md").read_text()
SECTION = "== next =="

PROGRAM = """
import logging, os, signal, sys, traceback
import apache_beam as beam
from apache_beam.testing.test_stream import TestStream

def section():
    for stream in (sys.stdout, sys.stderr):
        print({section!r}, file=stream, flush=True)

section()  # After what Beam itself says when it is imported.
exec({readme!r})

section()
def parse(text):
    return int(text)

try:
    with beam.Pipeline(runner="sparkbeam.SparkRunner") as pipeline:
        pipeline | beam.Create(["1", "x"]) | "Parse amounts" >> beam.Map(parse)
except Exception:
    traceback.print_exc()

section()
with beam.Pipeline(runner="sparkbeam.SparkRunner") as pipeline:
    (
        pipeline
        | TestStream().add_elements(["a", "b"]).advance_watermark_to_infinity()
        | beam.WindowInto(beam.window.FixedWindows(10))
        | beam.combiners.Count.PerElement()
        | beam.Map(print)
    )

section()
with beam.Pipeline(runner="sparkbeam.SparkRunner") as pipeline:
    elements = pipeline | beam.Create(["a"]) | beam.LogElements(prefix="printed ")
    elements | "Log" >> beam.LogElements(prefix="logged ", level=logging.INFO)

section()
def die(element):
    os.kill(os.getpid(), signal.SIGKILL)

try:
    with beam.Pipeline(runner="sparkbeam.SparkRunner") as pipeline:
        pipeline | beam.Create([1]) | "Eat memory" >> beam.Map(die) | "Then" >> beam.Map(print)
except Exception:
    traceback.print_exc()
"""


@pytest.fixture(scope="module")
def written() -> list[tuple[list[str], list[str]]]:
    """Standard output and error of each section of the program."""
    (readme,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[:1]
    program = PROGRAM.format(section=SECTION, readme=readme)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=270, check=False
    )
    assert done.returncode == 0, done.stderr
    parts = [stream.split(f"{SECTION}\n")[1:] for stream in (done.stdout, done.stderr)]
    return [(out.splitlines(), err.splitlines()) for out, err in zip(*parts, strict=True)]


def test_the_first_program_writes_its_results_and_nothing_else(
    written: list[tuple[list[str], list[str]]],
) -> None:
    out, err = written[0]
    assert sorted(out) == ["('be', 2)", "('not', 1)", "('or', 1)", "('to', 2)"]
    assert err == []


def test_a_failing_function_takes_fewer_than_twenty_lines(
    written: list[tuple[list[str], list[str]]],
) -> None:
    out, err = written[1]
    assert out == []
    assert len(err) < 20
    text = "\n".join(err)
    assert "Step 'Parse amounts' failed: ValueError: invalid literal for int()" in text
    assert "in parse" in text


def test_a_stream_writes_its_results_and_nothing_else(
    written: list[tuple[list[str], list[str]]],
) -> None:
    out, err = written[2]
    assert sorted(out) == ["('a', 1)", "('b', 1)"]
    assert err == []


def test_log_elements_is_seen(written: list[tuple[list[str], list[str]]]) -> None:
    assert written[3] == (
        ["printed a"],
        ["INFO:Log/ParDo(_LoggingFn):apache_beam.transforms.util:logged a"],
    )


def test_a_worker_that_dies_names_the_step(written: list[tuple[list[str], list[str]]]) -> None:
    out, err = written[4]
    assert out == []
    assert len(err) < 20
    assert re.search(r"Step '.*Eat memory.*' failed: the worker that ran it", "\n".join(err))


def test_what_tells_nothing_is_left_out_of_what_the_jvm_writes() -> None:
    source = io.BytesIO(
        b"WARNING: Using incubator modules: jdk.incubator.vector\n"
        b"Starting Streaming TransformWithStateInPandas Python worker.\n"
        b"\n"
        b"26/11/22 ERROR Something: happened\n"
        b"\n"
        b"Streaming TransformWithStateInPandas Python worker finish init stage\n"
        b"\n"
        b"no end"
    )
    assert list(telling(source)) == [b"26/11/22 ERROR Something: happened\n", b"\n", b"no end"]


def test_the_settings_of_the_log_are_in_the_package() -> None:
    assert "rootLogger.level = error" in LOGGING.read_text()


def test_what_others_log_of_an_error_is_told(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise OSError("no table")
    except OSError:
        logging.exception("A program's own.")
        logging.getLogger("py4j.clientserver").exception("A program's own.")
    assert len(caplog.records) == 2
