"""Quiet end of a query's sink; py4j and Spark would print a thousand lines."""

import contextlib
import logging
import socket
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

from sparkbeam.upstream.spark import callback_socket

_TEXT = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the sink: "
    "java.lang.InterruptedException"
)


_MOST_CHARACTERS = 1_000


class SinkEnded(Exception):
    """Replacement for a sink's error in the answer to Spark; py4j does not log it."""


class Stopped(SinkEnded):
    """Replacement for the error of a sink whose query is being stopped.

    Spark recognizes its text as an interruption, which ends a query normally. Spark matches the
    text with a pattern that overflows the stack for texts as long as the original.
    """

    def __init__(self) -> None:
        super().__init__(_TEXT)


class StoppableSink:
    """A sink on the driver whose query may be stopped while it runs.

    Args:
        sink: the function for ``foreachBatch``.
        is_stopping: returns whether the query is being stopped.
        brief: returns the text of a failure for Spark.

    Attributes:
        failure: the error of the sink, or None. Spark's own version of it is a page long.
    """

    def __init__(
        self,
        sink: Callable[[Any, int], None],
        is_stopping: Callable[[], bool],
        brief: Callable[[Exception], str] = str,
    ) -> None:
        self._sink = sink
        self._is_stopping = is_stopping
        self._brief = brief
        self._context = copy_context()
        self._sockets: set[socket.socket] = set()
        self.failure: Exception | None = None

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Call the sink.

        Raises:
            SinkEnded: the sink failed; :class:`Stopped` while the query was being stopped.
        """
        called_over = callback_socket(batch)
        if called_over is not None:
            self._sockets.add(called_over)
        try:
            # Spark calls from a thread of its own; see background_thread.
            self._context.copy().run(self._sink, batch, batch_id)
        except Exception as error:
            if self._is_stopping():
                raise Stopped from None
            self.failure = error
            raise SinkEnded(self._brief(error)[:_MOST_CHARACTERS]) from None

    def close(self) -> None:
        """Close the connections of Spark's calls, once the query has ended."""
        sockets, self._sockets = self._sockets, set()
        for called_over in sockets:
            with contextlib.suppress(OSError):
                called_over.shutdown(socket.SHUT_RDWR)


# py4j logs every exception of a Python callback.
logging.getLogger("py4j.clientserver").addFilter(
    lambda record: record.exc_info is None or not isinstance(record.exc_info[1], SinkEnded)
)
