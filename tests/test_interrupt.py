"""Ctrl-C and SIGTERM: real programs in processes of their own get the signal from outside."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from waiting import until

from sparkbeam.spark import interrupts
from sparkbeam.spark.interrupts import interruptible
from sparkbeam.streaming.status import Health, status

LINE = "Interrupted: the pipeline was cancelled."
END_SECONDS = 150

HEAD = """
    import signal, sys, time
    from pathlib import Path
    import apache_beam as beam
    from apache_beam.transforms.periodicsequence import PeriodicImpulse
    from in_process import StreamingRunner

    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # It is ignored where tests run behind nohup.
    sign_of = sys.argv[1]

    def put(element, path):
        with open(path, "a") as file:
            file.write(".")
        return element

    def endless(pipeline):
        _ = (
            pipeline
            | PeriodicImpulse(fire_interval=0.1)
            | beam.Map(lambda x, path=sign_of: (put(0, path), 1))
            | beam.WindowInto(beam.window.FixedWindows(1))
            | beam.CombinePerKey(sum)
        )
"""
WITH = """
    with beam.Pipeline(StreamingRunner()) as pipeline:
        endless(pipeline)
"""
WRITING = """
    class Log:
        def __init__(self):
            self.itself = self
            self.file = open(sign_of + ".log", "w")
            self.file.write("kept")

    log = Log()
"""
CAUGHT = """
    pipeline = beam.Pipeline(StreamingRunner())
    endless(pipeline)
    result = pipeline.run()
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        print(result.state)
    raise ValueError("another")
"""
NO_WAIT = """
    pipeline = beam.Pipeline(StreamingRunner())
    endless(pipeline)
    result = pipeline.run()
    while not Path(sign_of).exists():
        time.sleep(0.1)
    print(result.state)
"""


CHECKPOINTED = """
    def run(argv):
        pipeline = beam.Pipeline(StreamingRunner(), argv=argv)
        endless(pipeline)
        return pipeline.run()

    result = run(["--streaming", "--checkpoint_location=" + sign_of + ".checkpoint"])
"""
WAITING = "    result.wait_until_finish()"
POLLING = """
    while result.state == "RUNNING":
        time.sleep(0.1)
"""
HANDLED = """
    signal.signal(signal.SIGTERM, lambda *_: result.drain())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    result = run([])
    print(result.wait_until_finish())
"""

ENDS_SLOWLY = """
    import threading
    # To make the steps of a stage takes a thread of Beam's, and a program that ends has no more.
    while result.progress().micro_batch < 3:
        time.sleep(0.1)
    threading.Thread(target=time.sleep, args=[3]).start()
"""
FAILS_ALONE = """
    pipeline = beam.Pipeline(StreamingRunner())
    _ = pipeline | beam.Create([1]) | "Divide" >> beam.Map(lambda x: x / 0)
    result = pipeline.run()
    while result.state == "RUNNING":
        time.sleep(0.1)
    print(result.state)
"""

WITH_JVM = """
    from sparkbeam import SparkRunner
    from sparkbeam.io import WriteToSpark

    def slow(element, path):
        put(element, path)
        time.sleep(1)

    def make():
        return beam.Pipeline(SparkRunner(), argv=["--spark_master=local[1]"])

    pipeline = make()
    _ = pipeline | beam.Create(range(500)) | beam.Map(slow, sign_of)
    result = pipeline.run()
    try:
        result.wait_until_finish()
    finally:
        print(result.state)
        try:
            make() | beam.Create([1]) | WriteToSpark("parquet", {"path": "out"}, "id bigint")
        except Exception as error:
            print(error)
"""


class Program:
    """A program that leaves a sign of each element."""

    def __init__(self, folder: Path, body: str) -> None:
        self.sign = folder / "sign"
        file = folder / "program.py"
        file.write_text(dedent(HEAD) + dedent(body), encoding="utf-8")
        self._process = subprocess.Popen(
            [sys.executable, str(file), str(self.sign)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def works(self) -> bool:
        assert self._process.poll() is None, self._process.communicate()
        return self.sign.exists()

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def send_to_all(self, number: int) -> None:
        """Send a signal to the JVM too, as terminals, systemd and timeout do."""
        os.killpg(self._process.pid, number)

    def end(self) -> tuple[int, str, list[str]]:
        """The exit code, what it has printed, and what of its errors is not from the start."""
        try:
            out, errors = self._process.communicate(timeout=END_SECONDS)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
        lines = errors.splitlines()
        return self._process.returncode, out, lines


@pytest.mark.parametrize("presses", [1, 2], ids=["once", "twice"])
def test_it_cancels_the_pipeline_and_ends_the_program_with_one_line(
    tmp_path: Path, presses: int
) -> None:
    program = Program(tmp_path, WRITING + WITH)
    until(program.works)
    for _ in range(presses):
        program.send_to_all(signal.SIGINT)
    code, _, lines = program.end()
    assert lines[-1] == LINE
    assert "Traceback" not in "".join(lines)
    assert code == -signal.SIGINT
    assert Path(f"{program.sign}.log").read_text() == "kept", "as it was closed"


def test_who_catches_it_finds_the_pipeline_cancelled(tmp_path: Path) -> None:
    program = Program(tmp_path, CAUGHT)
    until(program.works)
    program.send_to_all(signal.SIGINT)
    code, out, lines = program.end()
    assert out == "CANCELLED\n"
    assert lines[-1] == "ValueError: another"
    assert code == 1


@pytest.mark.parametrize("more", ["", ENDS_SLOWLY], ids=["at once", "when its threads end"])
def test_a_program_that_does_not_wait_ends_its_pipeline_and_says_so(
    tmp_path: Path, more: str
) -> None:
    code, out, lines = Program(tmp_path, NO_WAIT + more).end()
    assert (code, out) == (0, "RUNNING\n")
    assert "call wait_until_finish()" in lines[-1], lines


def test_a_failure_that_nobody_waits_for_is_told_at_the_end(tmp_path: Path) -> None:
    code, out, lines = Program(tmp_path, FAILS_ALONE).end()
    assert (code, out) == (0, "FAILED\n")
    told = "\n".join(lines)
    assert "The pipeline failed, and the program has not called wait_until_finish()" in told
    assert "Divide" in told
    assert "ZeroDivisionError" in told


@pytest.mark.part(3)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda n: n.name)
@pytest.mark.parametrize("way", [WAITING, POLLING], ids=["waiting", "polling"])
def test_a_signal_to_end_is_an_orderly_stop(tmp_path: Path, number: Any, way: str) -> None:
    program = Program(tmp_path, CHECKPOINTED + way)
    until(program.works)
    program.send(number)
    program.send(number)
    code, _, lines = program.end()
    assert code == 128 + number
    assert "Traceback" not in "".join(lines)
    if way is WAITING:
        assert lines[-1] == f"Ended by {number.name}: the pipeline was cancelled."
    found = status(f"{program.sign}.checkpoint")
    assert (found.health, found.is_well) == (Health.STOPPED, False)


def test_a_signal_to_the_jvm_too_is_an_orderly_stop(tmp_path: Path) -> None:
    program = Program(tmp_path, WITH_JVM)
    until(program.works)
    program.send_to_all(signal.SIGTERM)
    code, out, lines = program.end()
    assert code == 128 + signal.SIGTERM
    assert out == (
        "CANCELLED\nThe Spark session of this program has ended. "
        "Start the program again, or a new session.\n"
    )
    assert "Traceback" not in "".join(lines)
    assert lines[-1] == "Ended by SIGTERM: the pipeline was cancelled."


def test_a_signal_that_python_has_ignored_ends_the_program_nevertheless(tmp_path: Path) -> None:
    destructor = """
    import os, signal

    class Freed:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)

    while not Path(sign_of).exists():
        time.sleep(0.1)
    Freed()
"""
    code, _, lines = Program(tmp_path, CHECKPOINTED + destructor + WAITING).end()
    assert code == 128 + signal.SIGTERM
    assert lines[-1] == "Ended by SIGTERM: the pipeline was cancelled."


def test_a_program_that_handles_the_signal_keeps_its_handler(tmp_path: Path) -> None:
    program = Program(tmp_path, CHECKPOINTED.rpartition("\n\n")[0] + HANDLED)
    until(program.works)
    program.send(signal.SIGHUP)
    program.send(signal.SIGTERM)
    code, out, _ = program.end()
    assert (code, out) == (0, "DRAINED\n")


def test_the_handler_of_a_program_is_its_own() -> None:
    usual = signal.getsignal(signal.SIGINT)
    own = signal.signal(signal.SIGINT, lambda *_: None) and signal.getsignal(signal.SIGINT)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, usual)
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is usual


def test_an_interrupt_of_something_else_is_told_by_python(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: told.append(error))
    monkeypatch.setattr(interrupts, "_told", [])
    ours, later = KeyboardInterrupt(), KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), interruptible():
        raise ours
    for error in (later, ours):
        sys.excepthook(type(error), error, None)
    assert told == [later]
    assert capsys.readouterr().err == f"{LINE}\n"
