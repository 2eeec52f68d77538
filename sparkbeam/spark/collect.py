"""Collection of a query's rows on the driver; never blocks on a dead JVM thread.

A classic session serves rows from a thread of the JVM. A linkage error or an OutOfMemoryError ends
this thread silently, and PySpark then waits forever. A separate thread therefore waits, and the
driver asks the JVM from time to time whether the serving thread is alive; no API of PySpark does.
"""

from concurrent.futures import Future, wait
from typing import Any

import pyarrow as pa
from pyspark.util import InheritableThread

from sparkbeam.errors import PipelineFailed
from sparkbeam.upstream.spark import arrow_table, is_classic, jvm

_LOOK_SECONDS = 5.0
_LOOKS = 3
"""Consecutive checks without the thread before it counts as dead; a result may be on its way."""

_WAITING, _DEPTH = "SocketAuthServer", 20
_SERVING = "serve-Arrow"


def collected(frame: Any) -> pa.Table:
    """Collect all rows of a DataFrame in one Spark job.

    Args:
        frame: the DataFrame, of a classic session or of Spark Connect.

    Raises:
        PipelineFailed: Spark does not answer any more.
        Exception: the job failed.
    """
    if not is_classic(frame):
        return arrow_table(frame)
    outcome: Future[pa.Table] = Future()
    place = _Place(frame.sparkSession)

    def collect() -> None:
        try:
            place.enter()
            outcome.set_result(arrow_table(frame))
        except BaseException as error:
            outcome.set_exception(error)

    # A daemon thread, as it may wait forever.
    InheritableThread(target=collect, name="sparkbeam-collecting", daemon=True).start()
    missing = 0
    while not wait([outcome], _LOOK_SECONDS).done:
        missing = missing + 1 if place.is_forsaken() else 0
        if missing == _LOOKS:
            raise PipelineFailed(
                "The Spark thread that serves the results has died"
                f"{_cause(frame)}. See the output of the driver's JVM. In most cases a jar is "
                "for another version of Spark (check spark.jars and spark.jars.packages), or "
                "the driver has no memory left (spark.driver.memory)."
            )
    return outcome.result()


class _Place:
    """A waiting thread of the driver, seen from the JVM."""

    def __init__(self, session: Any) -> None:
        self._jvm = jvm(session)
        self._thread: int | None = None

    def enter(self) -> None:
        """Register the calling thread."""
        self._thread = self._jvm.java.lang.Thread.currentThread().getId()

    def is_forsaken(self) -> bool:
        """Return whether the thread waits for a serving thread that does not exist."""
        try:
            beans = self._jvm.java.lang.management.ManagementFactory.getThreadMXBean()
            info = beans.getThreadInfo(self._thread, _DEPTH)
            if not any(_WAITING in frame.getClassName() for frame in info.getStackTrace()):
                return False
            threads = self._jvm.java.lang.Thread.getAllStackTraces().keySet()
            return all(thread.getName() != _SERVING for thread in threads)
        except Exception:  # A diagnostic must not fail the run.
            return False


def _cause(frame: Any) -> str:
    """Return the cause if planning the query on the driver reveals it."""
    try:
        frame.persist()
        frame.unpersist()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        telling = [line for line in lines if "Error: " in line or "Exception: " in line]
        return f": {(telling or lines)[0]}"
    return ""
