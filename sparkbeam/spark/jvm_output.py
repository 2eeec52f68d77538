"""Filtered output of the JVM and the workers of a session that we start.

Java announces Spark's incubator module, and PySpark's streaming helpers print each step. Neither
can be turned off at the source, so the JVM writes to a pipe.
"""

import atexit
import contextlib
import inspect
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import IO

from sparkbeam.common.background import background_thread
from sparkbeam.common.display_text import printable
from sparkbeam.upstream.spark import GATEWAY, NOISE, RELEASE, has_jvm, start_jvm

LOGGING = Path(__file__).with_name("log4j2.properties")
"""Log4j settings: errors only, without those that the pipeline reports itself."""

_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_HUSHED = threading.Event()
_STARTED: list["subprocess.Popen[bytes]"] = []
"""The process of the JVM that we have started, if any."""

_DYING_SECONDS = 0.5
"""The time after which a process that has closed its connections has surely ended."""


def launch(conf: Mapping[str, str]) -> bool:
    """Start the JVM for a session, unless this process has one.

    Returns:
        Whether it was started.
    """
    if has_jvm() or GATEWAY in os.environ:
        return False
    process = start_jvm({**_logging(conf), **conf}, {"stderr": subprocess.PIPE})
    _STARTED[:] = [process]
    _Relay(process.stderr)
    return True


def _logging(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the setting of our Log4j configuration, unless the user has one."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    own = folder is not None and any(Path(folder).glob("log4j2.*"))
    if own or _JAVA_OPTIONS in conf or not LOGGING.is_file():
        return {}
    return {_JAVA_OPTIONS: f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"'}


def telling(lines: IO[bytes]) -> Iterator[bytes]:
    """Yield the informative lines of the JVM's output."""
    noise = False
    for line in iter(lines.readline, b""):
        blank_after_noise = noise and not line.strip()
        noise = NOISE.match(line) is not None
        if not (noise or blank_after_noise):
            yield line


def is_of_others(record: logging.LogRecord) -> bool:
    """Return whether a record is not py4j's about one of our calls, which we report ourselves.

    Nor is it if py4j releases an object of the JVM, which happens in the midst of any other code,
    or if the JVM has ended, as the pipeline says so.
    """
    if record.exc_info is None or "py4j" not in PurePath(record.pathname).parts:
        return True
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").startswith("sparkbeam."):
            return False
        if frame.f_code.co_name == RELEASE:
            return False
    return not any(map(_has_ended, _STARTED))


def _has_ended(process: "subprocess.Popen[bytes]") -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_DYING_SECONDS)
    return process.returncode is not None


# py4j logs some records to the root logger.
for _name in ("", "py4j.clientserver", "py4j.java_gateway"):
    logging.getLogger(_name).addFilter(is_of_others)


def hush(on: bool) -> None:
    """Suppress the output of the JVM, or show it again.

    Output while an interrupted run ends concerns only the interrupt.
    """
    (_HUSHED.set if on else _HUSHED.clear)()


class _Relay:
    """Copies the JVM's output to standard error, in its own thread."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._ending = False
        # A daemon thread that holds sys.stderr at exit would abort Python.
        atexit.register(self._end)
        background_thread(self._run, "sparkbeam-jvm").start()

    def _end(self) -> None:
        self._ending = True

    def _run(self) -> None:
        with self._source:
            for line in telling(self._source):
                if not _HUSHED.is_set():
                    self._write(line)

    def _write(self, line: bytes) -> None:
        try:
            if self._ending or sys.stderr is None:
                os.write(2, line)
            else:
                sys.stderr.write(printable(line.decode(errors="replace")))
                sys.stderr.flush()
        except (OSError, ValueError):
            return  # It is closed; the JVM must not block on its output.
