"""All that a program writes that fails: a paragraph of errors, without Java, Spark or py4j."""

import re
import sys

import pytest
from command import python
from golden_files import Golden, sections

VARYING = {
    'File "/.*/': 'File "',
    r"/\S*/(missing-python|site-packages)": r"FOLDER/\1",
    r"\(/\S+/python[\d.]*\)": "(PYTHON)",
    r"\b3\.1\d\b": "3.1x",
    r"bad element \w\b": "bad element …",
    r"Step '.*(Eat|Kill)'": r"Step '… \1'",
    r"\(exit code -?\d+\)|\bpid \d+|after [\d.]+ s": "(VARIES)",
}
"""Folders and versions of the machine, and what comes first."""

_MOST_LINES = 19
_NOISE = re.compile(r"base64|py4j|\bat org\.apache|\bat java|sparkbeam-failure|ERROR|Caused by")

PROGRAM = """
import os, signal, sys, time, traceback

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.test_stream import TestStream
from apache_beam.transforms import trigger, userstate, window
from pyspark.sql import SparkSession

from sparkbeam.io import Foreach, ForeachBatch, ReadFromSpark

CASES = {}


def case(build):
    CASES[build.__name__] = build


def fail(element):
    raise ValueError(f"bad element {element}")


def fail_on(*_):
    raise ValueError("the table is locked")


def batch(p):
    return p | beam.Create(["a", "b"]) | "First" >> beam.Map(str.upper)


def stream(p):
    return p | TestStream().add_elements(["a", "b"]).advance_watermark_to_infinity()


class Timed(beam.DoFn):
    TIMER = userstate.TimerSpec("due", beam.TimeDomain.WATERMARK)

    def process(self, pair, win=beam.DoFn.WindowParam, timer=beam.DoFn.TimerParam(TIMER)):
        timer.set(win.end)

    @userstate.on_timer(TIMER)
    def due(self):
        fail("that is due")


class Table:
    def process(self, row):
        fail_on()


def rows_of(elements):
    return elements | "Rows" >> beam.Map(lambda letter: {"letter": letter})


@case
def batch_function(p):
    batch(p) | "Parse" >> beam.Map(fail) | "Last" >> beam.Map(print)


@case
def batch_reader(p):
    p | "Fetch" >> ReadFromSpark("parquet", {"path": "/missing/rows"}, "a int") | beam.Map(print)


@case
def batch_sink(p):
    rows_of(batch(p)) | "Deliver" >> ForeachBatch(fail_on, "letter string")


@case
def batch_death(p):
    batch(p) | "Eat" >> beam.Map(lambda _: os.kill(os.getpid(), signal.SIGKILL))


@case
def stream_function(p):
    stream(p) | "Parse" >> beam.Map(fail) | "Last" >> beam.Map(print)


@case
def stream_timer(p):
    pairs = stream(p) | window_of_10() | "Key" >> beam.Map(lambda x: (x, 1)).with_output_types(
        tuple[str, int]
    )
    pairs | "Wait" >> beam.ParDo(Timed()) | "Last" >> beam.Map(print)


def window_of_10():
    return beam.WindowInto(window.FixedWindows(10))


@case
def stream_sink(p):
    rows_of(stream(p)) | "Deliver" >> ForeachBatch(fail_on, "letter string")


@case
def stream_writer(p):
    stream(p) | "Deliver" >> Foreach(Table())


@case
def stream_death(p):
    stream(p) | "Eat" >> beam.Map(lambda _: os.kill(os.getpid(), signal.SIGKILL))


def use_python(name):
    context = SparkSession.getActiveSession().sparkContext
    context.pythonExec = os.path.join(os.environ["FAKES"], name)


@case
def batch_other_python(p):
    use_python("other")
    batch(p) | "Last" >> beam.Map(print)


@case
def stream_other_python(p):
    stream(p) | "Last" >> beam.Map(print)


@case
def batch_without_sparkbeam(p):
    use_python("without")
    batch(p) | "Last" >> beam.Map(print)


@case
def batch_without_python(p):
    use_python("missing-python")
    batch(p) | "Last" >> beam.Map(print)


@case
def death_of_the_jvm(p):
    SparkSession.getActiveSession().sparkContext.pythonExec = sys.executable
    from pyspark import SparkContext

    pid = SparkContext._gateway.proc.pid
    batch(p) | "Kill" >> beam.Map(lambda _: os.kill(pid, signal.SIGKILL) or time.sleep(5))


for name, build in CASES.items():
    for stream_ in (sys.stdout, sys.stderr):
        print(f"== {name} ==", file=stream_, flush=True)
    try:
        options = PipelineOptions(["--spark_master=local[2]"])
        with beam.Pipeline(runner="sparkbeam.SparkRunner", options=options) as pipeline:
            build(pipeline)
    except Exception:
        traceback.print_exc()
"""

FAKES = {
    "other": (
        "import collections, sys\n"
        "names = 'major minor micro releaselevel serial'\n"
        "kind = collections.namedtuple('version_info', names)\n"
        "sys.version_info = kind(3, 9, *sys.version_info[2:])\n"
    ),
    "without": (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name.partition('.')[0] == 'sparkbeam':\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Finder())\n"
    ),
}
"""What a Python of workers does as it starts."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each program has written to standard error."""
    fakes = tmp_path_factory.mktemp("fakes")
    for name, start in FAKES.items():
        (fakes / f"of_{name}").mkdir()
        (fakes / f"of_{name}" / "sitecustomize.py").write_text(start)
        script = f'#!/bin/sh\nPYTHONPATH={fakes}/of_{name}:$PYTHONPATH exec {sys.executable} "$@"\n'
        (fakes / name).write_text(script)
        (fakes / name).chmod(0o755)
    program = fakes / "program.py"
    program.write_text(PROGRAM)
    done = python(program, FAKES=str(fakes))
    assert all(line.startswith("== ") for line in done.stdout.splitlines()), done.stdout
    parts = re.split(r"^== (\w+) ==\n", done.stderr, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_a_program_that_fails_says_where_and_why_and_nothing_else(
    golden: Golden, written: dict[str, str]
) -> None:
    texts = {}
    for name, text in written.items():
        assert len(text.splitlines()) <= _MOST_LINES, text
        assert _NOISE.search(text) is None, text
        texts[name] = text.rpartition("sparkbeam.errors.")[2].splitlines()
    golden("errors of programs.txt", sections(texts), VARYING)
