"""Periodic pushing of a running pipeline's metrics to its sinks."""

import atexit
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence

from sparkbeam.common.background import background_thread
from sparkbeam.common.display_text import error_line
from sparkbeam.observe.sinks.metrics_sink import MetricsSink, PushedMetrics
from sparkbeam.plan.redaction import Redaction

_logger = logging.getLogger(__name__)

_HEALTHY_SECONDS = 1.0
"""Seconds that the end of a pipeline waits for the last push to a healthy sink."""

_LEAVING_SECONDS = 5.0
"""Seconds that the exit of the program waits for running pushes."""

_LONGEST_PAUSE = 60.0


class MetricsPusher:
    """Pusher to sinks with a thread per sink, so that no sink delays another.

    Args:
        sinks: the sinks by the names used in messages.
        metrics: returns the current metrics; None while there are none.
        period: seconds from one push to the next.
    """

    def __init__(
        self,
        sinks: Sequence[tuple[str, MetricsSink]],
        metrics: Callable[[], PushedMetrics | None],
        period: float,
        redaction: Redaction,
    ) -> None:
        self._lines = [_SinkThread(name, sink, metrics, period, redaction) for name, sink in sinks]

    def start(self) -> None:
        """Start pushing at a fixed rate, beginning now."""
        for line in self._lines:
            line.thread.start()

    def close(self) -> None:
        """Push the final metrics.

        The pipeline waits at most one second for a working sink. For failing sinks, only the exit
        of the program waits, five seconds at most for all of them.
        """
        for line in self._lines:
            line.ended.set()
        deadline = time.monotonic() + _HEALTHY_SECONDS
        for line in self._lines:
            if line.is_healthy:
                line.join(deadline)
        late = [line for line in self._lines if line.thread.is_alive()]
        if late:
            atexit.register(_leave, late)


def _leave(lines: "list[_SinkThread]") -> None:
    """Wait for the last pushes; called when the program exits."""
    deadline = time.monotonic() + _LEAVING_SECONDS
    with contextlib.suppress(KeyboardInterrupt):
        for line in lines:
            line.join(deadline)


class _SinkThread:
    """The thread that pushes to one sink until it is ended."""

    def __init__(
        self,
        name: str,
        sink: MetricsSink,
        metrics: Callable[[], PushedMetrics | None],
        period: float,
        redaction: Redaction,
    ) -> None:
        self._name = name
        self._sink = sink
        self._metrics = metrics
        self._period = period
        self._redaction = redaction
        self.ended = threading.Event()
        self._failures = 0
        self._told: set[str] = set()
        self._since = 0.0
        self.thread = background_thread(self._run, f"sparkbeam-metrics-{name}")

    def join(self, deadline: float) -> None:
        self.thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def is_healthy(self) -> bool:
        """Return whether the last push succeeded, and none has been running for long."""
        since = self._since
        hangs = since > 0 and time.monotonic() - since > _HEALTHY_SECONDS
        return not self._failures and not hangs

    def _run(self) -> None:
        due = time.monotonic()
        while not self.ended.wait(max(0.0, due - time.monotonic())):
            self._push()
            # A sink that fails is left alone for longer and longer.
            pause = self._period * 2**self._failures
            due = max(due, time.monotonic() - self._period) + max(
                self._period, min(pause, _LONGEST_PAUSE)
            )
        self._push()
        try:
            self._sink.close()
        except Exception as error:
            self._tell(error)

    def _push(self) -> None:
        self._since = time.monotonic()
        try:
            metrics = self._metrics()
            if metrics is not None:
                self._sink.write(metrics)
        except Exception as error:
            self._failures = min(self._failures + 1, 10)
            self._tell(error)
        else:
            self._failures = 0
        finally:
            self._since = 0.0

    def _tell(self, error: Exception) -> None:
        """Log an error if it is the first of its kind."""
        kind = type(error).__name__
        if kind in self._told:
            return
        self._told.add(kind)
        _logger.warning(
            "The metrics sink '%s' failed and will be retried; the pipeline continues. %s",
            self._name,
            error_line(error, hide=self._redaction),
        )
