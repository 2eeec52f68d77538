"""Stops the sink of a query without a word, where Spark would print a thousand lines."""

import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Any

from sparkbeam.errors import SparkBeamError
from sparkbeam.upstream.spark import callback_socket

_TEXT = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the sink: "
    "java.lang.InterruptedException"
)


class Stopped(Exception):
    """Stands for what a sink fails with because its query is being stopped.

    By its text Spark takes it for an interruption, which ends a query as it should. Spark finds
    that out with a pattern that overflows the stack on a text as long as the original's.
    """

    def __init__(self) -> None:
        super().__init__(_TEXT)


class StoppableSink:
    """A sink on the driver whose query may be stopped while it works.

    Args:
        sink: the function for ``foreachBatch``.
        is_stopping: whether the query is being stopped.

    Attributes:
        failure: an error of our own, of which Spark's error would hold little; None without one.
    """

    def __init__(self, sink: Callable[[Any, int], None], is_stopping: Callable[[], bool]) -> None:
        self._sink = sink
        self._is_stopping = is_stopping
        self._sockets: set[socket.socket] = set()
        self.failure: SparkBeamError | None = None

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Calls the sink.

        Raises:
            Stopped: the sink failed while the query was being stopped.
            Exception: what the sink has raised, else.
        """
        called_over = callback_socket(batch)
        if called_over is not None:
            self._sockets.add(called_over)
        try:
            self._sink(batch, batch_id)
        except Exception as error:
            if self._is_stopping():
                raise Stopped from None
            if isinstance(error, SparkBeamError):
                self.failure = error
            raise

    def close(self) -> None:
        """Frees what Spark's call of the sink has left behind, once the query has ended."""
        sockets, self._sockets = self._sockets, set()
        for called_over in sockets:
            with contextlib.suppress(OSError):
                called_over.shutdown(socket.SHUT_RDWR)


def _is_worth_telling(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], Stopped)


# It logs whatever Java's calls of Python raise.
logging.getLogger("py4j.clientserver").addFilter(_is_worth_telling)
