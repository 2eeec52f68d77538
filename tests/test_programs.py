"""A program writes its results, and nothing of Java, Spark or PySpark, whatever happens in it."""

import io
import logging
import re
from pathlib import Path

import pytest
from command import python

from sparkbeam.spark.jvm_output import LOGGING, telling

README = (Path(__file__).parent.parent / "README.md").read_text()
SECTION = "== next =="

PROGRAM = """
import enum, logging, sys, threading
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.testing.test_stream import TestStream
from pyspark.sql import SparkSession

from beside import twice


def section():
    for stream in (sys.stdout, sys.stderr):
        print("== next ==", file=stream, flush=True)


def made(*options):
    return beam.Pipeline(runner="sparkbeam.SparkRunner", argv=list(options))


section()  # After what Beam itself says when it is imported.
exec(Path("readme.py").read_text())

section()
with made() as p:
    (
        p
        | TestStream().add_elements(["a", "b"]).advance_watermark_to_infinity()
        | beam.WindowInto(beam.window.FixedWindows(10))
        | beam.combiners.Count.PerElement()
        | beam.Map(print)
    )

section()
with made() as p:
    elements = p | beam.Create(["a"]) | beam.LogElements(prefix="printed ")
    elements | "Log" >> beam.LogElements(prefix="logged ", level=logging.INFO)


class Telling(beam.DoFn):
    def setup(self):
        logging.warning("set up")

    def process(self, element):
        logging.getLogger("mine").warning("element %s", element)
        logging.getLogger("mine").debug("quiet")
        logging.getLogger("other").info("info %s", element)
        yield element


def mapped(element):
    logging.warning("mapped %s", element)
    return element, 1


for mode in ([], ["--streaming"]):
    section()
    with made('--sdk_harness_log_level_overrides={"other": "INFO"}', *mode) as p:
        (
            p
            | beam.Create(["a"])
            | "Tell" >> beam.ParDo(Telling())
            | "Map it" >> beam.Map(mapped)
            | beam.GroupByKey()
            | "Last" >> beam.Map(lambda pair: logging.error("last %s", pair[0]))
        )


class Sale(NamedTuple):
    shop: str
    price: int


class Kind(enum.Enum):
    CHEAP = 1
    DEAR = 2


@dataclass(frozen=True)
class Sold:
    sale: Sale
    kind: Kind


class Odd:
    lock = threading.Lock()


def sold(pair):
    sale = Sale(*pair)
    return sale, Sold(sale, Kind.DEAR if sale.price > 1 else Kind.CHEAP)


section()
with made() as p:
    sales = p | beam.Create([("a", 1), ("b", 2), ("a", 1)]) | beam.Map(sold)
    found = sales | beam.GroupByKey()
    _ = found | beam.MapTuple(lambda sale, group: f"{sale} {set(group)}") | beam.Map(print)

section()
with made() as p:
    _ = p | beam.Create([1, 2]) | beam.Map(twice) | beam.Map(print)


FAILED = Path("failed").absolute()


class FailsOnce(beam.DoFn):
    def process(self, element):
        Metrics.counter("test", "seen").inc()
        if element == 70 and not FAILED.exists():
            FAILED.touch()
            raise ValueError("not yet")
        yield element


section()
SparkSession.getActiveSession().stop()
p = made("--spark_master=local[2,3]")
p | beam.Create(range(100), reshuffle=False) | "Fails" >> beam.ParDo(FailsOnce())
result = p.run()
result.wait_until_finish()
(counter,) = result.metrics().query()["counters"]
(stage,) = result.progress().stages
print(counter.committed, counter.attempted, stage.tasks_done, stage.tasks_failed, stage.busiest)
"""

(
    README_CODE,
    STREAM,
    LOG_ELEMENTS,
    LOGS,
    STREAMED_LOGS,
    CLASSES,
    BESIDE,
    RETRIED,
) = range(8)
Written = list[tuple[list[str], list[str]]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Standard output and error of each section of the program."""
    folder = tmp_path_factory.mktemp("program")
    (readme,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)[:1]
    (folder / "readme.py").write_text(readme)
    (folder / "beside.py").write_text("def twice(number):\n    return 2 * number\n")
    (folder / "program.py").write_text(PROGRAM)
    done = python("program.py", folder=folder)
    parts = [stream.split(f"{SECTION}\n")[1:] for stream in (done.stdout, done.stderr)]
    return [(out.splitlines(), err.splitlines()) for out, err in zip(*parts, strict=True)]


def test_the_first_program_writes_its_results_and_nothing_else(written: Written) -> None:
    out, err = written[README_CODE]
    assert sorted(out) == ["('be', 2)", "('not', 1)", "('or', 1)", "('to', 2)"]
    assert err == []


def test_a_stream_writes_its_results_and_nothing_else(written: Written) -> None:
    out, err = written[STREAM]
    assert sorted(out) == ["('a', 1)", "('b', 1)"]
    assert err == []


def test_log_elements_is_seen(written: Written) -> None:
    assert written[LOG_ELEMENTS] == (
        ["printed a"],
        ["INFO:Log/ParDo(_LoggingFn):apache_beam.transforms.util:logged a"],
    )


@pytest.mark.parametrize("section", [LOGS, STREAMED_LOGS], ids=["batch", "streaming"])
def test_log_records_have_the_label_of_their_step(section: int, written: Written) -> None:
    _, lines = written[section]
    found = [line for line in lines if line.startswith(("WARN", "INFO", "ERR"))]
    assert set(found) >= {
        "WARNING:Tell:mine:element a",
        "INFO:Tell:other:info a",
        "WARNING:Map it:root:mapped a",
        "ERROR:Last:root:last a",
    }
    assert not any("quiet" in line for line in lines)
    # A stage is set up as a whole.
    assert any("Tell + Map it:root:set up" in line for line in found)


def test_elements_may_be_of_classes_of_the_program_itself(written: Written) -> None:
    assert sorted(written[CLASSES][0]) == [
        "Sale(shop='a', price=1) {Sold(sale=Sale(shop='a', price=1), kind=<Kind.CHEAP: 1>)}",
        "Sale(shop='b', price=2) {Sold(sale=Sale(shop='b', price=2), kind=<Kind.DEAR: 2>)}",
    ]


def test_modules_beside_the_program_are_found(written: Written) -> None:
    assert sorted(written[BESIDE][0]) == ["2", "4"]


def test_attempted_metrics_include_the_attempts_that_failed(written: Written) -> None:
    assert written[RETRIED][0] == ["100 171 1 1 100"]


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
