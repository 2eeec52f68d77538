"""The JVM of a session that we start: what it and its workers write, without what tells nothing.

Java announces Spark's incubator module, and PySpark's helpers of a stream say each step that they
take. Neither can be turned off where it is said, so what the JVM writes comes through a pipe.
"""

import atexit
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

LOGGING = Path(__file__).with_name("log4j2.properties")
"""Log4j's settings: errors only, and not those with which the pipeline ends anyway."""

_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"

_NOISE = re.compile(
    rb"WARNING: Using incubator modules: |"
    rb"(Starting )?Streaming TransformWithStateInPandas Python worker"
)


def launch(conf: Mapping[str, str]) -> bool:
    """Starts the JVM for a session, unless this process has one.

    Args:
        conf: the settings of the session.

    Returns:
        Whether it was started.
    """
    if SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ:
        return False
    settings = SparkConf(loadDefaults=False).setAll([*{**_logging(conf), **conf}.items()])
    gateway = launch_gateway(settings, popen_kwargs={"stderr": subprocess.PIPE})
    SparkContext._ensure_initialized(gateway=gateway, conf=settings)
    _Relay(gateway.proc.stderr)
    return True


def _logging(conf: Mapping[str, str]) -> dict[str, str]:
    """What makes Log4j read our settings, unless there are some of the user's."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    own = folder is not None and any(Path(folder).glob("log4j2.*"))
    if own or _JAVA_OPTIONS in conf or not LOGGING.is_file():
        return {}
    return {_JAVA_OPTIONS: f'"-Dlog4j2.configurationFile={LOGGING.as_uri()}"'}


def telling(lines: IO[bytes]) -> Iterator[bytes]:
    """The lines worth reading of what the JVM writes."""
    noise = False
    for line in iter(lines.readline, b""):
        blank_after_noise = noise and not line.strip()
        noise = _NOISE.match(line) is not None
        if not (noise or blank_after_noise):
            yield line


class _Relay:
    """Gives what the JVM writes to standard error, in a thread of its own."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._ending = False
        # A thread that Python's end meets within sys.stderr would take the program down.
        atexit.register(self._end)
        threading.Thread(target=self._run, name="sparkbeam-jvm", daemon=True).start()

    def _end(self) -> None:
        self._ending = True

    def _run(self) -> None:
        with self._source:
            for line in telling(self._source):
                self._write(line)

    def _write(self, line: bytes) -> None:
        try:
            if self._ending or sys.stderr is None:
                os.write(2, line)
            else:
                sys.stderr.write(line.decode(errors="replace"))
                sys.stderr.flush()
        except (OSError, ValueError):
            return  # It is closed; the JVM is not to wait because of that.
