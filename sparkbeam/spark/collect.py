"""What a query puts out, brought to the driver; the wait for it ends whatever dies in Spark.

A classic session serves the rows from a thread of the JVM. An error there that no program is to
catch (a jar that lacks a method, no memory) ends the thread without a word, and PySpark waits
for ever for what the thread would have said. So somebody else waits, and now and then asks the
JVM, which no API of PySpark does, whether the thread is alive.
"""

from concurrent.futures import Future, wait
from typing import Any

import pyarrow as pa
from pyspark.util import InheritableThread

from sparkbeam.errors import PipelineFailed
from sparkbeam.upstream.spark import arrow_table, is_classic, jvm

_LOOK_SECONDS = 5.0
_LOOKS = 3
"""So often in a row a thread must be missing: one that has just ended may not have been heard."""

_WAITING, _DEPTH = "SocketAuthServer", 20
_SERVING = "serve-Arrow"


def collected(frame: Any) -> pa.Table:
    """All rows of a DataFrame, in one Spark job.

    Args:
        frame: the DataFrame, of a classic session or of Spark Connect.

    Raises:
        PipelineFailed: Spark does not answer any more.
        Exception: what Spark has raised.
    """
    if not is_classic(frame):
        return arrow_table(frame)
    outcome: Future[pa.Table] = Future()
    place = _Place(frame.sparkSession)
    # It is one that ends with the process, as it may wait for ever.
    InheritableThread(
        target=_settle, args=(outcome, place, frame), name="sparkbeam-collecting", daemon=True
    ).start()
    missing = 0
    while not wait([outcome], _LOOK_SECONDS).done:
        missing = missing + 1 if place.is_forsaken() else 0
        if missing == _LOOKS:
            raise PipelineFailed(
                "A thread of Spark's that was to serve the results has died"
                f"{_cause(frame)}. The output of the driver's JVM tells more. As a rule a jar is "
                "for another version of Spark (look at spark.jars and spark.jars.packages), or "
                "the driver has no memory left (spark.driver.memory)."
            )
    return outcome.result()


def _settle(outcome: "Future[pa.Table]", place: "_Place", frame: Any) -> None:
    try:
        place.enter()
        outcome.set_result(arrow_table(frame))
    except BaseException as error:
        outcome.set_exception(error)


class _Place:
    """Where a thread waits within the JVM.

    Args:
        session: a classic session.
    """

    def __init__(self, session: Any) -> None:
        self._jvm = jvm(session)
        self._thread: int | None = None

    def enter(self) -> None:
        """Called by the thread."""
        self._thread = self._jvm.java.lang.Thread.currentThread().getId()

    def is_forsaken(self) -> bool:
        """Whether the thread waits for one that serves results, and there is none."""
        try:
            return self._waits() and not self._is_served()
        except Exception:  # This is to find failures, not to be one.
            return False

    def _waits(self) -> bool:
        beans = self._jvm.java.lang.management.ManagementFactory.getThreadMXBean()
        info = beans.getThreadInfo(self._thread, _DEPTH)
        return any(_WAITING in frame.getClassName() for frame in info.getStackTrace())

    def _is_served(self) -> bool:
        threads = self._jvm.java.lang.Thread.getAllStackTraces().keySet()
        return any(thread.getName() == _SERVING for thread in threads)


def _cause(frame: Any) -> str:
    """Why, where that is seen when Spark plans the query here, whose errors are told."""
    try:
        frame.persist()
        frame.unpersist()
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        telling = [line for line in lines if "Error: " in line or "Exception: " in line]
        return f": {(telling or lines)[0]}"
    return ""
