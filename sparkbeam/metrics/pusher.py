"""Pushes the metrics of a running pipeline to its sinks, beside it."""

import atexit
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence

from sparkbeam.common.display_text import shortened
from sparkbeam.metrics.metrics_sink import MetricsSink, PushedMetrics
from sparkbeam.plan.redaction import Redaction

_logger = logging.getLogger(__name__)

_HEALTHY_SECONDS = 1.0
"""So long the end of a pipeline waits for the last push to a sink that has taken all before."""

_LEAVING_SECONDS = 5.0
"""So long the end of the program waits for last pushes that are under way."""

_LONGEST_PAUSE = 60.0
_MOST_OF_MESSAGE = 300


class MetricsPusher:
    """Pushes to each sink from a thread of its own, so that none waits for another.

    Args:
        sinks: by what messages call them.
        metrics: gives the metrics of the moment; None as long as there are none.
        period: from one push to the next, in seconds.
        redaction: takes secrets out of what is logged.
    """

    def __init__(
        self,
        sinks: Sequence[tuple[str, MetricsSink]],
        metrics: Callable[[], PushedMetrics | None],
        period: float,
        redaction: Redaction,
    ) -> None:
        self._lines = [_Line(name, sink, metrics, period, redaction) for name, sink in sinks]

    def start(self) -> None:
        """Pushes for the first time, and from then on at a fixed rate."""
        for line in self._lines:
            line.start()

    def close(self) -> None:
        """Pushes for the last time, as all is known now.

        A sink that works is waited for, one second at most; for one that does not, only the end
        of the program waits, five seconds at most for all together.
        """
        for line in self._lines:
            line.end()
        deadline = time.monotonic() + _HEALTHY_SECONDS
        for line in self._lines:
            if line.is_healthy:
                line.join(deadline)
        late = [line for line in self._lines if line.is_alive]
        if late:
            atexit.register(_leave, late)


def _leave(lines: "list[_Line]") -> None:
    """Called at the end of the program."""
    deadline = time.monotonic() + _LEAVING_SECONDS
    with contextlib.suppress(KeyboardInterrupt):
        for line in lines:
            line.join(deadline)


class _Line:
    """The way to one sink."""

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
        self._ended = threading.Event()
        self._failures = 0
        self._told: set[str] = set()
        self._since = 0.0
        self._thread = threading.Thread(
            target=self._run, name=f"sparkbeam-metrics-{name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ended.set()

    def join(self, deadline: float) -> None:
        self._thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_healthy(self) -> bool:
        """Whether the last push came through, and none has been under way for long."""
        since = self._since
        hangs = since > 0 and time.monotonic() - since > _HEALTHY_SECONDS
        return not self._failures and not hangs

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
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
        """Logs an error, the first of its kind."""
        kind = type(error).__name__
        if kind in self._told:
            return
        self._told.add(kind)
        text = shortened(" ".join(str(error).split()), _MOST_OF_MESSAGE, self._redaction)
        _logger.warning(
            "The metrics sink '%s' fails, and is tried again; the pipeline goes on. %s: %s",
            self._name,
            kind,
            text,
        )
