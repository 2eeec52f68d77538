"""Ends the sink of a query without a word, where py4j and Spark would print a thousand lines."""

import contextlib
import logging
import socket
from collections.abc import Callable
from typing import Any

from sparkbeam.upstream.spark import callback_socket

_TEXT = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the sink: "
    "java.lang.InterruptedException"
)


_MOST_CHARACTERS = 1_000


class SinkEnded(Exception):
    """Stands, in the answer to Spark, for what a sink fails with; py4j does not log it."""


class Stopped(SinkEnded):
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
        brief: gives the text by which Spark is told of a failure.

    Attributes:
        failure: what the sink has failed with; None while it has not. Spark's own error of it
            is a page.
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
        self._sockets: set[socket.socket] = set()
        self.failure: Exception | None = None

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Calls the sink.

        Raises:
            SinkEnded: the sink failed; :class:`Stopped` while the query was being stopped.
        """
        called_over = callback_socket(batch)
        if called_over is not None:
            self._sockets.add(called_over)
        try:
            self._sink(batch, batch_id)
        except Exception as error:
            if self._is_stopping():
                raise Stopped from None
            self.failure = error
            raise SinkEnded(self._brief(error)[:_MOST_CHARACTERS]) from None

    def close(self) -> None:
        """Frees what Spark's call of the sink has left behind, once the query has ended."""
        sockets, self._sockets = self._sockets, set()
        for called_over in sockets:
            with contextlib.suppress(OSError):
                called_over.shutdown(socket.SHUT_RDWR)


def _is_worth_telling(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], SinkEnded)


# It logs whatever Java's calls of Python raise.
logging.getLogger("py4j.clientserver").addFilter(_is_worth_telling)
